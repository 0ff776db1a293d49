"""The runs that the service knows: found in folders anew each time, addressed by experiment and start."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.app.opened_run import readable_runs
from harness.errors import HarnessError
from harness.runs import Run
from harness.schemas import LATENCIES
from harness.schemas.environment import MachineFacts


class UnknownName(HarnessError):
    """A topology, run, model or scheduler that nobody here knows.

    Parameters
    ----------
    kind, name : str
        What was asked for.
    known : sequence of str
        The names that there are.
    """

    def __init__(self, kind: str, name: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown {kind} {name!r}", f"known are {', '.join(known) or 'none'}")
        self.known = tuple(known)


@dataclass(frozen=True)
class ModelError:
    """A model's errors of a run's leading latency: median and worst of the judged pairs, in percent."""

    model: str
    median_pct: float
    worst_pct: float


@dataclass(frozen=True)
class RunRow:
    """A run as the table of runs shows it.

    Attributes
    ----------
    run : Run
    experiment, start : str
        Its address: the names of its two folders.
    verdict, commit, cluster_kind, machine : str
    steps : int
        Finished ones.
    measure : str
        The latency that ``errors`` are of; empty without any.
    errors : tuple of ModelError
        Smallest median first.
    """

    run: Run
    experiment: str
    start: str
    verdict: str
    commit: str
    cluster_kind: str
    machine: str
    steps: int
    measure: str
    errors: tuple[ModelError, ...]


class RunIndex:
    """Runs below some folders.

    Parameters
    ----------
    folders : sequence of Path
        A run of the same address in a later one is not seen.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)
        self._found: dict[tuple[str, str], Path] = {}

    def runs(self) -> dict[tuple[str, str], Run]:
        """Return every run by experiment and start, newest first."""
        runs: dict[tuple[str, str], Run] = {}
        for folder in self.folders:
            for run in readable_runs(folder):
                runs.setdefault((run.path.parent.name, run.path.name), run)
        return dict(sorted(runs.items(), key=lambda item: (item[0][1], item[0][0]), reverse=True))

    def run(self, experiment: str, start: str) -> Run:
        """Return one run.

        Raises
        ------
        UnknownName
            When there is none of that address; only names that were found are looked up.
        """
        address = experiment, start
        if address in self._found:  # a page asks for its run many times a minute
            with suppress(HarnessError, OSError):
                return Run(self._found[address])
        runs = self.runs()
        if address not in runs:
            raise UnknownName("run", f"{experiment}/{start}", ["/".join(name) for name in runs])
        self._found[address] = runs[address].path
        return runs[address]

    def by_topology(self) -> dict[str, list[Run]]:
        """Return the runs that have a finished step by their topology, newest first.

        A topology goes by its experiment's name, as it does on a cluster.
        """
        found: dict[str, list[Run]] = {}
        for (experiment, _), run in self.runs().items():
            if run.finished_steps:
                found.setdefault(experiment, []).append(run)
        return found

    def rows(self) -> Iterator[RunRow]:
        """Yield the table of runs, newest first; of a damaged run, what can be read."""
        for (experiment, start), run in self.runs().items():
            yield run_row(experiment, start, run)


def run_row(experiment: str, start: str, run: Run) -> RunRow:
    """Return one run's row."""
    said, verdict, machine = run.environment, "unreadable", ""
    try:
        machine = _machine(said.get("machine", {}))
        verdict = run.verdict
        measure, errors = _leading_errors(run)
    except (HarnessError, ValueError, KeyError, TypeError):  # a file that somebody wrote over
        measure, errors = "", ()
    return RunRow(
        run=run,
        experiment=experiment,
        start=start,
        verdict=verdict,
        commit=str(said.get("commit", "")),
        cluster_kind=str(said.get("cluster_kind", "")),
        machine=machine,
        steps=len(run.finished_steps),
        measure=measure,
        errors=errors,
    )


def _machine(said: MachineFacts) -> str:
    if "cores" not in said:
        return ""
    memory = f", {said['memory_bytes'] / 2**30:.0f} GiB" if "memory_bytes" in said else ""
    return f"{said['cores']} cores{memory}{', ' + str(said['cpu']) if said.get('cpu') else ''}"


def _leading_errors(run: Run) -> tuple[str, tuple[ModelError, ...]]:
    """Return the first latency that was judged, and each model's errors of its mean."""
    path = run.path / "summary.json"
    if not path.is_file():
        return "", ()
    rows = json.loads(path.read_text(encoding="utf-8"))["errors"]
    judged = [r for r in rows if r["protocol"] == "ours" and r["statistic"] == "mean" and r["judged"]]
    for measure in LATENCIES:
        mine = [r for r in judged if r["measure"] == measure]
        if mine:
            errors = [
                ModelError(r["model"], r["median_abs_error_pct"], r["worst_abs_error_pct"]) for r in mine
            ]
            return measure.words, tuple(sorted(errors, key=lambda e: e.median_pct))
    return "", ()
