"""Protocols between the campaign and the outside: a deployment, a load, metrics, and its reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol, Self

import pyarrow as pa

from harness.experiments.config import Step
from harness.experiments.schedule import Due, Schedule
from harness.experiments.workload_tables import RECEIVED, SENT
from harness.machine.readings import CpuTimes
from harness.plans import AskedPlacement, Batching, PhysicalPlan, Relief, TopologyConfiguration, WorkerNode
from harness.runs import StepTuning
from harness.schemas import METRICS

Phase = Literal["submit", "rebalance", "burn-in", "measure", "drain", "again", "done", "declined"]
"""Phase of a step; ``again`` says that it was not usable and will be measured once more, ``done`` that it is
written, ``declined`` that it will not be measured."""


class WorkerSeen(NamedTuple):
    """A worker in use: when it was started, and how old it was at its last report; whole seconds."""

    start_s: int
    reported_s: int


class TopicNames(NamedTuple):
    """The Kafka topics of a run.

    Attributes
    ----------
    inputs : mapping of str to str
        A topic for each of the topology's entrances.
    output : str
        The one that all sinks write to.
    tables : mapping of str to str
        For each component with key groups, the one that its routing tables are published on.
    """

    inputs: Mapping[str, str]
    output: str
    tables: Mapping[str, str] = {}

    @classmethod
    def of(cls, name: str, entrances: Sequence[str], keyed: Iterable[str] = ()) -> Self:
        """Return topics named after a submission.

        Examples
        --------
        >>> TopicNames.of("run", ["spout"])
        TopicNames(inputs={'spout': 'run-in'}, output='run-out', tables={})
        >>> TopicNames.of("run", ["a", "b"]).inputs
        {'a': 'run-in-a', 'b': 'run-in-b'}
        >>> TopicNames.of("run", ["spout"], ["count"]).tables
        {'count': 'run-tables-count'}
        """
        several = len(entrances) > 1
        inputs = {e: f"{name}-in-{e}" if several else f"{name}-in" for e in entrances}
        return cls(inputs, f"{name}-out", {c: f"{name}-tables-{c}" for c in keyed})


class Deployment(Protocol):
    """A topology on a cluster."""

    def submit(
        self,
        configuration: TopologyConfiguration,
        placement: AskedPlacement | None = None,
        batching: Batching | None = None,
        relief: Relief | None = None,
    ) -> None:
        """Submit the topology anew, removing an earlier submission of it first.

        Without ``batching`` or ``relief`` it has the topology's own.
        """

    def rebalance(self, configuration: TopologyConfiguration) -> None:
        """Ask for another configuration, whose executors Storm's own scheduler places."""

    def place(self, configuration: TopologyConfiguration, placement: AskedPlacement) -> None:
        """Ask for a configuration with every executor on the worker that a placement says."""

    def resize(self, batching: Batching) -> None:
        """Ask for batch sizes by ``component:stream``, while messages flow; no worker restarts for it."""

    def plan(self) -> PhysicalPlan:
        """Read the physical plan now in force."""

    def whole(self) -> bool:
        """Return True if every executor of the plan last read is up, and where a placement has it."""

    def waits_for(self) -> str:
        """Return why the plan that was read last is not whole, in words; empty where that is not known."""

    def expected(self, configuration: TopologyConfiguration) -> TopologyConfiguration:
        """Return the configuration with Storm's own executors (ackers, metrics consumers) added."""

    def workers(self) -> Mapping[str, WorkerSeen]:
        """Return every worker in use: its start changes when it is restarted, its age with each report."""

    def reports_every_s(self) -> float:
        """Return the time between two reports of a worker."""

    def complete_latency(self) -> Mapping[str, tuple[float, int]]:
        """Return mean (ms) and number of complete latencies of every spout executor, since its start."""

    def reported_errors(self, since_epoch_ms: int) -> list[str]:
        """Return what the topology's tasks reported as errors since then, one line each, newest last."""

    def nodes(self) -> tuple[WorkerNode, ...]:
        """Return the worker nodes that the cluster's master knows now."""

    def spare_nodes(self) -> tuple[WorkerNode, ...]:
        """Return the nodes that may be added, in the order in which they come; empty where nodes stay."""

    def add_nodes(self, names: Sequence[str]) -> None:
        """Start spare nodes; returns when executors can be placed on them."""

    def end_nodes(self, names: Sequence[str]) -> None:
        """End nodes without executors; raises ClusterError where one has any."""

    def restore_nodes(self) -> bool:
        """Have the nodes again that the cluster began with; True where that removed the topology."""

    def check(self) -> None:
        """Raise ClusterError when a server has died."""

    def check_start(self) -> None:
        """Raise ClusterError when a worker of the plan that was asked for cannot start."""


