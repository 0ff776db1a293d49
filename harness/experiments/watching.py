"""Watch over a step while it is measured: when results came out, and how late.

Where the harness sends the messages itself, each output is one result (``WatchedMessages``). A topology that
makes its own messages is watched by the reports of its wrappers, made every bucket (``Reports``). They have
the spouts' times from emit to ack or, where no spout tracks its messages, the bolts' service times.

The reports have sums, no single values. A bucket's results are taken to have come out evenly over it, each
with the bucket's mean. That leaves every sum as it is. Batches shorter than a bucket are alike, which the
test for independent batches sees.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from harness.experiments.contracts import Load, Metrics
from harness.experiments.workload_tables import entered_ns
from harness.runs import Latency
from harness.schemas import Metric, MetricField

Floats = NDArray[np.float64]
Int64 = NDArray[np.int64]
REPORT_LAG_S = 1.8
"""An output reaches us through the broker and the receiver this much after it left its sink: the rate of the
very last moments would seem to fall."""
REPORTED_S = 2.0
"""A bucket is known at most so much after its end."""
READ_EVERY_S = 0.5
"""Reports are not read more often."""
PARTS = 10
"""Parts of equal time that a bucket's results are spread over."""
AGAIN_S = 10.0
"""Reports are read again for so long: those of one bucket may come later than those of the next."""


@dataclass(frozen=True)
class View:
    """Results that have come out so far, one value a row.

    Attributes
    ----------
    at_ns : ndarray of int64
        The time by which a row belongs to an interval: when its message was due; where that is not known,
        when it came out.
    left_ns : ndarray of int64
        When it came out.
    latency_ms : ndarray of float64
        What is measured.
    late_ms : ndarray of float64
        What drifts when the topology is not steady: the latency from when the message was due, where
        that is known.
    weight : ndarray of float64
        How many results the row stands for.
    message : ndarray of int64
        Its message; -1 where that is not known.
    """

    at_ns: Int64
    left_ns: Int64
    latency_ms: Floats
    late_ms: Floats
    weight: Floats
    message: Int64

    @classmethod
    def empty(cls) -> View:
        """Return a view of nothing."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, none, np.empty(0), np.empty(0), np.empty(0), none)

    def rate_tps(self, since_ns: int, until_ns: int) -> float:
        """Return messages a second that came out between two times."""
        recent, seconds = (self.left_ns > since_ns) & (self.left_ns <= until_ns), (until_ns - since_ns) / 1e9
        named = np.unique(self.message[recent & (self.message >= 0)]).size
        return (named + float(self.weight[recent & (self.message < 0)].sum())) / seconds


class Watched(Protocol):
    """Where results are seen."""

    @property
    def latency(self) -> Latency:
        """Kind of the latency."""

    @property
    def by_message(self) -> bool:
        """True where a result belongs to the time at which its message was due, not when it came out."""

    @property
    def lag_s(self) -> float:
        """Age of the newest results that are known whole, in s."""

    def silence(self) -> str:
        """Return the reason why nothing came out; empty where the reason is not known."""

    def ledger(self) -> dict[str, int]:
        """Return messages ``sent`` and members ``received`` so far; empty where none are sent."""

    def view(self, newest: int | None = None) -> View:
        """Return what has come out since the step began, or some of the newest rows of it."""

    def due_s(self, origin_ns: int) -> Floats | None:
        """Return when each message so far was due, in seconds; None where that is not known."""


class WatchedMessages:
    """Results of messages that the harness sends and receives.

    Parameters
    ----------
    load : Load
        Already sending.
    named_by : str
        What names a message on the topics of a jar; empty for the harness's own topologies.
    """

    by_message = True
    lag_s = REPORT_LAG_S

    def __init__(self, load: Load, named_by: str = "") -> None:
        self._load = load
        self._named_by = named_by
        self.latency: Latency = "topics" if load.by_broker else "ground-truth"

    def silence(self) -> str:
        """Return, in words, which records came to a jar's output topic instead."""
        if not self._named_by:
            return ""
        load = self._load
        said = f"of {load.sent().num_rows} messages sent none came out named by its {self._named_by}"
        if not load.records_read:
            return f"{said}: nothing was written to {load.output_topic}"
        first = f" (the first that has none at all: {load.foreign[0]})" if load.foreign else ""
        return f"{said}: the {load.records_read} records in {load.output_topic} have other names{first}"

    def ledger(self) -> dict[str, int]:
        """Return how many messages were sent, and how many members of them have been received."""
        return {"sent": self._load.sent().num_rows, "received": self._load.received().num_rows}

    def view(self, newest: int | None = None) -> View:
        """Return what has arrived since the step began, with the times the generator's schedule says.

        Parameters
        ----------
        newest : int, optional
            Look at so many of the newest rows only, which costs the same however long the step.
        """
        sent, received = self._load.sent(), self._load.received()
        if newest is not None:
            sent, received = (t.slice(max(t.num_rows - newest, 0)) for t in (sent, received))
        ids = sent["message_id"].to_numpy()
        order = np.argsort(ids, kind="stable")
        ids, scheduled = ids[order], sent["scheduled_ns"].to_numpy()[order]
        found = received["message_id"].to_numpy()
        if ids.size == 0 or found.size == 0:
            return View.empty()
        # The receiver can be ahead of what the generator has handed over, and holds older steps' stragglers.
        at = np.minimum(np.searchsorted(ids, found), ids.size - 1)
        appended = pc.take(sent["append_ms"].combine_chunks(), pa.array(order[at]))
        entered = entered_ns(received, appended)
        known = (ids[at] == found) & entered.is_valid().to_numpy(zero_copy_only=False)
        left = received["left_ns"].to_numpy()[known]
        due, came = scheduled[at[known]], entered.filter(pa.array(known)).to_numpy()
        return View(
            at_ns=due,
            left_ns=left,
            latency_ms=(left - came) / 1e6,
            late_ms=np.maximum(left - due, left - came) / 1e6,  # it entered when it was due, at the earliest
            weight=np.ones(left.size),
            message=found[known],
        )

    def due_s(self, origin_ns: int) -> Floats | None:
        """Return when each message so far was due: what arrives is judged against what was sent."""
        scheduled: Int64 = self._load.sent()["scheduled_ns"].to_numpy()
        return np.asarray((scheduled - origin_ns) / 1e9)


