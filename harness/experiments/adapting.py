"""A step whose plan changes while it is measured: each period a scheduler is asked, and its plan is applied.

Messages flow on meanwhile. Each period is a row of ``adaptation.parquet``, with its measurements and its
decision. Messages that were lost or came out twice are counted by the decision that restarted their workers;
the others are unexplained.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.experiments.config import Step
from harness.experiments.contracts import Metrics, WorkerSeen
from harness.experiments.measuring import Measurement, StepToMeasure
from harness.plans import AskedPlacement, PhysicalPlan
from harness.quality import Adaptation, Finding, Quality
from harness.schemas import ADAPTATION

LAG_S = 2.0
"""Metrics of a bucket are with the harness at most so much after its end."""
APPLY_MOST_S = 60.0
"""How long a plan may take until it is in force."""
POLL_S = 0.25
AROUND_S = 5.0
"""A message is a decision's if it was due from so much before it was asked for to so much after it was in
force: it was in a worker that ended, or on its way to one that began."""
MOST_UNEXPLAINED_SHARE = 0.001
"""Of the messages sent, what may be lost or repeated with no decision near it."""
ADAPTED = dict.fromkeys(
    ("plan-unchanged", "steady", "burn-in", "precision", "ledger", "samples", "metrics", "backlog"),
    "the step adapts its plan while it is measured",
)
"""Checks that a step which adapts has not; its own are ``plan-as-decided`` and ``losses-explained``."""

Decision = Literal["applied", "stays", "declined"]


class PeriodSeen(NamedTuple):
    """A period as whoever decides on the next plan sees it.

    Attributes
    ----------
    step : Step
    plan : PhysicalPlan
        In force.
    rate_tps : float
        Messages a second to plan for.
    start_epoch_ms, end_epoch_ms : int
        The period, shifted by what metrics take to arrive.
    metrics : Table
        Rows since the step began; workers by address.
    """

    step: Step
    plan: PhysicalPlan
    rate_tps: float
    start_epoch_ms: int
    end_epoch_ms: int
    metrics: pa.Table


class PeriodDecision(NamedTuple):
    """Decision on a period.

    Attributes
    ----------
    decision : {"applied", "stays", "declined"}
        Whether another plan is to be applied.
    reason : str
    placement : AskedPlacement, optional
        The plan to be applied.
    figures : mapping of str to float
        Of the plan that was in force: columns of ``adaptation.parquet``.
    """

    decision: Decision
    reason: str
    placement: AskedPlacement | None
    figures: dict[str, float]


Adapter = Callable[[PeriodSeen], PeriodDecision]
"""Decides on the next plan."""
PlannedRate = Callable[[float], float]
"""From the rate of the last period to the one that is planned for; here they are the same."""


def last_rate(rate_tps: float) -> float:
    """Return the last period's rate."""
    return rate_tps


def no_adapter(seen: PeriodSeen) -> PeriodDecision:
    """Leave the plan as it is."""
    del seen
    return PeriodDecision("stays", "nobody decides", None, {})


@dataclass
class AdaptedPeriod:
    """A period and what was decided at its end; times of the monotonic clock."""

    start_ns: int
    end_ns: int
    decided: PeriodDecision
    asked_ns: int = 0
    in_force_ns: int = 0

    @property
    def applied(self) -> bool:
        """True where a plan was asked for."""
        return self.asked_ns > 0

    def holds(self, at_ns: np.ndarray) -> np.ndarray:
        """Return which times are near the change of the plan."""
        if not self.applied:
            return np.zeros(at_ns.size, dtype=bool)
        around_ns = round(AROUND_S * 1e9)
        until_ns = self.in_force_ns or self.asked_ns + round(APPLY_MOST_S * 1e9)
        return np.asarray((at_ns >= self.asked_ns - around_ns) & (at_ns <= until_ns + around_ns))


