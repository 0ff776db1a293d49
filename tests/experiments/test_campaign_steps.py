"""The order in which a campaign asks its cluster for things, and what it keeps of an attempt that failed.

A recorded world stands for the cluster, and measuring is done at once; the real ones are in tests/system.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from made_steps import END_S
from recorded_world import (
    EXACT,
    EXPERIMENT,
    STEADY,
    World,
    carried_out,
    measuring,
    on_machine,
    stops_in_the_third,
)

from harness.errors import ClusterError, UsageError
from harness.experiments import campaign, step_traffic
from harness.experiments.contracts import Progress
from harness.experiments.loading import load
from harness.experiments.measuring import Disturbed, MeasuredInterval
from harness.experiments.workload_tables import RECEIVED
from harness.machine import readings
from harness.quality import Finding
from harness.runs import Run
from harness.schemas import METRICS


def interval(run: Run, step: int) -> dict[str, Any]:
    return dict(json.loads((run.step_path(step) / "interval.json").read_text()))


def test_what_is_written_of_the_mean_is_of_all_that_came_out(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look that ended the interval saw 9 ms; every message took 10 ms (`made_steps.gathered`)."""
    carried_out(world, run, monkeypatch)
    assert STEADY.look.mean == 9.0
    assert interval(run, 0)["mean_ms"] == pytest.approx(10.0)


