"""Carrying out an experiment on the ``simulator`` cluster: each step is played, judged and written.

As in a measured step there are burn-in, interval and time for its last messages to come out. The burn-in
lasts the experiment's least time, or twice the slowest window where that is longer, and at most the
experiment's most. The interval is as long as the experiment allows. A played step is judged by the code that
judges measured ones. Times are those of a virtual clock that only playing moves on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.app.planning import StepPlanner, own_executors
from harness.app.simulated import tables
from harness.app.simulated.metrics import metrics
from harness.app.simulated.networks import FETCH_MS, HOST_CORES, network
from harness.app.simulated.placing import place, worker_nodes
from harness.errors import StepDeclined
from harness.experiments import records
from harness.experiments.config import Experiment, Step
from harness.experiments.contracts import AskedStep, Progress, Watcher, unwatched
from harness.experiments.loading import expand_steps
from harness.experiments.measuring import MeasuredInterval
from harness.experiments.precision import look
from harness.experiments.progress import ProgressFile
from harness.experiments.recording import (
    AttemptAsked,
    AttemptDrained,
    AttemptSettled,
    AttemptUp,
    sent_messages,
    step_files,
)
from harness.experiments.schedule import NS_PER_S, BegunSchedule, Due, Schedule, schedule_of
from harness.experiments.steady import Arrivals
from harness.experiments.steady import interval as steadiness
from harness.experiments.step_progress import finished_step_progress
from harness.experiments.turns import Turns
from harness.experiments.workload_settings import Workload
from harness.models.contract.layout import IntArray
from harness.models.network import Network
from harness.models.simulator import simulate_messages
from harness.models.simulator.loads import loads
from harness.models.simulator.messages import Messages
from harness.plans import ACKER, AskedPlacement, PhysicalPlan, TopologyConfiguration, WorkerNode
from harness.runs import BurnInFound, CompleteLatency, DeclinedStep, Interval, Run, utc_now
from harness.schedulers.by_hand import place_by_hand
from harness.schemas import METRICS

MESSAGES_A_STEP = 100_000_000
"""More than any has: their identifiers begin anew at its multiples."""
BETWEEN_STEPS_S = 10.0


@dataclass(frozen=True)
class _Span:
    """Lengths of a step's parts."""

    burn_in_s: float
    interval_s: float
    settle_s: float

    @property
    def start_ms(self) -> float:
        """Start of the interval, in ms after the plan was up."""
        return 1000 * self.burn_in_s

    @property
    def end_ms(self) -> float:
        """End of the interval, in ms after the plan was up."""
        return 1000 * (self.burn_in_s + self.interval_s)


def carry_out(
    experiment: Experiment, run: Run, say: Callable[[str], None], watch: Watcher = unwatched
) -> None:
    """Play the steps that a run does not have yet, and write their events to ``progress.jsonl``.

    Parameters
    ----------
    say : callable
        Told one line a step.
    watch : Watcher
        Told the events of each step once it is played, on the virtual clock; the file is written first.

    Raises
    ------
    UsageError, ModelDeclined
        When the experiment asks for what the simulator does not play.
    """
    steps = expand_steps(experiment)
    with ProgressFile(run.path, len(steps)) as progress:
        _carry_out(experiment, run, say, (progress, watch))


def _carry_out(
    experiment: Experiment, run: Run, say: Callable[[str], None], watchers: Sequence[Watcher]
) -> None:
    finished, steps = run.finished_steps, expand_steps(experiment)
    cluster = experiment.cluster
    nodes = worker_nodes(cluster.nodes, cluster.slots_per_node, HOST_CORES, cluster.cpu_quota_cores)
    planner = StepPlanner(experiment, run, lambda: nodes)
    now_ns = max((run.interval(step).done_ns for step in finished), default=0)
    epoch_ms = round(utc_now().timestamp() * 1000)
    for step in steps:
        if step.index in run.ended_steps:
            continue
        try:
            asked_step = planner(step)
        except StepDeclined as why:
            run.write_declined(DeclinedStep(step=step.index, configuration=step.label, reason=str(why)))
            say(f"step {step.index} {step.label} is declined: {why}")
            reason = Progress(
                step.index, len(steps), "declined", step.label, detail=str(why), epoch_ms=epoch_ms
            )
            for watch in watchers:
                watch(reason)
            continue
        asked = _asked(experiment, asked_step)
        plan = _plan(experiment, asked, asked_step.placement, nodes)
        up_ns = now_ns + round(BETWEEN_STEPS_S * NS_PER_S)
        played, span = _play(experiment, step, plan, asked_step, up_ns, epoch_ms)
        attempt = AttemptAsked(experiment, step, asked_step, asked, up_ns, up_ns)
        up = AttemptUp(attempt, "first" if step.index == 0 else "rebalance", plan, up_ns, epoch_ms)
        written = _write(run, up, played, span)
        now_ns, epoch_ms = written.done_ns, epoch_ms + (written.done_ns - up_ns) // 1_000_000
        rest_s = (len(steps) - step.index - 1) * (written.done_ns - up_ns) / 1e9
        for now in finished_step_progress(run, step.index, len(steps), rest_s):
            for watch in watchers:
                watch(now)
        say(
            f"step {step.index} {step.label}, simulated: mean {written.mean_ms:.2f} ms"
            f" ± {written.precision_pct_reached:.1f} %"
        )


