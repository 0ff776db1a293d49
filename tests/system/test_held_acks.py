"""Jars whose acks are held back, or never come, on the real cluster: Odd.java, bursts and silent bolts."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest
from campaigns import carry_out
from foreign_jars import compiled
from short_experiments import short_measure

from harness.analysis.analyse import analyse
from harness.analysis.judge.predicting import predict
from harness.backends.local.cluster import LocalCluster
from harness.errors import HarnessError
from harness.machine.servers import ServerHomes

pytestmark = pytest.mark.system

SLEEP_MS = 500
"""Of Odd.Bursts, in the call that emits."""
MOST_PENDING = 50
"""topology.max.spout.pending of Odd."""


@pytest.fixture(scope="module")
def jar(server_homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("Odd.java", server_homes, tmp_path_factory.mktemp("odd"))


def asked(jar: Path, how: str, burn_in_s: float) -> dict[str, object]:
    return {
        "name": f"odd-{uuid.uuid4().hex[:8]}",
        "topology": {"jar": str(jar), "main": "Odd", "args": ["{name}", how], "ackers": 1},
        "cluster": {"nodes": 2, "slots_per_node": 2},
        "measure": {**short_measure(burn_in_s, 6), "attempts": 1},
        "steps": {"plan": [{"executors": 1, "workers": 1}]},
        "models": ["no-change"],
    }


def test_a_spout_that_sleeps_in_its_call_is_said_to_hold_acks_back(
    jar: Path, cluster: LocalCluster, tmp_path: Path
) -> None:
    """No ack is taken before the call ends, so none is faster; Storm's own latency ends at the acker."""
    run = carry_out(asked(jar, "bursts", 6), cluster, tmp_path, lambda _: None)
    predict(run, ("no-change",))
    analyse(run.path)
    interval = run.interval(0)
    (complete,) = interval.complete_latency_ms.values()
    assert interval.mean_ms >= SLEEP_MS
    assert complete.mean_ms is not None
    checks = json.loads((run.path / "verdict.json").read_text())["checks"]
    (found,) = (check for check in checks if check["check"] == "measured-latency")
    held = f"own calls hold acks back for {interval.mean_ms - complete.mean_ms:.1f} ms:"
    assert f"the spout's {held} Storm's complete latency is {complete.mean_ms:.1f} ms" in found["detail"]
    assert held in (run.path / "report.html").read_text()


@pytest.mark.parametrize(("how", "burn_in_s", "times_out"), [("silent", 10, False), ("forgetful", 16, True)])
def test_where_a_bolt_never_acks_it_is_said_what_became_of_the_messages(
    jar: Path, cluster: LocalCluster, tmp_path: Path, how: str, burn_in_s: float, times_out: bool
) -> None:
    """The spout emits up to its limit. After a timeout, 5 s and at most as long again, it emits others."""
    settings = asked(jar, how, burn_in_s)
    try:
        with pytest.raises(HarnessError) as stopped:
            carry_out(settings, cluster, tmp_path, lambda _: None)
    finally:
        cluster.nimbus.kill(str(settings["name"]))
    told = re.match(
        r"step 0: of (\d+) messages that spouts emitted with an identifier none was acked:"
        r" (\d+) are pending, (\d+) failed$",
        stopped.value.message,
    )
    assert told, stopped.value.message
    emitted, pending, failed = map(int, told.groups())
    assert emitted == pending + failed
    assert pending <= MOST_PENDING
    assert (failed > 0) == times_out
    if not times_out:
        assert pending == MOST_PENDING
