"""Types of ``assets/nimbus.thrift``: its structs as thriftpy2 makes them, and its service.

Names and fields are those of the file, which has Storm's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class NimbusSummary(Protocol):
    """A Nimbus, and whether it leads."""

    isLeader: bool
    version: str


class SupervisorSummary(Protocol):
    """A supervisor with its slots."""

    host: str
    num_workers: int
    num_used_workers: int
    total_resources: Mapping[str, float] | None


class TopologySummary(Protocol):
    """A topology's name and status."""

    name: str
    status: str


class ClusterSummary(Protocol):
    """All that Nimbus knows of."""

    supervisors: Sequence[SupervisorSummary]
    topologies: Sequence[TopologySummary]
    nimbuses: Sequence[NimbusSummary] | None


class ErrorInfo(Protocol):
    """An error that a task reported."""

    error: str
    error_time_secs: int
    host: str
    port: int


class ExecutorInfo(Protocol):
    """The tasks of an executor."""

    task_start: int
    task_end: int


class SpoutStats(Protocol):
    """Counts and means by time window, then by stream."""

    acked: Mapping[str, Mapping[str, int]]
    failed: Mapping[str, Mapping[str, int]]
    complete_ms_avg: Mapping[str, Mapping[str, float]]


class ExecutorSpecificStats(Protocol):
    """Statistics of a spout's executor; a bolt's are skipped when they are read."""

    spout: SpoutStats | None


class ExecutorStats(Protocol):
    """Statistics of an executor."""

    specific: ExecutorSpecificStats | None


class ExecutorSummary(Protocol):
    """An executor: where it runs, and its statistics once its worker has made it."""

    executor_info: ExecutorInfo
    component_id: str
    host: str
    port: int
    uptime_secs: int | None
    stats: ExecutorStats | None


class TopologyInfo(Protocol):
    """A topology with its executors and reported errors."""

    id: str
    executors: Sequence[ExecutorSummary]
    status: str
    errors: Mapping[str, Sequence[ErrorInfo]] | None
    sched_status: str | None


class NimbusService(Protocol):
    """The calls of the service; options are structs that are made of the loaded file."""

    def getClusterInfo(self) -> ClusterSummary:
        """Return all that Nimbus knows of."""

    def getNimbusConf(self) -> str:
        """Return Nimbus' settings as JSON."""

    def getTopologyInfoByNameWithOpts(self, name: str, options: object, /) -> TopologyInfo:
        """Return a topology's state."""

    def getTopologyConf(self, id: str, /) -> str:
        """Return a topology's settings as JSON."""

    def rebalance(self, name: str, options: object, /) -> None:
        """Ask for other numbers of executors and workers."""

    def killTopologyWithOpts(self, name: str, options: object, /) -> None:
        """Ask for a topology's end."""

    def uploadNewCredentials(self, name: str, credentials: object, /) -> None:
        """Give a running topology credentials."""
