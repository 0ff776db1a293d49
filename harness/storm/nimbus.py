"""Nimbus: what runs where, and asking for something else. The only module that imports ``thriftpy2``.

Each request opens a connection of its own, so a ``Nimbus`` may be used by several threads and survives
a restart of the server. Whatever goes wrong leaves as one line in a ``ClusterError``.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TypeVar

import thriftpy2
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.rpc import client_context
from thriftpy2.thrift import TException
from thriftpy2.transport import TBufferedTransportFactory, TFramedTransportFactory

from harness.errors import ClusterError
from harness.machine.trust import Trust, require_trusted
from harness.plans import PhysicalPlan, QueryPlan, TopologyConfiguration, WorkerNode
from harness.storm.thrift_structs import ExecutorSummary, NimbusService, TopologyInfo
from harness.storm.topology_state import ExecutorState, Rebalance, ReportedError, TopologyState, physical_plan

CONNECT_TIMEOUT_MS = 3_000
ANSWER_TIMEOUT_MS = 30_000
"""Time for which a question waits for its answer, until it is put again."""
PATIENCE_S = 120.0
"""Time for which a question is put again, and longest time that Nimbus may take to do something, which it is
asked once."""
POLL_S = 0.25
"""Time between two questions to Nimbus while something is waited for."""
ALL_TIME = ":all-time"
"""Storm's name of the statistics since the start of an executor."""

_PROTOCOL = TBinaryProtocolFactory()  # type: ignore[no-untyped-call]
_TRANSPORT = TFramedTransportFactory()
_TRANSPORT_BY_TLS = TBufferedTransportFactory()
with as_file(files("harness") / "assets" / "nimbus.thrift") as _idl:
    _thrift = thriftpy2.load(str(_idl), module_name="nimbus_thrift")

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


class NimbusBusy(ClusterError):
    """Nimbus is there and did not answer in time."""


def _nothing() -> None:
    """Check nothing."""


@dataclass(frozen=True)
class Supervisor:
    """A worker node that has registered: its address, its slots, and the cores that it says it has."""

    address: str
    slots: int
    used: int
    cores: float = 1.0


@dataclass(frozen=True)
class ClusterState:
    """The cluster's state, as Nimbus reports it.

    Attributes
    ----------
    version : str
        Storm's version; empty as long as no Nimbus leads.
    supervisors : tuple of Supervisor
        The worker nodes.
    topologies : mapping
        Status of each topology by name.
    """

    version: str
    supervisors: tuple[Supervisor, ...]
    topologies: Mapping[str, str]


