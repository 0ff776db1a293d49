"""The private network of hosts that are namespaces of this machine (``infra/terraform/hosts/local``).

``hosts.sh`` there makes them; here this process goes into their network, and asks which of them live.
Everything in the sandbox, and everything in a host, holds the lock of a file: who gets it knows that the
kernel has ended all of it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import ClusterError

_CLONE_NEWNET = 0x40000000
PACKAGES = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "runsvdir": "runit",
    "sudo": "sudo",
    "sshd": "openssh-server",
    "fping": "fping",
    "nft": "nftables",
}
"""Programs that local hosts take from this machine, and their Debian packages."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def missing_packages() -> list[str]:
    """Return the Debian packages that local hosts need and this machine lacks."""
    return [package for tool, package in PACKAGES.items() if shutil.which(tool, path=_PATH) is None]


def obstacle() -> str:
    """Return what this process lacks to make local hosts; empty when nothing."""
    if os.geteuid() != 0:
        return "root"
    users = int(Path("/proc/self/uid_map").read_text().split()[2])
    return "" if users > 65535 else "all users of the machine, not those of a namespace"


class HostNetwork:
    """The sandbox of local hosts.

    Parameters
    ----------
    folder : Path
        Where ``hosts.sh`` keeps pid files, locks and logs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def alive(self) -> bool:
        """True where the sandbox is up."""
        return _held(self.folder / "sandbox.lock")

    @property
    def pid(self) -> int:
        """The sandbox's first process, as seen from outside."""
        try:
            return int((self.folder / "sandbox.pid").read_text())
        except (OSError, ValueError):
            raise ClusterError("the hosts' sandbox is gone", "harness provision makes it anew") from None

    def host_alive(self, name: str) -> bool:
        """Return True if a host's first process lives, and so any of its processes."""
        return _held(self.folder / "hosts" / f"{name}.lock")

    def processes(self, name: str) -> tuple[int, ...]:
        """Return a host's processes, as seen from outside: those that it started.

        Others in its network, such as what slows a link, are not the host's.

        Raises
        ------
        ClusterError
            When the host or the sandbox is gone.
        """
        own = _namespace(self._first(name), "pid")
        return tuple(pid for pid in self._in_network(name) if _namespace(pid, "pid") == own)

    def root(self, name: str) -> Path:
        """Return a host's root folder, as seen from outside.

        Raises
        ------
        ClusterError
            When the host or the sandbox is gone.
        """
        return Path(f"/proc/{self._first(name)}/root")

    def _first(self, name: str) -> int:
        """Return a host's first process: it alone is of this program, those that look in are of others."""
        for pid in self._in_network(name):
            with suppress(OSError):  # it ended
                if Path(f"/proc/{pid}/comm").read_text() == "runsvdir\n":
                    return pid
        raise ClusterError(f"host {name} is gone", "harness provision makes it anew")

    def _in_network(self, name: str) -> Iterator[int]:
        try:
            inside = Path(f"/proc/{self.pid}/root/run/netns/{name}").stat().st_ino
        except OSError:
            raise ClusterError(f"host {name} is gone", "harness provision makes it anew") from None
        for folder in Path("/proc").glob("[0-9]*"):
            if _namespace(int(folder.name), "net") == inside:
                yield int(folder.name)

    def dead(self, names: list[str]) -> list[str]:
        """Return the Terraform resources of what is dead among the sandbox and the named hosts.

        A dead sandbox is named alone: what is in it is made anew with it.
        """
        if not self.alive:
            return ["terraform_data.sandbox"]
        return [f'terraform_data.host["{name}"]' for name in names if not self.host_alive(name)]

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this thread, and the processes and threads that it starts, use the hosts' network.

        Raises
        ------
        ClusterError
            When the sandbox is gone, or this user may not go there.
        """
        if not self.alive:
            raise ClusterError("the hosts' sandbox is gone", "harness provision makes it anew")
        before = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            try:
                inside = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
                try:
                    _set_network(inside)
                finally:
                    os.close(inside)
            except PermissionError as e:
                raise ClusterError(f"the hosts' network cannot be entered: {e.strerror}", "be root") from None
            try:
                yield
            finally:
                _set_network(before)
        finally:
            os.close(before)


def _namespace(pid: int, kind: str) -> int | None:
    """Return a process's namespace by its inode, or None once the process has ended."""
    try:
        return Path(f"/proc/{pid}/ns/{kind}").stat().st_ino
    except OSError:
        return None


def _held(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # who asks hinders nobody else who asks
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _set_network(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
