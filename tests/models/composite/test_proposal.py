"""From an observation to a network: conservation, scaling, relabelling, and what is declined."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import (
    SETTINGS,
    Truth,
    all_in_one,
    component,
    deploy,
    fields_to_fields,
    join_split,
    observation,
)
from synthetic import stream as edge

from harness.analysis.judge.predicting import observation as observed_step
from harness.errors import ModelDeclined
from harness.experiments.loading import load
from harness.models.composite.plan.network_builder import NetworkBuilder, build_network
from harness.models.composite.proposal import network_of, prepare
from harness.models.composite.source_estimates import SourceEstimates
from harness.models.contract.layout import Output, lay_out, moved
from harness.models.network import Input, Network
from harness.plans import QueryPlan, Worker
from harness.protocols import Observation
from harness.runs import Run

PLANS = {"line": fields_to_fields, "all-in-one": all_in_one, "join": join_split}


def source_of(name: str, executors: int = 2, seed: int = 1) -> Observation:
    query_plan = PLANS[name]()
    return observation(deploy(query_plan, executors), Truth.random(query_plan, 50.0, seed))


@cache
def prepared_of(name: str) -> SourceEstimates:
    """The same source for all examples of a property: reading it is what takes time."""
    return prepare(source_of(name))


def arrivals(network: Network) -> dict[str, np.ndarray]:
    """Tuples a second at the tasks, followed along the network by hand."""
    plan, layout = network.layout.plan.query_plan, network.layout
    found: dict[str, np.ndarray] = {}
    for name in layout.order:
        tasks = network.input_tps.get(name, np.zeros(layout.tasks[name].size)).copy()
        for s in plan.inputs(name):
            own = layout.membership[s.source]
            whole = network.fanout.get(Input(s.source, "", ""))
            window = network.windows.get(s.source)
            output = Output(s.source, s.stream)
            if s.source in plan.spouts:
                made = own @ found[s.source]
            elif window is not None and whole:
                pmf = whole[output]
                made = own @ found[s.source] / window.slide * float(pmf @ np.arange(pmf.size))
            else:
                pmf = network.fanout[Input(s.source, *_only(plan, s.source))][output]
                made = own @ found[s.source] * float(pmf @ np.arange(pmf.size))
            tasks += made @ network.routing[s]
        found[name] = tasks
    return found


def _only(plan: QueryPlan, name: str) -> tuple[str, str]:
    (one,) = plan.inputs(name)
    return one.source, one.stream


@given(st.sampled_from(sorted(PLANS)), st.integers(1, 4), st.integers(1, 4), st.floats(5.0, 200.0))
@settings(deadline=None, max_examples=budget(25))
def test_what_arrives_does_not_depend_on_the_executors(name: str, n: int, m: int, rate_tps: float) -> None:
    prepared = prepared_of(name)
    query_plan = PLANS[name]()
    one, two = (build_network(prepared, deploy(query_plan, k), SETTINGS, rate_tps) for k in (n, m))
    for component_, tasks in arrivals(one).items():
        assert arrivals(two)[component_] == pytest.approx(tasks)


def test_the_source_plan_gives_the_sources_rates() -> None:
    source = source_of("line")
    network = network_of(source, source.plan, SETTINGS, source.rate_tps)
    metrics = source.metrics
    received = metrics[(metrics["measurement"] == "received") & (metrics["component"] == "bolt-b")]
    by_task = received.groupby("task")["value"].sum().to_numpy() / source.interval_s
    assert arrivals(network)["bolt-b"] == pytest.approx(by_task)
    assert sum(v.sum() for v in network.input_tps.values()) == pytest.approx(50.0)


@given(st.floats(0.1, 4.0))
@settings(deadline=None, max_examples=budget(15))
def test_rates_scale_and_of_the_tuples_only_their_cpu_changes(factor: float) -> None:
    """More tuples keep their executors warmer, so each takes less CPU, and all together more."""
    prepared = prepared_of("all-in-one")
    plan = deploy(all_in_one(), 4)
    one, other = (build_network(prepared, plan, SETTINGS, rate) for rate in (50.0, 50.0 * factor))
    for name, tasks in arrivals(one).items():
        assert arrivals(other)[name] == pytest.approx(tasks * factor)
    assert one.fanout is other.fanout
    less, more = (one, other) if factor >= 1 else (other, one)
    times = max(factor, 1 / factor)
    for key, service in less.service.items():
        assert more.service[key].wait_ms.mean_ms == service.wait_ms.mean_ms
        warmer_ms, colder_ms = more.service[key].cpu_ms.mean_ms, service.cpu_ms.mean_ms
        assert warmer_ms == pytest.approx(colder_ms) or colder_ms / times < warmer_ms < colder_ms
    assert less.stretch is not None
    assert more.stretch is not None
    assert (more.stretch >= less.stretch).all()


def test_other_names_of_workers_make_no_difference() -> None:
    prepared = prepared_of("line")
    plan = deploy(fields_to_fields(), 4)
    renamed = plan.model_copy(
        update={
            "executors": tuple(
                e.model_copy(update={"worker": Worker(node=e.worker.node, port=e.worker.port + 1000)})
                for e in plan.executors
            )
        }
    )
    one, other = (build_network(prepared, p, SETTINGS, 80.0) for p in (plan, renamed))
    assert one.stretch == pytest.approx(other.stretch)
    assert one.idle_ms == pytest.approx(other.idle_ms)
    assert one.worker_cores == pytest.approx(other.worker_cores)
    for s, routing in one.routing.items():
        assert other.routing[s] == pytest.approx(routing)


def busy(source: Observation, ratio: float) -> Observation:
    """All wall-clock times so many times the CPU times: the source's host was that busy."""
    metrics = source.metrics.copy()
    wall = (metrics["measurement"] == "service") & (metrics["field"] == "wall_sum_ns")
    metrics.loc[wall, "value"] *= ratio
    return replace(source, metrics=metrics)


