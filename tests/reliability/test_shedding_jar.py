"""A jar that sheds what is too much for it, on the real cluster: it is not said to keep up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from campaigns import carry_out
from foreign_jars import compiled
from short_experiments import short_measure

from harness.analysis.judge.checks import run_checks
from harness.analysis.judge.samples import Samples
from harness.analysis.spark.inputs import read_raw
from harness.app.jars import jars
from harness.backends.local.cluster import LocalCluster
from harness.machine.servers import ServerHomes

pytestmark = pytest.mark.system

MOST_TPS = 100
"""Each of the two tasks of Between.java lets 50 messages through in a second, and drops the rest."""
LOW_TPS, HIGH_TPS = 40, 200
SHED_PCT = 100 * (1 - MOST_TPS / HIGH_TPS)
EDGES_PCT = 10.0
"""Seconds of a task are not those of the step: at either end one may be cut."""


def test_a_jar_that_sheds_what_is_too_much_is_not_said_to_keep_up(
    cluster: LocalCluster, server_homes: ServerHomes, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    brings = [jars() / "topologies.jar"]
    run = carry_out(
        {
            "name": "shedding",
            "topology": {
                "jar": str(compiled("Between.java", server_homes, tmp_path, brings)),
                "main": "Between",
                "args": ["{name}", "{bootstrap}", "{input_topic}", "{output_topic}", "sheds"],
                "topics": {"value": "{key} {payload}", "header": "request", "outputs": "any"},
                "ackers": 1,
                "storm": {"topology.message.timeout.secs": 300},  # nothing is sent again on a slow machine
            },
            "workload": {"rate_tps": LOW_TPS, "payload_bytes": 32},
            "cluster": {"nodes": 2, "slots_per_node": 2},
            "measure": {**short_measure(12, 10), "attempts": 1},
            "steps": {"plan": [{"executors": 2}, {"executors": 2, "rate_tps": HIGH_TPS}]},
            "models": ["no-change"],
        },
        cluster,
        tmp_path / "runs",
        lambda _: None,
    )
    shed_pct = []
    for step in run.finished_steps:
        ledger = run.quality(step).ledger
        assert ledger.balanced, ledger
        assert ledger.lost == 0, ledger
        shed_pct.append(100 * ledger.without_output / ledger.sent)
    record = read_raw(run.path)
    found = run_checks(record, {s.index: Samples(values=100) for s in record.steps})
    low, high = (check for check in found if check.check == "backlog")
    figure(high.detail.partition(":")[0])
    # what waits while spouts join their group comes at once, and is too much as well
    assert shed_pct[0] < SHED_PCT / 2
    assert abs(shed_pct[1] - SHED_PCT) < EDGES_PCT
    assert (low.status, high.status) == ("valid", "unknown"), (low, high)
    assert f"{shed_pct[1]:.1f} % of the messages have no output at {HIGH_TPS} messages/s" in high.detail
