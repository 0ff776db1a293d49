"""Jobs: commands that the service starts, each in processes of its own; all that is known of one is files."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from pydantic import TypeAdapter, ValidationError

from harness.errors import HarnessError
from harness.experiments.loading import shipped_folders
from harness.machine.locks import is_held, take
from harness.machine.machine_lock import ITS_TURN, WAITING
from harness.machine.whole_files import write_atomically
from harness.schedulers import SCHEDULERS
from harness.service.job_process import COMMANDS, ENDED, LOG, RESULT
from harness.service.job_types import JobAsked, JobInfo, JobState, ProposeAsked, Proposing, RunAsked
from harness.service.run_index import RunIndex, UnknownName
from harness.tuning import TUNERS

ASKED, BEGUN = "asked.json", "begun.json"
EXPERIMENT = "experiment.yaml"
MOST_RUNNING = 4
"""More wait for nothing but each other, and each takes memory."""
JUDGED = (0, 3, 4)
"""Exit statuses of a command that did what it was asked; a run's verdict may be another than valid."""
LOG_LINES = 40
NAMING: Mapping[Proposing, str] = {"tune": "--tuner", "schedule": "--scheduler"}
"""Options by which commands are told whom to ask."""
_asked: TypeAdapter[JobAsked] = TypeAdapter(JobAsked)
_RUN = re.compile(r"run directory (.+)$", re.MULTILINE)


class Busy(HarnessError):
    """So many jobs are running that another one has to wait, or this one runs already."""