def test_more_executors_poll_more() -> None:
    prepared = prepare(busy(source_of("line"), 1.5))
    used = [
        float(build_network(prepared, deploy(fields_to_fields(), n), SETTINGS, 50.0).background_cores[0])
        for n in (1, 2, 4)
    ]
    assert used == sorted(used)
    assert used[0] < used[-1]


def test_cpu_and_waiting_are_apart() -> None:
    # Wall-clock times of bolt-b are 3 ms longer than its CPU time; the other bolts only compute.
    source = source_of("line")
    metrics = source.metrics.copy()
    mine = (metrics["component"] == "bolt-b") & (metrics["measurement"] == "service")
    count = metrics[mine & (metrics["field"] == "count")]["value"].to_numpy()
    wall = mine & (metrics["field"] == "wall_sum_ns")
    metrics.loc[wall, "value"] += count * 3e6
    prepared = prepare(replace(source, metrics=metrics))
    assert prepared.times.excess == pytest.approx(0.0)
    assert prepared.demand["bolt-b"].wait_ms.mean_ms == pytest.approx(3.0)
    assert prepared.demand["bolt-a"].wait_ms.mean_ms == pytest.approx(0.0, abs=1e-9)
    cpu = metrics[mine & (metrics["field"] == "cpu_sum_ns")]["value"].sum() / 1e6 / count.sum()
    assert prepared.demand["bolt-b"].cpu_ms.mean_ms == pytest.approx(cpu)


def test_contention_is_taken_from_the_source_and_put_back_by_the_plan() -> None:
    source = busy(source_of("line"), 1.5)
    prepared = prepare(source)
    assert prepared.times.excess == pytest.approx(0.5)
    network = build_network(prepared, source.plan, SETTINGS, source.rate_tps)
    assert network.stretch is not None
    bolts = network.layout.of["bolt-a"]
    assert network.stretch[bolts] == pytest.approx(np.full(2, 1.5), rel=0.01)


def test_messages_that_come_together_are_worked_on_at_once() -> None:
    """One spout executor finds what came to its 16 tasks in one round; 16 of them have one each."""
    prepared = prepared_of("line")
    one, many = (
        NetworkBuilder(prepared, lay_out(deploy(fields_to_fields(), n)), SETTINGS, 200.0).at_once
        for n in (1, 16)
    )
    assert one.max() > 0.2
    assert many.max() < one.max() / 4