class Load(Protocol):
    """The generator and the receiver of messages."""

    input_topics: Mapping[str, int]
    """Where the partitions of each begin, counted over all of them."""
    output_topic: str

    @property
    def by_broker(self) -> bool:
        """True where a message went in and came out when the broker appended its records."""

    @property
    def processes(self) -> Mapping[str, int]:
        """Its own processes: ``generator`` and ``receiver``."""

    def start(self, schedule: Schedule) -> None:
        """Begin to send at the times of a schedule."""

    def stop(self) -> None:
        """Stop sending; returns when all that was sent is acknowledged by the broker."""

    def due(self, start_ns: int, end_ns: int) -> Due:
        """Count what was due in a span by the step's schedule, whether it was sent or not."""

    def sent(self) -> pa.Table:
        """Return what was sent since the step began: message_id, scheduled_ns, sent_ns, append_ms ..."""

    def received(self) -> pa.Table:
        """Return what was received since the step began, a row a member."""

    def counts(self) -> tuple[int, int]:
        """Return the broker's counts of records since the step began: all sent, and those read by now."""

    def taken(self) -> bool:
        """Return True if the topology's spouts, when restarted, will not read again what was sent."""

    def catch_up(self) -> None:
        """Receive all that has come out until now."""

    @property
    def records_read(self) -> int:
        """Records of the output topic that were read since the step began."""

    @property
    def foreign_records(self) -> int:
        """Those among them that could not be decoded."""

    @property
    def foreign(self) -> Sequence[object]:
        """The first few such records of the run, each with the reason."""

    def begin_step(self) -> None:
        """Forget what was sent and received until now."""


