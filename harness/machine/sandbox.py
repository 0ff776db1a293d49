"""A network and a process tree of our own, which end with the process that made them.

Nimbus has no authentication and runs what it is sent, so Nimbus must not be reachable from outside. Linux
gives every user a private network (127.0.0.0/8 and nothing else) and a private process tree, inside a user
namespace. Three generations of processes live in it:

- outer is the process that the user started: it hands signals on and returns the exit status;
- init is pid 1 of the private tree: it reaps orphans, and its end is the end of everything in the tree;
- command is the harness itself, once more: its children are servers and workers.

When outer is killed, even by ``kill -9``, its parent-death signal ends init, and with init the kernel ends
every process of the tree. The ``unshare`` tool would do the same but for one thing: it blocks SIGTERM and
does not hand it on.

Ctrl-C reaches the command alone, once, as KeyboardInterrupt. A terminal sends it to every process of the
foreground, so only a SIGINT that came from a process is handed on.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from typing import NoReturn

from harness.errors import ClusterError, HarnessError

MARK = "STORM_HARNESS_SANDBOX"
"""Environment variable that names the private network namespace."""
_LAUNCHER_SET_UP_FAILED = 70
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_AWAITED = (signal.SIGCHLD, signal.SIGINT, *_FORWARDED)

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
_PR_SET_PDEATHSIG = 1
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def inside() -> bool:
    """Return True if this process lives in a sandbox."""
    return os.environ.get(MARK, "") == _network()


def obstacle() -> str | None:
    """Return why this machine allows no sandbox, or None where it does.

    Tried for real, in a child process that ends at once.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        reason = ""
        try:
            _unshare_all()
            loopback_up()
            # what most containers refuse, and what makes a process tree of our own usable
            if (grandchild := os.fork()) == 0:
                try:
                    _mount_proc()
                except OSError as e:
                    os.write(write, str(e).encode())
                os._exit(0)
            os.waitpid(grandchild, 0)
        except OSError as e:
            reason = str(e)
        os.write(write, reason.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer or None


def enter(argv: Sequence[str]) -> NoReturn:
    """Replace this process by one that runs a command in a new sandbox and returns its exit status.

    Parameters
    ----------
    argv : sequence of str
        The command, searched on PATH.

    Raises
    ------
    HarnessError
        When the machine allows no sandbox (ask ``obstacle`` first).

    Examples
    --------
    >>> if not inside() and obstacle() is None:  # doctest: +SKIP
    ...     enter([sys.executable, "-m", "harness", *sys.argv[1:]])
    """
    if reason := obstacle():
        raise HarnessError(f"this machine allows no private network and processes: {reason}")
    _exec_launcher("new", argv)


def join(pid: int, argv: Sequence[str]) -> NoReturn:
    """Replace this process by one that runs a command in the network of a sandbox that is up.

    The command gets a process tree of its own: ending it leaves the other sandbox alone.

    Parameters
    ----------
    pid : int
        Any process in that sandbox, as seen from here.
    argv : sequence of str
        The command, searched on PATH.

    Raises
    ------
    ClusterError
        When there is no such process.
    """
    if not os.path.exists(f"/proc/{pid}/ns/net"):
        raise ClusterError(f"the sandbox of process {pid} is gone", "start the cluster again")
    _exec_launcher(str(pid), argv)


def loopback_up() -> None:
    """Switch on the loopback interface, which a new network namespace has but does not use."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = fcntl.ioctl(s, _SIOCGIFFLAGS, struct.pack("16sH14x", b"lo", 0))
        flags = struct.unpack("16sH14x", request)[1]
        fcntl.ioctl(s, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def _exec_launcher(where: str, argv: Sequence[str]) -> NoReturn:
    # A fresh interpreter has one thread, which the kernel asks of whoever makes a user namespace.
    os.execv(sys.executable, [sys.executable, "-m", "harness.machine.sandbox", where, *argv])


# -- the launcher: this module as a program -------------------------------------------------------


def _main(where: str, argv: Sequence[str]) -> int:
    """Run ``argv`` in a new sandbox or in the network of the one that process ``where`` is in.

    ``where-allowed`` is a new one, or none with a warning where the machine allows none.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what the command inherits
    if where == "where-allowed" and (reason := obstacle()):
        sys.stderr.write(f"harness: warning: no private network and processes here: {reason}\n")
        sys.stderr.flush()
        os.execvp(argv[0], list(argv))
    try:
        if where in ("new", "where-allowed"):
            _unshare_all()
            loopback_up()
        else:
            _set_namespaces(int(where))
            _call("unshare", _CLONE_NEWPID | _CLONE_NEWNS)
    except OSError as e:
        sys.stderr.write(f"harness: no sandbox: {e}\n")
        return _LAUNCHER_SET_UP_FAILED
    alive, keep = os.pipe()  # the outer process holds its end as long as it lives
    os.set_inheritable(keep, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)  # none is lost before there is somebody to hand it to
    init = os.fork()
    if init == 0:
        os.close(keep)
        os._exit(_init(alive, argv))
    os.close(alive)
    return _attend(init)


def _init(alive: int, argv: Sequence[str]) -> int:
    """Be pid 1: start the command, reap whatever ends, return the command's status."""
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if select.select([alive], [], [], 0)[0]:
        return 128 + signal.SIGKILL  # the outer process died before the signal was arranged
    _mount_proc()
    os.environ[MARK] = _network()
    command = os.fork()
    if command == 0:
        os.close(alive)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        try:
            os.execvp(argv[0], list(argv))
        except OSError as e:
            sys.stderr.write(f"harness: {argv[0]}: {e.strerror}\n")
            sys.stderr.flush()
        os._exit(127)
    return _attend(command)


def _attend(child: int) -> int:
    """Hand signals, which are blocked, on to a child and return its exit status; reap every other child."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if pid:
            continue
        told = signal.sigwaitinfo(_AWAITED)
        from_a_process = told.si_code <= 0  # the kernel's own, a terminal's among them, are above
        if told.si_signo in _FORWARDED or (told.si_signo == signal.SIGINT and from_a_process):
            os.kill(child, told.si_signo)


def _unshare_all() -> None:
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", _CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWPID | _CLONE_NEWNS)
    for name, line in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def _set_namespaces(pid: int) -> None:
    for name in ("user", "net"):
        fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        try:
            _call("setns", fd, 0)
        finally:
            os.close(fd)


def _mount_proc() -> None:
    """Show the private process tree in /proc."""
    _call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None)
    _call("mount", b"proc", b"/proc", b"proc", ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC), None)


def _call(name: str, *arguments: object) -> None:
    """Make a system call that the standard library lacks.

    Raises
    ------
    OSError
        As the call failed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _network() -> str:
    return os.readlink("/proc/self/ns/net")


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], sys.argv[2:]))