def _play(
    experiment: Experiment, step: Step, plan: PhysicalPlan, how: AskedStep, up_ns: int, epoch_ms: int
) -> tuple[tables.Played, _Span]:
    made = network(experiment, plan, step.sent_tps, how.batching, how.relief)
    slowest_s = loads(made).slowest_window_s()
    measure = experiment.measure

    def whole(seconds: float) -> float:
        return math.ceil(seconds / measure.bucket_s) * float(measure.bucket_s)

    least_s = max(measure.burn_in.least_s, 2 * slowest_s)
    burn_in_s = whole(measure.burn_in.most_s if step.changes else min(least_s, measure.burn_in.most_s))
    interval_s = whole(measure.interval.most_s)
    span = _Span(burn_in_s, interval_s, max(1.0, min(2 * slowest_s, interval_s)))
    until_ms = span.end_ms + 1000 * span.settle_s
    offsets = _sent_until(_schedule(experiment, step, span), round(until_ms * 1e6))
    first_id, turns = step.index * MESSAGES_A_STEP, Turns(list(experiment.shares.values()))
    messages = Messages(
        offsets / 1e6 + FETCH_MS, _spout_tasks(experiment, made, first_id + np.arange(offsets.size))
    )
    played = simulate_messages(made, messages, (span.start_ms, span.end_ms), _workload(experiment, step).seed)
    own = experiment.topology.own()
    return (
        tables.Played(played, offsets, first_id, up_ns, epoch_ms, turns, own.multipliers, own.keeps.keys()),
        span,
    )


def _spout_tasks(experiment: Experiment, network: Network, ids: IntArray) -> IntArray:
    """Return the spout task that reads each message: of its spout, by its partition."""
    turns = Turns(list(experiment.shares.values()))
    spout, partition = turns.input_of(ids), turns.before(ids) % tables.PARTITIONS
    found = np.empty(ids.size, dtype=np.int64)
    for i, name in enumerate(experiment.shares):
        tasks = np.asarray(network.layout.tasks[name])
        found[spout == i] = tasks[partition[spout == i] % tasks.size]
    return found


def _workload(experiment: Experiment, step: Step) -> Workload:
    """Return a step's workload, with a seed of its own."""
    workload = experiment.input
    return workload.model_copy(update={"seed": workload.seed + step.index})


def _schedule(experiment: Experiment, step: Step, span: _Span) -> Schedule:
    return schedule_of(_workload(experiment, step), step.sent_tps, step.changes, span.burn_in_s)


def _asked(experiment: Experiment, step: AskedStep) -> TopologyConfiguration:
    asked, placement = own_executors(experiment, step.configuration), step.placement
    return asked if placement is None else asked.model_copy(update={"workers": placement.number_of_workers})


def _plan(
    experiment: Experiment,
    asked: TopologyConfiguration,
    placement: AskedPlacement | None,
    nodes: tuple[WorkerNode, ...],
) -> PhysicalPlan:
    query_plan = experiment.topology.query_plan()
    if placement is not None:
        return place_by_hand(placement.workers, query_plan, asked, nodes)
    return place(query_plan, asked, {ACKER: experiment.ackers}, nodes)


def _sent_until(planned: Schedule, until_ns: int) -> IntArray:
    """Return when messages are sent."""
    parts = [np.empty(0, dtype=np.int64)]
    for chunk in planned.chunks():
        parts.append(chunk[chunk < until_ns])
        if parts[-1].size < chunk.size:
            break
    return np.concatenate(parts)


