"""The search by the model, beside every placement of small plans and every count of a small budget.

Expected numbers are the composite model's own: each plan is solved by itself, without the search.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from synthetic import Truth, component, latencies, observation, stream

from harness import load_run
from harness.errors import SchedulerDeclined, UsageError
from harness.models.composite.model import Prepared, composite
from harness.plans import (
    Executor,
    PhysicalPlan,
    QueryPlan,
    TopologyConfiguration,
    Worker,
    WorkerNode,
)
from harness.protocols import Estimate, Observation, Proposal
from harness.schedulers import make_scheduler
from harness.schedulers.even import EvenScheduler
from harness.schedulers.guided_counts import BudgetSearch, CountedPlan, SchedulingBudget
from harness.schedulers.guided_effort import SERVICES, Effort
from harness.schedulers.guided_scoring import GuidedScore, PlanJudge
from harness.schedulers.guided_search import LEAST_STEP
from harness.schedulers.plan_costs import workers_restarted

LINE = QueryPlan(
    name="line",
    components=(component("spout", 1, "spout"), component("bolt", 3), component("sink", 1, "sender")),
    streams=(stream("spout", "bolt"), stream("bolt", "sink")),
)
NODES = tuple(
    WorkerNode(name=f"node-{i}", address="", host=f"host-{i}", cores=cores, slots=(6700, 6701))
    for i, cores in ((1, 4.0), (2, 1.5))
)
SLOTS = [Worker(node=n.name, port=p) for n in NODES for p in n.slots]
RUNNING = tuple(SLOTS[i] for i in (0, 2, 0, 2, 2, 0))
RATE_TPS = 150.0
BATCHED = Path(__file__).resolve().parents[2] / "reports" / "runs" / "loaded-batching"
FACTORS = (1.0, 1.1, 1.3)
"""Targets, over what three bolts dealt to two workers keep."""


def plan_of(slots: tuple[Worker, ...], bolts: int = 3) -> PhysicalPlan:
    """Acker, then bolts, sink and spout: Storm's numbers of tasks go by name."""
    size = 3 // bolts
    ranges = [("__acker", 1, 1), *(("bolt", 2 + size * i, 1 + size * (i + 1)) for i in range(bolts))]
    ranges += [("sink", 5, 5), ("spout", 6, 6)]
    executors = tuple(
        Executor(component=name, first_task=first, last_task=last, worker=slot)
        for (name, first, last), slot in zip(ranges, slots, strict=True)
    )
    return PhysicalPlan(query_plan=LINE, nodes=NODES, executors=executors)


@cache
def source(slots: tuple[Worker, ...] = RUNNING) -> Observation:
    """Services of 1 to 3 ms; latencies of 5 to 25 ms, without hop records."""
    truth = Truth.random(LINE, RATE_TPS, 1, service_ms=2.0)
    plan = plan_of(slots)
    latency = latencies(plan, np.linspace(5.0, 25.0, 400))
    return replace(observation(plan, truth, buckets=8), latency=latency, hop_records=False)


@cache
def prepared(slots: tuple[Worker, ...]) -> Prepared:
    return composite.prepare(source(slots))


def read(seen: Observation) -> Prepared:
    return prepared(tuple(e.worker for e in seen.plan.executors))


def propose(seen: Observation, workers: int = 2, **parameters: object) -> Proposal:
    scheduler = make_scheduler({"name": "model-guided", **parameters})
    asked = seen.plan.configuration().model_copy(update={"workers": workers})
    return scheduler.propose(LINE, asked, NODES, seen)


def mean_ms(plan: PhysicalPlan, seen: Observation, rate_tps: float = RATE_TPS) -> float:
    solution = read(seen).solve(plan, seen.settings, rate_tps)
    return float("inf") if solution.overloaded else solution.ground_truth()[""].mean_ms


def estimate(plan: PhysicalPlan, seen: Observation, statistic: str, rate_tps: float) -> Estimate:
    found = read(seen).predict(plan, seen.settings, rate_tps).estimates
    of = {e.measure: e for e in found if not e.subject and e.statistic == statistic and e.value}
    return next(iter(of.values()))


@pytest.mark.deep
def test_no_placement_of_a_small_plan_is_better() -> None:
    """All 2 x 4 x 3 / 2 pairs of slots, and 2^6 ways to share six executors between two workers."""
    seen = source()
    found = propose(seen, least_gain_pct=0, restart_pct=0)
    pairs = [(a, b) for i, a in enumerate(SLOTS) for b in SLOTS[i + 1 :]]
    every = (
        mean_ms(plan_of(tuple(pair[k] for k in choice)), seen)
        for pair in pairs
        for choice in product((0, 1), repeat=6)
        if len(set(choice)) == 2
    )
    assert mean_ms(found.plan, seen) <= min(every) * (1 + LEAST_STEP)
    assert any("runner-up" in note for note in found.notes)


