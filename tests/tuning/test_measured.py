"""A measured step as tuners read it: against sums over the archived run's own tables, and a made-up truth."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from synthetic import Truth, deploy, join_split, observation

from harness.analysis.judge.predicting import observation as observation_of
from harness.errors import ModelDeclined, UsageError
from harness.experiments.loading import load
from harness.plans import PhysicalPlan
from harness.protocols import Observation
from harness.runs import Run
from harness.tuning.dataflow import DataflowNode
from harness.tuning.measured import StepReading, tuple_sizes
from harness.tuning.placement import deal_evenly

RUNS = Path(__file__).resolve().parents[2] / "reports" / "runs"
RAMP = RUNS / "loaded-ramp" / "20261122T004256Z"


@pytest.fixture(scope="module")
def ramp() -> Observation:
    return observation_of(Run(RAMP), load(RAMP / "experiment.yaml"), 0)


def by_name(nodes: tuple[DataflowNode, ...]) -> dict[str, DataflowNode]:
    return {n.name: n for n in nodes}


def test_processing_time_and_fan_out_are_those_of_the_steps_own_table(ramp: Observation) -> None:
    """Sums over metrics.parquet between the interval's ends: wall_sum_ns / count, transferred / received."""
    interval = Run(RAMP).interval(0)
    table = pq.read_table(RAMP / "steps" / "00" / "metrics.parquet")
    end = table["bucket_end_ms"]
    inside = pc.and_(pc.greater(end, interval.start_epoch_ms), pc.less_equal(end, interval.end_epoch_ms))
    sums = (
        table.filter(inside)
        .to_pandas()
        .groupby(["measurement", "component", "field"], observed=True)["value"]
        .sum()
    )
    nodes = by_name(StepReading().nodes(ramp, 150.0))
    for name in ("bolt-a", "bolt-b", "sender"):
        mean_ns = sums["service", name, "wall_sum_ns"] / sums["service", name, "count"]
        assert float(nodes[name].ppt_s) == pytest.approx(mean_ns / 1e9)
        assert nodes[name].ppt_origin.startswith("measured")
    for name in ("bolt-a", "bolt-b"):
        ratio = sums["transferred", name, "count"] / sums["received", name, "count"]
        assert float(nodes[name].fan_out) == pytest.approx(ratio)
    assert nodes["spout"].rate_tps == 150
    assert nodes["spout"].ppt_origin.startswith("not measured")
    assert {n.executors for n in nodes.values()} == {2}
    assert {n.tasks for n in nodes.values()} == {16}
    cpu = by_name(StepReading("cpu").nodes(ramp, 150.0))["bolt-a"]
    cpu_ns = sums["service", "bolt-a", "cpu_sum_ns"] / sums["service", "bolt-a", "cpu_count"]
    assert float(cpu.ppt_s) == pytest.approx(cpu_ns / 1e9)
    assert cpu.ppt_s < nodes["bolt-a"].ppt_s / 10  # bolt-a waits 9 ms


def test_key_shares_are_those_of_the_experiments_keys(ramp: Observation) -> None:
    """Keys A to P come 16 to 1 times in 136; which task has which depends on their hashes."""
    (link,) = by_name(StepReading().nodes(ramp, 100.0))["bolt-a"].links
    assert sum(link.key_shares) == 1
    assert len(link.key_shares) == 16
    weights = [w / 136 for w in range(1, 17)]
    largest = float(max(link.key_shares))
    assert largest >= max(weights) * 0.98  # tasks hold one key or several


def test_a_made_up_truth_is_read_back() -> None:
    """join-split: json and multiplier both get all of the spout's stream, and join gets what they emit."""
    query_plan = join_split()
    truth = Truth.random(query_plan, 1000.0, seed=5)
    nodes = by_name(StepReading().nodes(observation(deploy(query_plan, 2), truth), 500.0))
    assert nodes["spout"].rate_tps == 500
    assert [float(link.fan_out) for link in nodes["spout"].links] == pytest.approx([1.0, 1.0], rel=1e-3)
    for name in ("json", "multiplier"):
        (coefficient,) = truth.coefficients[name, "default"].values()
        assert float(nodes[name].fan_out) == pytest.approx(float(coefficient[0]), rel=1e-3)
        assert float(nodes[name].ppt_s) * 1000 == pytest.approx(truth.service_ms[name].mean(), rel=1e-3)
    assert {link.target for link in nodes["join"].links} == {"sender-1", "sender-2"}