class AdaptingMeasurement(Measurement):
    """Measures one step, and lets its plan be changed at the end of each period.

    Parameters
    ----------
    given : StepToMeasure
        Its interval is as long as it may be.
    metrics : Metrics
        Where the wrappers' metrics arrive.
    adapter : callable
    period_s : float
    periods : list of AdaptedPeriod
        Gets each period.
    planned_rate : callable
        The rate to plan for.
    """

    def __init__(
        self,
        given: StepToMeasure,
        metrics: Metrics,
        adapter: Adapter,
        period_s: float,
        periods: list[AdaptedPeriod],
        planned_rate: PlannedRate = last_rate,
    ) -> None:
        super().__init__(given, tolerant=True)
        limits = self._measure.interval
        whole = limits.model_copy(update={"least_s": limits.most_s, "looks": 1})
        self._measure = self._measure.model_copy(update={"interval": whole})
        self._live = metrics
        self._adapter = adapter
        self._period_s = period_s
        self._planned_rate = planned_rate
        self.periods = periods

    def _measure_until(self, start_ns: int, until_s: float, most_s: float) -> None:
        last_s = self._measure.interval.most_s
        while (due_s := (len(self.periods) + 1) * self._period_s) <= min(until_s, last_s):
            super()._measure_until(start_ns, due_s, most_s)
            self._end_period(start_ns, last=due_s + self._period_s > last_s)
        super()._measure_until(start_ns, until_s, most_s)

    def _end_period(self, start_ns: int, *, last: bool) -> None:
        """Let a period be decided on; after the last one of a step nothing changes."""
        number = len(self.periods)
        begun_ns = self.periods[-1].end_ns if self.periods else start_ns
        now_ns, now_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        shift_ms = round(LAG_S * 1e3)
        length_ms = round((now_ns - begun_ns) / 1e6)
        seen = PeriodSeen(
            step=self._step,
            plan=self._deployment.plan(),
            rate_tps=self._planned_rate(self._step.sent_tps),
            start_epoch_ms=now_ms - length_ms - shift_ms,
            end_epoch_ms=now_ms - shift_ms,
            metrics=self._live.rows(self._up_epoch_ms, now_ms),
        )
        decided = self._adapter(seen)
        if last and decided.placement is not None:
            decided = decided._replace(
                decision="stays", reason=f"the step ends: {decided.reason}", placement=None
            )
        period = AdaptedPeriod(begun_ns, now_ns, decided)
        self.periods.append(period)
        if period.decided.placement is not None:
            self._apply(period, period.decided.placement, number)

    def _apply(self, period: AdaptedPeriod, placement: AskedPlacement, number: int) -> None:
        """Ask for a plan, and wait until it is in force or may no longer take."""
        period.asked_ns = time.monotonic_ns()
        workers = placement.number_of_workers
        configuration = self._step.configuration.model_copy(update={"workers": workers})
        self._deployment.place(configuration, placement)
        limit_ns = period.asked_ns + round(APPLY_MOST_S * 1e9)
        while time.monotonic_ns() < limit_ns:
            self._deployment.check()
            if not placement.differences(self._deployment.plan()) and self._deployment.whole():
                period.in_force_ns = time.monotonic_ns()
                return
            self._show("measure", self._watched.view(), 0.0, f"period {number}: applying a plan")
            time.sleep(POLL_S)

    def _look_at_workers(self) -> dict[str, WorkerSeen]:
        """Return the workers now in use, whose restarts are wanted."""
        self._workers = dict(self._deployment.workers())
        return dict(self._workers)

    def _await_reports(self, by_the_end: object) -> None:
        """Wait for nobody: which workers report is the plan's."""


