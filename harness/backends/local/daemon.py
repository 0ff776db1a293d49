"""A local cluster that stays up by itself: ``harness cluster up``, ``status`` and ``down``.

The servers live in a sandbox whose outer process is detached from the terminal. A state file says where;
what it says is checked against the processes and servers themselves every time it is read.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Literal, NoReturn

import psutil
from pydantic import Field, ValidationError

from harness.backends.local.cluster import LocalCluster
from harness.errors import ClusterError, HarnessError, UsageError, describe_fault
from harness.experiments.clusters import Local
from harness.machine import sandbox
from harness.machine.locks import held
from harness.machine.machine_lock import coming_up
from harness.machine.room import require_room
from harness.machine.server_config import LOOPBACK
from harness.machine.server_process import kafka_answers, tail, zookeeper_answers
from harness.machine.servers import ServerHomes, cache_folder, quiet
from harness.plans import Frozen, Positive

POLL_S = 0.2
START_TIMEOUT_S = 180.0
ANSWER_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_PROGRAM = (sys.executable, "-m", "harness.backends.local.daemon")


class Shape(Frozen):
    """Parts of the cluster: worker nodes, slots, heaps, further jars."""

    nodes: Positive = 2
    slots_per_node: Positive = 2
    worker_heap_mb: Positive = 256
    extlib: tuple[Path, ...] = ()


class DaemonState(Frozen):
    """The state file: which process holds the cluster, and how far it is.

    Of one that failed: why, the log of the server that died and its last lines, and whether what was asked
    for cannot be (``refused``).
    """

    phase: Literal["starting", "up", "failed"]
    detail: str = ""
    log: str = ""
    excerpt: str = ""
    refused: bool = False
    shape: Shape
    pid: int
    process_started: float
    home: Path
    homes: Path
    private_network: bool


class Status(Frozen):
    """State of the cluster now.

    Attributes
    ----------
    state : DaemonState or None
        None when no cluster is up.
    answering : mapping
        For each server whether it answered a request just now; empty when none is up.
    topologies : mapping
        Status of each topology by name.
    """

    state: DaemonState | None = None
    answering: dict[str, bool] = Field(default_factory=dict)
    topologies: dict[str, str] = Field(default_factory=dict)

    @property
    def up(self) -> bool:
        """True where there is a cluster and all of it answers."""
        return self.state is not None and bool(self.answering) and all(self.answering.values())


def folder() -> Path:
    """Return where the cluster that stays up keeps its state, logs and data."""
    return cache_folder() / "cluster"


def up(homes: ServerHomes, shape: Shape, progress: Callable[[str], None] = quiet) -> DaemonState:
    """Start a cluster that outlives this process; one of the same shape that is up already is fine.

    Raises
    ------
    UsageError
        When a cluster of another shape is up, or one is being started, or the machine has no room for it.
    ClusterError
        When a server does not start.
    """
    with starting():
        return _up(homes, shape, progress)


@contextmanager
def starting() -> Iterator[None]:
    """Let nobody else start a cluster during the block.

    Raises
    ------
    UsageError
        When somebody does.
    """
    cache_folder().mkdir(parents=True, exist_ok=True)
    lock = cache_folder() / "cluster.lock"
    lock.touch()
    with held(lock, _being_started()):
        yield


def _being_started() -> UsageError:
    return UsageError("a cluster is being started", "wait for it, or harness cluster down")


def _up(homes: ServerHomes, shape: Shape, progress: Callable[[str], None]) -> DaemonState:
    running = _read_live()
    if running is not None and running.phase == "up":
        if running.shape != shape:
            raise UsageError("a cluster of another shape is up", "harness cluster down")
        return running
    if running is not None:
        raise _being_started()  # by a process that was killed meanwhile
    require_room([folder()], shape.nodes * shape.slots_per_node, shape.worker_heap_mb)
    shutil.rmtree(folder(), ignore_errors=True)
    folder().mkdir(parents=True)
    log = folder() / "daemon.log"
    with log.open("wb") as out:
        daemon = subprocess.Popen(
            [*_PROGRAM, "hold", str(homes.root), shape.model_dump_json()],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        with coming_up():
            return _await_up(daemon, log, progress)
    except BaseException:  # Ctrl-C does not reach it: nobody would know of what it starts
        if daemon.poll() is None:
            _end(daemon.pid)
        raise


def _await_up(daemon: subprocess.Popen[bytes], log: Path, progress: Callable[[str], None]) -> DaemonState:
    deadline = time.monotonic() + START_TIMEOUT_S
    said = ""
    while True:
        state = _read()
        if state is not None and state.phase == "up":
            return state
        if state is not None and state.phase == "failed":
            daemon.wait()
            kind = UsageError if state.refused else ClusterError
            raise kind(f"the cluster did not start: {state.detail}", log=state.log, excerpt=state.excerpt)
        if daemon.poll() is not None:
            ended = f"the cluster's process ended with status {daemon.returncode}"
            raise ClusterError(ended, log=str(log), excerpt=tail(log))
        if time.monotonic() > deadline:
            late = f"the cluster did not start within {START_TIMEOUT_S:g} s"
            raise ClusterError(late, log=str(log), excerpt=tail(log))
        if state is not None and state.detail != said:
            said = state.detail
            progress(said)
        time.sleep(POLL_S)


def status() -> Status:
    """Ask every server of the cluster that is up; return a failed cluster's last state, with the cause."""
    state = _read_live()
    if state is None:
        last = _read()
        return Status(state=last if last is not None and last.phase == "failed" else None)
    if state.phase != "up":
        return Status(state=state)
    probe = [*_PROGRAM, "probe"]
    if state.private_network:
        probe = [sys.executable, "-m", "harness.machine.sandbox", str(state.pid), *probe]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, check=False, timeout=ANSWER_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        late = f"the cluster does not answer within {ANSWER_TIMEOUT_S:g} s"
        raise ClusterError(late, "ask again, or harness cluster down", str(state.home / "logs")) from None
    if done.returncode:
        raise ClusterError(f"the cluster cannot be asked: {done.stderr.strip() or done.returncode}")
    return Status(state=state, **json.loads(done.stdout))