class OwnMessages:
    """The load of a topology that makes its own messages: none is sent, none received (a ``Load``)."""

    input_topics: Mapping[str, int] = {}
    output_topic = ""
    by_broker = False
    processes: Mapping[str, int] = {}
    records_read = 0
    foreign_records = 0
    foreign: Sequence[object] = ()

    def start(self, schedule: Schedule) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def due(self, start_ns: int, end_ns: int) -> Due:
        """Return none."""
        del start_ns, end_ns
        return Due(0, ended=False)

    def sent(self) -> pa.Table:
        """Return nothing."""
        return SENT.empty_table()

    def received(self) -> pa.Table:
        """Return nothing."""
        return RECEIVED.empty_table()

    def counts(self) -> tuple[int, int]:
        """Return none."""
        return 0, 0

    def taken(self) -> bool:
        """Return True: there is nothing to read again."""
        return True

    def catch_up(self) -> None:
        """Do nothing."""

    def begin_step(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class AskedStep:
    """A step's request to the cluster.

    Attributes
    ----------
    configuration : TopologyConfiguration
    placement : AskedPlacement, optional
        None leaves executors to Storm's own scheduler.
    batching : mapping of str to BatchSize
        What travels in batches.
    relief : Relief
        What is done about full queues.
    tuning : StepTuning, optional
        What a tuner said of it.
    """

    configuration: TopologyConfiguration
    placement: AskedPlacement | None = None
    batching: Batching = field(default_factory=dict)
    relief: Relief = field(default_factory=Relief)
    tuning: StepTuning | None = None

    @property
    def rewritten(self) -> tuple[Batching, Relief]:
        """All that only a fresh submission changes: batches, helping and back-pressure."""
        return self.batching, self.relief

    def label(self, step: Step) -> str:
        """Return the step's label, with a short name of what a scheduler or tuner said.

        Repeats for which they said something else are not of one configuration.
        """
        parts = [step.label]
        if self.tuning is not None:
            said = (sorted(self.configuration.executors.items()), sorted(self.batching.items()))
            parts.append(sha256(repr(said).encode()).hexdigest()[:8])
        if self.placement is not None:
            parts.append(self.placement.digest)
        return "/".join(parts)


Planner = Callable[[Step], AskedStep]
"""Gives a step as it is asked of the cluster, once the steps before it are measured. ``StepDeclined`` is
raised, with the reason, where there is no answer."""


def unplanned(step: Step) -> AskedStep:
    """Ask for what the file says, and leave executors to Storm's own scheduler."""
    return AskedStep(step.configuration, batching=step.batching, relief=step.relief)


Probes = Callable[[int, int], pa.Table]
"""Round trips between worker nodes in a span of epoch ms, as rows of ``metrics.parquet``."""


def unprobed(_since_ms: int, _until_ms: int) -> pa.Table:
    """Return none."""
    return METRICS.empty_table()


class Metrics(Protocol):
    """Where the metrics of the bolts and spouts arrive."""

    def rows(self, since_ms: int, until_ms: int) -> pa.Table:
        """Return the rows of the buckets that end within the span."""

    def texts(self, measurement: str, since_ms: int) -> list[Mapping[str, object]]:
        """Return the text values of a measurement since then."""

    def forget(self, until_ms: int) -> None:
        """Drop what belongs to buckets that end by then."""


class MachineReadings(Protocol):
    """The machine that the campaign runs on, as far as it can disturb a step."""

    def clock_offset_ns(self) -> int:
        """Return how far the time of day is ahead of the monotonic clock, in ns."""

    def cpu_times(self) -> CpuTimes:
        """Return where the machine's CPU time went until now."""

    def came_up(self, start_ns: int, end_ns: int) -> Sequence[int]:
        """Return the processes that brought clusters up there in a span of the monotonic clock."""


@dataclass(frozen=True)
class Progress:
    """A moment of the campaign, for whoever shows or keeps it.

    Attributes
    ----------
    step, steps : int
        The step at hand, from 0, and their number.
    phase : Phase
    label : str
        The step's configuration in words.
    rate_tps, latency_ms : float, optional
        Of what came out in the last few seconds.
    left_s : float, optional
        Until the last step ends, at most about.
    detail : str
    ledger : mapping
        Messages ``sent`` and members ``received`` since the step began; of a finished step, its ledger's
        counts. Empty where the harness sends nothing.
    plan : PhysicalPlan, optional
        At the moment from which it is in force.
    epoch_ms : int, optional
        When it was so; by default now. Simulated runs have a clock of their own.
    machine_busy_pct, machine_steal_pct : float, optional
        Shares of the CPU time of the machine that the campaign runs on, of the last few seconds: used, and
        given to others by its host. None of simulated runs.
    """

    step: int
    steps: int
    phase: Phase
    label: str
    rate_tps: float | None = None
    latency_ms: float | None = None
    left_s: float | None = None
    detail: str = ""
    ledger: Mapping[str, int] = field(default_factory=dict)
    plan: PhysicalPlan | None = None
    epoch_ms: int | None = None
    machine_busy_pct: float | None = None
    machine_steal_pct: float | None = None


Watcher = Callable[[Progress], None]


def unwatched(_now: Progress) -> None:
    """Show nobody."""


def watched_by(*watchers: Watcher) -> Watcher:
    """Return a watcher that hands every moment to several, in order."""

    def watch(now: Progress) -> None:
        for watcher in watchers:
            watcher(now)

    return watch
