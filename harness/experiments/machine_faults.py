"""Disturbances of a step by the machine that measures it: a clock that moves, a CPU that others use."""

from __future__ import annotations

from harness.experiments.measure_settings import StealLimits
from harness.experiments.measuring import MachineSeen
from harness.quality import Finding

MOST_CLOCK_MOVE_MS = 100.0
"""Most that the time of day may move against the monotonic clock in an interval. Both follow the same
corrections of the rate, so they part only when the time of day is set, or the machine was suspended."""


def clocks(machine: MachineSeen) -> Finding:
    """Return whether the time of day, which metric buckets are named by, kept to the monotonic clock."""
    moved_ms = (machine.clock_offset_end_ns - machine.clock_offset_start_ns) / 1e6
    way = "forward" if moved_ms > 0 else "back"
    ok = abs(moved_ms) <= MOST_CLOCK_MOVE_MS
    return Finding(
        ok=ok,
        detail=f"the time of day moved by {abs(moved_ms):.2f} ms against the monotonic clock"
        if ok
        else f"the time of day was set {way} by {abs(moved_ms):.0f} ms in the interval, and at most"
        f" {MOST_CLOCK_MOVE_MS:g} ms are allowed",
    )


def alone(machine: MachineSeen) -> Finding:
    """Return whether no cluster came up beside the run in the interval."""
    named = ", ".join(str(pid) for pid in machine.came_up)
    detail = f"another cluster came up on this machine in the interval (process {named})" if named else ""
    return Finding(ok=not named, detail=detail)


def shortcoming(machine: MachineSeen | None, limits: StealLimits) -> str:
    """Say why the step should be measured again for what its machine did; empty where it should not."""
    if machine is None:
        return ""
    if not (moved := clocks(machine)).ok:
        return f"clocks: {moved.detail}"
    if not (beside := alone(machine)).ok:
        return f"alone: {beside.detail}"
    if machine.steal_pct > limits.again:
        found = limits.finding(machine.steal_pct)
        return f"stolen: {found.detail}, measured again above {limits.again:g} %"
    return ""
