"""Plans with batches, the rewriting layer's and Storm's own: what is solved, played and declined.

Expected waits for the first are those of ``tests/models/simulator/test_row_batches.py``, by hand. Where a
network is compared with runs of other seeds, the tolerance is five standard errors of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from analytic_networks import network, query_plan, random_network
from budgets import budget
from scipy import stats
from synthetic import deploy

from harness.errors import ModelDeclined
from harness.models.composite.played import PlayedSolution, answered
from harness.models.composite.solved_measures import predicted
from harness.models.contract.answers import Saturated
from harness.models.network import Network, constant
from harness.models.simulator import simulate
from harness.models.solver.solve import solve
from harness.plans import BatchSize, PhysicalPlan, Window
from harness.schemas import PERCENTILES, Measure

DIAMOND = [("spout", "a"), ("spout", "b"), ("a", "sink"), ("b", "sink")]


def pair(rate_tps: float, batch: BatchSize) -> Network:
    plan = deploy(query_plan([("spout", "sink")], 1), 1, nodes=1, workers_per_node=1, ackers=1)
    made = network(plan, rate_tps, hops_ms=(0.25, 0.25, 0.25))
    return replace(made, row_batches=dict.fromkeys(plan.query_plan.streams, batch))


def batched(made: Network, seed: int) -> Network:
    """The same with batches of random sizes on some of its streams."""
    rng = np.random.default_rng(seed)
    streams = made.layout.plan.query_plan.streams
    chosen = [s for s in streams if rng.random() < 0.7] or [streams[0]]
    rules = [
        BatchSize(size=int(rng.choice([2, 5, 20])), flush_ms=int(rng.choice([2, 10, 50]))) for _ in chosen
    ]
    return replace(made, row_batches=dict(zip(chosen, rules, strict=True)))


def waits_by_hand(rate: float, size: int, flush_ms: float) -> float:
    n = np.arange(size - 1)
    tuples = 1 + stats.poisson.sf(n, rate * flush_ms).sum()
    return float(((n + 1) * stats.poisson.sf(n, rate * flush_ms)).sum() / rate / tuples)


def test_what_has_no_batches_is_solved_bit_for_bit() -> None:
    made = random_network(3)
    found, expected = answered(made), solve(made)
    assert not isinstance(found, PlayedSolution)
    for name, latency in expected.ground_truth().items():
        assert found.ground_truth()[name].mean_ms == latency.mean_ms
        assert (found.ground_truth()[name].percentiles_ms == latency.percentiles_ms).all()


@pytest.mark.parametrize(("rate_tps", "size", "flush_ms"), [(100, 10, 50), (1000, 20, 5), (400, 4, 50)])
def test_tuples_wait_for_their_batch_as_long_as_by_hand(rate_tps: float, size: int, flush_ms: int) -> None:
    found = answered(pair(rate_tps, BatchSize(size=size, flush_ms=flush_ms)))
    by_hand = waits_by_hand(rate_tps / 1000, size, flush_ms)
    assert found.ground_truth()[""].mean_ms - 0.25 == pytest.approx(by_hand, rel=0.04)


def test_a_row_more_takes_its_bytes_longer_between_workers_only() -> None:
    """Batches of 5 that always fill: rows of a batch are 5, each hop 4 rows longer, within a worker none."""
    plan = deploy(query_plan([("spout", "sink")], 1), 1, nodes=2, workers_per_node=1, ackers=1)
    (way,) = plan.query_plan.streams
    far = plan.of("spout")[0].worker != plan.of("sink")[0].worker
    made = network(plan, 500, hops_ms=(0.25, 0.25, 0.25))
    made = replace(made, row_batches={way: BatchSize(size=5, flush_ms=10_000)})
    alone, longer = answered(made), answered(replace(made, row_ms={way: 0.5}))
    assert far
    more = longer.ground_truth()[""].mean_ms - alone.ground_truth()[""].mean_ms
    assert more == pytest.approx(2.0, abs=1e-9)
    near = pair(500, BatchSize(size=5, flush_ms=10_000))
    (way,) = near.row_batches
    same = answered(replace(near, row_ms={way: 0.5})).ground_truth()[""].mean_ms
    assert same == answered(near).ground_truth()[""].mean_ms


def test_loads_rates_and_limits_are_those_without_batches() -> None:
    made = random_network(5)
    alone, found = solve(made), answered(batched(made, 5))
    assert isinstance(found, PlayedSolution)
    assert (found.loads == alone.loads).all()
    assert found.bottleneck == alone.bottleneck
    with pytest.raises(ModelDeclined, match="acked by whole batches"):
        found.ack()
    with pytest.raises(ModelDeclined, match="acked by whole batches"):
        found.complete_mean_ms()
    with pytest.raises(ModelDeclined, match="acked by whole batches"):
        found.same_node_mean_ms()


def test_what_is_overloaded_is_saturated_and_not_played() -> None:
    plan = deploy(query_plan([("spout", "sink")], 1), 1, nodes=1, workers_per_node=1, ackers=1)
    made = network(plan, 1000, cpu={"sink": constant(2.0)})
    found = answered(replace(made, row_batches=dict.fromkeys(plan.query_plan.streams, BatchSize(size=5))))
    with pytest.raises(Saturated, match="overloaded: sink"):
        found.ground_truth()


def test_rows_are_followed_through_the_executors_that_are_asked_for() -> None:
    """One branch has a batch that always waits for its 40 ms, the other none: 39 ms and more are between."""
    plan = deploy(query_plan(DIAMOND, 1), 1, nodes=1, workers_per_node=1, ackers=1)
    slow = next(s for s in plan.query_plan.streams if (s.source, s.target) == ("a", "sink"))
    made = network(plan, 5, scv=0.0, hops_ms=(0.25, 0.25, 0.25))
    found = answered(replace(made, row_batches={slow: BatchSize(size=1000, flush_ms=40)}))
    layout = found.network.layout
    means = {}
    for name in ("a", "b"):
        through = np.ones(layout.ackers.start)
        through[layout.of[name]] = 0.0
        means[name] = found.ground_truth(through)[""].mean_ms
    assert means["b"] == pytest.approx(40.5, abs=0.01)  # without b: by a
    assert means["a"] == pytest.approx(0.5, abs=0.01)
    waits, holds = found.stage_means()
    assert waits["sink"] == pytest.approx((40.25 + 0.25) / 2, abs=0.01)
    assert waits["a"] == pytest.approx(0.25, abs=0.01)
    assert holds == {}


def test_stages_of_a_played_network_are_those_of_the_solved_one_where_batches_hold_nothing() -> None:
    """Batches of two whose second tuple never comes in their 1 ms: every tuple waits for 1 ms more."""
    plan = deploy(query_plan([("spout", "a"), ("a", "sink")], 1), 1, nodes=1, workers_per_node=1, ackers=1)
    made = network(plan, 20, scv=0.0, idle_ms=0.0, cpu={"a": constant(0.2)}, hops_ms=(0.25, 0.25, 0.25))
    rule = BatchSize(size=2, flush_ms=1)
    played, _ = answered(replace(made, row_batches={plan.query_plan.streams[0]: rule})).stage_means()
    solved, _ = solve(made).stage_means()
    assert played["a"] == pytest.approx(solved["a"] + 1.0, abs=1e-6)
    assert played["sink"] == pytest.approx(solved["sink"], abs=1e-6)


def placed(plan: PhysicalPlan, workers: Mapping[str, int]) -> PhysicalPlan:
    """The plan with components' executors on these workers, all others on the first."""
    executors = tuple(
        e.model_copy(update={"worker": plan.workers[workers.get(e.component, 0)]}) for e in plan.executors
    )
    return plan.model_copy(update={"executors": executors})


