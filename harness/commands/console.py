"""Progress of a run as the user sees it: a live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.status import Status

from harness.backends.hosts.ansible import TaskDone
from harness.experiments.contracts import Progress as CampaignProgress

PLAIN_EVERY_S = 15.0
"""Outside a terminal a line is printed when the phase changes, and at most this often within one."""


class ProgressDisplay:
    """Shows the campaign's progress.

    Parameters
    ----------
    console : rich.console.Console
        Where to show it; stderr, so that stdout stays for results.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._last: tuple[int, str] = (-1, "")
        self._last_time = 0.0
        self._live: Progress | None = None
        self._task: TaskID | None = None
        self._total_s = 0.0
        if console.is_terminal:
            self._live = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[seen]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=console,
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
            self._task = self._live.add_task("starting", total=None, seen="", left="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self.console.print(text, highlight=False, markup=False)

    def __call__(self, now: CampaignProgress) -> None:
        """Show where the campaign is."""
        seen = []
        if now.rate_tps is not None:
            seen.append(f"{now.rate_tps:.0f}/s")
        if now.latency_ms is not None:
            seen.append(f"{now.latency_ms:.1f} ms")
        step = f"step {now.step + 1}/{now.steps} {now.label}"
        where = f"{step} {now.phase}"
        left = "" if now.left_s is None else f"about {_duration(now.left_s)} left"
        if now.phase == "done":
            self.say(f"{where}: {now.detail}")
        elif now.phase == "again":
            self.say(f"{step} is measured again: {now.detail}")
        elif now.phase == "declined":
            self.say(f"{step} is declined: {now.detail}")
        elif self._live is not None and self._task is not None:
            if now.left_s is not None:
                self._total_s = max(self._total_s, now.left_s)
                self._live.update(self._task, total=self._total_s, completed=self._total_s - now.left_s)
            text = " ".join([*seen, now.detail])
            self._live.update(self._task, description=where, seen=text, left=left)
        elif (now.step, now.phase) != self._last or time.monotonic() - self._last_time > PLAIN_EVERY_S:
            self._last, self._last_time = (now.step, now.phase), time.monotonic()
            self.say(", ".join(part for part in (where, *seen, now.detail, left) if part))


class HostsDisplay:
    """Shows what is done to hosts: a line for each change, and in a terminal the task at hand.

    Parameters
    ----------
    console : rich.console.Console
        Where to show it; stderr, so that stdout stays for results.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._status = Status("", console=console) if console.is_terminal else None
        self._task = ""
        self._hosts: list[str] = []

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self.console.print(text, highlight=False, markup=False)

    def __call__(self, done: TaskDone) -> None:
        """Show what a task on a host came to."""
        if done.outcome == "skipped":
            return
        if done.task != self._task:
            self._task, self._hosts = done.task, []
            if self._status is None:
                self.say(f"{done.task}")
        self._hosts.append(done.host)
        if done.message and done.outcome == "ok":
            self.say(f"  {done.host}: {done.message}")
        elif done.outcome != "ok":
            self.say(
                f"  {done.host}: {done.outcome}"
                if self._status is None
                else f"{done.host}: {done.task}: {done.outcome}"
            )
        if self._status:
            self._status.update(escape(f"{done.task} ({', '.join(self._hosts)})"))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
