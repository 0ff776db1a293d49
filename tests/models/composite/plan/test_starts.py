"""Starts of work: counted by hand, bounded by the tuples, and against the hop records of archived runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import component, deploy, stream

from harness.analysis.judge.predicting import observation
from harness.experiments.loading import load
from harness.models.composite.idling import Batching
from harness.models.composite.plan.flows import Flows
from harness.models.composite.plan.network_builder import NetworkBuilder
from harness.models.composite.plan.row_batches import Messages, messages
from harness.models.composite.plan.starts import TOGETHER_MS, starts
from harness.models.composite.proposal import examine, weigh
from harness.models.composite.source.evidence import Evidence
from harness.models.contract.layout import Layout, lay_out
from harness.plans import BatchSize, QueryPlan
from harness.runs import Run

RUNS = Path(__file__).resolve().parents[4] / "reports" / "runs"
NONE = Batching(1, 1, 0.0)
LINE = QueryPlan(
    name="line",
    components=(component("spout"), component("bolt"), component("sink")),
    streams=(stream("spout", "bolt"), stream("bolt", "sink")),
)


def line(rate_tps: float, executors: int, made: float = 1.0) -> tuple[Layout, Flows]:
    """A line of components with one spout executor; all else is dealt alike."""
    layout = lay_out(deploy(LINE, {"spout": 1, "bolt": executors, "sink": executors}, ackers=0))
    first, second = LINE.streams
    rates = {"spout": rate_tps, "bolt": rate_tps, "sink": rate_tps * made}
    tasks = {name: np.full(4, rate / 4) for name, rate in rates.items()}
    emitted = {
        first: layout.by_executor("spout", tasks["spout"]),
        second: layout.by_executor("bolt", tasks["bolt"]) * made,
    }
    routing = {s: np.broadcast_to(np.full(4, 0.25), (emitted[s].size, 4)) for s in emitted}
    inputs = {s: layout.by_executor(s.target, tasks[s.target]) for s in emitted}
    return layout, Flows({"spout": [], "bolt": [first], "sink": [second]}, routing, tasks, inputs, emitted)


def found(
    layout: Layout,
    flows: Flows,
    round_ms: float = 0.0,
    pause_ms: float = 0.0,
    wall_ms: float = 0.0,
    batches: Batching = NONE,
    rows: Messages | None = None,
) -> dict[str, np.ndarray]:
    of_spout = np.zeros(len(layout))
    of_spout[layout.of["spout"]] = 1.0
    times_ms = round_ms * of_spout, pause_ms * (1 - of_spout), wall_ms * (1 - of_spout)
    begun = starts(layout, flows, batches, *times_ms, {} if rows is None else rows)
    return {name: begun[layout.of[name]] for name in layout.order}


def test_messages_that_come_in_one_round_are_found_together() -> None:
    """A round of 20 ms at 100 messages a second finds any with 1 - exp(-2), so 43.2 times a second."""
    begun = found(*line(100.0, 1), round_ms=20.0)
    expected = 50.0 * -np.expm1(-2.0)
    assert begun["spout"] == pytest.approx([expected])
    # one executor gets all of each group, does it at once and sends it on whole
    assert begun["bolt"] == pytest.approx([expected])
    assert begun["sink"] == pytest.approx([expected])


def test_an_executor_gets_a_part_of_a_group_or_nothing() -> None:
    """Of a multiplier's ten, one of four executors gets none with (3/4)^10; of single ones every fourth."""
    begun = found(*line(1.0, 4, made=10.0), wall_ms=0.0)
    assert begun["bolt"] == pytest.approx([0.25] * 4)
    assert begun["sink"] == pytest.approx([1 - 0.75**10] * 4)


def test_what_comes_within_a_sleep_is_found_together_and_who_works_does_not_start() -> None:
    layout, flows = line(100.0, 1)
    assert found(layout, flows, pause_ms=2.0)["bolt"] == pytest.approx([100 / 1.2])
    assert found(layout, flows, wall_ms=5.0)["bolt"] == pytest.approx([50.0])


