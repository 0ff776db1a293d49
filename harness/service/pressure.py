"""Executors' loads, and warnings of components that are or will be in back-pressure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.forecasts import DEFAULT
from harness.forecasts.alerting import find_alerts
from harness.forecasts.foreseeing import RateLimit, Rule, waiting_after
from harness.forecasts.histories import SubjectHistory
from harness.protocols import Observation, RateHistory
from harness.service.answers import TaskPerformance
from harness.service.live_forecast import LiveForecast
from harness.service.questions import assess_tasks

ALERT_PROBABILITY = 0.5
FULL_PCT = 100.0


@dataclass(frozen=True)
class ExecutorLoad:
    """An executor's share of its thread's time, in percent, and where it runs."""

    component: str
    executor: str
    worker: str
    arrivals_tps: float
    busy_pct: float


@dataclass(frozen=True)
class PressureAlert:
    """A component that is, or will probably be, in back-pressure.

    Attributes
    ----------
    component : str
        The one whose executor is full.
    ahead_s : float
        0 where it is so now.
    probability : float
    rule : {'load', 'rate', 'backlog'}
        ``load`` where it is so now; else the rule that foresees it (``harness.forecasts.foreseeing``).
    """

    component: str
    ahead_s: float
    probability: float
    rule: Literal["load"] | Rule = "load"

    @property
    def text(self) -> str:
        """The alert in words."""
        if self.rule == "load":
            return f"{self.component} is in back-pressure: an executor of it needs all of its thread's time"
        ahead = f"{self.component} will be in back-pressure in {self.ahead_s:.0f} s"
        why = ": tuples that came before still wait" if self.rule == "backlog" else ""
        return f"{ahead}{why} (probability {self.probability:.2f})"


def loads_of(source: Observation) -> tuple[ExecutorLoad, ...]:
    """Return how full each executor that receives tuples is, fullest first."""
    workers = {e.label: e.worker.label for e in source.plan.executors}
    found: dict[str, list[TaskPerformance]] = {}
    for row in assess_tasks(source):
        found.setdefault(row.executor, []).append(row)
    loads = (
        ExecutorLoad(
            component=rows[0].component,
            executor=label,
            worker=workers[label],
            arrivals_tps=sum(row.arrival_rate for row in rows),
            busy_pct=sum(row.capacity or 0.0 for row in rows),
        )
        for label, rows in found.items()
    )
    return tuple(sorted(loads, key=lambda load: -load.busy_pct))


def pressure_alerts(
    loads: Sequence[ExecutorLoad], foreseen: LiveForecast, recent: Sequence[SubjectHistory]
) -> tuple[PressureAlert, ...]:
    """Return an alert for each component that is full now, or will be where the load grows with the traffic.

    Every executor's load is taken to grow in proportion to the rate of all streams of spouts, as the
    service's answers do. So a rate of all is known at which it is full, and what came above that still waits.
    Of several streams each is taken alone, the others as they are.

    Parameters
    ----------
    recent : sequence of SubjectHistory
        Of whole spouts, by stream, in the time that the loads are of; in the same buckets.
    """
    fullest: dict[str, float] = {}
    for load in loads:
        fullest[load.component] = max(fullest.get(load.component, 0.0), load.busy_pct)
    now = [PressureAlert(c, 0.0, 1.0) for c, busy_pct in fullest.items() if busy_pct >= FULL_PCT]
    coming = [
        alert
        for component, busy_pct in fullest.items()
        if recent and 0 < busy_pct < FULL_PCT
        for alert in _coming(component, busy_pct, foreseen, recent)
    ]
    return (*now, *sorted(coming, key=lambda alert: alert.ahead_s))


def _coming(
    component: str, busy_pct: float, foreseen: LiveForecast, recent: Sequence[SubjectHistory]
) -> list[PressureAlert]:
    """Return the first alert of a component whose fullest executor is so busy; none or one."""
    mean_tps = {(s.component, s.stream): float(np.mean(s.history.rate_tps)) for s in recent}
    total_tps = sum(mean_tps.values())
    full_tps = total_tps * FULL_PCT / busy_pct
    every = recent[0].history
    together = RateHistory(
        np.sum([s.history.rate_tps for s in recent], axis=0), every.bucket_s, every.start_s
    )
    waiting = waiting_after(together, full_tps)
    limits = {
        name: RateLimit(rate_tps + full_tps - total_tps, waiting) for name, rate_tps in mean_tps.items()
    }
    answered = [f for f in foreseen.forecasts if f.fine.status == "ok"]
    found = [
        PressureAlert(component, alert.ahead_s - foreseen.since_end_s, alert.probability, alert.rule)
        for alert in find_alerts(answered, limits, DEFAULT, ALERT_PROBABILITY)
    ]
    return sorted(found, key=lambda alert: alert.ahead_s)[:1]
