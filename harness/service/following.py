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
from harness.service.own_load import OwnLoad

POLL_S = 0.5
ASK_EVERY_S = 5.0
"""Time between two questions whether a silent run is measured still, and whether a client is there."""
OVER = "event: over\ndata: {}\n\n"
GONE = "event: gone\ndata:\n\n"
"""Sent last of a run whose folder is not there any more."""
STILL_HERE = ": still here\n\n"


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


class RunFollowers:
    """Streams of events, for any number of clients of each run: its file is read once for all of them.

    Parameters
    ----------
    stopping : callable
        Whether the server ends.
    load : OwnLoad
        What the service takes; clients are told with the events.
    """

    def __init__(self, stopping: Callable[[], bool], load: OwnLoad) -> None:
        self._stopping = stopping
        self._load = load
        self._feeds: dict[Path, _Feed] = {}

    async def server_sent(self, run: Run, skip: int) -> AsyncIterator[str]:
        """Yield a run's events in the format of ``text/event-stream``, until nobody measures it any more.

        Parameters
        ----------
        skip : int
            Lines that the client has (its ``Last-Event-ID``).

        Yields
        ------
        str
            The events that are new, one a line of ``progress.jsonl``, with the line's number from 1 as
            ``id``, and ``cost``, what the service takes. Last ``over``; ``gone`` where the run was deleted.
        """
        feed = self._feeds.get(run.path)
        if feed is None or feed.over:
            feed = self._feeds[run.path] = _Feed(run, self._stopping)
        feed.clients += 1
        try:
            while True:
                grown = feed.grown
                if len(feed.sent) > skip:
                    yield "".join(feed.sent[skip:]) + self._cost()
                    skip = len(feed.sent)
                if feed.over:
                    if not self._stopping():
                        yield feed.over
                    return
                try:
                    await asyncio.wait_for(grown.wait(), ASK_EVERY_S)
                except TimeoutError:  # a client that is gone is noticed when something is sent
                    yield self._cost()
        finally:
            feed.clients -= 1
            if not feed.clients:
                feed.task.cancel()
                if self._feeds.get(run.path) is feed:
                    del self._feeds[run.path]

    def _cost(self) -> str:
        """Return the service's own load as an event; a comment where it is not known yet."""
        self._load.sample()
        return f"event: cost\ndata: {self._load.words}\n\n" if self._load.words else STILL_HERE


class _Feed:
    """A run's events as they are sent, read by a task of its own until the run or its last client is gone.

    Attributes
    ----------
    sent : list of str
        What is sent for each line of the file.
    over : str
        What is sent last, once no more comes.
    grown : asyncio.Event
        Set when there is more than before; another one stands here from then on.
    """

    def __init__(self, run: Run, stopping: Callable[[], bool]) -> None:
        self.sent: list[str] = []
        self.over = ""
        self.grown = asyncio.Event()
        self.clients = 0
        self.task = asyncio.create_task(self._read(run, stopping))

    async def _read(self, run: Run, stopping: Callable[[], bool]) -> None:
        asked_s, live = time.monotonic(), _measured(run)
        written = live or (run.path / PROGRESS).is_file()
        reader = ProgressReader(run.path)
        over = OVER.format("")
        try:
            while not stopping():
                events = reader.read() if written else await asyncio.to_thread(events_of, run)
                first = len(self.sent) + 1
                self.sent += [f"id: {n}\ndata: {_without_plan(e)}\n\n" for n, e in enumerate(events, first)]
                if not live:
                    over = OVER.format("report" if (run.path / "report.html").is_file() else "")
                    break
                if events:
                    self._tell()
                elif time.monotonic() - asked_s > ASK_EVERY_S:  # what was written by its end is read first
                    asked_s, live = time.monotonic(), _measured(run)
                await asyncio.sleep(POLL_S if live else 0)
        except (HarnessError, OSError):  # of a run that is damaged, or deleted under the page
            pass
        finally:
            self.over = over if is_there(run) else GONE
            self._tell()

    def _tell(self) -> None:
        told, self.grown = self.grown, asyncio.Event()
        told.set()


def is_there(run: Run) -> bool:
    """Return False once a run's folder was deleted."""
    return (run.path / "environment.json").is_file()


def _measured(run: Run) -> bool:
    try:
        return being_measured(run.path)
    except UsageError:  # deleted under the page
        return False


def _without_plan(event: ProgressEvent) -> str:
    """Return an event as JSON, its plan only by that there is one: the page asks for the drawing."""
    said = event.model_copy(update={"plan": None}).line()
    return f'{said[:-1]},"planned":true}}' if event.plan else said
