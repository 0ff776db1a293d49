"""Ansible: what is installed on hosts. The only module that imports ``ansible_runner``.

Every run keeps its whole output in a log. A user sees a line for each thing that changed and, when a task
fails, one line with host, task and message.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from harness.backends.hosts.terraform import infra_folder
from harness.errors import ClusterError, MissingTool

MOST_LOGS = 20
MOST_CHARACTERS = 400
SECRET = re.compile(r"PASSWORD|TOKEN|SECRET|CREDENTIAL")
"""Environment variables that Ansible does not need: the library keeps a copy of its environment in a file."""


@dataclass(frozen=True)
class TaskDone:
    """Outcome of a task on a host: ``ok``, ``changed``, ``skipped``, ``failed`` or ``unreachable``."""

    host: str
    task: str
    outcome: str
    message: str = ""
    output: str = ""


Watcher = Callable[[TaskDone], None]


@dataclass
class PlaybookResult:
    """Result of a playbook.

    Attributes
    ----------
    ok, changed : dict
        Tasks by host.
    failures : list of TaskDone
        Failed tasks and unreachable hosts, in order.
    log : Path
        The whole output.
    """

    log: Path
    ok: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    failures: list[TaskDone] = field(default_factory=list)
    status: str = ""

    def require_success(self) -> None:
        """Raise ClusterError with the first failure's host, task and message.

        Raises
        ------
        ClusterError
            When there was any.
        KeyboardInterrupt
            When the user ended it.
        """
        if self.status == "canceled":
            raise KeyboardInterrupt
        if self.failures:
            raise ClusterError(_told(self.failures), _hint(self.failures[0]), str(self.log))
        if self.status != "successful":
            raise ClusterError(f"ansible ended as {self.status}: {_last_line(self.log)}", log=str(self.log))


def search_path() -> str:
    """Return the PATH on which Ansible's programs are found.

    Raises
    ------
    MissingTool
        When Ansible is not installed.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    there = importlib.util.find_spec("ansible_runner") and shutil.which("ansible-playbook", path=path)
    if not there:
        raise MissingTool("Ansible is not installed", "pip install 'storm-harness[hosts]'")
    return path


def play(
    playbook: str,
    inventory: Path,
    variables: tuple[Path, ...],
    folder: Path,
    watch: Watcher,
) -> PlaybookResult:
    """Run a playbook of ``infra/ansible`` and tell of every task on every host.

    Parameters
    ----------
    playbook : str
        Its name, such as ``site.yml``.
    inventory : Path
        Which hosts there are.
    variables : tuple of Path
        Files of variables; those with secrets have mode 0600.
    folder : Path
        Where logs go.
    watch : callable
        Told what each task came to.

    Raises
    ------
    MissingTool
        When Ansible is not installed.
    """
    path = search_path()
    import ansible_runner  # noqa: PLC0415 (an optional dependency)

    ansible = infra_folder() / "ansible"
    sockets = Path(tempfile.mkdtemp(prefix="harness-ssh-"))  # short: a socket's path has 108 characters
    folder.mkdir(parents=True, exist_ok=True)
    events = _Events(watch)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    secret = {name: os.environ.pop(name) for name in list(os.environ) if SECRET.search(name)}
    try:
        done = ansible_runner.run(
            private_data_dir=str(folder),
            playbook=str(ansible / playbook),
            inventory=str(inventory),
            cmdline=" ".join(f"-e {shlex.quote(f'@{path}')}" for path in variables) or None,
            envvars={
                "PATH": path,
                "ANSIBLE_CONFIG": str(ansible / "ansible.cfg"),
                "ANSIBLE_ROLES_PATH": str(ansible / "roles"),
                "ANSIBLE_HOME": str(folder / "home"),
                "ANSIBLE_LOCAL_TEMP": str(folder / "home" / "tmp"),
                "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_HOST_KEY_CHECKING": "True",  # which the library would switch off
            },
            suppress_env_files=True,
            rotate_artifacts=MOST_LOGS,
            quiet=True,
            event_handler=events.take,
        )
    finally:
        os.environ.update(secret)
        for number, handler in handlers.items():  # the library puts its own in their place
            with suppress(ValueError):  # not in the main thread, where it put none
                signal.signal(number, handler)
        _close(sockets)
    events.played.log = Path(done.config.artifact_dir) / "stdout"
    events.played.status = str(done.status)
    return events.played