def test_one_executor_can_be_moved() -> None:
    prepared = prepared_of("line")
    plan = deploy(fields_to_fields(), 4)
    layout = lay_out(plan)
    target = plan.workers[(int(layout.worker[5]) + 1) % len(plan.workers)]
    changed = moved(layout, 5, target)
    again = lay_out(changed.plan)
    assert changed.worker.tolist() == again.worker.tolist()
    assert changed.executors == again.executors
    fast, slow = (build_network(prepared, p, SETTINGS, 50.0) for p in (changed, changed.plan))
    assert fast.stretch == pytest.approx(slow.stretch)
    assert changed.plan.by_task[layout.executors[5].first_task].worker == target


def test_a_quota_makes_a_node_a_host_of_its_own() -> None:
    plan = deploy(fields_to_fields(), 2)
    slow = plan.nodes[0].model_copy(update={"cpu_quota_cores": 0.5})
    quota = plan.model_copy(update={"nodes": (slow, *plan.nodes[1:])})
    network = build_network(prepared_of("line"), quota, SETTINGS, 50.0)
    assert network.cores.tolist() == [2.0, 2.0]
    assert network.by_quota[0] <= 0.5
    assert np.isinf(network.by_quota[1])
    free = build_network(prepared_of("line"), plan, SETTINGS, 50.0)
    assert free.cores.tolist() == [2.0]
    assert np.isinf(free.by_quota).all()


def test_a_quota_of_all_cores_or_never_used_up_slows_nothing() -> None:
    """All workers share their machine's cores, with quotas or without."""
    plan = deploy(fields_to_fields(), 2)

    def with_quota(cores: float) -> Network:
        nodes = tuple(n.model_copy(update={"cpu_quota_cores": cores}) for n in plan.nodes)
        limited = plan.model_copy(update={"nodes": nodes})
        return build_network(prepared_of("line"), limited, SETTINGS, 5.0)

    free = build_network(prepared_of("line"), plan, SETTINGS, 5.0)
    whole, some = with_quota(2.0), with_quota(1.5)
    assert free.stretch is not None
    assert some.stretch == pytest.approx(free.stretch, rel=1e-6)
    assert whole.stretch == pytest.approx(free.stretch, rel=1e-12)


def test_a_host_without_cores_left_is_said_to_be_so() -> None:
    network = build_network(prepared_of("line"), deploy(fields_to_fields(), 4), SETTINGS, 1e5)
    assert network.stretch is not None
    assert np.isinf(network.stretch).any()
    assert any(note.startswith("host 0:") for note in network.notes)


def spoiled(source: Observation, measurement: str, field: str, value: float | None) -> Observation:
    """Set a field of bolt-b to a value, or leave its rows out."""
    metrics = source.metrics.copy()
    mine = (metrics["component"] == "bolt-b") & (metrics["measurement"] == measurement)
    mine &= metrics["field"] == field
    if value is None:
        return replace(source, metrics=metrics[~mine])
    metrics.loc[mine, "value"] = value
    return replace(source, metrics=metrics)


@pytest.mark.parametrize(
    ("measurement", "field", "value", "what"),
    [
        ("received", "count", None, "metric received .* of bolt-b is missing"),
        ("emitted", "count", None, "metric emitted .* of bolt-b is missing"),
        ("transferred", "count", None, "metric transferred of stream bolt-b->sender:default is missing"),
        ("service", "count", None, "metric service of bolt-b is missing"),
        ("service", "cpu_sum_ns", None, r"metric service\.cpu_sum_ns of bolt-b is missing"),
        ("service", "wall_sum_ns", float("nan"), r"metric service\.wall_sum_ns of bolt-b has the value nan"),
        ("received", "count", -1.0, r"metric received\.count of bolt-b has the value -1"),
    ],
)
def test_missing_and_wrong_metrics_are_named(
    measurement: str, field: str, value: float | None, what: str
) -> None:
    with pytest.raises(ModelDeclined, match=what):
        prepare(spoiled(source_of("line"), measurement, field, value))


