"""``progress.jsonl``: the campaign's events as they happen, a line each, and reading them from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from io import BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import UsageError
from harness.experiments.contracts import Phase, Progress
from harness.machine.locks import is_held
from harness.plans import PhysicalPlan
from harness.runs import utc_now

PROGRESS = "progress.jsonl"
LEAST_APART_MS = 1000
"""Lines within one phase of a step are at least so far apart; a new phase is written at once."""

ProgressKind = Literal["begin", "phase", "progress", "end"]


class ProgressEvent(BaseModel):
    """A line of ``progress.jsonl``.

    Attributes
    ----------
    time : datetime
        UTC; of a simulated run, on its virtual clock.
    event : ProgressKind
        The run's measuring began, or goes on; a step entered a phase; time passed in it; measuring ended.
    step : int, optional
        From 0; None outside steps.
    steps : int
        How many the experiment has.
    phase : Phase, optional
    label : str
        The step's configuration in words.
    rate_tps, latency_ms : float, optional
        Of what came out in the last few seconds.
    ledger : mapping
        Counts of messages: see ``harness.experiments.contracts.Progress``.
    left_s : float, optional
        Until the last step ends, at most about.
    machine_busy_pct, machine_steal_pct : float, optional
        See ``harness.experiments.contracts.Progress``.
    detail : str
    plan : PhysicalPlan, optional
        In the line from which on it is in force; the key is left out of all others.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")  # a later harness may write more

    time: datetime
    event: ProgressKind
    step: int | None = None
    steps: int = 0
    phase: Phase | None = None
    label: str = ""
    rate_tps: float | None = None
    latency_ms: float | None = None
    ledger: Mapping[str, int] = {}
    left_s: float | None = None
    machine_busy_pct: float | None = None
    machine_steal_pct: float | None = None
    detail: str = ""
    plan: PhysicalPlan | None = None

    @classmethod
    def of(cls, now: Progress, event: ProgressKind) -> ProgressEvent:
        """Return the line for a moment of the campaign."""
        at = utc_now() if now.epoch_ms is None else datetime.fromtimestamp(now.epoch_ms / 1000, UTC)
        return cls(
            time=at,
            event=event,
            step=now.step,
            steps=now.steps,
            phase=now.phase,
            label=now.label,
            rate_tps=now.rate_tps,
            latency_ms=now.latency_ms,
            ledger=now.ledger,
            left_s=now.left_s,
            machine_busy_pct=now.machine_busy_pct,
            machine_steal_pct=now.machine_steal_pct,
            detail=now.detail,
            plan=now.plan,
        )

    @property
    def progress(self) -> Progress | None:
        """The moment of the campaign; None outside steps."""
        if self.step is None or self.phase is None:
            return None
        return Progress(
            self.step,
            self.steps,
            self.phase,
            self.label,
            self.rate_tps,
            self.latency_ms,
            self.left_s,
            self.detail,
            self.ledger,
            self.plan,
            round(self.time.timestamp() * 1000),
            self.machine_busy_pct,
            self.machine_steal_pct,
        )

    def line(self) -> str:
        """Return it as JSON without a line's end."""
        left_out = set() if self.plan else {"plan"}
        return json.dumps(self.model_dump(mode="json", exclude=left_out), separators=(",", ":"))


class ProgressFile:
    """Appends a run's events to its ``progress.jsonl``, each line flushed; a watcher of the campaign.

    A disk that is full loses lines of this file and stops no campaign.

    Parameters
    ----------
    run : Path
        The run directory.
    steps : int
        How many the experiment has.
    masked : callable
        Takes secrets out of a text.
    """

    def __init__(self, run: Path, steps: int, masked: Callable[[str], str] = str) -> None:
        self._path = run / PROGRESS
        self._steps = steps
        self._masked = masked
        self._file: BufferedWriter | None = None
        self._last: tuple[int, Phase] | None = None
        self._last_ms = 0
        self._clock_ms: int | None = None

    def __enter__(self) -> Self:
        with suppress(OSError):
            self._file = self._path.open("ab")
            if self._file.tell() and not _ends_a_line(self._path):
                self._file.write(b"\n")  # a harness that was killed left half of one
        self._outside("begin", "")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stopped = isinstance(error, KeyboardInterrupt)
        self._outside("end", "finished" if error is None else "stopped" if stopped else f"failed: {error}")
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def __call__(self, now: Progress) -> None:
        """Write a moment of the campaign, unless the last line is of the same phase and too young."""
        entered = (now.step, now.phase) != self._last
        event = ProgressEvent.of(now, "phase" if entered else "progress")
        at_ms = round(event.time.timestamp() * 1000)
        if not entered and 0 <= at_ms - self._last_ms < LEAST_APART_MS and now.plan is None:
            return
        self._last, self._last_ms, self._clock_ms = (now.step, now.phase), at_ms, now.epoch_ms
        self._write(event)

    def _outside(self, event: ProgressKind, detail: str) -> None:
        at = utc_now() if self._clock_ms is None else datetime.fromtimestamp(self._clock_ms / 1000, UTC)
        self._write(ProgressEvent(time=at, event=event, steps=self._steps, detail=detail))

    def _write(self, event: ProgressEvent) -> None:
        if self._file is None:
            return
        if event.detail:
            event = event.model_copy(update={"detail": self._masked(event.detail)})
        with suppress(OSError):
            self._file.write(event.line().encode() + b"\n")
            self._file.flush()


class ProgressReader:
    """Reads what was appended to a run's ``progress.jsonl`` since it was read last.

    Parameters
    ----------
    run : Path
        The run directory, which another process may be measuring into.
    """

    def __init__(self, run: Path) -> None:
        self._path = run / PROGRESS
        self._offset = 0

    def read(self) -> list[ProgressEvent]:
        """Return the events of whole lines, oldest first; a line that is none is passed over."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except OSError:  # not there yet, or deleted meanwhile
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        events = []
        for line in whole.splitlines():
            with suppress(ValidationError):
                events.append(ProgressEvent.model_validate_json(line))
        return events


def being_measured(run: Path) -> bool:
    """Return whether a process holds a run to measure into it.

    Raises
    ------
    UsageError
        When the folder is no run directory any more.
    """
    try:
        return is_held(run / "experiment.yaml")
    except OSError as error:
        raise UsageError(f"{run}: cannot be read: {error.strerror}", "was it deleted?") from None


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
