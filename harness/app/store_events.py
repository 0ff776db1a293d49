"""Course of a step, as events of a metric store."""

from __future__ import annotations

from harness.backends.influxdb.store import Event
from harness.runs import Run


def events_of(run: Run, step: int) -> list[Event]:
    """Return when a step's configuration was asked for, and when its measured interval began and ended."""
    interval = run.interval(step)
    before_ms = (interval.start_ns - interval.rebalance_start_ns) / 1e6
    name = f"{run.path.parent.name}/{run.path.name}"
    asked = "submit" if interval.submission in ("first", "fresh") else "rebalance"
    times = {
        asked: round(interval.start_epoch_ms - before_ms),
        "start": interval.start_epoch_ms,
        "stop": interval.end_epoch_ms,
    }
    return [Event(kind, at_ms, name, step, interval.configuration) for kind, at_ms in times.items()]