def test_other_plans_cycles_and_rates_are_declined() -> None:
    source = source_of("line")
    prepared = prepare(source)
    with pytest.raises(ModelDeclined, match="another query plan"):
        build_network(prepared, deploy(all_in_one(), 1), SETTINGS, 50.0)
    for rate_tps in (0.0, -1.0, float("nan")):
        with pytest.raises(ModelDeclined, match="proposed input rate"):
            build_network(prepared, source.plan, SETTINGS, rate_tps)
    loop = QueryPlan(
        name="loop",
        components=(component("s"), component("a"), component("b")),
        streams=(edge("s", "a"), edge("a", "b"), edge("b", "a")),
    )
    with pytest.raises(ModelDeclined, match="cycle: a, b"):
        prepare(replace(source, plan=deploy(loop, 1)))
    plan = deploy(fields_to_fields(), 2)
    less = plan.model_copy(update={"executors": plan.executors[:-1]})
    with pytest.raises(ModelDeclined, match="does not fit the query plan"):
        build_network(prepared, less, SETTINGS, 50.0)


def test_an_executor_without_observation_is_named() -> None:
    source = source_of("line")
    task = source.plan.of("bolt-b")[1].first_task
    metrics = source.metrics[source.metrics["task"] != task]
    with pytest.raises(ModelDeclined, match=r"executor bolt-b\[.*\] has no observation"):
        prepare(replace(source, metrics=metrics))


ARCHIVED = sorted(
    (Path(__file__).resolve().parents[3] / "reports" / "runs" / "all-in-one").glob("*/environment.json")
)


@pytest.fixture(scope="module")
def archived() -> tuple[Run, dict[int, SourceEstimates]]:
    run = Run(ARCHIVED[0].parent)
    experiment = load(run.path / "experiment.yaml")
    return run, {s: prepare(observed_step(run, experiment, s)) for s in (0, 4)}


@pytest.mark.skipif(not ARCHIVED, reason="no archived run of all-in-one")
def test_the_archived_run_says_what_its_experiment_asked(
    archived: tuple[Run, dict[int, SourceEstimates]],
) -> None:
    # multiplier: a rounded normal of mean 10 and standard deviation 1; windows of 10; 0.2 ms of CPU beside
    # the JSON step; messages in turn on a constant schedule; sleeps of 5 ms.
    for prepared in archived[1].values():
        made = prepared.fans[Input("multiplier", "spout", "default")][Output("multiplier", "default")]
        number = np.arange(made.size)
        mean = float(made @ number)
        assert mean == pytest.approx(10.0, abs=0.1)
        assert float(made @ (number - mean) ** 2) == pytest.approx(1 + 1 / 12, rel=0.15)
        fired = prepared.fans[Input("window", "", "")][Output("window", "default")]
        assert float(fired @ np.arange(fired.size)) == pytest.approx(1.0, abs=0.01)
        assert prepared.inputs.in_turn
        assert prepared.inputs.scv < 0.05
        assert 0.2 < prepared.demand["multiplier"].cpu_ms.mean_ms < 0.7


@pytest.mark.skipif(not ARCHIVED, reason="no archived run of all-in-one")
def test_hops_of_the_archived_run_are_those_of_its_own_records(
    archived: tuple[Run, dict[int, SourceEstimates]],
) -> None:
    run, prepared = archived
    latency = pq.read_table(run.step_path(4) / "latency.parquet", columns=["hops"]).column("hops").to_pylist()
    plan = run.plan(4).start
    worker = {t: e.worker for e in plan.executors for t in e.tasks}
    ways = [
        ((b["received_ns"] - a["emitted_ns"]) / 1e6, worker[a["task"]] == worker[b["task"]])
        for hops in latency
        for a, b in pairwise(hops)
    ]
    measured = np.array([w for w, _ in ways])
    within = np.array([here for _, here in ways])
    experiment = load(run.path / "experiment.yaml")
    step = observed_step(run, experiment, 4)
    network = build_network(prepared[4], step.plan, step.settings, step.rate_tps)
    bolt = network.layout.of["window"].start
    for hop, mine in (
        (network.hops.within_worker_ms, within),
        (network.hops.between_workers_ms, ~within),
    ):
        # with 16 executors a component most tuples meet an idle receiver; some queue, and a window's first
        # tuple takes longer to send
        expected = network.idle_ms[bolt] / 2 + hop.mean_ms + prepared[4].times.ahead_ms
        assert measured[mine].mean() == pytest.approx(expected, rel=0.1)