def test_what_probes_saw_is_asked_for_once_a_step_when_it_is_over(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def probes(since_ms: int, until_ms: int) -> pa.Table:
        asked.append((since_ms, until_ms, world.asked[-1]))
        row = {"bucket_end_ms": until_ms, "measurement": "round_trip", "field": "rtt_ms", "value": 0.25}
        return pa.Table.from_pylist([{**row, "stream": "node-1", "peer": "node-2"}], schema=METRICS)

    carried_out(world, run, monkeypatch, probes=probes)
    assert len(asked) == len(run.finished_steps) > 0
    for step, (since_ms, until_ms, last) in zip(run.finished_steps, asked, strict=True):
        assert since_ms <= until_ms
        assert last == "stop"  # nothing is sent any more
        table = pq.read_table(run.step_path(step) / "metrics.parquet")
        assert table["bucket_end_ms"].to_pylist() == [until_ms]
        assert table["value"].to_pylist() == [0.25]


def test_a_generator_that_left_messages_out_is_measured_again_and_then_invalid(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    """It stalls for the last 6 of 40 s until it is told to stop: 100 messages/s make 600."""
    monkeypatch.setattr(step_traffic, "HANDED_OVER_MOST_S", 0.0)
    whole = world._of_step
    sent = whole.sent.filter(pc.less(whole.sent["scheduled_ns"], (END_S - 6) * 1_000_000_000))
    world._of_step = replace(whole, sent=sent)
    carried_out(world, run, monkeypatch)
    says = "3400 of the 4000 messages due in the interval were sent"
    (rejected,) = interval(run, 0)["rejected"]
    assert rejected["reason"].startswith(f"generator: {says}")
    found = run.quality(0).generator
    assert found is not None
    assert not found.ok
    assert found.detail.startswith(says)
    figure(says)


def test_a_step_whose_clock_was_set_is_measured_again_and_then_invalid(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    moved = on_machine(clock_offset_start_ns=10**18, clock_offset_end_ns=10**18 - 6_000_000_000)
    carried_out(world, run, monkeypatch, lambda n: moved if n < 2 else STEADY)
    says = "the time of day was set back by 6000 ms in the interval, and at most 100 ms are allowed"
    (rejected,) = interval(run, 0)["rejected"]
    assert rejected["reason"] == f"clocks: {says}"
    figure(says)
    assert run.quality(0).clocks == Finding(ok=False, detail=says)
    kept = run.interval(0)
    assert (kept.clock_offset_start_ns, kept.clock_offset_end_ns) == (10**18, 10**18 - 6_000_000_000)
    assert run.interval(1).attempt == 1
    assert run.quality(1).clocks is not None
    assert run.quality(1).clocks.ok


def test_stolen_time_measures_a_step_again_and_makes_it_invalid(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    """5 % is the limit of the first attempt, 10 % of any: each shares with what the measurements gave."""
    found = iter((5.1, 9.0, 5.0, 20.3, 10.1))
    carried_out(world, run, monkeypatch, lambda _: on_machine(steal_pct=next(found)))
    assert [run.interval(n).attempt for n in range(3)] == [2, 1, 2]
    assert [run.interval(n).machine_steal_pct for n in range(3)] == [9.0, 5.0, 10.1]
    (rejected,) = interval(run, 0)["rejected"]
    again = "stolen: 5.1 % of the CPU time was stolen in the interval, measured again above 5 %"
    assert rejected["reason"] == again
    figure(again)
    verdicts = [run.quality(n).stolen for n in range(3)]
    assert [v.ok for v in verdicts if v] == [True, True, False]
    assert verdicts[2] == Finding(
        ok=False, detail="10.1 % of the CPU time was stolen in the interval, and at most 10 % are allowed"
    )


def test_limits_of_stolen_time_are_the_experiments(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tolerant = load("quick", ["steps.plan=[{executors: 1}]", "measure.steal_pct={again: 30, most: 40}"])
    outcome = on_machine(steal_pct=29.9)
    carried_out(world, run, monkeypatch, lambda _: outcome, experiment=tolerant)
    assert run.interval(0).attempt == 1
    assert run.quality(0).stolen is not None
    assert run.quality(0).stolen.ok
    with pytest.raises(UsageError, match="steal_pct: again 20 is more than most 10"):
        load("quick", ["measure.steal_pct.again=20"])


def test_what_did_not_come_out_is_held_against_the_step_after(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_traffic, "DRAIN_MOST_S", 0.0)
    monkeypatch.setattr(world, "taken", lambda: False)
    carried_out(world, run, monkeypatch)
    found = [run.quality(n).began_empty for n in range(3)]
    assert [f.ok for f in found] == [True, False, False]
    assert found[1].detail == "messages sent before were still coming out after 0 s"


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._start_ns = time.monotonic_ns()

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return self._start_ns + round(self.now_s * 1e9)

    def time_ns(self) -> int:
        return self.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Moved(World):
    """The spouts were moved to another node: they take a minute later what was sent, and a second later it
    comes out."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._stopped_s = math.inf

    def stop(self) -> None:
        super().stop()
        self._stopped_s = self._clock.now_s

    def taken(self) -> bool:
        return self._clock.now_s >= self._stopped_s + 60

    def received(self) -> pa.Table:
        return super().received() if self._clock.now_s >= self._stopped_s + 61 else RECEIVED.empty_table()


def test_what_spouts_have_only_just_taken_is_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    for module in (campaign, step_traffic):
        monkeypatch.setattr(module, "time", clock)
    carried_out(Moved(clock), run, monkeypatch)
    for step in run.finished_steps:
        ledger = run.quality(step).ledger
        assert (ledger.lost, ledger.received) == (0, ledger.sent)


def test_one_submission_is_led_through_all_steps(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out(world, run, monkeypatch)
    a_step = ["begin", "send 200", "stop"]
    assert world.asked == ["submit 1", *a_step, "rebalance 2", *a_step, "rebalance 4", *a_step]
    assert run.finished_steps == (0, 1, 2)
    assert [interval(run, n)["submission"] for n in range(3)] == ["first", "rebalance", "rebalance"]


def test_a_resumed_run_comes_from_the_configuration_before(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClusterError, match="kafka stopped"):
        carried_out(world, run, monkeypatch, stops_in_the_third)
    assert run.finished_steps == (0, 1)
    again = World()
    carried_out(again, run, monkeypatch)
    assert measuring(again) == ["submit 2", "rebalance 4"]
    assert interval(run, 2)["submission"] == "resumed"


def test_a_disturbed_step_is_measured_once_more_and_the_reason_kept(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disturbed_once(n: int) -> MeasuredInterval:
        if n == 1:
            raise Disturbed("workers restarted: node-1:6700")
        return STEADY

    shown: list[Progress] = []
    carried_out(world, run, monkeypatch, disturbed_once, shown.append)
    assert measuring(world) == ["submit 1", "rebalance 2", "rebalance 2", "rebalance 4"]
    assert [(p.step, p.detail) for p in shown if p.phase == "again"] == [
        (1, "workers restarted: node-1:6700")
    ]
    said = [p.detail for p in shown if p.phase == "done"]
    assert [d.partition("; ")[2] for d in said] == [
        "",
        "measured again; before: workers restarted: node-1:6700",
        "",
    ]
    kept = interval(run, 1)
    broken_off = {"mean_ms": None, "half_width_ms": None, "machine_busy_pct": None}
    assert (kept["attempt"], kept["rejected"]) == (
        2,
        [{"reason": "workers restarted: node-1:6700", **broken_off}],
    )
    assert (interval(run, 0)["attempt"], interval(run, 0)["rejected"]) == (1, [])


def test_the_second_attempt_is_kept_whatever_it_finds(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    burn_in = STEADY.burn_in.model_copy(update={"found": False, "reason": "drift"})
    unsteady = replace(on_machine(busy_pct=97.5), burn_in=burn_in)
    carried_out(world, run, monkeypatch, lambda _: unsteady)
    twice = ["submit 1", "rebalance 1", "rebalance 2", "rebalance 2", "rebalance 4", "rebalance 4"]
    assert measuring(world) == twice
    found = {"mean_ms": EXACT.mean, "half_width_ms": EXACT.half_width, "machine_busy_pct": 97.5}
    assert [interval(run, n)["rejected"] for n in range(3)] == [[{"reason": "burn-in: drift", **found}]] * 3


def test_the_only_attempt_that_was_asked_for_is_kept_whatever_it_finds(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = EXPERIMENT.model_copy(
        update={"measure": EXPERIMENT.measure.model_copy(update={"attempts": 1})},
    )
    burn_in = STEADY.burn_in.model_copy(update={"found": False, "reason": "drift"})
    carried_out(world, run, monkeypatch, lambda _: replace(STEADY, burn_in=burn_in), experiment=once)
    assert measuring(world) == ["submit 1", "rebalance 2", "rebalance 4"]
    assert [(interval(run, n)["attempt"], interval(run, n)["rejected"]) for n in range(3)] == [(1, [])] * 3
    assert not any(run.quality(n).steady.ok for n in range(3))


class Late(World):
    """The generator is 30 ms late (20 are allowed) in the second measurement."""

    def sent(self) -> pa.Table:
        sent = self._of_step.sent
        if self.asked.count("begin") != 2:
            return sent
        late = pc.add(sent["sent_ns"], 30_000_000)
        return sent.set_column(sent.schema.get_field_index("sent_ns"), "sent_ns", late)


def test_a_step_whose_generator_was_late_is_measured_once_more(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Late()
    carried_out(world, run, monkeypatch)
    assert measuring(world) == ["submit 1", "rebalance 2", "rebalance 2", "rebalance 4"]
    late = "generator: 99 % of messages sent within 30.00 ms of their schedule, all within 30.00 ms"
    assert [[r["reason"] for r in interval(run, n)["rejected"]] for n in range(3)] == [[], [late], []]


class Firing(World):
    """A window goes on firing with old tuples only: every look finds one more output, of no member.

    The receiver and what Kafka says of it are those of one moment; a moment later both are one further.
    """

    def received(self) -> pa.Table:
        self.records_read += 1
        return self._of_step.received

    def counts(self) -> tuple[int, int]:
        return self._of_step.input_records, self.records_read


def test_outputs_that_keep_coming_leave_the_ledger_balanced(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out(Firing(), run, monkeypatch)
    for step in run.finished_steps:
        ledger = run.quality(step).ledger
        assert ledger.balanced, ledger.reason


def test_a_plan_that_is_never_in_force_is_named(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "PLAN_TIMEOUT_S", 0.2)
    world.applies = False
    with pytest.raises(ClusterError, match=r"the plan was not in force after 0\.2 s: asked .*spout:1.*found"):
        carried_out(world, run, monkeypatch)
    assert run.finished_steps == ()


def test_a_server_that_died_is_named_instead_of_what_its_clients_say(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections have broken before it is seen to be gone."""
    looks = iter([None, None, ClusterError("nimbus stopped with signal SIGKILL")])

    def nothing_answers(_: int) -> MeasuredInterval:
        monkeypatch.setattr(world, "check", die_at_last)
        raise ClusterError("connection refused")

    def die_at_last() -> None:
        if died := next(looks):
            raise died

    with pytest.raises(ClusterError, match="nimbus stopped with signal SIGKILL"):
        carried_out(world, run, monkeypatch, nothing_answers)


def test_watchers_are_told_how_busy_this_machine_is(
    world: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of the recorded world take no second, of which shares would be."""
    monkeypatch.setattr(readings, "SHARES_LEAST_S", 0.0)
    told: list[Progress] = []
    carried_out(world, run, monkeypatch, watch=told.append)
    assert told
    for now in told:
        assert now.machine_busy_pct is not None
        assert now.machine_steal_pct is not None
        assert 0 <= now.machine_busy_pct + now.machine_steal_pct <= 100