class Nimbus:
    """A client of Nimbus.

    Parameters
    ----------
    host, port
        Where Nimbus listens.
    trust : Trust, optional
        How its certificate is known, and which one it is shown; without, it speaks plain Thrift.
    java_settings : Path, optional
        File of the settings of Storm's by which Java programs of this machine do the same.
    patience_s : float
        How long a question waits for its answer, put again meanwhile.

    Raises
    ------
    ClusterError
        By every method, when Nimbus is not there, does not answer or refuses.
    UsageError
        By every method, when one side does not accept the other's certificate.

    Examples
    --------
    >>> Nimbus("127.0.0.1").cluster_summary().version  # doctest: +SKIP
    '2.8.3'
    """

    def __init__(
        self,
        host: str,
        port: int = 6627,
        trust: Trust | None = None,
        java_settings: Path | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.host = host
        self.port = port
        self.java_settings = java_settings
        self._trust = trust
        self._patience_s = patience_s

    def cluster_summary(self) -> ClusterState:
        """Return version, supervisors and topologies."""
        answer = self._question(lambda nimbus: nimbus.getClusterInfo())
        leaders = [n.version for n in answer.nimbuses or () if n.isLeader]  # 0.x tells of none
        return ClusterState(
            version=leaders[0] if leaders else "",
            supervisors=tuple(
                Supervisor(s.host, s.num_workers, s.num_used_workers, _cores(s.total_resources))
                for s in answer.supervisors
            ),
            topologies={t.name: t.status for t in answer.topologies},
        )

    def settings(self) -> dict[str, object]:
        """Return Nimbus' own settings, its ``storm.yaml`` over Storm's defaults."""
        settings = json.loads(self._question(lambda nimbus: nimbus.getNimbusConf()))
        if not isinstance(settings, dict):
            raise ClusterError(f"nimbus at {self.host}:{self.port} sent no settings of its own")
        return settings

    def topology(self, name: str, *, errors: bool = False) -> TopologyState:
        """Return a topology's status, executors and, where asked for, reported errors.

        Errors cost Nimbus a look into ZooKeeper for each component.
        """
        choice = _thrift.NumErrorsChoice.ALL if errors else _thrift.NumErrorsChoice.NONE
        options = _thrift.GetInfoOptions(num_err_choice=choice)
        return topology_state(
            self._question(lambda nimbus: nimbus.getTopologyInfoByNameWithOpts(name, options), name)
        )

    def topology_settings(self, name: str) -> dict[str, object]:
        """Return a topology's Storm settings, as submitted and completed by Nimbus."""
        identifier = self.topology(name).id
        settings = json.loads(self._question(lambda nimbus: nimbus.getTopologyConf(identifier), identifier))
        if not isinstance(settings, dict):
            raise ClusterError(f"nimbus at {self.host}:{self.port} sent no settings of topology {name}")
        return settings

    def physical_plan(self, name: str, query_plan: QueryPlan, nodes: Sequence[WorkerNode]) -> PhysicalPlan:
        """Return the plan now in force."""
        return physical_plan(self.topology(name), query_plan, nodes)

    def rebalance(self, name: str, asked: TopologyConfiguration, wait_s: int = 0) -> Rebalance:
        """Ask for a configuration; returns when Nimbus has taken the request.

        Parameters
        ----------
        asked : TopologyConfiguration
            Executors of each component (Storm's own, such as ackers, may be among them) and workers.
        wait_s : int
            How long spouts are switched off before workers are restarted.

        Returns
        -------
        Rebalance
            To be asked whether the new plan is whole.
        """
        before = self.topology(name)
        options = _thrift.RebalanceOptions(
            wait_secs=wait_s, num_workers=asked.workers, num_executors=dict(asked.executors)
        )
        started = time.monotonic()
        self._ask(lambda nimbus: nimbus.rebalance(name, options), name, most_ms=round(PATIENCE_S * 1e3))
        return Rebalance(before, asked, started)

    def give(self, name: str, credentials: Mapping[str, str]) -> None:
        """Give a running topology credentials, beside those that it has.

        Workers look for them every ``task.credentials.poll.secs``; those that start later begin with them.
        """
        given = _thrift.Credentials(creds=dict(credentials))
        self._question(lambda nimbus: nimbus.uploadNewCredentials(name, given), name)

    def wait_active(
        self, name: str, timeout_s: float = 120.0, check: Callable[[], None] = _nothing
    ) -> TopologyState:
        """Wait until a topology that was submitted is active with every executor up.

        Parameters
        ----------
        check : callable
            Called between requests; raises when it is no use to wait (a server has died).
        """
        deadline = time.monotonic() + timeout_s
        while not ((state := self.topology(name)).status == "ACTIVE" and state.all_up):
            check()
            if time.monotonic() > deadline:
                missing = sorted({f"{e.address}:{e.port}" for e in state.executors if not e.up})
                what = f"no report from {', '.join(missing)}" if missing else f"it is {state.status}"
                if errors := self.topology(name, errors=True).errors:
                    what += f"; {errors[-1].text}"
                raise ClusterError(f"topology {name} is not up after {timeout_s:g} s: {what}")
            time.sleep(POLL_S)
        return state

    def kill(self, name: str, wait_s: int = 0, timeout_s: float = 60.0) -> None:
        """Kill a topology and wait until Nimbus has forgotten it; none of that name is fine.

        For ``wait_s`` seconds its spouts are deactivated before its workers end, so that they commit what
        they have emitted. Killed at once they do not, and the next submission would read all of it again.
        """
        if name not in self.cluster_summary().topologies:
            return
        options = _thrift.KillOptions(wait_secs=wait_s)
        self._ask(
            lambda nimbus: nimbus.killTopologyWithOpts(name, options), name, most_ms=round(PATIENCE_S * 1e3)
        )
        deadline = time.monotonic() + timeout_s
        while name in self.cluster_summary().topologies:
            if time.monotonic() > deadline:
                raise ClusterError(f"topology {name} is still there {timeout_s:g} s after it was killed")
            time.sleep(POLL_S)

    def _question(self, ask: Callable[[NimbusService], Answer], topology: str = "") -> Answer:
        """Ask for something that may be asked twice; again, where Nimbus is too busy to answer in time."""
        limit = time.monotonic() + self._patience_s
        most_ms = min(ANSWER_TIMEOUT_MS, round(self._patience_s * 1e3))
        while True:
            try:
                return self._ask(ask, topology, most_ms=most_ms)
            except NimbusBusy as busy:
                if time.monotonic() >= limit:
                    raise
                log.warning("%s; asked again", busy.message)

    def _ask(self, ask: Callable[[NimbusService], Answer], topology: str = "", *, most_ms: int) -> Answer:
        with (
            _one_line(f"nimbus at {self.host}:{self.port}", self._trust),
            client_context(
                _thrift.Nimbus,
                self.host,
                self.port,
                connect_timeout=CONNECT_TIMEOUT_MS,
                socket_timeout=most_ms,
                proto_factory=_PROTOCOL,
                trans_factory=_TRANSPORT_BY_TLS if self._trust else _TRANSPORT,
                ssl_context=self._trust.context() if self._trust else None,
            ) as client,
        ):
            try:
                return ask(client)
            except _thrift.NotAliveException:
                raise ClusterError(
                    f"nimbus at {self.host}:{self.port}: there is no topology {topology}"
                    " (it was killed, or never submitted)"
                ) from None


def _cores(resources: Mapping[str, float] | None) -> float:
    """Return the cores that a supervisor says it has (``supervisor.cpu.capacity``); 1 where it does not."""
    return (resources or {}).get("cpu.pcore.percent", 100.0) / 100.0 or 1.0


def topology_state(info: TopologyInfo) -> TopologyState:
    """Return the state that a Thrift ``TopologyInfo`` holds."""
    errors = (e for listed in (info.errors or {}).values() for e in listed)
    return TopologyState(
        id=info.id,
        status=info.status,
        executors=tuple(_executor_state(e) for e in info.executors),
        errors=tuple(
            ReportedError(e.error_time_secs, f"{e.host}:{e.port}: {e.error.strip().splitlines()[0]}")
            for e in sorted(errors, key=lambda e: e.error_time_secs)
            if e.error.strip()
        ),
        scheduling=info.sched_status or "",
    )


def _executor_state(e: ExecutorSummary) -> ExecutorState:
    spout = e.stats.specific.spout if e.stats is not None and e.stats.specific is not None else None
    acked: Mapping[str, int] = spout.acked.get(ALL_TIME, {}) if spout else {}
    failed: Mapping[str, int] = spout.failed.get(ALL_TIME, {}) if spout else {}
    means: Mapping[str, float] = spout.complete_ms_avg.get(ALL_TIME, {}) if spout else {}
    total = sum(acked.values())
    return ExecutorState(
        component=e.component_id,
        first_task=e.executor_info.task_start,
        last_task=e.executor_info.task_end,
        address=e.host,
        port=e.port,
        worker_uptime_s=e.uptime_secs or 0,
        up=e.stats is not None,
        is_spout=spout is not None,
        acked=total,
        failed=sum(failed.values()),
        complete_latency_ms=sum(means[s] * n for s, n in acked.items() if n) / total if total else None,
    )


@contextmanager
def _one_line(server: str, trust: Trust | None) -> Iterator[None]:
    """Turn the library's exceptions into one line."""
    try:
        yield
    except (TException, OSError) as e:
        require_trusted(trust, server, e)
        raise _told(server, e) from e


def _told(server: str, error: TException | OSError) -> ClusterError:
    if isinstance(error, TException):
        said = getattr(error, "msg", None) or getattr(error, "message", None) or error
        return ClusterError(f"{server}: {' '.join(str(said).split()) or type(error).__name__}")
    kind = NimbusBusy if isinstance(error, TimeoutError) else ClusterError
    return kind(f"{server} does not answer: {error}")
