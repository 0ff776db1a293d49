"""Batches and help in topologies that nobody here wrote: jars as Maven Central has them, on the real cluster.

Storm's starter, as configs/experiments/jars has it, and classes of Storm's own that Flux makes a topology of.
Bolts park when they have nothing to do, so queues come to their marks however fast the machine is.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from campaigns import carry_out
from published_jars import FLUX, STORM_STARTER, install
from short_experiments import short_measure

from harness.backends.local.cluster import LocalCluster
from harness.runs import Run
from harness.schemas import Metric, MetricField

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
STARTER = ROOT / "configs" / "experiments" / "jars" / "batched-and-helped.yaml"
EVENTS = Path(__file__).parent / "foreign" / "events.flux.yaml"
PARKED = "org.apache.storm.policy.WaitStrategyPark"


def starter() -> dict[str, Any]:
    """Return the experiment's second step, shorter."""
    settings: dict[str, Any] = yaml.safe_load(STARTER.read_text())
    settings["topology"]["jar"] = str(install(STORM_STARTER))
    settings["steps"]["plan"] = settings["steps"]["plan"][1:]
    return settings


def flux() -> dict[str, Any]:
    """Return an experiment on the topology that Flux makes of a file.

    Two spout tasks have at most 8 batches of 5 under way each. So 4 come to each of pass's tasks, and 40
    of 2 to serve's one, whose mark is at 16 of 64.
    """
    return {
        "topology": {
            "jar": str(install(FLUX)),
            "main": "org.apache.storm.flux.Flux",
            "args": ["--no-splash", str(EVENTS)],
            "ackers": 1,
            "batching": {
                "events": {"size": 5, "flush_ms": 20},
                "pass": {"size": 2, "flush_ms": 20},
                "serve": {"size": 3, "flush_ms": 20},
            },
            "helping": {"serve": {"delta": 0.2, "high_pct": 25, "low_pct": 5}},
            "storm": {
                "topology.executor.receive.buffer.size": 64,
                "topology.bolt.wait.strategy": PARKED,
                "topology.bolt.wait.park.microsec": 50_000,
            },
        },
        "cluster": {"nodes": 2, "slots_per_node": 2},
        "steps": {"plan": [{"executors": {"events": 2, "pass": 4, "serve": 1, "end": 2}, "workers": 2}]},
        "models": ["no-change"],
    }


@pytest.mark.parametrize(
    ("made", "helper", "helped", "under_way"),
    [
        # averages that come while printer parks, twice
        pytest.param(starter, "tumblingavg", "printer", 20, id="storm-starter"),
        pytest.param(flux, "pass", "serve", 2 * 8 * 5, id="flux"),
    ],
)
def test_a_published_jar_is_batched_and_helped(
    made: Any, helper: str, helped: str, under_way: int, cluster: LocalCluster, tmp_path: Path
) -> None:
    settings = made() | {"name": f"published-{uuid.uuid4().hex[:8]}", "measure": short_measure(8, 12)}
    run = carry_out(settings, cluster, tmp_path, lambda _: None)
    assert run.finished_steps == (0,), run.declined_steps
    tracked = run.quality(0).tracked
    assert tracked is not None
    assert tracked.balanced, str(tracked)
    assert tracked.failed == tracked.unnamed == 0 < tracked.acked

    table = metrics(run)
    batches = total(table, Metric.BATCH, ["component", "stream", "field"])
    for component, rule in settings["topology"]["batching"].items():
        messages, tuples, capacity = (
            batches[component, "default", field]
            for field in (MetricField.MESSAGES, MetricField.TUPLES, MetricField.CAPACITY)
        )
        assert 0 < messages <= tuples <= capacity == rule["size"] * messages
    assert sum(batches[:, :, MetricField.BYTES_TUPLES]) > 0, "there are two workers"

    served = total(table, Metric.HELP, ["component", "peer", "field"])
    assert set(served.index.droplevel("field")) == {(helper, helped)}
    offered, by_helper = (served[helper, helped, f] for f in (MetricField.OFFERED, MetricField.TUPLES))
    assert 0 < by_helper < offered
    # Leron's own check (section 6.2): what the helper made is what it served and the helped bolt got, but
    # for what is under way, and a second of twelve or more at most: each reports when its own second ends
    got = total(table, Metric.RECEIVED, ["component", "peer"])[helped, helper]
    assert abs(offered - by_helper - got) <= under_way + offered / 12


def metrics(run: Run) -> pd.DataFrame:
    return pq.read_table(run.step_path(0) / "metrics.parquet").to_pandas()


def total(table: pd.DataFrame, metric: Metric, by: list[str]) -> pd.Series:
    return table[table["measurement"] == metric].groupby(by, observed=True)["value"].sum()
