"""From what was gathered in a step to its tables, and to the findings about its messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.experiments import backlog as flow
from harness.experiments.assemble import Assembled, assemble
from harness.experiments.ledger import (
    ExpectedOutputs,
    LedgerEvidence,
    held_at_the_end,
    of_topic,
    parse_failed,
    settle,
)
from harness.experiments.measuring import MeasuredInterval
from harness.experiments.precision import Look, look
from harness.experiments.schedule import Due
from harness.plans import PhysicalPlan, WorkerNode
from harness.quality import Backlog, Finding, Ledger, Tracked
from harness.runs import judged
from harness.schemas import METRICS, Metric, MetricField
from harness.topologies.traffic import Accounting

LATE_P99_MS = 20.0
"""A generator later than this at its 99th percentile did not keep its schedule."""
LATE_MOST_MS = 400.0
"""Nor did one that was ever later than this: a short stall hides behind the percentile. The worst of the
archived runs, on a machine with two cores, is 230 ms."""

UNDELIVERED = {
    "lines of metrics were lost on their way": (Metric.CONSUMER, MetricField.DROPPED),
    "identifiers of failed messages were left out": (Metric.ACK, MetricField.FAILED_IDS_CUT),
}
"""Counts by the instrumentation of all that it could not deliver, by measurement and field."""

Texts = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class GatheredStep:
    """Evidence about a step from outside the campaign.

    Attributes
    ----------
    sent, received : Table
        ``harness.experiments.workload_tables``.
    input_records, output_records : int
        The broker's own counts.
    records_read, foreign_records : int
        The receiver's.
    held, failed : sequence of mapping
        Text metrics of windowed bolts and spouts: component, task, bucket_end_ms, value.
    errors : list of str
        What the topology's tasks reported.
    topics : mapping of str to int
        The input topics, and where the partitions of each begin, counted over all of them.
    due : Due
        What was due in the interval by the schedule, whether it was sent or not.
    expected : ExpectedOutputs, optional
        What should come out of each message; None where that is not known.
    accounting : Accounting
        What the ledger may forgive.
    foreign : str
        The first record of the run that could not be decoded, with the reason.
    drained : bool
        Whether everything was out before this was gathered.
    """

    sent: pa.Table
    received: pa.Table
    input_records: int
    output_records: int
    records_read: int
    foreign_records: int
    held: Texts
    failed: Texts
    errors: list[str]
    topics: Mapping[str, int]
    due: Due
    expected: ExpectedOutputs | None
    accounting: Accounting = field(default_factory=Accounting)
    foreign: str = ""
    drained: bool = True


def latency(gathered: GatheredStep, plan: PhysicalPlan, measured: MeasuredInterval) -> Assembled:
    """Return the rows of ``latency.parquet``, and what is wrong with them."""
    node_host = {name: node.host for name, node in plan.node_names.items()}
    components = {task: e.component for task, e in plan.by_task.items()}
    hosts = {task: node_host[e.worker.node] for task, e in plan.by_task.items()}
    return assemble(gathered.sent, gathered.received, components, (measured.start_ns, measured.end_ns), hosts)


def metrics(rows: pa.Table, nodes: Iterable[WorkerNode]) -> pa.Table:
    """Return the rows of ``metrics.parquet``: workers named by node instead of by address."""
    names = {f"{n.address}:{port}": f"{n.name}:{port}" for n in nodes for port in n.slots}
    workers = rows["worker"].combine_chunks().cast(pa.string())
    distinct = pc.unique(workers)
    renamed = pa.array([names.get(w, w) for w in distinct.to_pylist()], pa.string())
    column = pc.take(renamed, pc.index_in(workers, distinct))
    at = rows.schema.get_field_index("worker")
    return rows.set_column(at, "worker", column.dictionary_encode()).cast(METRICS)


def delivery(rows: pa.Table, *, instrumented: bool) -> Finding:
    """Return whether all metrics of a step arrived: the consumer counts what it could not deliver.

    Parameters
    ----------
    rows : Table
        ``metrics.parquet``.
    """
    if not instrumented:
        return Finding(ok=True, detail="not instrumented: nothing but latency was measured")
    if not rows.num_rows:
        return Finding(ok=False, detail="no metrics arrived")
    lost = {what: _sum(rows, *series) for what, series in UNDELIVERED.items()}
    return Finding(
        ok=not any(lost.values()), detail="; ".join(f"{n:.0f} {what}" for what, n in lost.items() if n)
    )


def _sum(rows: pa.Table, measurement: str, field: str) -> float:
    mine = pc.and_(pc.equal(rows["measurement"], measurement), pc.equal(rows["field"], field))
    return float(pc.sum(rows["value"].filter(mine)).as_py() or 0.0)


def ledger(gathered: GatheredStep, measured: MeasuredInterval) -> Ledger:
    """Return the ledger of the messages due in the interval."""
    failed = _failed_ids(gathered.failed)
    if gathered.accounting.reads_others:
        failed = [i for i in failed if of_topic(i, gathered.topics)]
    return settle(
        LedgerEvidence(
            sent=gathered.sent,
            received=gathered.received,
            interval_ns=(measured.start_ns, measured.end_ns),
            input_records=gathered.input_records,
            output_records=gathered.output_records,
            records_read=gathered.records_read,
            foreign_records=gathered.foreign_records,
            held=held_at_the_end(gathered.held),
            failed=parse_failed(",".join(failed), gathered.topics),
            expected=gathered.expected,
            free=gathered.accounting.free,
            drained=gathered.drained,
            retried=gathered.accounting.retried,
            foreign=gathered.foreign,
        )
    )


def _failed_ids(texts: Texts) -> list[str]:
    """Return the identifiers that spouts reported as failed; each text is a JSON array of them."""
    return [
        str(i) for t in texts if t["field"] == MetricField.FAILED_IDS for i in json.loads(str(t["value"]))
    ]


def on_schedule(sent: pa.Table, measured: MeasuredInterval, due: Due) -> Finding:
    """Return whether all that was due in the interval was sent, and when it was due.

    Messages that were due before the interval and sent in it count as well. With none later than
    ``LATE_MOST_MS``, no second has more messages than were due in it and in that time before.

    Parameters
    ----------
    sent : Table
        Rows of ``SENT``, of a generator that has been stopped or has handed over all that was due.
    due : Due
        By the schedule: what was never sent is in no row of ``sent``.
    """
    counted = pc.or_(_within(sent["scheduled_ns"], measured), _within(sent["sent_ns"], measured))
    late_ns = pc.subtract(sent["sent_ns"], sent["scheduled_ns"]).filter(counted)
    late_ms, latest_ms = ((late or 0.0) / 1e6 for late in pc.quantile(late_ns, [0.99, 1.0]).to_pylist())
    messages = sent_of_those_due(sent, measured)
    wrong = []
    if messages != due.messages:
        wrong.append(f"{messages} of the {due.messages} messages due in the interval were sent")
    if due.ended:
        wrong.append(f"the schedule ended in the interval, with {due.messages} messages due until then")
    return Finding(
        ok=late_ms <= LATE_P99_MS and latest_ms <= LATE_MOST_MS and not wrong,
        detail="; ".join(
            [
                *wrong,
                f"99 % of messages sent within {late_ms:.2f} ms of their schedule, all within"
                f" {latest_ms:.2f} ms",
            ]
        ),
    )


def sent_of_those_due(sent: pa.Table, measured: MeasuredInterval) -> int:
    """Return the messages that were due in the interval and are known to be sent."""
    return int(pc.sum(_within(sent["scheduled_ns"], measured)).as_py() or 0)


def _within(at_ns: pa.ChunkedArray, measured: MeasuredInterval) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(at_ns, measured.start_ns), pc.less(at_ns, measured.end_ns))


def coming_out(sent: pa.Table, expected: ExpectedOutputs) -> pa.Table:
    """Return the messages that have an output: filters may leave out all members of one."""
    return sent.filter(pa.array(expected.members(sent["message_id"].to_numpy()).most > 0))


def kept_up(
    sent: pa.Table,
    received: pa.Table,
    measured: MeasuredInterval,
    expected: ExpectedOutputs | None = None,
    *,
    free: bool = False,
) -> Backlog:
    """Return whether the topology kept up with its input, but for what filters leave out.

    One that is free to leave messages out is judged by those that came out in the end.
    """
    rows = received["message_id"].to_numpy()
    sent = sent.filter(sent["error"].is_null())
    if expected is not None:
        sent = coming_out(sent, expected)
    ids = sent["message_id"].to_numpy()
    if free:
        sent = sent.filter(pa.array(np.isin(ids, rows)))
        ids = sent["message_id"].to_numpy()
    mine = np.isin(rows, ids)  # an earlier step's stragglers are not this step's throughput
    return flow.backlog(
        sent["scheduled_ns"].to_numpy(),
        flow.done_ns(rows[mine], received["left_ns"].to_numpy()[mine]),
        measured.start_ns,
        measured.end_ns,
    )


def settled_look(assembled: Assembled, measured: MeasuredInterval, precision_pct: float) -> Look:
    """Return the look at the mean once all that was in the topology has come out.

    The look that ended the interval waited some seconds at most. It knows nothing of the slowest results,
    which were still on their way then.
    """
    rows = judged(assembled.latency, measured.latency)
    rows = rows.filter(pc.and_(rows["in_interval"], rows["ground_truth_ms"].is_valid()))
    return look(
        (rows["scheduled_ns"].to_numpy() - measured.start_ns) / 1e9,
        rows["ground_truth_ms"].to_numpy(),
        start_s=0.0,
        end_s=(measured.end_ns - measured.start_ns) / 1e9,
        precision_pct=precision_pct,
        looks=measured.looks_planned,
    )


ABSENT = {
    "ledger": "the topology makes its own messages: see the check tracked",
    "generator": "the topology makes its own messages",
    "receiver": "the topology's results do not come to the harness",
    "samples": "there is no ground truth: see the check measured-latency",
    "backlog": "how many messages were due is not known",
}
"""Checks that do not apply to a topology that makes its own messages, and why."""
SIMULATED = dict.fromkeys(
    ("began-empty", "alone", "clocks", "stolen"), "the step was played: there was no machine to disturb it"
)
"""Checks that do not apply to a step that was played, and why."""
CHANGES = dict.fromkeys(("steady", "precision", "backlog"), "the step's rate changes while it is measured")
"""Checks that do not apply to a step whose rate changes, and why: each is of one rate."""


def rate_tps(rows: pa.Table, spouts: Sequence[str], interval_ms: tuple[int, int]) -> float:
    """Return the messages a second that the spouts emitted in the interval.

    Parameters
    ----------
    rows : Table
        ``metrics.parquet``.
    spouts : sequence of str
        The query plan's.
    interval_ms : tuple of int
        Start and end, in epoch ms.
    """
    mine = _of_spouts(rows, Metric.EMITTED, MetricField.COUNT, spouts, interval_ms)
    return _total(mine) * 1e3 / (interval_ms[1] - interval_ms[0])


def tracked(rows: pa.Table, spouts: Sequence[str], interval_ms: tuple[int, int]) -> Tracked:
    """Return the fates of the messages that the spouts emitted in the buckets that end in the interval.

    The messages in flight before a task's first bucket are those at the end of the bucket before it.
    """

    def total(measurement: str, field: str) -> int:
        mine = _of_spouts(rows, measurement, field, spouts, interval_ms)
        return round(_total(mine))

    emitted = total(Metric.ACK, MetricField.TRACKED)
    before, after = (_in_flight(rows, spouts, at) for at in interval_ms)
    return Tracked(
        emitted=emitted,
        # without ackers Storm acks within emit: that says nothing of what became of a message
        acked=total(Metric.ACK, MetricField.ACKED) if emitted or before else 0,
        failed=total(Metric.ACK, MetricField.FAILED),
        pending_before=before,
        pending=after,
        unnamed=max(total(Metric.EMITTED, MetricField.COUNT) - emitted, 0),
    )


def _total(rows: pa.Table) -> float:
    """Add up values, without those of streams that are Storm's own."""
    own = pc.invert(pc.match_substring_regex(rows["stream"].cast(pa.string()), r"^(__|\$)"))
    return float(pc.sum(rows.filter(own)["value"]).as_py() or 0.0)


def _of_spouts(
    rows: pa.Table, measurement: str, field: str, spouts: Sequence[str], interval_ms: tuple[int, int]
) -> pa.Table:
    end = rows["bucket_end_ms"]
    conditions = (
        pc.greater(end, interval_ms[0]),
        pc.less_equal(end, interval_ms[1]),
        pc.equal(rows["measurement"], measurement),
        pc.equal(rows["field"], field),
        pc.is_in(rows["component"].cast(pa.string()), pa.array(spouts, pa.string())),
    )
    return rows.filter(reduce(pc.and_, conditions))


def _in_flight(rows: pa.Table, spouts: Sequence[str], until_ms: int) -> int:
    """Return the messages in flight at the end of each spout task's last bucket until then."""
    mine = _of_spouts(rows, Metric.ACK, MetricField.PENDING, spouts, (0, until_ms)).sort_by("bucket_end_ms")
    last = dict(zip(mine["task"].to_pylist(), mine["value"].to_pylist(), strict=True))
    return int(sum(last.values()))