def apart(window: Window | None = None) -> Network:
    """A spout of 100 messages a second, a bolt in its worker and one in another; batches of 12; no acks."""
    query = query_plan(
        [("spout", "near"), ("near", "far")], windows={} if window is None else {"far": window}
    )
    plan = placed(deploy(query, 1, nodes=2, workers_per_node=1, ackers=1), {"far": 1})
    return replace(network(plan, 100.0), acks=False, batch=12, flush_ms=1.0)


def line(rate_tps: float, batch: int, ackers: int = 1, made: int = 1) -> Network:
    """Four components in workers of their own, the second of which makes so many tuples of one."""
    names = ("spout", "one", "two", "three")
    plan = deploy(query_plan(list(pairwise(names))), 1, nodes=2, workers_per_node=2, ackers=ackers)
    plan = placed(plan, {name: k for k, name in enumerate(names)})
    workers = iter(plan.workers)
    executors = tuple(
        e.model_copy(update={"worker": next(workers)}) if e.component == "__acker" else e
        for e in plan.executors
    )
    found = network(plan.model_copy(update={"executors": executors}), rate_tps,
                    fanout={"one": [0.0] * made + [1.0]})  # fmt: skip
    return replace(found, batch=batch)


def test_what_is_in_storms_batches_is_played_and_says_so() -> None:
    made = apart()
    told = [predicted(answered(made), [], 100.0, {}) for _ in range(2)]
    assert told[0] == told[1]
    means = {e.measure: e for e in told[0].estimates if (e.statistic, e.subject) == ("mean", "")}
    assert means[Measure.GROUND_TRUTH].reason.startswith("simulated from a fixed seed")
    assert means[Measure.ACK].reason.startswith("tuples are not acked")