def test_what_the_user_says_takes_the_place_of_measurements(ramp: Observation) -> None:
    said = StepReading(ppt_ms={"spout": 0.3, "bolt-a": 2}, tuple_bytes={"spout": 64, "bolt-a:default": 8})
    nodes = by_name(said.nodes(ramp, 100.0))
    assert (nodes["spout"].ppt_s, nodes["bolt-a"].ppt_s) == (F(3, 10_000), F(2, 1000))
    assert [n.largest_tuple_bytes for n in nodes.values()] == [64, 8, 100, 0]
    assert [link.bytes_origin for n in nodes.values() for link in n.links] == [
        "given by tuple_bytes",
        "given by tuple_bytes",
        "not measured: 100 bytes are assumed, see tuple_bytes",
    ]


@pytest.mark.parametrize(
    "said", [StepReading(ppt_ms={"bolt-c": 1}), StepReading(tuple_bytes={"sender:default": 1})]
)
def test_a_name_that_the_topology_lacks_is_refused(ramp: Observation, said: StepReading) -> None:
    with pytest.raises(UsageError, match=r"names '(bolt-c|sender:default)': known are spout, bolt-a"):
        said.nodes(ramp, 100.0)


def test_bytes_that_the_rewriting_layer_counted_are_taken(ramp: Observation) -> None:
    """Two reports of a stream with 300 + 500 bytes of 10 + 30 tuples: 20 bytes a tuple."""
    text = ["measurement", "component", "stream", "peer", "worker", "field"]
    template = dict(zip(text, ["batch", "spout", "default", "", "", ""], strict=True))
    counted = [("bytes", 300.0), ("bytes_tuples", 10.0), ("bytes", 500.0), ("bytes_tuples", 30.0)]
    at = {"bucket_end_ms": int(ramp.metrics["bucket_end_ms"].iloc[0]), "task": 1}
    batches = pd.DataFrame([{**template, **at, "field": f, "value": v} for f, v in counted])
    metrics = pd.concat([ramp.metrics.astype(dict.fromkeys(text, str)), batches])
    with_bytes = replace(ramp, metrics=metrics)
    assert tuple_sizes(with_bytes) == {"spout:default": 20}
    (link,) = by_name(StepReading().nodes(with_bytes, 100.0))["spout"].links
    assert (link.tuple_bytes, link.bytes_origin) == (20, "measured: as serialised in batches")
    assert tuple_sizes(ramp) == {}


def test_a_component_that_got_nothing_is_declined() -> None:
    query_plan = join_split()
    truth = Truth.random(query_plan, 1000.0, seed=5)
    truth.coefficients["join", "stream-6"] = {
        s: np.zeros_like(v) for s, v in truth.coefficients["join", "stream-6"].items()
    }
    with pytest.raises(ModelDeclined, match=r"^nothing arrived at sender-2 in the source step"):
        StepReading().nodes(observation(deploy(query_plan, 2), truth), 500.0)


@pytest.mark.parametrize("rate_tps", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_declined(ramp: Observation, rate_tps: float) -> None:
    with pytest.raises(ModelDeclined, match="proposed input rate"):
        StepReading().nodes(ramp, rate_tps)


def labels(plan: PhysicalPlan) -> dict[str, str]:
    return {e.label: e.worker.label for e in plan.executors}


@pytest.mark.parametrize("path", sorted(RUNS.glob("*/*")), ids=lambda p: f"{p.parent.name}-{p.name}")
def test_executors_are_dealt_as_storm_dealt_them(path: Path) -> None:
    """From each plan to each other that Storm's own scheduler made, up to which node comes first."""
    run = Run(path)
    plans = [plan.start for plan in map(run.plan, run.finished_steps) if plan.placement is None]
    for before in plans[:3]:
        for after in plans:
            dealt, real = labels(deal_evenly(before, after.configuration())), labels(after)
            assert dealt.keys() == real.keys()
            pairs = {(dealt[name], real[name]) for name in dealt}
            assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_more_executors_than_tasks_are_not_placed() -> None:
    plan = deploy(join_split(), 2)
    asked = plan.configuration().model_copy(update={"executors": {"json": 5}})
    with pytest.raises(ModelDeclined, match="5 executors of json are asked for, which has 4 tasks"):
        deal_evenly(plan, asked)
