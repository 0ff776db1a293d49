"""A plan that changes while a step is measured: when it is asked for, and what is lost by it.

A world in which time passes only while somebody waits stands for the cluster (``adapted_world``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from adapted_steps import KEPT, S, judged, messages
from adapted_world import EXPERIMENT, AdaptedWorld, adapted_on, size_rows
from hypothesis import given
from hypothesis import strategies as st
from made_runs import placed
from pydantic import ValidationError
from scheduling import nodes_of

from harness.errors import UsageError
from harness.experiments.adapted_periods import (
    NO_PLAN,
    AdaptedPeriod,
    AskedChange,
    NodeChange,
    PeriodDecision,
    adaptation_table,
    components_of,
)
from harness.experiments.adapting import PeriodSeen
from harness.experiments.config import Experiment
from harness.experiments.live_batches import not_in_force, reported_sizes
from harness.experiments.loading import load
from harness.experiments.planned_rates import PlannedRate
from harness.plans import (
    AskedPlacement,
    BatchSize,
)


def gathers(seen: PeriodSeen) -> PeriodDecision:
    """Put everything on the first worker, where it is not there already."""
    first = seen.plan.workers[0].label
    if {e.worker.label for e in seen.plan.executors} == {first}:
        return PeriodDecision("stays", "it is there", None, {})
    placement = AskedPlacement(by="test", workers={e.label: first for e in seen.plan.executors})
    counts = components_of(seen.plan).model_copy(update={"workers": 1})
    return PeriodDecision("applied", "together", AskedChange(counts, placement), {})


def doubles(seen: PeriodSeen) -> PeriodDecision:
    """Ask for two executors of each component once more than 100 messages a second come."""
    counts = components_of(seen.plan)
    if seen.rate_tps <= 100 or 2 in counts.executors.values():
        return PeriodDecision("stays", f"{seen.rate_tps:g}", None, {})
    two = counts.model_copy(update={"executors": dict.fromkeys(counts.executors, 2)})
    return PeriodDecision("applied", f"{seen.rate_tps:g}", AskedChange(two), {})


def test_a_plan_is_applied_while_messages_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for after 10 s, in force 7 s later, and left alone afterwards; workers are the plan's."""
    world = AdaptedWorld(7.0)
    periods = adapted_on(world, monkeypatch, gathers)
    assert [p.decided.decision for p in periods] == ["applied", "stays", "stays"]
    first = periods[0]
    assert first.end_ns - first.start_ns == pytest.approx(10 * S, abs=S)
    assert first.in_force_ns - first.asked_ns == pytest.approx(7 * S, abs=S)
    assert world.counts is not None
    assert world.counts.workers == 1


def test_a_period_says_how_old_the_last_change_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for after 10 s, in the first of three periods of 10 s; before that there is none."""
    ages: list[float | None] = []

    def noting(seen: PeriodSeen) -> PeriodDecision:
        ages.append(seen.unchanged_s)
        return gathers(seen)

    adapted_on(AdaptedWorld(2.0), monkeypatch, noting)
    assert ages == [None, pytest.approx(10, abs=1), pytest.approx(20, abs=1)]


def test_numbers_change_with_the_rate_that_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """100/s in the first 10 s; then 2 s of 100/s and 8 s of 200/s, so 180/s; then 200/s.

    What is in force at a period's end is that of before its decision.
    """
    periods = adapted_on(world := AdaptedWorld(3.0), monkeypatch, doubles)
    assert [p.decided.decision for p in periods] == ["stays", "applied", "stays"]
    assert [p.rate_tps for p in periods] == pytest.approx([100, 180, 200], rel=0.02)
    assert periods[1].in_force_ns - periods[1].asked_ns == pytest.approx(3 * S, abs=S)
    assert [set(p.configuration.executors.values()) for p in periods] == [{1}, {1}, {2}]
    assert world.counts == periods[2].configuration


def test_the_rates_so_far_are_seen_and_the_one_planned_for_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In buckets of 5 s from the interval's begin, 12 s after the first message: 200/s from 12 s of it on.

    The third bucket has 2 s of 100/s and 3 s of 200/s.
    """
    seen_so_far: list[tuple[list[float], float]] = []

    def looks(seen: PeriodSeen) -> PeriodDecision:
        seen_so_far.append((seen.rates.history.rate_tps.tolist(), seen.rates.now_s))
        planned = PlannedRate(123.0, "made", 0.9, 20.0, "a reason")
        return PeriodDecision("stays", "", None, {}, planned=planned)

    periods = adapted_on(AdaptedWorld(1.0), monkeypatch, looks)
    rates, now_s = seen_so_far[-1]
    assert now_s == pytest.approx(30, abs=1)
    assert rates == pytest.approx([100, 100, 160, 200, 200, 200], rel=0.1)
    assert [len(known) for known, _ in seen_so_far] == [2, 4, 6]
    row = adaptation_table(periods, *messages()).to_pylist()[0]
    assert (row["planned_tps"], row["forecast"], row["forecast_declined"]) == (123.0, "made", "a reason")
    assert (row["quantile"], row["horizon_s"]) == (0.9, 20.0)
    assert row["rate_tps"] == pytest.approx(100, rel=0.02)


