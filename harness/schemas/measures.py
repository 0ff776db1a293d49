"""Measures: what models predict and runs measure, each with its unit, its subjects and the rows judged.

A member is its own name in tables and files, so ``frame["measure"] == Measure.ACK`` works as with text.
Users' models may answer measures that are not listed here: they are kept, and judged by no row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, StrEnum
from functools import cached_property

_UNITS: Mapping[str, str] = {
    "ms": "ms",
    "ns": "ns",
    "ns2": "ns²",
    "tps": "1/s",
    "cores": "cores",
    "bytes": "bytes",
}
"""Units by the word that ends a name."""


def unit_of(name: str) -> str:
    """Return the unit of a measure or field, which ends its name; empty for a ratio or a number.

    Examples
    --------
    >>> unit_of("service_time_ms"), unit_of("arrival_rate_tps"), unit_of("io_ratio")
    ('ms', '1/s', '')
    """
    return _UNITS.get(name.rsplit("_", 1)[-1], "")


class Subject(StrEnum):
    """Something that a measure or a metric can be a property of."""

    TOPOLOGY = "topology"
    PATH = "path of components"
    COMPONENT = "component"
    SINK = "sink"
    EXECUTOR = "executor"
    SPOUT_EXECUTOR = "spout executor"
    STREAM = "output stream of an executor or component"
    CONNECTION = "connection"
    TASK = "task"
    WORKER = "worker"
    NODE = "worker node"
    NODES = "two worker nodes"


class JudgedRows(Enum):
    """Rows that a measure's errors are taken from, as a pattern of the rows' whole ``subject``.

    A subject with a bracket is an executor, an executor's stream or a connection: the smallest part known,
    where a component would hide what its executors differ by.
    """

    TOPOLOGY = r""
    PARTS = r"[^\[]*\[.*"
    ALL = r".*"

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.value)

    def include(self, subject: str) -> bool:
        """Say whether the rows include those of a subject.

        Examples
        --------
        >>> JudgedRows.PARTS.include("bolt-a[3-4]"), JudgedRows.PARTS.include("bolt-a")
        (True, False)
        """
        return self._compiled.fullmatch(subject) is not None


class Measure(StrEnum):
    """One measure.

    Attributes
    ----------
    words : str
        The name in words, as in figures.
    subjects : tuple of Subject
        Kinds of things that have the measure; the topology's label is empty.
    rows : JudgedRows
        Rows that count when the measure is judged.
    judged : bool
        Whether it is measured as well, so that predictions are judged; others are shown only.
    meaning : str
        One line for the documents.
    """

    words: str
    subjects: tuple[Subject, ...]
    rows: JudgedRows
    judged: bool
    meaning: str

    GROUND_TRUTH = (
        "ground_truth_latency_ms",
        "ground-truth latency",
        (Subject.TOPOLOGY, Subject.SINK, Subject.PATH),
        JudgedRows.TOPOLOGY,
        True,
        "from the spout's emit to the sink's send",
    )
    COMPLETE = (
        "complete_latency_ms",
        "complete latency",
        (Subject.TOPOLOGY, Subject.SPOUT_EXECUTOR),
        JudgedRows.TOPOLOGY,
        True,
        "from the spout's emit to the ack, as Storm states it",
    )
    ACK = (
        "ack_latency_ms",
        "emit-to-ack latency",
        (Subject.TOPOLOGY, Subject.SPOUT_EXECUTOR),
        JudgedRows.TOPOLOGY,
        True,
        "from the spout's emit to the ack, as the wrapped spout times it",
    )
    ARRIVALS = (
        "arrival_rate_tps",
        "arrival rate",
        (Subject.EXECUTOR, Subject.COMPONENT),
        JudgedRows.PARTS,
        True,
        "tuples received a second",
    )
    SERVICE = (
        "service_time_ms",
        "service time",
        (Subject.EXECUTOR, Subject.COMPONENT),
        JudgedRows.PARTS,
        True,
        "wall time of one execute",
    )
    ROUTING = (
        "routing_probability",
        "routing probability",
        (Subject.CONNECTION,),
        JudgedRows.PARTS,
        True,
        "share of an executor in the tuples sent to its component",
    )
    IO_RATIO = (
        "io_ratio",
        "I/O ratio",
        (Subject.STREAM,),
        JudgedRows.PARTS,
        True,
        "calls of emit on the stream for each tuple received",
    )
    THROUGHPUT = (
        "throughput_tps",
        "throughput",
        (Subject.TOPOLOGY,),
        JudgedRows.TOPOLOGY,
        True,
        "messages a second that come out",
    )
    SUSTAINABLE = (
        "max_sustainable_rate_tps",
        "maximum sustainable rate",
        (Subject.TOPOLOGY,),
        JudgedRows.TOPOLOGY,
        True,
        "highest input rate at which the backlog does not grow",
    )
    WORKER_CPU = (
        "worker_cpu_cores",
        "CPU of a worker",
        (Subject.WORKER,),
        JudgedRows.ALL,
        True,
        "CPU time of the worker's process each second",
    )
    UTILISATION = (
        "utilisation",
        "utilisation",
        (Subject.EXECUTOR, Subject.COMPONENT),
        JudgedRows.PARTS,
        False,
        "share of time that an executor is busy; 1 and more is overloaded",
    )
    QUEUE_WAIT = (
        "queue_wait_ms",
        "transfer and queue",
        (Subject.COMPONENT,),
        JudgedRows.PARTS,
        False,
        "from the emit upstream to the receipt",
    )
    RESIDENCE = (
        "window_residence_ms",
        "window residence",
        (Subject.COMPONENT,),
        JudgedRows.PARTS,
        False,
        "from the receipt to the window's output",
    )
    NODE_CPU = (
        "node_cpu_cores",
        "CPU of a worker node",
        (Subject.NODE,),
        JudgedRows.PARTS,
        False,
        "CPU time of a worker node's workers each second",
    )

    def __new__(
        cls,
        name: str,
        words: str,
        subjects: tuple[Subject, ...],
        rows: JudgedRows,
        judged: bool,
        meaning: str,
    ) -> Measure:
        """Make a member that is its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.words = words
        member.subjects, member.rows, member.judged, member.meaning = subjects, rows, judged, meaning
        return member

    @property
    def unit(self) -> str:
        """The unit, empty for a ratio."""
        return unit_of(self)


MEASURES: Mapping[str, Measure] = {str(measure): measure for measure in Measure}
"""Measures by name."""
LATENCIES = (Measure.GROUND_TRUTH, Measure.COMPLETE, Measure.ACK)
"""Measures of a whole topology that a saturated step does not have."""
PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""Statistics of a latency beside its mean, and the share of the messages that is below each."""


def rows_judged(measure: str) -> JudgedRows:
    """Return the rows that a measure is judged by; of a user's own measure those of parts.

    Nothing is measured of a user's own measure, so its rows are named gaps in the matrices.
    """
    known = MEASURES.get(measure)
    return JudgedRows.PARTS if known is None else known.rows
