"""Helping and Heron's back-pressure on the real cluster, by counts of whole steps and their ledgers.

exclam1 waits 20 ms a tuple and compute 4 ms, so compute passes on more than exclam1 can take. Its queue has
room for 64 and up to 62 messages are under way: it comes to 32, where it asks for help, and without it to
58, where spouts pause. Those of compute would come to 58 only if one of the two stood still for long.
"""

from __future__ import annotations

import pandas as pd
import pyarrow.parquet as pq
import pytest
from campaigns import carry_out

from harness.backends.local.cluster import LocalCluster
from harness.runs import Run
from harness.schemas import Metric, MetricField

pytestmark = pytest.mark.system

MARKS = {"high_pct": 90, "low_pct": 10}
LERON: dict[str, int] = {"word": 1, "compute": 2, "exclam1": 1, "exclam2": 1}


@pytest.fixture(scope="module")
def leron(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    wait = {"kind": "wait", "distribution": "constant"}
    settings = {
        "name": "leron",
        "models": ["no-change"],
        "topology": {
            "load_aware": False,
            "ackers": 1,
            "max_spout_pending": 62,
            "components": {
                "word": {"role": "spout", "tasks": 1},
                "compute": {"role": "json", "tasks": 2, "service": {**wait, "mean_ms": 4}},
                "exclam1": {"role": "json", "tasks": 1, "service": {**wait, "mean_ms": 20}},
                "exclam2": {"role": "sender", "tasks": 1},
            },
            "streams": [
                {"from": "word", "to": "compute", "grouping": "shuffle"},
                {"from": "compute", "to": "exclam1", "grouping": "shuffle"},
                {"from": "exclam1", "to": "exclam2", "grouping": "shuffle"},
            ],
            "helping": {"exclam1": {"delta": 0.1, "high_pct": 50, "low_pct": 10}},
            "backpressure": {"kind": "heron", **MARKS},
            "storm": {"topology.executor.receive.buffer.size": 64},
        },
        "workload": {"rate_tps": 80},
        "cluster": {"nodes": 1, "slots_per_node": 1},
        "measure": {
            "bucket_s": 1,
            "attempts": 1,
            "burn_in": {"least_s": 4, "most_s": 4},
            "interval": {"precision_pct": 100, "least_s": 10, "most_s": 10, "looks": 1},
        },
        "steps": {
            "plan": [
                {"executors": LERON, "workers": 1, "relief": ["backpressure"]},
                {"executors": LERON, "workers": 1},
            ]
        },
    }
    return carry_out(settings, cluster, tmp_path_factory.mktemp("leron"), lambda _: None)


def rows(run: Run, step: int, metric: Metric) -> pd.DataFrame:
    table = pq.read_table(run.step_path(step) / "metrics.parquet").to_pandas()
    return table[table["measurement"] == metric]


def total(found: pd.DataFrame, field: MetricField) -> float:
    return float(found.loc[found["field"] == field, "value"].sum())


def passed(run: Run, step: int) -> pd.Series:
    """Return the components that each message passed, without tasks."""
    paths = pq.read_table(run.step_path(step) / "latency.parquet")["path"].to_pandas().astype(str)
    return paths.str.replace(r":\d+", "", regex=True)


def test_every_message_comes_out_once_whoever_served_it(leron: Run) -> None:
    assert leron.finished_steps == (0, 1), leron.declined_steps
    for step in leron.finished_steps:
        ledger = leron.quality(step).ledger
        assert ledger is not None
        assert ledger.complete, ledger
        assert ledger.received == ledger.sent > 0
    ways = {"word/compute/exclam1/exclam2", "word/compute/compute/exclam2"}
    helped = passed(leron, 1)
    assert set(helped) <= ways
    assert (helped == "word/compute/compute/exclam2").any(), "compute served some of exclam1's"
    assert set(passed(leron, 0)) == {"word/compute/exclam1/exclam2"}


def test_help_is_asked_for_and_the_share_follows_equation_one(leron: Run) -> None:
    assert leron.plan(1).relief.parts == ("helping", "backpressure")
    assert rows(leron, 0, Metric.HELP).empty
    found = rows(leron, 1, Metric.HELP)
    assert set(found["component"]) == {"compute"}
    assert set(found["peer"]) == {"exclam1"}
    assert total(found, MetricField.OFFERED) >= total(found, MetricField.TUPLES) > 0
    told = found.pivot_table(index=["task", "bucket_end_ms"], columns="field", values="value", observed=True)
    assert told[MetricField.REQUESTS].max() >= 1
    expected = 1 - 0.9 ** told[MetricField.REQUESTS]
    assert (told[MetricField.RATIO] - expected).abs().max() < 1e-9, "no helper was busy"


def test_spouts_pause_only_where_nobody_helps(leron: Run) -> None:
    alone, helped = rows(leron, 0, Metric.PAUSED), rows(leron, 1, Metric.PAUSED)
    for found in (alone, helped):
        assert set(found["component"]) == {"word"}
        assert total(found, MetricField.WATCHED_NS) > 0
    assert 0 < total(alone, MetricField.PAUSED_NS) < total(alone, MetricField.WATCHED_NS)
    assert total(helped, MetricField.PAUSED_NS) == 0
    pressed, eased = (rows(leron, step, Metric.PRESSURE) for step in leron.finished_steps)
    of_exclam = pressed[pressed["component"] == "exclam1"]
    assert total(of_exclam, MetricField.REACHED) >= 1
    assert total(of_exclam, MetricField.PRESSED_NS) > 0
    assert of_exclam.loc[of_exclam["field"] == MetricField.FILL_MOST_PCT, "value"].max() >= MARKS["high_pct"]
    assert total(eased[eased["component"] == "exclam1"], MetricField.HELPED_NS) > 0