def test_a_plan_that_came_late_is_left_to_show_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """In force 7 s after the second period's end, so 3 s before the third's, of which 2 s have no metrics."""
    periods = adapted_on(AdaptedWorld(7.0), monkeypatch, doubles)
    assert periods[2].decided.reason == "the plan has been in force for 3 s only"
    assert periods[2].decided.decision == "stays"


SETTLING = load(
    "quick",
    [
        "measure.burn_in={least_s: 10, most_s: 20}",
        "measure.interval={least_s: 10, most_s: 30, looks: 3}",
        "steps.plan=[{executors: 1, adapt: {scheduler: even, period_s: 10, settle_s: 6}}]",
    ],
)


def test_what_workers_do_that_have_just_started_is_shown_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """In force 2 s after the first question, so 8 s before the second and 18 s before the third; 6 s settle.

    What is seen ends 2 s before a question, as metrics take to arrive: 2 s are too few, then all 10.
    """
    spans = []

    def looks(seen: PeriodSeen) -> PeriodDecision:
        spans.append((seen.end_epoch_ms - seen.start_epoch_ms) / 1e3)
        return gathers(seen)

    periods = adapted_on(AdaptedWorld(2.0), monkeypatch, looks, SETTLING)
    assert [p.decided.decision for p in periods] == ["applied", "stays", "stays"]
    assert periods[1].decided.reason == "the plan has been in force for 8 s only, of which 6 s are to settle"
    assert spans == pytest.approx([10, 10], abs=0.5)


def test_a_change_that_restarts_no_worker_has_nothing_to_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"spout:default": BatchSize(size=5, flush_ms=5.0)}

    def resizes(seen: PeriodSeen) -> PeriodDecision:
        asked = AskedChange(components_of(seen.plan), batching=sizes)
        stays = PeriodDecision("stays", "as asked", None, {})
        return stays if seen.batching == sizes else PeriodDecision("applied", "more rows", asked, {})

    periods = adapted_on(AdaptedWorld(2.0), monkeypatch, resizes, SETTLING)
    assert [p.decided.reason for p in periods] == ["more rows", "as asked", "as asked"]


def test_a_plan_that_does_not_come_into_force_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    periods = adapted_on(AdaptedWorld(1000.0), monkeypatch, gathers)
    assert (periods[0].applied, periods[0].in_force_ns) == (True, 0)
    found = judged(periods, lost=(), twice=())
    assert not found.plan_as_decided.ok
    assert "not in force after 60 s in period 0" in found.plan_as_decided.detail


def comes_and_goes(seen: PeriodSeen) -> PeriodDecision:
    """Add a node and use it; mark it in the next period; end it in the third."""
    names, marked = [n.name for n in seen.nodes.there], seen.nodes.marked
    stays = PeriodDecision("stays", "", None, {})
    if seen.nodes.spare:
        return gathers(seen)._replace(nodes=NodeChange(added=("node-3",)))
    assert names == ["node-1", "node-2", "node-3"]
    return stays._replace(nodes=NodeChange(removed=marked) if marked else NodeChange(marked=("node-3",)))