def adaptation_table(periods: Sequence[AdaptedPeriod], sent: pa.Table, received: pa.Table) -> pa.Table:
    """Return ``adaptation.parquet``: a row a period, with the effect of its decision on messages.

    Parameters
    ----------
    periods : sequence of AdaptedPeriod
    sent, received : Table
        ``harness.experiments.workload_tables``, when all has come out.
    """
    lost_ns, twice_ns = astray(sent, received)
    left_ns = np.sort(received["left_ns"].to_numpy())
    due = dict(zip(sent["message_id"].to_pylist(), sent["scheduled_ns"].to_pylist(), strict=True))
    due_ns = np.array([due.get(i, 0) for i in received["message_id"].to_pylist()], dtype=np.int64)
    came_ns = received["left_ns"].to_numpy()
    rows = []
    for number, p in enumerate(periods):
        inside = (came_ns >= p.start_ns) & (came_ns < p.end_ns) & (due_ns > 0)
        latency_ms = (came_ns[inside] - due_ns[inside]) / 1e6
        first = p.decided
        rows.append(
            {
                "period": number,
                "start_ns": p.start_ns,
                "end_ns": p.end_ns,
                "decision": first.decision,
                "reason": first.reason,
                "asked_ns": p.asked_ns or None,
                "in_force_ns": p.in_force_ns or None,
                "pause_ms": _pause_ms(p, left_ns),
                "lost": int(p.holds(lost_ns).sum()),
                "repeated": int(p.holds(twice_ns).sum()),
                "latency_mean_ms": float(latency_ms.mean()) if latency_ms.size else None,
                "latency_p95_ms": float(np.quantile(latency_ms, 0.95)) if latency_ms.size else None,
                **first.figures,
            }
        )
    return pa.Table.from_pylist(rows, ADAPTATION)


def astray(sent: pa.Table, received: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return when the messages were due that did not come out, and those of which a member came out twice.

    Returns
    -------
    (ndarray of int64, ndarray of int64)
        On the monotonic clock, a time a message.
    """
    good = sent.filter(pc.is_null(sent["error"]))
    ids, due_ns = good["message_id"].to_numpy(), good["scheduled_ns"].to_numpy()
    missing = ~np.isin(ids, received["message_id"].to_numpy())
    members = received.group_by(["message_id", "child", "sink"]).aggregate([([], "count_all")])
    twice = members.filter(pc.greater(members["count_all"], 1))["message_id"].to_numpy()
    return due_ns[missing], due_ns[np.isin(ids, twice)]


def _pause_ms(period: AdaptedPeriod, left_ns: np.ndarray) -> float | None:
    """Return the longest time without an output around a decision; None where no plan was asked for."""
    near = left_ns[period.holds(left_ns)]
    return float(np.diff(near).max() / 1e6) if near.size > 1 else None


def adapted_quality(
    quality: Quality, periods: Sequence[AdaptedPeriod], sent: pa.Table, received: pa.Table
) -> Quality:
    """Return a step's quality with the judgements for one that adapts, in place of those that do not apply.

    Plans are as decided, and losses and repetitions are explained by decisions.
    """
    balanced = bool((quality.ledger or {}).get("balanced"))
    applied = [p for p in periods if p.applied]
    late = [str(i) for i, p in enumerate(periods) if p.applied and not p.in_force_ns]
    lost_ns, twice_ns = astray(sent, received)
    unexplained = []
    for times in (lost_ns, twice_ns):
        near = np.zeros(times.size, dtype=bool)
        for p in applied:
            near |= p.holds(times)
        unexplained.append(int((~near).sum()))
    text = (
        f"of {sent.num_rows} messages {lost_ns.size} lost and {twice_ns.size} repeated,"
        f" {unexplained[0]} and {unexplained[1]} of them with no decision near"
    )
    held = int((quality.ledger or {}).get("absorbed", 0))  # by windows: they are not lost
    unexplained[0] = max(unexplained[0] - held, 0)
    ok = balanced and sum(unexplained) <= MOST_UNEXPLAINED_SHARE * sent.num_rows
    found = Adaptation(
        periods=len(periods),
        applied=len(applied),
        plan_as_decided=Finding(
            ok=not late,
            detail=f"{len(applied)} plans applied in {len(periods)} periods"
            + (f"; not in force after {APPLY_MOST_S:g} s in period {', '.join(late)}" if late else ""),
        ),
        losses_explained=Finding(ok=ok, detail=text + ("" if balanced else "; the ledger does not add up")),
    )
    return quality.model_copy(update={"adaptation": found, "absent": {**quality.absent, **ADAPTED}})