def _gather(experiment: Experiment, step: Step, played: tables.Played, span: _Span) -> records.GatheredStep:
    sent, received = tables.sent(played), tables.received(played, experiment.input.seed)
    outputs = pc.count_distinct(
        pc.add(pc.multiply(received["output_offset"], tables.PARTITIONS), received["output_partition"])
    ).as_py()
    return records.GatheredStep(
        sent=sent,
        received=received,
        input_records=sent.num_rows,
        output_records=outputs,
        records_read=outputs,
        foreign_records=0,
        held=tables.held(played),
        failed=(),
        errors=[],
        topics={"simulated": 0},
        due=_due(experiment, step, played, span),
        expected=tables.PlayedMembers(played),
    )


def _due(experiment: Experiment, step: Step, played: tables.Played, span: _Span) -> Due:
    start_ns, end_ns = (int(t) for t in played.ns(np.array([span.start_ms, span.end_ms])))
    schedule = _schedule(experiment, step, span)
    return BegunSchedule(schedule, skip=0, base_ns=played.up_ns).due(start_ns, end_ns)


def _measured(
    experiment: Experiment, played: tables.Played, span: _Span, gathered: records.GatheredStep
) -> MeasuredInterval:
    """Return the findings about the played interval, in the form of a measured one."""
    start_ns, end_ns = (int(t) for t in played.ns(np.array([span.start_ms, span.end_ms])))
    epoch = played.epoch_ms(np.array([span.start_ms, span.end_ms]))
    sent_s = (gathered.sent["scheduled_ns"].to_numpy() - start_ns) / 1e9
    rows = gathered.received
    scheduled_s = sent_s[rows["message_id"].to_numpy() - played.first_id]
    entered_s, left_s = ((rows[n].to_numpy() - start_ns) / 1e9 for n in ("entered_ns", "left_ns"))
    due = (scheduled_s >= 0) & (scheduled_s < span.interval_s)
    left = (left_s >= 0) & (left_s < span.interval_s)
    seen = look(
        scheduled_s[due],
        (left_s - entered_s)[due] * 1000,
        start_s=0.0,
        end_s=span.interval_s,
        precision_pct=experiment.measure.interval.precision_pct,
        looks=1,
    )
    return MeasuredInterval(
        latency="ground-truth",
        start_ns=start_ns,
        end_ns=end_ns,
        start_epoch_ms=int(epoch[0]),
        end_epoch_ms=int(epoch[1]),
        burn_in=BurnInFound(found=True, seconds=span.burn_in_s, reason="simulated, of a length set before"),
        look=seen,
        looks=1,
        looks_planned=1,
        stop_reason="precision" if seen.enough else "time-limit",
        steadiness=steadiness(
            Arrivals(left_s[left], (left_s - scheduled_s)[left] * 1000, sent_s=sent_s),
            start_s=0.0,
            end_s=span.interval_s,
            drift_pct=experiment.measure.burn_in.drift_pct,
        ),
        complete_latency_ms=_complete_latency(played),
        machine=None,
        disturbance="",
    )


def _complete_latency(played: tables.Played) -> dict[str, CompleteLatency]:
    run, layout = played.run, played.run.network.layout
    values = run.complete_latency_ms
    owner = run.world.tasks["executor"][run.messages["task"][run.in_interval]]
    found = {}
    for name in layout.plan.query_plan.spouts:
        for e in range(*layout.of[name].indices(len(layout))):
            mine = values[(owner == e) & ~np.isnan(values)]
            mean = float(mine.mean()) if mine.size else None
            found[layout.executors[e].label] = CompleteLatency(mean_ms=mean, acked=mine.size)
    return found


def _write(run: Run, up: AttemptUp, played: tables.Played, span: _Span) -> Interval:
    experiment, step = up.asked.experiment, up.asked.step
    gathered = _gather(experiment, step, played, span)
    measured = _measured(experiment, played, span, gathered)
    settled_ns = measured.end_ns + round(span.settle_s * NS_PER_S)
    drained_ns = max(settled_ns, int(played.ns(np.array([played.last_ms]))[0]) + 1)
    rows: pa.Table = METRICS.empty_table()
    if experiment.measure.instrument:
        bucket_s = experiment.measure.bucket_s
        rows = metrics(played, bucket_s, math.ceil((drained_ns - played.up_ns) / NS_PER_S / bucket_s))
    settled = AttemptSettled(up, measured, up.plan, settled_ns)
    attempt = AttemptDrained(settled, left_before="", left="", at_ns=drained_ns)
    files = step_files(attempt, sent_messages(gathered, attempt), rows)
    return run.write_step(step.index, files, lambda: drained_ns)
