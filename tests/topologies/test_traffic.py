"""Each topology says once how messages go through it, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.experiments.loading import load
from harness.topologies.jar import JarTopology
from harness.topologies.traffic import Accounting, HopTraffic, OwnTraffic, TopicTraffic


def jar(topics: Mapping[str, Any] | None) -> JarTopology:
    args = ("{bootstrap}/{input_topic}/{output_topic}",) if topics is not None else ()
    return JarTopology.model_validate(
        {"jar": Path("some.jar"), "main": "org.somebody.Topology", "args": args, "topics": topics}
    )


def test_the_harness_s_own_are_counted_member_by_member_and_forgiven_nothing() -> None:
    traffic = load("quick").topology.traffic()
    assert traffic == HopTraffic()
    assert traffic.accounting == Accounting(free=False, retried=False, reads_others=False)
    assert traffic.consumer_group("of-this-run") == "of-this-run"


@pytest.mark.parametrize(("outputs", "free"), [("one", False), ("any", True)])
def test_a_jar_between_topics_may_send_again_and_filter_where_it_says_so(outputs: str, free: bool) -> None:
    traffic = jar({"header": "id", "value": "v {payload}", "outputs": outputs}).traffic()
    assert traffic == TopicTraffic("id", "v {payload}", free=free)
    assert traffic.named_by == "header id"
    assert jar({}).traffic().named_by == "key"
    assert traffic.accounting == Accounting(free=free, retried=True, reads_others=True)
    assert traffic.consumer_group("of-this-run") == ""


def test_a_jar_without_topics_makes_its_own_messages() -> None:
    assert jar(None).traffic() == OwnTraffic()


def test_the_place_of_a_rate_that_means_nothing_is_named() -> None:
    with pytest.raises(ValueError, match=r"steps\.plan\.1: rate_tps has no meaning"):
        OwnTraffic().check_input(workload=False, rates=[False, True])
    with pytest.raises(ValueError, match="workload: the key is missing"):
        HopTraffic().check_input(workload=False, rates=[])