def test_nodes_come_before_the_plan_that_uses_them_and_go_when_they_are_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node takes 2 s to come; the plan is asked for then. Nothing changes after the last period."""
    world = AdaptedWorld(1.0)
    periods = adapted_on(world, monkeypatch, comes_and_goes)
    assert world.done == ["add node-3"]
    assert [len(p.nodes) for p in periods] == [2, 3, 3]
    assert [p.marked for p in periods] == [(), ("node-3",), ("node-3",)]
    assert periods[0].asked_ns - periods[0].end_ns == pytest.approx(2 * S, abs=S / 10)
    assert periods[2].decided.reason == "the step ends: "
    table = adaptation_table(periods, *messages()).to_pylist()
    assert [row["nodes"] for row in table] == [2, 3, 3]
    assert [row["nodes_added"] for row in table] == [["node-3"], [], []]
    assert [row["nodes_marked"] for row in table] == [[], ["node-3"], ["node-3"]]
    assert judged(periods, lost=(), twice=()).plan_as_decided.ok


@pytest.mark.parametrize(
    ("before", "change", "after", "words"),
    [
        ((1, 2), NodeChange(added=("node-3",)), (1, 2, 3), ""),
        ((1, 2, 3), NodeChange(removed=("node-3",)), (1, 2), ""),
        ((1, 2, 3), NodeChange(marked=("node-3",)), (1, 2, 3), ""),
        (
            (1, 2),
            NodeChange(added=("node-3",)),
            (1, 2),
            "nodes node-1, node-2, node-3 were decided on and node-1, node-2 were there",
        ),
        ((1, 2), NodeChange(), (1,), "nodes node-1, node-2 were decided on and node-1 were there"),
    ],
)
def test_nodes_are_as_decided_or_the_step_is_invalid(
    before: tuple[int, ...], change: NodeChange, after: tuple[int, ...], words: str
) -> None:
    nodes = nodes_of([1] * 3)
    decision = PeriodDecision("stays", "", None, {}, change)
    periods = [
        AdaptedPeriod(0, S, decided, nodes=tuple(nodes[i - 1] for i in there))
        for decided, there in ((decision, before), (KEPT.decided, after))
    ]
    finding = judged(periods, lost=(), twice=())
    assert finding.plan_as_decided.ok is (words == "")
    assert words in finding.plan_as_decided.detail


BATCHED = load(
    "quick",
    [
        "measure.burn_in={least_s: 10, most_s: 20}",
        "measure.interval={least_s: 10, most_s: 30, looks: 3}",
        "steps.plan=[{executors: 1, batching: {spout: 4, bolt-a: 1}, adapt: {tuner: aeolus, period_s: 10}}]",
    ],
)
SUBMITTED = {"spout:default": BatchSize(size=4), "bolt-a:default": BatchSize(size=1)}


def batches_more(seen: PeriodSeen) -> PeriodDecision:
    """Ask once for batches of 9; with them, for the plan in force."""
    if seen.batching["spout:default"].size == 9:
        return PeriodDecision("stays", "", None, {})
    assert seen.batching == SUBMITTED
    sizes = {**seen.batching, "spout:default": BatchSize(size=9, flush_ms=20)}
    return PeriodDecision("applied", "", AskedChange(components_of(seen.plan), batching=sizes), {})


def test_batch_sizes_alone_ask_for_no_plan_and_are_in_force_when_every_task_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = AdaptedWorld(3.0)
    world.sizes = dict(SUBMITTED)
    periods = adapted_on(world, monkeypatch, batches_more, BATCHED)
    assert (world.counts, world.done) == (None, ["resize"])
    assert [p.applied for p in periods] == [True, False, False]
    assert periods[0].in_force_ns - periods[0].asked_ns == pytest.approx(3 * S, abs=S)
    table = adaptation_table(periods, *messages()).to_pylist()
    assert table[0]["batches"] == ["spout:default 4/5 ms", "bolt-a:default 1"]
    assert table[0]["batches_asked"] == ["spout:default 9/20 ms", "bolt-a:default 1"]
    assert [row["batches_asked"] for row in table[1:]] == [None, None]
    assert table[1]["batches"] == table[0]["batches_asked"]
    finding = judged(periods, lost=(), twice=())
    assert finding.plan_as_decided.ok, finding.plan_as_decided.detail


def test_batch_sizes_that_do_not_come_into_force_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the second period passes meanwhile, and the third's: together they are one."""
    world = AdaptedWorld(1000.0)
    world.sizes = dict(SUBMITTED)
    periods = adapted_on(world, monkeypatch, batches_more, BATCHED)
    assert [(p.applied, p.in_force_ns) for p in periods] == [(True, 0), (False, 0)]
    assert (periods[1].end_ns - periods[1].start_ns) / S == pytest.approx(60, abs=1)
    finding = judged(periods, lost=(), twice=())
    assert not finding.plan_as_decided.ok
    assert "not in force after 60 s in period 0" in finding.plan_as_decided.detail


