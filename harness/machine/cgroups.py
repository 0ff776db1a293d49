"""CPU quotas for worker nodes: one control group a node, holding its supervisor and its workers.

Where one node has a quota, those without have a group, too: nodes are in each other's way as equals.

Version 1 (a ``cpu`` hierarchy) and version 2 (the unified one) are supported, wherever a group below
this process's own may be made.

The groups are idle ones (``cpu.idle``, Linux 5.15): who is outside wakes at once, a generator most of all.
As ordinary groups, whatever they weighed, all that had waited for a new period ran before it.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from harness.errors import ClusterError, UsageError

PERIOD_US = 100_000
"""Period over which a quota is counted, the kernel's default."""
PREFIX = "storm-harness-"
_STALE_S = 60.0


class CpuQuotas:
    """Control groups of the worker nodes that have a quota.

    Parameters
    ----------
    quota_cores : mapping
        Cores that each node may use, by its name; 0.5 is half of one.

    Raises
    ------
    UsageError
        When this machine allows no control groups; the message says what is missing.
    """

    def __init__(self, quota_cores: Mapping[str, float]) -> None:
        if reason := obstacle():
            hint = "run as root, in a delegated cgroup, or without quotas"
            raise UsageError(f"cpu_quota_cores: {reason}", hint)
        base = _base()
        _remove_stale(base)
        self._folder = base / f"{PREFIX}{uuid.uuid4().hex[:12]}"
        self._groups: dict[str, Path] = {}
        self._folder.mkdir()
        try:
            if _unified():
                _write(self._folder / "cgroup.subtree_control", "+cpu")
            if (idle := self._folder / "cpu.idle").exists():  # older kernels have none
                _write(idle, "1")
            for node, cores in quota_cores.items():
                self._limit(node, cores)
        except OSError as e:
            self.remove()
            reason = f"cpu_quota_cores: {e.filename}: {e.strerror}"
            raise UsageError(reason, "a quota is at least 0.01 cores") from e

    def limit(self, node: str, cores: float) -> None:
        """Give a node a quota that comes later; one that it has stays.

        Raises
        ------
        ClusterError
            When the control group cannot be made.
        """
        try:
            if node not in self._groups:
                self._limit(node, cores)
        except OSError as e:
            raise ClusterError(f"{node} gets no CPU quota: {e.filename}: {e.strerror}") from e

    def _group(self, node: str) -> Path:
        if node not in self._groups:
            (self._folder / node).mkdir()
            self._groups[node] = self._folder / node
        return self._groups[node]

    def _limit(self, node: str, cores: float) -> None:
        group = self._group(node)
        if _unified():
            _write(group / "cpu.max", f"{round(cores * PERIOD_US)} {PERIOD_US}")
        else:
            _write(group / "cpu.cfs_period_us", str(PERIOD_US))
            _write(group / "cpu.cfs_quota_us", str(round(cores * PERIOD_US)))

    def add(self, node: str, pid: int) -> None:
        """Put a process, and all it starts from now on, into its node's group, under its quota if it has one.

        One that ended meanwhile is fine.

        Raises
        ------
        ClusterError
            When the kernel refuses the process, as it does with one of real-time priority.
        """
        try:
            _write(self._group(node) / "cgroup.procs", str(pid))
        except ProcessLookupError:
            return
        except OSError as e:
            reason = f"process {pid} of {node} cannot be put into its control group: {e.strerror}"
            raise ClusterError(reason) from e

    def release(self) -> None:
        """Take processes that go on from under their quotas, and remove the groups."""
        for group in self._groups.values():
            while pids := (group / "cgroup.procs").read_text().split():
                for pid in pids:
                    with suppress(ProcessLookupError):  # it ended
                        _write(self._folder.parent / "cgroup.procs", pid)
        self.remove()

    def remove(self) -> None:
        """Remove the groups, once their processes have ended."""
        for folder in (*self._groups.values(), self._folder):
            _remove(folder)


def obstacle() -> str | None:
    """Return why no CPU quota can be set here, or None."""
    return _tried()[0]


def kind_of_groups() -> str:
    """Return how nodes' groups give way here: ``idle``, or ``ordinary`` where the kernel has no idle ones.

    Examples
    --------
    >>> kind_of_groups() in ("idle", "ordinary")
    True
    """
    return "idle" if _tried()[1] else "ordinary"


def _tried() -> tuple[str | None, bool]:
    """Return the obstacle to a group with a quota, and whether groups may be idle."""
    try:
        base = _base()
    except LookupError as e:
        return str(e), False
    trial = base / f"{PREFIX}{uuid.uuid4().hex[:12]}"
    try:
        if _unified() and "cpu" not in (base / "cgroup.subtree_control").read_text().split():
            _write(base / "cgroup.subtree_control", "+cpu")
        trial.mkdir()
    except OSError as e:
        return f"{base}: {e.strerror}", False
    # an ordinary folder, where none of the kernel's files appeared, is no control group
    found = (trial / ("cpu.max" if _unified() else "cpu.cfs_quota_us")).exists()
    idle = (trial / "cpu.idle").exists()
    _remove(trial)
    return None if found else f"{base} has no cpu controller", idle


def _unified() -> bool:
    return _hierarchy()[1] == ""


def _base() -> Path:
    """Return the folder of this process's control group in the hierarchy that has the CPU.

    Raises
    ------
    LookupError
        When there is none; the message says what is missing.
    """
    mount, controllers, root = _hierarchy()
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, listed, path = line.split(":", 2)
        if (controllers in listed.split(",")) if controllers else listed == "":
            inner = os.path.relpath(path, root)
            folder = mount if inner.startswith("..") else mount / inner
            return folder if folder.is_dir() else mount
    raise LookupError("this process is in no cpu cgroup")


def _hierarchy() -> tuple[Path, str, str]:
    """Return where the CPU controller is mounted, its name ("" in version 2), and the mount's own root."""
    unified: tuple[Path, str, str] | None = None
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        root, mount = fields.split(" ")[3:5]
        if kind == "cgroup" and "cpu" in options.split(","):
            return Path(mount), "cpu", root
        if kind == "cgroup2":
            unified = Path(mount), "", root
    if unified is None:
        raise LookupError("no cpu cgroup is mounted")
    return unified


def _remove_stale(base: Path) -> None:
    """Remove what a cluster that was killed has left: groups without processes, not quite new."""
    for folder in base.glob(f"{PREFIX}*"):
        if time.time() - folder.stat().st_mtime > _STALE_S:
            for group in folder.iterdir():
                if group.is_dir():
                    _remove(group)
            _remove(folder)


def _remove(folder: Path) -> None:
    with suppress(OSError):  # it is gone, or a process is still in it: the next start tries again
        folder.rmdir()


def _write(file: Path, text: str) -> None:
    file.write_text(text)
