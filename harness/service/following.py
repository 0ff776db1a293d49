"""A run's events as server-sent events: what there is at once, then each line as it is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from pathlib import Path

from harness.errors import HarnessError, UsageError
from harness.experiments.progress import PROGRESS, ProgressEvent, ProgressReader, being_measured
from harness.experiments.step_progress import recorded_progress
from harness.plans import PhysicalPlan
from harness.runs import Run

POLL_S = 0.5
ASK_EVERY_S = 5.0
"""Time between two questions whether a silent run is measured still."""


def events_of(run: Run) -> tuple[ProgressEvent, ...]:
    """Return a run's events until now: those that were written, else made again of what was measured."""
    if (run.path / PROGRESS).is_file():
        return tuple(ProgressReader(run.path).read())
    return _recorded(run.path, run.finished_steps)


@lru_cache(maxsize=8)
def _recorded(path: Path, _finished: tuple[int, ...]) -> tuple[ProgressEvent, ...]:
    return tuple(recorded_progress(Run(path)))


def plan_of(run: Run, step: int) -> PhysicalPlan | None:
    """Return the physical plan of a step, of one that is measured now, too; None where nobody knows it."""
    if step in run.finished_steps:
        return run.plan(step).start
    return next((e.plan for e in reversed(events_of(run)) if e.step == step and e.plan), None)


async def server_sent(run: Run, skip: int, stopping: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield a run's events in the format of ``text/event-stream``, until nobody measures it any more.

    Parameters
    ----------
    skip : int
        Lines that the client has (its ``Last-Event-ID``).
    stopping : callable
        Whether the server ends.

    Yields
    ------
    str
        The events that are new, one a line of ``progress.jsonl``, with the line's number from 1 as ``id``;
        last ``over``.
    """
    number, asked_s, live = 0, time.monotonic(), _measured(run)
    written = live or (run.path / PROGRESS).is_file()
    reader = ProgressReader(run.path)
    while not stopping():
        try:
            events = reader.read() if written else await asyncio.to_thread(events_of, run)
        except (HarnessError, OSError):  # of a run that is damaged, or deleted under the page
            yield "event: over\ndata: \n\n"
            return
        lines = [
            f"id: {n}\ndata: {_without_plan(e)}\n\n" for n, e in enumerate(events, number + 1) if n > skip
        ]
        number += len(events)
        if lines:  # sent at once: a client that is gone is noticed between two sends only
            yield "".join(lines)
        if not live:
            yield f"event: over\ndata: {'report' if (run.path / 'report.html').is_file() else ''}\n\n"
            return
        if not events and time.monotonic() - asked_s > ASK_EVERY_S:
            asked_s, live = time.monotonic(), _measured(run)  # what was written by its end is read first
            yield ": still here\n\n"
        await asyncio.sleep(POLL_S if live else 0)


def _measured(run: Run) -> bool:
    try:
        return being_measured(run.path)
    except UsageError:  # deleted under the page
        return False


def _without_plan(event: ProgressEvent) -> str:
    """Return an event as JSON, its plan only by that there is one: the page asks for the drawing."""
    said = event.model_copy(update={"plan": None}).line()
    return f'{said[:-1]},"planned":true}}' if event.plan else said