NINE, FOUR = BatchSize(size=9, flush_ms=20), BatchSize(size=4)


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        ({"s:d": (NINE,), "t:d": (FOUR,)}, ""),
        (
            {"s:d": (FOUR,), "t:d": (FOUR,)},
            "batches s:d 9/20 ms were decided on and s:d 4/5 ms were in force",
        ),
        ({"s:d": (FOUR, NINE), "t:d": (FOUR,)}, "s:d 9/20 ms were decided on and s:d 4/5 ms or 9/20 ms were"),
        ({"t:d": (FOUR,)}, "batches s:d 9/20 ms were decided on and none were in force"),
    ],
)
def test_batch_sizes_are_as_decided_or_the_step_is_invalid(
    reported: Mapping[str, tuple[BatchSize, ...]], words: str
) -> None:
    change = AskedChange(NO_PLAN, batching={"s:d": NINE, "t:d": FOUR})
    periods = [
        AdaptedPeriod(0, S, PeriodDecision("applied", "", change, {}), S, 2 * S),
        AdaptedPeriod(S, 3 * S, KEPT.decided, batches=reported),
        AdaptedPeriod(3 * S, 4 * S, KEPT.decided, batches={"s:d": (NINE,), "t:d": (FOUR,)}),
    ]
    finding = judged(periods, lost=(), twice=())
    assert finding.plan_as_decided.ok is (words == "")
    assert words in finding.plan_as_decided.detail
    assert words == "" or "in period 1 " in finding.plan_as_decided.detail


def test_sizes_and_executors_are_asked_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes first: the new plan's workers begin with them."""

    def both(seen: PeriodSeen) -> PeriodDecision:
        found, more = doubles(seen), batches_more(seen)
        if found.change is None or more.change is None:
            return found
        return found._replace(change=found.change._replace(batching=more.change.batching))

    world = AdaptedWorld(2.0)
    world.sizes = dict(SUBMITTED)
    periods = adapted_on(world, monkeypatch, both, BATCHED)
    assert world.done == ["resize"]
    assert world.counts is not None
    assert set(world.counts.executors.values()) == {2}
    assert [p.applied for p in periods] == [False, True, False]
    assert periods[1].in_force_ns > periods[1].asked_ns