def test_services_pull_a_group_apart() -> None:
    """A hundred messages a second in one round: a bolt that takes 5 ms for each sends them on one by one."""
    layout, flows = line(100.0, 1)
    together = found(layout, flows, round_ms=1000.0)["sink"]
    apart = found(layout, flows, round_ms=1000.0, wall_ms=5.0)["sink"]
    assert together == pytest.approx([1.0])
    size = 100.0 / (0.5 * 1.0)  # half of the time the bolt works, so it starts half as often
    sent = 100.0 / (1.0 + (size - 1.0) * np.exp(-5.0 / TOGETHER_MS))
    assert apart == pytest.approx([0.5 * sent])


def test_batches_come_when_they_are_full_or_flushed() -> None:
    layout, flows = line(100.0, 2)
    full = found(layout, flows, batches=Batching(10, 1, 1e6))
    assert full["bolt"] == pytest.approx([5.0] * 2)  # 50 a second each, in tens
    flushed = found(layout, flows, batches=Batching(1000, 1, 100.0))
    assert flushed["bolt"] == pytest.approx([10.0] * 2)  # every 100 ms


@given(
    rate_tps=st.floats(0.01, 1000),
    executors=st.sampled_from([1, 2, 4]),
    made=st.floats(0.1, 30),
    round_ms=st.floats(0, 100),
    pause_ms=st.floats(0, 20),
    wall_ms=st.floats(0, 5),
    batch=st.sampled_from([NONE, Batching(100, 1, 10.0)]),
)
@settings(max_examples=budget(200))
def test_nobody_starts_more_often_than_tuples_come(
    rate_tps: float,
    executors: int,
    made: float,
    round_ms: float,
    pause_ms: float,
    wall_ms: float,
    batch: Batching,
) -> None:
    layout, flows = line(rate_tps, executors, made)
    begun = found(layout, flows, round_ms, pause_ms, wall_ms, batch)
    for name, of_executors in begun.items():
        tuples = layout.by_executor(name, flows.tasks[name])
        assert (of_executors >= 0).all()
        assert (of_executors <= tuples * (1 + 1e-9)).all()


def measured(evidence: Evidence, sink: str) -> float:
    """Starts a second at a sink: tuples received more than a millisecond after its last emit."""
    hops = evidence.hops
    assert hops is not None
    layout = evidence.layout
    at = hops.legs[hops.component[hops.legs] == layout.order.index(sink)]
    times = np.unique(np.column_stack([hops.executor[at], hops.received_ms[at], hops.emitted_ms[at]]), axis=0)
    before = np.where(np.diff(times[:, 0], prepend=-1) == 0, np.roll(times[:, 2], 1), -np.inf)
    return float((times[:, 1] - before > TOGETHER_MS).sum() / evidence.seconds)


@pytest.mark.parametrize("experiment", ["fields-to-fields", "all-in-one"])
def test_a_sinks_starts_are_those_in_the_hop_records(experiment: str) -> None:
    """From 1 executor a component to 16 they double or triple; of each step within a quarter of it.

    Measured, tuning set: 33 to 99 a second of 100 messages, and 33 to 50 of 50.
    """
    path = min((RUNS / experiment).iterdir())
    run = Run(path)
    for step in (0, 4):
        source = examine(observation(run, load(path / "experiment.yaml"), step))
        evidence = source.evidence
        prepared = weigh(source, np.ones(evidence.blocks))
        builder = NetworkBuilder(prepared, evidence.layout, evidence.settings, evidence.rate_tps)
        predicted = builder.traffic.activity.requests.sum()
        assert predicted == pytest.approx(measured(evidence, "sender"), rel=0.25)


def test_a_batch_of_rows_begins_work_once() -> None:
    """400 tuples a second in batches of 20 for each of 4 tasks that fill: 5 batches a second for each."""
    layout, flows = line(400.0, 4)
    sent = messages(layout, flows, {LINE.streams[0]: BatchSize(size=20, flush_ms=60_000)})
    begun = found(layout, flows, rows=sent)
    assert begun["bolt"] == pytest.approx(np.full(4, 5.0))