class Jobs:
    """The jobs of a folder, and those processes that this service started.

    Parameters
    ----------
    folder : Path
        Of jobs, one folder each; made with the first.
    runs : Path
        Where runs go.
    index : RunIndex
        The runs that jobs may name.
    """

    def __init__(self, folder: Path, runs: Path, index: RunIndex) -> None:
        self.folder = folder
        self._runs = runs
        self._index = index
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, asked: RunAsked | ProposeAsked) -> JobInfo:
        """Start a job.

        Raises
        ------
        UnknownName
            When it names an experiment, run, scheduler or tuner that nobody here knows.
        Busy
            When too many are running.
        """
        self._require_room()
        now = datetime.now(UTC)
        name = f"{now:%Y%m%dT%H%M%SZ}-{asked.kind}-{secrets.token_hex(3)}"
        folder = self.folder / name
        commands = self._commands(asked, folder)
        folder.mkdir(parents=True)
        if isinstance(asked, RunAsked) and asked.file is not None:
            write_atomically(folder / EXPERIMENT, asked.file)
        write_atomically(folder / ASKED, asked.model_dump_json())
        self._begin(folder, commands, attempts=1)
        return self.job(name)

    def again(self, name: str) -> JobInfo:
        """Start a job once more that was interrupted or failed; a run that has begun goes on.

        Raises
        ------
        Busy
            When it runs, is done, or too many are running.
        UnknownName
            When what it asks is no longer known; it then stays as it ended.
        """
        known, folder = self.job(name), self._known(name)
        if known.ongoing or known.state == "done":
            raise Busy(f"job {name} is {known.state}", "start a new one")
        self._require_room()
        if (begun := self._run_path(folder)) is not None and (begun / EXPERIMENT).is_file():
            commands = [_harness("run", "--resume", str(begun), "--wait", "--json")]
        else:
            commands = self._commands(known.asked, folder)
        (folder / ENDED).unlink(missing_ok=True)
        (folder / RESULT).unlink(missing_ok=True)
        self._begin(folder, commands, known.attempts + 1)
        return self.job(name)

    def stop(self, name: str) -> JobInfo:
        """Tell a job of this service to end; it is then interrupted."""
        self._known(name)
        if (process := self._processes.get(name)) is not None:
            _close(process)
            process.wait()
        return self.job(name)

    def jobs(self) -> list[JobInfo]:
        """Return all jobs that can be read, newest first."""
        found = sorted((p.name for p in self.folder.glob("*") if (p / ASKED).is_file()), reverse=True)
        jobs = []
        for name in found:
            try:
                jobs.append(self.job(name))
            except (ValidationError, ValueError, KeyError, OSError):  # somebody wrote over it, or removed it
                continue
        return jobs

    def job(self, name: str) -> JobInfo:
        """Return a job as it stands."""
        folder = self._known(name)
        begun = json.loads((folder / BEGUN).read_text(encoding="utf-8"))
        ended = _read(folder / ENDED)
        state: JobState
        if ended:
            state = "done" if ended["exit_status"] in JUDGED else "failed"
        elif is_held(folder):
            state = "queued" if waits(_said(folder, begun.get("log_bytes", 0))) else "running"
        else:
            state = "interrupted"
        run = self._run_path(folder)
        return JobInfo(
            id=name,
            asked=_asked.validate_json((folder / ASKED).read_bytes()),
            state=state,
            attempts=begun["attempts"],
            started=begun["started"],
            ended=ended.get("ended", ""),
            exit_status=ended.get("exit_status"),
            run="" if run is None else f"{run.parent.name}/{run.name}",
            result=_read(folder / RESULT) or None,
        )

    def log(self, name: str) -> str:
        """Return the last lines that a job's command said."""
        return "\n".join(_said(self._known(name)).splitlines()[-LOG_LINES:])

    def interrupt(self) -> None:
        """Tell all jobs of this service to end, without waiting."""
        for process in self._processes.values():
            _close(process)

    def end(self) -> None:
        """Tell all jobs of this service to end, and wait until nothing of them is left."""
        self.interrupt()
        for process in self._processes.values():
            process.wait()

    def _begin(self, folder: Path, commands: Sequence[Sequence[str]], attempts: int) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        log = folder / LOG
        said = {"attempts": attempts, "started": now, "log_bytes": log.stat().st_size if log.is_file() else 0}
        write_atomically(folder / BEGUN, json.dumps(said))
        write_atomically(folder / COMMANDS, json.dumps(commands))
        lock = take(folder, Busy(f"job {folder.name} runs already", "look at it"))
        try:
            self._processes[folder.name] = subprocess.Popen(
                [sys.executable, "-m", "harness.service.job_process", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(lock,),
            )
        finally:
            os.close(lock)  # the process has it now, as long as it lives

    def _commands(self, asked: RunAsked | ProposeAsked, folder: Path) -> list[list[str]]:
        if isinstance(asked, RunAsked):
            return [self._run_command(asked, folder)]
        for kind, names, known in (
            ("tuner", asked.tuners, list(TUNERS)),
            ("scheduler", asked.schedulers, list(SCHEDULERS)),
        ):
            for name in names:
                if name not in known:  # a client cannot name code to load
                    raise UnknownName(kind, name, known)
        experiment, _, start = asked.run.rpartition("/")
        run = self._index.run(experiment, start)
        finished = run.finished_steps
        if not finished or (asked.step is not None and asked.step not in finished):
            raise UnknownName("step", str(asked.step), [str(n) for n in finished])
        same = ["--json", *([] if asked.step is None else ["--step", str(asked.step)])]
        same += ["--rate", repr(asked.rate_tps)] if asked.rate_tps else []
        return [
            _harness(command, str(run.path), *same, *(word for n in names for word in (NAMING[command], n)))
            for command, names in asked.commands.items()
        ]

    def _run_command(self, asked: RunAsked, folder: Path) -> list[str]:
        source = str(folder / EXPERIMENT)
        if asked.experiment is not None:
            if asked.experiment not in (known := shipped()):
                raise UnknownName("experiment", asked.experiment, list(known))
            source = str(known[asked.experiment])
        settings = ["--set", "cluster.kind=simulator"] if asked.simulated else []
        return _harness("run", source, "--runs", str(self._runs), "--wait", "--json", *settings)

    def _known(self, name: str) -> Path:
        names = sorted((p.name for p in self.folder.glob("*") if (p / ASKED).is_file()), reverse=True)
        if name not in names:
            raise UnknownName("job", name, names)
        return self.folder / name

    def _run_path(self, folder: Path) -> Path | None:
        """Return the run directory that a job's command named."""
        found = _RUN.findall(_said(folder))
        if not found:
            return None
        named = Path(found[-1].strip())
        return self._runs / named.parent.name / named.name

    def _require_room(self) -> None:
        running = [name for name, process in self._processes.items() if process.poll() is None]
        if len(running) >= MOST_RUNNING:
            raise Busy(f"{len(running)} jobs are running", f"wait for one: {', '.join(running)}")


def waits(said: str) -> bool:
    r"""Return True where a command, by what it said so far, waits until the machine measures no other run.

    Examples
    --------
    >>> line = "process 7 is measuring quick on this machine: waiting until it has ended"
    >>> waits(line), waits(f"{line}\nit has ended: this run has the machine"), waits("asking ds2")
    (True, False, False)
    """
    return said.rfind(WAITING) > said.rfind(ITS_TURN)


def shipped() -> dict[str, Path]:
    """Return the shipped experiments' files by the names that ``harness run`` takes."""
    found: dict[str, Path] = {}
    for folder in shipped_folders():
        for path in sorted(folder.rglob("*.yaml")):
            found.setdefault(str(path.relative_to(folder).with_suffix("")), path)
    return found


def _harness(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "harness", *arguments]


def _close(process: subprocess.Popen[bytes]) -> None:
    pipe: IO[bytes] | None = process.stdin
    if pipe is not None and not pipe.closed:
        pipe.close()


def _read(path: Path) -> dict[str, object]:
    if not path.is_file():
        return {}
    said: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return said


def _said(folder: Path, since_bytes: int = 0) -> str:
    """Return what a job's commands said, all of it or since there was so much."""
    path = folder / LOG
    if not path.is_file():
        return ""
    with path.open("rb") as log:
        log.seek(since_bytes)
        return log.read().decode(errors="replace")