class Reports:
    """Results of a topology that makes its own messages, by bucket.

    Parameters
    ----------
    metrics : Metrics
        Where the wrappers' reports arrive.
    spouts, bolts : sequence of str
        Components of the query plan.
    up_ns, up_epoch_ms : int
        When the step began, on both clocks.
    bucket_s : float
        Length of a bucket.
    """

    def __init__(
        self,
        metrics: Metrics,
        spouts: Sequence[str],
        bolts: Sequence[str],
        up_ns: int,
        up_epoch_ms: int,
        bucket_s: float,
    ) -> None:
        self._metrics = metrics
        self._components = {
            Metric.ACK: pa.array(spouts, pa.string()),
            Metric.SERVICE: pa.array(bolts, pa.string()),
        }
        self._up_epoch_ms, self._offset_ns = up_epoch_ms, up_ns - up_epoch_ms * 1_000_000
        self._bucket_ms = bucket_s * 1e3
        self._read_ms = up_epoch_ms
        self._seen: dict[str, dict[tuple[int, int], tuple[float, float]]] = {
            Metric.ACK: {},
            Metric.SERVICE: {},
        }
        self._tracked = False
        self._read_at = -math.inf
        self._changed = True
        self._last = View.empty()

    by_message = False

    @property
    def latency(self) -> Latency:
        """Acks, as soon as a spout is seen to emit a message with an identifier; else service times."""
        self._read()
        return "ack" if self._tracked else "service"

    def silence(self) -> str:
        """Return, in words, the fates of the messages that spouts track, where none of them was acked."""
        if self.latency != "ack":
            return ""
        rows = self._metrics.rows(self._up_epoch_ms, 2**62)
        mine = pc.and_(
            pc.equal(rows["measurement"], Metric.ACK),
            pc.is_in(rows["component"].cast(pa.string()), self._components[Metric.ACK]),
        )
        rows = rows.filter(mine).sort_by("bucket_end_ms")
        of = {
            field: rows.filter(pc.equal(rows["field"], field))
            for field in (MetricField.TRACKED, MetricField.PENDING, MetricField.FAILED)
        }
        emitted, failed = (
            pc.sum(of[f]["value"]).as_py() or 0 for f in (MetricField.TRACKED, MetricField.FAILED)
        )
        waiting = of[MetricField.PENDING]
        pending = sum(
            dict(zip(waiting["task"].to_pylist(), waiting["value"].to_pylist(), strict=True)).values()
        )
        return (
            f"of {emitted:.0f} messages that spouts emitted with an identifier none was acked:"
            f" {pending:.0f} are pending, {failed:.0f} failed"
        )

    def ledger(self) -> dict[str, int]:
        """Return nothing: nothing is sent."""
        return {}

    @property
    def lag_s(self) -> float:
        """A bucket and its way here."""
        return self._bucket_ms / 1e3 + REPORTED_S

    def view(self, newest: int | None = None) -> View:
        """Return what the buckets hold since the step began; ``newest`` is not needed, they are few."""
        del newest
        latency = self.latency
        if self._changed:
            self._last, self._changed = self._spread(self._seen[latency]), False
        return self._last

    def due_s(self, origin_ns: int) -> Floats | None:
        """Return None: when messages were due is not known."""
        del origin_ns
        return None

    def _read(self) -> None:
        """Take what was reported since the last time, and again what may have come late."""
        if time.monotonic() - self._read_at < READ_EVERY_S:
            return
        self._read_at = time.monotonic()
        since_ms = max(self._up_epoch_ms, self._read_ms - round(AGAIN_S * 1e3))
        rows = self._metrics.rows(since_ms, 2**62)
        if not rows.num_rows:
            return
        self._read_ms = max(self._read_ms, pc.max(rows["bucket_end_ms"]).as_py())
        ack = rows.filter(
            pc.and_(pc.equal(rows["measurement"], Metric.ACK), pc.equal(rows["field"], MetricField.TRACKED))
        )
        self._tracked = self._tracked or bool((pc.sum(ack["value"]).as_py() or 0) > 0)
        for measurement, sum_field in (
            (Metric.ACK, MetricField.SUM_NS),
            (Metric.SERVICE, MetricField.WALL_SUM_NS),
        ):
            self._take(rows, measurement, sum_field)

    def _take(self, rows: pa.Table, measurement: Metric, sum_field: MetricField) -> None:
        mine = pc.and_(
            pc.equal(rows["measurement"], measurement),
            pc.is_in(rows["component"].cast(pa.string()), self._components[measurement]),
        )
        rows = rows.filter(mine)
        parts = []
        for field in (MetricField.COUNT, sum_field):
            of = rows.filter(pc.equal(rows["field"], field))
            keys = zip(of["task"].to_pylist(), of["bucket_end_ms"].to_pylist(), strict=True)
            parts.append(dict(zip(keys, of["value"].to_pylist(), strict=True)))
        counts, sums = parts
        seen = self._seen[measurement]
        for key, count in counts.items():
            found = (count, sums.get(key, 0.0))
            if seen.get(key) != found:
                seen[key], self._changed = found, True

    def _spread(self, seen: dict[tuple[int, int], tuple[float, float]]) -> View:
        used = [(end, count, total) for (_, end), (count, total) in seen.items() if count > 0]
        if not used:
            return View.empty()
        ends_ms, counts, sums_ns = (np.array(column, dtype=np.float64) for column in zip(*used, strict=True))
        part = (np.arange(PARTS) + 0.5) / PARTS
        at_ms = (ends_ms[:, None] - self._bucket_ms * part[None, ::-1]).reshape(-1)
        at_ns = np.round(at_ms * 1e6).astype(np.int64) + self._offset_ns
        latency_ms = np.repeat(sums_ns / counts / 1e6, PARTS)
        weight = np.repeat(counts / PARTS, PARTS)
        order = np.argsort(at_ns, kind="stable")
        return View(
            at_ns=at_ns[order],
            left_ns=at_ns[order],
            latency_ms=latency_ms[order],
            late_ms=latency_ms[order],
            weight=weight[order],
            message=np.full(at_ns.size, -1, dtype=np.int64),
        )
