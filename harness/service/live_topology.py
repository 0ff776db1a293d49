"""A submitted topology's last minutes as a page shows them: rates, latency, capacity, forecast, warnings."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.app.submitted.folder import KeptPlan, SubmittedTopology
from harness.app.submitted.live_past import SpoutPast
from harness.app.submitted.live_rows import LiveRows
from harness.app.submitted.observing import RowSpan, mean_ack_ms, observe_span
from harness.errors import HarnessError
from harness.experiments import records
from harness.forecasts.histories import SubjectHistory, histories_of_metrics
from harness.plans import PhysicalPlan
from harness.protocols import Observation
from harness.schemas import Metric
from harness.service.live_forecast import LiveForecast, foresee_live
from harness.service.pressure import ExecutorLoad, PressureAlert, loads_of, pressure_alerts

SILENT_S = 20.0
"""Without a row for so long, something is wrong."""


@dataclass(frozen=True)
class LiveView:
    """All that a page of a submitted topology shows of its metrics.

    Attributes
    ----------
    kept : KeptPlan
        The plan that was seen last.
    rates : tuple of SubjectHistory
        Of whole spouts.
    latency : tuple of (float, float)
        Epoch s and mean emit-to-ack latency in ms by bucket.
    mean_ms : float, optional
        The same since the plan is in force.
    loads : tuple of ExecutorLoad
        Fullest first.
    foreseen : LiveForecast
    unseen_s : tuple of float
        Seasons that the traffic is said to have, and that its past does not show yet.
    alerts : tuple of PressureAlert
    troubles : tuple of str
        Parts that cannot be shown, and why.
    """

    kept: KeptPlan
    rates: tuple[SubjectHistory, ...] = ()
    latency: tuple[tuple[float, float], ...] = ()
    mean_ms: float | None = None
    loads: tuple[ExecutorLoad, ...] = ()
    foreseen: LiveForecast = field(default_factory=LiveForecast)
    unseen_s: tuple[float, ...] = ()
    alerts: tuple[PressureAlert, ...] = ()
    troubles: tuple[str, ...] = field(default=())


def view_live(topology: SubmittedTopology, live: LiveRows, past: SpoutPast | None = None) -> LiveView:
    """Return a topology's last minutes; each part that cannot be had says why.

    Parameters
    ----------
    past : SpoutPast, optional
        The last seasons, where the traffic has any.
    """
    kept, season_s, troubles = topology.plan, topology.facts.season_s, list[str]()
    rows = records.metrics(live.table, kept.plan.nodes)
    if not rows.num_rows:
        return LiveView(kept, troubles=("no metrics came in the last minutes: is it active?",))
    newest_ms = int(pc.max(rows["bucket_end_ms"]).as_py())
    if live.span.until_ms - newest_ms > SILENT_S * 1e3:
        troubles.append(f"no metrics for {(live.span.until_ms - newest_ms) / 1e3:.0f} s: is it active?")
    if moved_elsewhere(kept.plan, rows, newest_ms):
        troubles.append("executors are not where the kept plan has them: somebody changed it")
    bucket_s = float(topology.experiment.measure.bucket_s)
    span = RowSpan(max(live.span.since_ms, kept.at_epoch_ms), newest_ms)
    rates: tuple[SubjectHistory, ...] = ()
    foreseen = LiveForecast()
    loads: tuple[ExecutorLoad, ...] = ()
    alerts: tuple[PressureAlert, ...] = ()
    try:
        spouts = tuple(kept.plan.query_plan.spouts)
        every = histories_of_metrics(rows.to_pandas(), spouts, *live.span, bucket_s)
        rates = tuple(s for s in every if s.task is None)
        foreseen = foresee_live(str(topology.path), rates, past, spouts, season_s, live.span.until_ms / 1e3)
        for one in foreseen.forecasts:
            if one.fine.status == "declined":
                troubles.append(f"no forecast of {one.subject.component}: {one.fine.reason}")
    except HarnessError as why:
        troubles.append(str(why))
    try:
        source = observe_of(topology, live)
        loads = loads_of(source)
        since_s = newest_ms / 1e3 - source.interval_s
        alerts = pressure_alerts(loads, foreseen, [s.since(since_s) for s in rates])
    except HarnessError as why:
        troubles.append(f"capacity: {why}")
    return LiveView(
        kept=kept,
        rates=rates,
        latency=_latency(rows, round(bucket_s * 1e3)),
        mean_ms=mean_ack_ms(_of_span(rows, span)),
        loads=loads,
        foreseen=foreseen,
        unseen_s=tuple(length_s for length_s in season_s if length_s not in foreseen.season_s),
        alerts=alerts,
        troubles=tuple(dict.fromkeys(troubles)),
    )


def observe_of(
    topology: SubmittedTopology, live: LiveRows, running: PhysicalPlan | None = None
) -> Observation:
    """Return what was measured since a plan is in force and its burn-in is over, at most the rows' span.

    Where the plan is in force for less than two burn-ins, all since then is returned, and is not steady.

    Parameters
    ----------
    running : PhysicalPlan, optional
        The plan in force, where somebody knows of a newer one than the kept plan.

    Raises
    ------
    UsageError
        When spouts emitted nothing, or the plan is in force for no whole bucket yet.
    """
    kept = topology.plan
    plan = kept.plan if running is None else running
    since_ms = kept.at_epoch_ms
    if running is not None:
        since_ms = max(since_ms, _last_elsewhere_ms(running, live.table))
    newest_ms = int(pc.max(live.table["bucket_end_ms"]).as_py() or live.span.until_ms)
    burn_in_ms = round(1e3 * topology.experiment.measure.burn_in.least_s)
    steady = newest_ms - since_ms >= 2 * burn_in_ms
    if steady:
        since_ms += burn_in_ms
    span = RowSpan(min(max(live.span.since_ms, since_ms), newest_ms - 1), newest_ms)
    return observe_span(plan, topology.settings(), _of_span(live.table, span), span, steady=steady)


def _latency(rows: pa.Table, bucket_ms: int) -> tuple[tuple[float, float], ...]:
    """Return the mean emit-to-ack latency of each bucket on a common grid."""
    acks = rows.filter(pc.equal(rows["measurement"], Metric.ACK))
    if not acks.num_rows:
        return ()
    slots = np.asarray(acks["bucket_end_ms"].to_numpy()) // bucket_ms
    found = []
    for slot in np.unique(slots):
        mean = mean_ack_ms(acks.filter(pa.array(slots == slot)))
        if mean is not None:
            found.append((float(slot * bucket_ms / 1e3), mean))
    return tuple(found)


def _of_span(rows: pa.Table, span: RowSpan) -> pa.Table:
    end = rows["bucket_end_ms"]
    return rows.filter(pc.and_(pc.greater(end, span.since_ms), pc.less_equal(end, span.until_ms)))


def _last_elsewhere_ms(plan: PhysicalPlan, table: pa.Table) -> int:
    """Return the end of the last bucket that came from another worker than a plan's; 0 where none did."""
    rows = records.metrics(table, plan.nodes).select(["task", "worker", "bucket_end_ms"]).to_pandas()
    planned = rows["task"].map({task: executor.worker.label for task, executor in plan.by_task.items()})
    elsewhere = planned.notna() & (planned != rows["worker"].astype(str))
    return int(rows["bucket_end_ms"][elsewhere].max()) if elsewhere.any() else 0


def moved_elsewhere(plan: PhysicalPlan, rows: pa.Table, newest_ms: int) -> bool:
    """Return True where the newest reports come from other workers than a plan's."""
    newest = _of_span(rows, RowSpan(newest_ms - round(SILENT_S * 1e3), newest_ms)).sort_by("bucket_end_ms")
    tasks, workers = newest["task"].to_pylist(), newest["worker"].cast(pa.string()).to_pylist()
    last = {task: worker for task, worker in zip(tasks, workers, strict=True) if task in plan.by_task}
    return any(plan.by_task[task].worker.label != worker for task, worker in last.items())