def down() -> bool:
    """End the cluster that is up, every server and worker of it; return whether there was one."""
    state = _read_live()
    if state is not None:
        _end(state.pid)
    shutil.rmtree(folder(), ignore_errors=True)
    return state is not None


def join(argv: list[str]) -> NoReturn:
    """Replace this process by a command in the network of the cluster that is up.

    Raises
    ------
    UsageError
        When none is up.
    """
    state = _read_live()
    if state is None or state.phase != "up":
        raise UsageError("no cluster is up", "harness cluster up")
    if state.private_network:
        sandbox.join(state.pid, argv)
    os.execvp(argv[0], argv)


def _end(pid: int) -> None:
    try:
        process = psutil.Process(pid)
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
    except psutil.NoSuchProcess:
        pass  # it ended by itself meanwhile


def _state_file() -> Path:
    return folder() / "state.json"


def _read() -> DaemonState | None:
    """Return the state in the state file; None without such a file.

    Raises
    ------
    UsageError
        When it is not one that this harness writes.
    """
    try:
        return DaemonState.model_validate_json(_state_file().read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise UsageError(
            f"{_state_file()}: not the state of a cluster that this harness started",
            "end the process that its pid names, if that still runs, and remove the file",
        ) from None


def _read_live() -> DaemonState | None:
    """Return the state when the process that it names still lives."""
    state = _read()
    if state is None or state.phase == "failed":
        return None
    try:
        process = psutil.Process(state.pid)
        same = abs(process.create_time() - state.process_started) < 1
        return state if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


# -- the process that holds the cluster -----------------------------------------------------------


def _hold(root: str, shape_json: str) -> None:
    """Enter a sandbox of its own, where that is allowed, to start the cluster there."""
    state = DaemonState(
        phase="starting",
        shape=Shape.model_validate_json(shape_json),
        pid=os.getpid(),
        process_started=psutil.Process().create_time(),
        home=folder() / "home",
        homes=Path(root),
        private_network=sandbox.obstacle() is None,
    )
    if state.private_network:
        sandbox.enter([*_PROGRAM, "serve", state.model_dump_json()])
    _serve(state.model_dump_json())


def _serve(state_json: str) -> None:
    """Start the cluster, say so in the state file, and stay until told to end or a server dies."""
    state = DaemonState.model_validate_json(state_json)

    def say(phase: Literal["starting", "up", "failed"], detail: str, **why: str | bool) -> None:
        partial = _state_file().with_suffix(".partial")
        now = state.model_copy(update={"phase": phase, "detail": detail, **why})
        partial.write_text(now.model_dump_json(indent=1))
        partial.rename(_state_file())

    signal.signal(signal.SIGTERM, _stop)
    say("starting", "")
    with ExitStack() as stopped:
        try:
            cluster = _cluster(state)
            stopped.callback(cluster.stop)
            cluster.start(lambda line: say("starting", line))
            say("up", "")
            while True:
                cluster.check()
                time.sleep(1)
        except HarnessError as e:
            detail = f"{e.message}: {e.hint}" if e.hint else e.message
            say("failed", detail, log=e.log, excerpt=e.excerpt, refused=isinstance(e, UsageError))


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _cluster(state: DaemonState) -> LocalCluster:
    try:
        local = Local(**state.shape.model_dump(exclude={"extlib"}))
    except ValidationError as error:
        raise UsageError(describe_fault(error), "ask for less") from None
    return LocalCluster(ServerHomes(state.homes), state.home, local, extlib=state.shape.extlib)


def _probe() -> None:
    """Print what the servers answer; runs in their network."""
    state = _read()
    if state is None:
        raise SystemExit("no cluster is up")
    cluster = _cluster(state)
    answering = {
        "zookeeper": zookeeper_answers(LOOPBACK, cluster.ports.zookeeper),
        "kafka": kafka_answers(LOOPBACK, cluster.ports.kafka),
    }
    topologies: dict[str, str] = {}
    try:
        summary = cluster.nimbus.cluster_summary()
    except ClusterError:
        answering["nimbus"] = False
    else:
        registered = {s.address for s in summary.supervisors}
        answering["nimbus"] = bool(summary.version)
        answering.update({n.name: n.address in registered for n in cluster.nodes})
        topologies = dict(summary.topologies)
    json.dump({"answering": answering, "topologies": topologies}, sys.stdout)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["hold", root, shape_json]:
            _hold(root, shape_json)
        case ["serve", state_json]:
            _serve(state_json)
        case _:
            _probe()