def test_what_comes_from_other_workers_waits_until_the_next_batch_begins() -> None:
    """Any of 1 to 12 more arrivals, at 100 a second; the flush of 1 ms empties only the spout's own batch."""
    waits, _ = answered(apart()).stage_means()
    assert waits["far"] == pytest.approx(13 / 2 * 10, rel=0.02)
    assert waits["near"] == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("made", [1, 2, 3])
def test_behind_one_another_all_batches_hold_the_same_messages(made: int) -> None:
    """A line over four workers, 100 messages a second: a batch of 8 waits for the whole of the next one.

    That is 80 ms, for the last 8 of the 8 x ``made`` tuples that come of a batch; the others do not wait.
    Measured of loaded-batching, 100 at 50 and at 150 a second: 1.96 and 2.02 s, 0.63 and 0.68 s.
    """
    waits, _ = answered(replace(line(100.0, 8, made=made), acks=False, flush_ms=1.0)).stage_means()
    found = [waits[name] for name in ("one", "two", "three")]
    assert found == pytest.approx([45.0, 80.0 / made, 80.0 / made], rel=0.03)


def test_a_window_fed_by_whole_batches_of_its_size_waits_for_nothing() -> None:
    """Tumbling of 6, from another worker by 12: both windows of a batch are full when it comes."""
    _, holds = answered(apart(Window(kind="count", length=6, slide=6))).stage_means()
    assert holds["far"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("rate_tps", "complete_ms", "ack_ms"), [(50.0, 5052.0, 7329.0), (150.0, 1702.0, 2701.0)]
)
def test_acks_wait_for_storms_batches_as_measured(rate_tps: float, complete_ms: float, ack_ms: float) -> None:
    """Loaded-batching: a line over four workers, an acker in each, batches of 100; as measured."""
    found = answered(replace(line(rate_tps, 100, ackers=4), flush_ms=1000.0))
    assert found.complete_mean_ms()[""] == pytest.approx(complete_ms, rel=0.1)
    assert found.ack()[""].mean_ms == pytest.approx(ack_ms, rel=0.1)


def test_what_comes_with_a_flush_just_misses_the_next_one() -> None:
    """One worker: half a period of 10 ms to the bolt, a whole one to the acker, a whole one back."""
    plan = deploy(query_plan([("spout", "bolt")]), 1, nodes=1, workers_per_node=1, ackers=1)
    made = replace(network(plan, 50.0, cpu={"bolt": constant(0.1)}), batch=20, flush_ms=10.0)
    found = answered(made)
    assert found.ack()[""].mean_ms == pytest.approx(25.0, rel=0.02)
    assert found.same_node_mean_ms() < found.complete_mean_ms()[""]


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(budget(10)))
def test_random_networks_are_answered_within_the_simulations_noise(seed: int) -> None:
    made = batched(random_network(seed, busiest=0.7), seed)
    found = answered(made).ground_truth()
    runs = [simulate(replace(made, acks=False), 60.0, 5.0, 100 + s) for s in range(8)]
    order = made.layout.order
    for name, latency in found.items():
        means, p95 = [], []
        for run in runs:
            values = run.latencies.ground_truth_ms
            if name:
                values = values[run.latencies.sink == order.index(name)]
            means.append(values.mean())
            p95.append(np.quantile(values, 0.95))
        own = latency.mean_ms, latency.percentiles_ms[list(PERCENTILES).index("p95")]
        for value, many in zip(own, (means, p95), strict=True):
            # one more run's error is in the value itself, which is longer than each of these
            assert abs(value - np.mean(many)) < 5 * np.std(many, ddof=1) * np.sqrt(1 + 1 / len(many))
