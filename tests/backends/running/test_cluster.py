"""Clusters that can be measured, by what their Nimbus says of itself."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from recorded_nimbus import ANSWERS, nimbus_that_sends

from harness.backends.running.cluster import FoundCluster, look, require_free, require_usable
from harness.errors import UsageError
from harness.experiments.clusters import FoundNode, Running
from harness.storm.nimbus import ClusterState, Supervisor

SHAPE = Running(nimbus="storm.example.org:6627", kafka="storm.example.org:9092")
STATE = ClusterState("2.8.3", (Supervisor("a", slots=4, used=0), Supervisor("b", slots=4, used=1)), {})
FOUND = FoundCluster(
    "2.8.3",
    (FoundNode(name="a", address="a", slots=(6700,), cores=1.0, here=False),),
    free_slots=1,
    others=(),
)


def test_a_real_answer_of_1_x_is_refused_in_one_line() -> None:
    """The bytes are those of 2.8.3 but for the version; fields that are read have 1.x's numbers, too."""
    answer = (ANSWERS / "cluster-empty.bin").read_bytes().replace(b"2.8.3", b"1.2.4")
    with nimbus_that_sends(answer) as nimbus:
        shape = SHAPE.model_copy(update={"nimbus": f"{nimbus.host}:{nimbus.port}"})
        with pytest.raises(UsageError) as refused:
            look(shape)
    assert refused.value.message == f"cluster.nimbus: {shape.nimbus} is Storm 1.2.4"
    assert refused.value.hint == "2.x can be measured"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.0.6", "Storm 1.0.6"),
        ("0.10.0", "Storm 0.10.0"),
        ("3.0.0", "Storm 3.0.0"),
        ("", "of no version that it tells"),
    ],
)
def test_other_majors_are_refused(version: str, said: str) -> None:
    with pytest.raises(UsageError, match=rf"storm\.example\.org:6627 is .*{said}"):
        require_usable(replace(STATE, version=version), SHAPE)


@pytest.mark.parametrize(
    ("version", "warned"),
    [
        ("2.8.3", False),
        ("2.7.1", False),
        ("2.6.4", False),
        ("2.5.0", True),
        ("2.9.0", True),
        ("2.10.0-SNAPSHOT", True),
    ],
)
def test_other_2_x_are_warned_of_once(version: str, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    require_usable(replace(STATE, version=version), SHAPE)
    with caplog.at_level(logging.WARNING):
        require_free(replace(FOUND, version=version), SHAPE, 1)
    said = [f"Storm {version} was not tried: 2.6.x, 2.7.x, 2.8.x were"]
    assert caplog.messages == (said if warned else [])


def test_two_supervisors_of_one_name_are_refused() -> None:
    twice = replace(STATE, supervisors=(*STATE.supervisors, STATE.supervisors[0]))
    with pytest.raises(UsageError, match="two supervisors of the cluster are called a,"):
        require_usable(twice, SHAPE)