def test_the_plan_that_it_found_stays_when_it_runs() -> None:
    found = propose(source(), least_gain_pct=0)
    again = propose(source(tuple(e.worker for e in found.plan.executors)))
    assert again.plan == found.plan
    assert workers_restarted(found.plan, again.plan) == 0


def test_a_plan_in_force_that_keeps_the_target_stays() -> None:
    """Its counts are those that keep 200 ms, and any other placement of them would restart its worker."""
    found = propose(source(), objective={"p95_ms": 200}).plan
    (used,) = found.workers
    elsewhere = next(slot for slot in SLOTS[::-1] if slot != used)
    moved = tuple(e.model_copy(update={"worker": elsewhere}) for e in found.executors)
    running = found.model_copy(update={"executors": moved})
    truth = Truth.random(LINE, RATE_TPS, 1, service_ms=2.0)
    seen = replace(observation(running, truth, buckets=8), hop_records=False)
    assert propose(seen, objective={"p95_ms": 200}).plan == running
    assert propose(seen, objective={"p95_ms": 0.001}).plan != running  # it keeps no such target


def test_a_gain_within_noise_moves_nothing() -> None:
    """No plan is better by 99 %."""
    found = propose(source(), least_gain_pct=99)
    assert found.plan == source().plan
    assert any("stays" in note for note in found.notes)


def test_restarts_have_a_price() -> None:
    """At 90 % of the latency a worker, no gain is worth two."""
    assert propose(source(), least_gain_pct=0, restart_pct=90).plan == source().plan


def test_a_target_is_kept_by_the_fewest_workers_and_then_executors() -> None:
    """Every count of bolts on one worker of any slot, executors dealt as there is but one way."""
    seen = source()
    target_ms = 1.02 * estimate(plan_of((SLOTS[0],) * 6), seen, "p95", RATE_TPS).high  # type: ignore[operator]
    found = propose(seen, objective={"p95_ms": target_ms})
    assert estimate(found.plan, seen, "p95", RATE_TPS).high <= target_ms  # type: ignore[operator]
    counts = found.plan.configuration()
    assert counts.workers == 1
    if counts.executors["bolt"] > 1:
        fewer = plan_of((found.plan.workers[0],) * 4, bolts=1)
        assert estimate(fewer, seen, "p95", RATE_TPS).high > target_ms  # type: ignore[operator]
    assert "keeps a p95" in found.notes[0]


@pytest.mark.deep
@pytest.mark.parametrize("factor", FACTORS)
def test_no_plan_with_an_executor_fewer_keeps_the_target_placed_likewise(factor: float) -> None:
    """One bolt fewer on as many workers, dealt where the found plan is, else improved.

    Bolts of 4 ms, so one does not serve 300 messages/s.
    """
    truth = Truth.random(LINE, RATE_TPS, 1, service_ms=2.0)
    services = {**truth.service_ms, "bolt": 2 * truth.service_ms["bolt"]}
    seen = observation(plan_of(RUNNING), replace(truth, service_ms=services), buckets=8)
    seen = replace(seen, hop_records=False)
    judge = PlanJudge(composite.prepare(seen), seen.settings, 300.0, Effort(most=10**6), statistic="p95")
    search_fewer = {"objective": "p95", "rate_tps": 300.0, "restart_pct": 0, "least_gain_pct": 0}

    def high_ms(plan: PhysicalPlan) -> float:
        found = judge.estimate(plan)
        return math.inf if found is None or found.high is None else found.high

    def dealt(asked: TopologyConfiguration) -> PhysicalPlan:
        return EvenScheduler().propose(LINE, asked, NODES, seen).plan

    def improved(found: CountedPlan) -> CountedPlan:
        scheduler = make_scheduler({"name": "model-guided", **search_fewer})
        plan = scheduler.propose(LINE, found.configuration, NODES, seen).plan
        return CountedPlan(found.configuration, plan, judge.of_plan(plan))

    start = seen.plan.configuration()
    target_ms = factor * high_ms(dealt(start))
    search = BudgetSearch(judge, LINE, start, SchedulingBudget(executors=5, workers=4), 2.0, dealt)
    found = search.keeping(target_ms, improved)
    assert found.keeps(target_ms)
    asked, bolts = found.configuration, found.configuration.executors["bolt"]
    assert bolts > 1
    fewer = asked.model_copy(update={"executors": {**asked.executors, "bolt": bolts - 1}})
    plan = dealt(fewer)
    if found.plan != dealt(asked):
        plan = improved(CountedPlan(fewer, plan, judge.of_plan(plan))).plan
    assert high_ms(plan) > target_ms


