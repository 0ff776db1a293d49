"""Metrics: reports of wrapped components and probes, as in ``metrics.parquet`` and in line protocol."""

from __future__ import annotations

from enum import StrEnum

from harness.schemas.measures import Subject, unit_of


class Clock(StrEnum):
    """Clocks that service times are read from; the ``peer`` of their histograms."""

    WALL = "wall"
    CPU = "cpu"


class MetricField(StrEnum):
    """One field of a metric, with its meaning in a line; a histogram's fields are its bins."""

    meaning: str

    COUNT = "count", "how many"
    SUM_NS = "sum_ns", "sum of the times"
    SUMSQ_NS2 = "sumsq_ns2", "sum of their squares"
    WALL_SUM_NS = "wall_sum_ns", "sum of the times by the wall clock"
    WALL_SUMSQ_NS2 = "wall_sumsq_ns2", "sum of their squares"
    CPU_COUNT = "cpu_count", "executes around which the CPU clock was read"
    CPU_SUM_NS = "cpu_sum_ns", "sum of the times by the thread's CPU clock"
    CPU_SUMSQ_NS2 = "cpu_sumsq_ns2", "sum of their squares"
    TRACKED = "tracked", "emits with a message identifier, while there are ackers"
    ACKED = "acked", "messages acked"
    FAILED = "failed", "messages failed"
    PENDING = "pending", "messages in flight at the bucket's end"
    FAILED_IDS = (
        "failed_ids",
        "identifiers of failed messages, a text",
    )
    FAILED_IDS_CUT = (
        "failed_ids_cut",
        "identifiers of failed messages that were left out, which makes the step invalid",
    )
    MEMBERS = "members", "members that windows hold (message/child), a text"
    DROPPED = "dropped", "lines that the metrics consumer lost; more than 0 makes the step invalid"
    CPU_NS = "cpu_ns", "CPU time of the process"
    GC_MS = "gc_ms", "time in garbage collection"
    HEAP_BYTES = "heap_bytes", "heap in use at the bucket's end"
    RTT_MS = "rtt_ms", "round trip of one packet"
    LOST = "lost", "1 for a packet that did not come back"
    MESSAGES = "messages", "batches that left"
    TUPLES = "tuples", "tuples in them, or served"
    CAPACITY = "capacity", "most tuples that the batches could hold"
    FULL = "full", "batches that left as they were full"
    TIMED = "timed", "batches that left as their time was over"
    ORDERED = "ordered", "batches that left before a tuple on another stream"
    FORCED = "forced", "batches that left at a tick, a flush, deactivation, another batch size or the end"
    BYTES = "bytes", "size of the batches written for another worker"
    BYTES_TUPLES = "bytes_tuples", "tuples in the batches written for another worker"
    SIZE = "size", "batch size in force at the bucket's end"
    FLUSH_MS = "flush_ms", "time after which a batch leaves that is not full, in force at the bucket's end"
    OFFERED = "offered", "tuples that the helper could have served"
    RATIO = "ratio", "share of the tuples that the helper serves where help with all is not asked for"
    REQUESTS = "requests", "times that help was asked for since the worker began"
    FILL_PCT = "fill_pct", "mean fill of the receive queue, of its capacity"
    FILL_MOST_PCT = "fill_most_pct", "highest fill of the receive queue that was seen"
    REACHED = "reached", "times that the receive queue reached its high mark"
    HELPED_NS = "helped_ns", "time in which helpers served all of the component's tuples"
    PRESSED_NS = "pressed_ns", "time in which the component's queues were over their mark and nobody helped"
    WATCHED_NS = "watched_ns", "time in which queues were looked at"
    PAUSED_NS = "paused_ns", "time in which spouts paused"
    STATE_BYTES = "state_bytes", "size of the key group's state, written out"
    TABLE_VERSION = "table_version", "routing table that moved the key group"
    STATE_TUPLES = "state_tuples", "tuples that made the key group's state"
    SERIALISE_NS = "serialise_ns", "time in which the key group's state was written, where it was before"
    PAUSE_NS = "pause_ns", "time from the first marker with the table until the key group's state was there"
    HELD = "held", "tuples that waited for the key group"

    def __new__(cls, name: str, meaning: str) -> MetricField:
        """Make a member that is its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        return member

    @property
    def unit(self) -> str:
        """The unit, empty for a number."""
        return unit_of(self)


class Reporter(StrEnum):
    """Who reports a metric."""

    WRAPPERS = "wrapped components"
    TEST_BOLTS = "windowed test bolts"
    CONSUMER = "metrics consumer"
    PROBE = "probe between hosts"
    REWRITING = "rewriting layer"
    KEYED = "keyed test bolts"


class Metric(StrEnum):
    """One measurement: rows of ``metrics.parquet`` that share their fields and what tells them apart.

    Attributes
    ----------
    subject : Subject
        Kind of thing that a row is of.
    fields : tuple of MetricField
        Fields of a row; none for a histogram, whose fields are its bins' upper bounds in ns.
    stream, peer : str
        Contents of these two columns in words, empty where the column is empty.
    meaning : str
        One line for the documents.
    reporter : Reporter
        Where the rows come from.
    """

    subject: Subject
    fields: tuple[MetricField, ...]
    stream: str
    peer: str
    meaning: str
    reporter: Reporter

    RECEIVED = (
        "received",
        (MetricField.COUNT,),
        "tuples received",
        "input stream",
        "source component",
    )
    EMITTED = "emitted", (MetricField.COUNT,), "calls of emit", "output stream"
    TRANSFERRED = (
        "transferred",
        (MetricField.COUNT,),
        "tuples sent to the destination task",
        "output stream",
        "destination task",
    )
    INTERARRIVAL = (
        "interarrival",
        (MetricField.COUNT, MetricField.SUM_NS, MetricField.SUMSQ_NS2),
        "times between two arrivals",
    )
    SERVICE = (
        "service",
        (
            MetricField.COUNT,
            MetricField.WALL_SUM_NS,
            MetricField.WALL_SUMSQ_NS2,
            MetricField.CPU_COUNT,
            MetricField.CPU_SUM_NS,
            MetricField.CPU_SUMSQ_NS2,
        ),
        "executes. CPU time is read around every execute up to 500 a bucket, above that around a random part"
        " of them; the bucket's total is cpu_sum_ns × count / cpu_count",
    )
    SYSTEM_SERVICE = (
        "system_service",
        (MetricField.COUNT, MetricField.WALL_SUM_NS),
        "ticks and checkpoints (in `received`, not in `service` or `interarrival`)",
        "input stream",
        "source component",
    )
    SERVICE_HIST = "service_hist", (), "histogram of service times", "", "`wall` or `cpu`"
    ACK = (
        "ack",
        (
            MetricField.TRACKED,
            MetricField.ACKED,
            MetricField.FAILED,
            MetricField.PENDING,
            MetricField.COUNT,
            MetricField.SUM_NS,
            MetricField.SUMSQ_NS2,
            MetricField.FAILED_IDS,
            MetricField.FAILED_IDS_CUT,
        ),
        "spouts: what became of messages, and the times from emit to ack",
    )
    ACK_HIST = "ack_hist", (), "histogram of the times from emit to ack"
    HELD = (
        "held",
        (MetricField.MEMBERS,),
        "windowed bolts, in a bucket without arrivals",
        "",
        "",
        Subject.TASK,
        Reporter.TEST_BOLTS,
    )
    CONSUMER = (
        "consumer",
        (MetricField.DROPPED,),
        "the consumer itself",
        "",
        "",
        Subject.TASK,
        Reporter.CONSUMER,
    )
    WORKER = (
        "worker",
        (MetricField.CPU_NS, MetricField.GC_MS, MetricField.HEAP_BYTES),
        "once a worker process",
        "",
        "",
        Subject.WORKER,
    )
    ROUND_TRIP = (
        "round_trip",
        (MetricField.RTT_MS, MetricField.LOST),
        "on provisioned hosts only, between worker nodes by their names in `plan.json`; a row a packet, at"
        " about the time when it was sent. component and worker are empty, task is -1",
        "node that asked",
        "node that answered",
        Subject.NODES,
        Reporter.PROBE,
    )
    BATCH = (
        "batch",
        (
            MetricField.MESSAGES,
            MetricField.TUPLES,
            MetricField.CAPACITY,
            MetricField.FULL,
            MetricField.TIMED,
            MetricField.ORDERED,
            MetricField.FORCED,
            MetricField.BYTES,
            MetricField.BYTES_TUPLES,
            MetricField.SIZE,
            MetricField.FLUSH_MS,
        ),
        "of streams that may be batched ([rewriting.md](rewriting.md#metrics))",
        "output stream",
        "",
        Subject.TASK,
        Reporter.REWRITING,
    )
    HELP = (
        "help",
        (
            MetricField.OFFERED,
            MetricField.TUPLES,
            MetricField.WALL_SUM_NS,
            MetricField.RATIO,
            MetricField.REQUESTS,
        ),
        "of bolts that help the next one ([rewriting.md](rewriting.md#helping))",
        "helper's stream",
        "helped component",
        Subject.TASK,
        Reporter.REWRITING,
    )
    PRESSURE = (
        "pressure",
        (
            MetricField.FILL_PCT,
            MetricField.FILL_MOST_PCT,
            MetricField.REACHED,
            MetricField.HELPED_NS,
            MetricField.PRESSED_NS,
            MetricField.WATCHED_NS,
        ),
        "of bolts whose queues are watched ([rewriting.md](rewriting.md#helping))",
        "",
        "",
        Subject.TASK,
        Reporter.REWRITING,
    )
    PAUSED = (
        "paused",
        (MetricField.PAUSED_NS, MetricField.WATCHED_NS),
        "of spouts that may pause ([rewriting.md](rewriting.md#back-pressure))",
        "",
        "",
        Subject.TASK,
        Reporter.REWRITING,
    )

    KEY_GROUP = (
        "key_group",
        (MetricField.COUNT, MetricField.WALL_SUM_NS, MetricField.STATE_BYTES, MetricField.STATE_TUPLES),
        "of each key group that is on the task, or was in the bucket: tuples served, time for them, and the"
        " size of its state",
        "",
        "key group",
        Subject.TASK,
        Reporter.KEYED,
    )
    KEY_GROUP_SENT = (
        "key_group_sent",
        (MetricField.COUNT,),
        "tuples from a key group to one of a downstream component that has key groups, too",
        "downstream component",
        "key groups, as `12>7`",
        Subject.TASK,
        Reporter.KEYED,
    )
    KEY_GROUP_MOVED = (
        "key_group_moved",
        (
            MetricField.TABLE_VERSION,
            MetricField.STATE_BYTES,
            MetricField.SERIALISE_NS,
            MetricField.PAUSE_NS,
            MetricField.HELD,
        ),
        "a row a key group that came to the task, when its state was installed",
        "",
        "key group",
        Subject.TASK,
        Reporter.KEYED,
    )

    def __new__(
        cls,
        name: str,
        fields: tuple[MetricField, ...],
        meaning: str,
        stream: str = "",
        peer: str = "",
        subject: Subject = Subject.TASK,
        reporter: Reporter = Reporter.WRAPPERS,
    ) -> Metric:
        """Make a member that is its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.fields, member.meaning, member.stream, member.peer = fields, meaning, stream, peer
        member.subject, member.reporter = subject, reporter
        return member

    @property
    def histogram(self) -> bool:
        """True where the fields are a histogram's bins."""
        return not self.fields