class TaskResult(TypedDict, total=False):
    """A task's result on a host: the keys that messages are made of."""

    censored: str
    changed: bool
    msg: object
    stdout: object
    stderr: object
    module_stderr: object


class EventData(TypedDict, total=False):
    """The subject of an event: a task on a host, or all hosts' counts at the end."""

    host: str
    task: str
    res: TaskResult | None
    ignore_errors: bool | None
    ok: dict[str, int]
    changed: dict[str, int]


class RunnerEvent(TypedDict, total=False):
    """An event of the library."""

    event: str
    event_data: EventData


class _Events:
    """Turns the library's events into what we tell."""

    def __init__(self, watch: Watcher) -> None:
        self._watch = watch
        self.played = PlaybookResult(Path())
        self._items: dict[tuple[str, str], str] = {}

    def take(self, event: RunnerEvent) -> bool:
        """Handle an event; it is not kept as a file."""
        data = event.get("event_data", {})
        host, task = data.get("host", ""), _short(data.get("task", ""))
        result: TaskResult = data.get("res") or {}
        kind = event.get("event", "")
        if kind == "runner_item_on_failed":
            self._items.setdefault((host, task), message_of(result))
        elif kind == "runner_on_failed" and not data.get("ignore_errors"):
            message = self._items.pop((host, task), "") or message_of(result)
            self._add(TaskDone(host, task, "failed", message))
        elif kind == "runner_on_unreachable":
            self._add(TaskDone(host, task, "unreachable", message_of(result)))
        elif kind == "runner_on_ok":
            outcome = "changed" if result.get("changed") else "ok"
            output = str(result.get("stdout", "")) if data.get("task") == "Services" else ""
            self._watch(TaskDone(host, task, outcome, _left_out(result), output))
        elif kind == "runner_on_skipped":
            self._watch(TaskDone(host, task, "skipped"))
        elif kind == "playbook_on_stats":
            self.played.ok = dict(data.get("ok", {}))
            self.played.changed = dict(data.get("changed", {}))
        return False

    def _add(self, failure: TaskDone) -> None:
        self.played.failures.append(failure)
        self._watch(failure)


def message_of(result: TaskResult) -> str:
    """Return a failed task's message as one line: the program's own words rather than Ansible's."""
    if result.get("censored"):
        return "the output is hidden, because it may hold a secret"
    texts = [str(result.get(key) or "").strip() for key in ("stderr", "module_stderr", "stdout", "msg")]
    message = str(result.get("msg") or "").strip()
    if message in ("", "non-zero return code") or message.startswith("MODULE FAILURE"):
        message = next((text for text in texts if text and text != message), message)
        message = message.splitlines()[-1] if message else "it says nothing"
    return " ".join(message.split())[:MOST_CHARACTERS]


def _left_out(result: TaskResult) -> str:
    message = result.get("msg")
    return message if isinstance(message, str) and "is left out" in message else ""


def _short(task: str) -> str:
    """Return a task's name without that of its role.

    Examples
    --------
    >>> _short("storm : Unpack the servers")
    'Unpack the servers'
    """
    return task.rsplit(" : ", 1)[-1]


def _told(failures: list[TaskDone]) -> str:
    first = failures[0]
    others = sorted({f.host for f in failures} - {first.host})
    more = f" (and on {', '.join(others)})" if others else ""
    if first.outcome == "unreachable":
        return f"{first.host} is unreachable: {first.message}{more}"
    return f"{first.host}: {first.task}: {first.message}{more}"


def _hint(failure: TaskDone) -> str:
    """Return what to do about a failure whose cause is usual."""
    for pattern, hint in (
        (r"Permission denied \(publickey", "the host does not accept this key or user"),
        (r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed", "it is not the host it was"),
        (
            r"Missing sudo password|sudo: a password is required|not in the sudoers|not allowed to",
            "the user needs sudo without a password",
        ),
        (r"^/\S+: FAILED|packed$", "remove that folder there, and harness provision copies it anew"),
        (r"[Nn]o space left|[Dd]isk full", "make room on that host, then harness provision goes on"),
    ):
        if re.search(pattern, failure.message):
            return hint
    return ""


def _last_line(log: Path) -> str:
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "there is no output"
    return lines[-1].strip() if lines else "there is no output"


def _close(sockets: Path) -> None:
    """End the connections that ssh keeps for the next task."""
    for path in sockets.iterdir():
        command = ["ssh", "-F", "/dev/null", "-o", f"ControlPath={path}", "-O", "exit", "harness"]
        subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    shutil.rmtree(sockets, ignore_errors=True)