@pytest.mark.parametrize("asked", [{}, {"max_executors": 5, "max_workers": 2}, {"objective": {"p95_ms": 1}}])
def test_a_search_that_ends_at_its_bound_says_so(asked: dict[str, object]) -> None:
    """One move is fewer than any start costs."""
    assert propose(source(), most_effort=1, **asked).notes[-1] == (
        "the search ended at its bound (most_effort: 1): a better plan may exist"
    )
    assert "bound" not in " ".join(propose(source(), **asked).notes)


def test_a_target_that_no_plan_keeps_says_how_far_off_the_best_is() -> None:
    found = propose(source(), objective={"mean_ms": 0.01}, max_workers=1)
    best = estimate(found.plan, source(), "mean", RATE_TPS)
    off = 100 * (best.high / 0.01 - 1)  # type: ignore[operator]
    assert found.notes[0] == (
        "no plan of at most 5 executors on 1 workers keeps a mean of 0.01 ms at 150 messages/s: the best"
        f" that was found has {best.value:.4g} ms, at most {best.high:.4g} ({off:.0f} % over)"
    )


def test_a_budget_bounds_what_is_used() -> None:
    found = propose(source(), max_executors=4, max_workers=1)
    counts = found.plan.configuration()
    assert counts.executors["bolt"] <= 2
    assert counts.workers == 1
    with pytest.raises(SchedulerDeclined, match="budget of 2 executors is less than one for each"):
        propose(source(), max_executors=2)


class ByWorkers:
    """Says of a plan what is given for its number of workers, in ms."""

    def __init__(self, *known_ms: float) -> None:
        self.known_ms = known_ms
        self.effort = Effort(most=1000)

    def of_plan(self, plan: PhysicalPlan) -> GuidedScore:
        return GuidedScore(False, self.known_ms[len(plan.workers) - 1])


def test_one_worker_is_found_where_a_worker_fewer_alone_is_no_better() -> None:
    """As in exhaustive-placements: two and three workers are on both nodes, one worker is on one."""
    counts = plan_of((SLOTS[0],) * 6).configuration()

    def dealt(asked: TopologyConfiguration) -> PhysicalPlan:
        return plan_of((*SLOTS[: asked.workers], *(SLOTS[0],) * (6 - asked.workers)))

    search = BudgetSearch(
        judge=ByWorkers(10.0, 14.0, 13.0),  # type: ignore[arg-type]  # all of it that is asked
        query_plan=LINE,
        start=counts.model_copy(update={"workers": 3}),
        budget=SchedulingBudget(executors=5, workers=3),
        gain_pct=2.0,
        place=dealt,
    )
    assert search.least_latency().configuration.workers == 1


def test_a_rate_beyond_all_plans_is_said() -> None:
    """One bolt serves some 2 ms a tuple: 100,000 messages a second are beyond three of them."""
    found = propose(source(), rate_tps=1e5, objective={"p99_ms": 100})
    assert "the best that was found is saturated" in found.notes[0]


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ("best", "objective"),
        ({"p95": 200}, "a target has one key of mean_ms, p50_ms"),
        ({"p95_ms": 1, "p99_ms": 2}, "a target has one key"),
        ({"p95_ms": -1}, "objective"),
    ],
)
def test_an_objective_that_there_is_not_is_one_line(objective: object, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_scheduler({"name": "model-guided", "objective": objective})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_it_needs_measurements() -> None:
    asked = TopologyConfiguration(executors={"spout": 1, "bolt": 3, "sink": 1}, workers=1)
    with pytest.raises(SchedulerDeclined, match="measurements"):
        make_scheduler("model-guided").propose(LINE, asked, NODES)


def test_a_played_latency_costs_what_its_services_do() -> None:
    """``FEWER_VISITS`` services are played for each; a plan of as many executors without batches counts 8."""
    seen = load_run(max(BATCHED.iterdir())).observation(0)
    judge = PlanJudge(composite.prepare(seen), seen.settings, seen.rate_tps, Effort(most=10**6))
    judge.of_plan(seen.plan)
    assert judge.effort.spent >= 60_000 / SERVICES


def test_a_share_is_of_what_is_left_and_ends_with_it() -> None:
    effort = Effort(most=10, spent=4)
    with effort.share(3):
        effort.spend(2)
        assert not effort.allows()
    assert effort.allows()
    assert effort.ended