@given(
    before=st.dictionaries(st.sampled_from(range(1, 9)), st.integers(1, 5), min_size=1),
    after=st.dictionaries(st.sampled_from(range(1, 9)), st.integers(1, 5)),
    asked=st.integers(1, 5),
)
def test_a_size_is_in_force_when_the_newest_report_of_every_task_has_it(
    before: dict[int, int], after: dict[int, int], asked: int
) -> None:
    """By hand: of each task of the spout the later of two reports counts, and none must be missing."""
    plan = placed(EXPERIMENT.topology.query_plan(), 1)
    tasks = [t for e in plan.of("spout") for t in range(e.first_task, e.last_task + 1)]
    assert tasks
    tables = [
        size_rows({("spout:default", tasks[0] + i - 1): BatchSize(size=n) for i, n in sizes.items()}, end_ms)
        for sizes, end_ms in ((before, 1000), (after, 2000))
    ]
    newest = {tasks[0] + i - 1: n for i, n in (before | after).items()}
    missing = not_in_force(pa.concat_tables(tables[::-1]), plan, {"spout:default": BatchSize(size=asked)})
    assert missing == ([] if all(newest.get(task) == asked for task in tasks) else ["spout:default"])
    found = reported_sizes(pa.concat_tables(tables), ["spout:default", "sender:default"])
    assert found == {"spout:default": tuple(BatchSize(size=n) for n in sorted(set(newest.values())))}


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            "[{executors: 1, adapt: {scheduler: even}}, {executors: 1, scheduler: even, from: 0}]",
            "nothing can be read",
        ),
        ("[{executors: 1, adapt: {scheduler: even, period_s: 1}}]", "period_s"),
        ("[{executors: 1, adapt: {}}]", "either scheduler or tuner"),
        ("[{executors: 1, adapt: {scheduler: even, tuner: ds2}}]", "either scheduler or tuner"),
        ("[{executors: 1, adapt: {scheduler: even}, scheduler: even}]", "adapt and scheduler"),
        ("[{placement: p.yaml, adapt: {scheduler: even}}]", "adapt and placement"),
        ("[{executors: 1}, {tuner: storm, from: 0, adapt: {scheduler: even}}]", "adapt and tuner"),
        (
            "[{executors: 1, adapt: {scheduler: even}, faults: [{stop: generator, for_s: 1, at_s: 1}]}]",
            "adapt and faults",
        ),
        ("[{executors: 1, adapt: {tuner: ds2, nodes: [1, 3]}}]", "nodes and tuner: give a scheduler"),
        ("[{executors: 1, adapt: {scheduler: even, nodes: [3, 1]}}]", "the least, 3, is above the most, 1"),
        ("[{executors: 1, adapt: {scheduler: even, nodes: [3, 4]}}]", "begins with 2, not with 3 to 4"),
        ("[{executors: 1, adapt: {scheduler: even, nodes: [1, 21]}}]", "less than or equal to 20|at most 20"),
        ("[{executors: 1, adapt: {scheduler: even, nodes: [1]}}]", "nodes.1"),
        ("[{executors: 1, adapt: {scheduler: even, scale: {out_pct: 70}}}]", "scale: give nodes"),
        (
            "[{executors: 1, adapt: {scheduler: even, nodes: [1, 3], scale: {out_pct: 50}}}]",
            "in_pct 50 must be below out_pct 50",
        ),
    ],
)
def test_a_step_that_cannot_adapt_is_refused(plan: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load("quick", [f"steps.plan={plan}"])


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ("{kind: simulator}", "plans stay while the simulator plays a step"),
        ("{kind: running, nimbus: 'n:6627', kafka: 'k:9092'}", "others run places executors itself"),
    ],
)
def test_a_cluster_whose_plans_stay_is_refused(cluster: str, words: str) -> None:
    plan = "steps.plan=[{executors: 1, adapt: {scheduler: even}}]"
    with pytest.raises(UsageError, match=f"steps.plan.0: adapt: .*{words}"):
        load("quick", [plan, f"cluster={cluster}"])


def test_a_cluster_whose_nodes_stay_is_refused(tmp_path: Path) -> None:
    steps = [{"executors": 1, "adapt": {"scheduler": "even", "nodes": [1, 3]}}]
    provisioned = {"kind": "remote", "name": "two", "file": str(tmp_path / "two.yaml")}
    settings = {**EXPERIMENT.model_dump(mode="json", by_alias=True), "cluster": provisioned}
    with pytest.raises(
        ValidationError, match=r"steps\.plan\.0: adapt\.nodes: its nodes are provisioned, and stay"
    ):
        Experiment.model_validate({**settings, "steps": {"plan": steps}})


def test_nodes_that_may_come_need_room_too() -> None:
    """Two nodes with a slot each, and one more."""
    plan = "steps.plan=[{executors: 1, adapt: {scheduler: even, nodes: [1, 3]}}]"
    assert (EXPERIMENT.slots_to_fill, load("quick", [plan]).slots_to_fill) == (2, 3)
