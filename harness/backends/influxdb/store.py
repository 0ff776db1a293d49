"""Metrics in InfluxDB 2: what the metrics consumer wrote, read back an interval at a time; events of steps.

The only module that imports ``influxdb_client``. A drop-in for the embedded store
(``harness.backends.metrics.rows``): the same rows for the same lines. Which tags and fields there are, and
how many series that makes, is in ``docs/metric-store.md``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import urllib3.exceptions
from influxdb_client import Dialect, InfluxDBClient, Point, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException

from harness.backends.influxdb.api import InfluxApi
from harness.backends.influxdb.lines import encode_rows
from harness.backends.influxdb.spool import MetricSpool
from harness.errors import ClusterError, UsageError
from harness.machine.trust import Trust, require_trusted
from harness.schemas import METRICS, Metric, MetricField

LINES_A_WRITE = 5_000
CHUNK_MS = 10_000
"""Time that one query covers: its rows are what is in memory, here and there, beside the result."""
EVENT = "event"
PROBE = "probe"
"""Written only to learn why the server takes nothing."""
TEXT_FIELDS: Mapping[str, str] = {Metric.HELD: MetricField.MEMBERS, Metric.ACK: MetricField.FAILED_IDS}
"""The text field of each measurement that has one."""
PATIENCE_S = 60.0
"""Longest wait for a server that is away, or does not take the points that wait."""
CHECK_PATIENCE_S = 10.0
"""The same before anything is measured, when nothing is lost by saying so."""
FULL = "no space left on device"
"""A server that says so is not waited for: a shard that it cannot open is not tried again before its next
start."""
RETRY_S = 5.0
"""Consumers try again at most so much later."""
ORPHANED_S = 3 * RETRY_S
"""Points that wait so long though the server takes points have no consumer any more."""
NOTHING_WAITS = MetricSpool(())
"""Spool of a server that cannot be looked into."""
TIMEOUT_MS = 30_000
REFUSALS = (400, 404, 413, 422)
TOKEN_HINT = "INFLUXDB_TOKEN, or a file that INFLUXDB_TOKEN_FILE names, has to hold the one of its data"
_TAGS = ("component", "task", "host", "port", "stream", "peer")
_COLUMNS = ("_time", "_measurement", "_field", "_value", *_TAGS)
_NS_PER_MS = 1_000_000
_FOREVER_MS = 4_102_444_800_000  # the year 2100

T = TypeVar("T")


class Event(NamedTuple):
    """Something that a step did, at a time: ``rebalance``, ``start`` or ``stop``."""

    kind: str
    at_ms: int
    run: str
    step: int
    configuration: str


class InfluxBucket(NamedTuple):
    """Where metrics are kept: a server's address, an organisation there, and a bucket of it.

    With ``trust``, the server is known by a certificate that its cluster's own authority has signed.
    """

    url: str
    org: str
    name: str
    trust: Trust | None = None


def _nothing() -> None:
    pass


class InfluxStore:
    """The metrics of one topology in one bucket (``harness.experiments.contracts.Metrics``).

    Parameters
    ----------
    bucket : InfluxBucket
        Where they are.
    token : str
        That may read and write the bucket.
    topology : str
        Value of the tag that the topology's metrics carry.
    spool : MetricSpool
        Where batches of metrics wait for the server: metrics are read once there are none. Those that no
        consumer gives it, it is given from here.
    attend : callable
        Looks after the server while it is waited for; raises when that is in vain.
    patience_s : float
        How long a server that is away is waited for.

    Raises
    ------
    UsageError
        By every method, when the server refuses the token or has no such bucket.
    ClusterError
        By every method, when it cannot be reached in time.
    """

    def __init__(
        self,
        bucket: InfluxBucket,
        token: str,
        topology: str,
        spool: MetricSpool = NOTHING_WAITS,
        attend: Callable[[], None] = _nothing,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.url, self._org, self._bucket, self._trust = bucket
        self._topology = topology
        self._spool = spool
        self._post = lambda lines: InfluxApi.of(bucket.url, bucket.trust).post(lines, token)
        self._attend = attend
        self._patience_s = patience_s
        authority = None
        if bucket.trust is not None:
            bucket.trust.context()  # the client would not say which file is wrong
            authority = str(bucket.trust.authority)
        self._client = InfluxDBClient(
            bucket.url,
            token=token,
            org=bucket.org,
            timeout=TIMEOUT_MS,
            retries=False,
            ssl_ca_cert=authority,
        )
        self._query = self._client.query_api()
        self._write = self._client.write_api(write_options=SYNCHRONOUS)

    def check(self) -> None:
        """Raise unless the server is there, takes the token and has the bucket."""
        buckets = self._client.buckets_api()
        found = self._patiently(
            "look at its buckets", lambda: buckets.find_bucket_by_name(self._bucket), CHECK_PATIENCE_S
        )
        if found is None:
            raise UsageError(f"influxdb at {self.url}: there is no bucket {self._bucket}")

    def require_writable(self) -> None:
        """Raise UsageError unless the server takes a point for the bucket."""
        if refusal := self._refusal():
            raise UsageError(
                f"influxdb at {self.url} takes no points for {self._org}/{self._bucket}: {refusal}",
                "metrics.url, org and bucket say where it is",
            )

    def write_rows(self, table: pa.Table) -> None:
        """Write the rows of a step's ``metrics.parquet``; those that are there already are not doubled.

        Every field is a float.

        Raises
        ------
        UsageError
            When it refuses them, or the token.
        ClusterError
            When it cannot be reached in time.
        """
        lines = encode_rows(table, self._topology)
        for begin in range(0, len(lines), LINES_A_WRITE):
            record = b"\n".join(lines[begin : begin + LINES_A_WRITE])
            write = partial(
                self._write.write, self._bucket, self._org, record, write_precision=WritePrecision.MS
            )
            self._patiently("write metrics", write)

    def rows(self, since_ms: int, until_ms: int) -> pa.Table:
        """Return the rows of the buckets that end after ``since_ms`` and not after ``until_ms``.

        Returns
        -------
        Table
            Of schema ``harness.schemas.METRICS``; ``worker`` is ``host:port``, and ``stream`` and
            ``peer`` are empty where a measurement has none.

        Raises
        ------
        ClusterError
            Also when metrics wait that the server does not take.
        """
        self._await_delivery()
        return self.read(since_ms, until_ms)

    def read(self, since_ms: int, until_ms: int) -> pa.Table:
        """Return the rows of a span as far as they are there by now; nothing is waited for or written."""
        parts = []
        until_ms = min(until_ms, time.time_ns() // 1_000_000 + CHUNK_MS)  # no bucket ends much later
        for begin in range(since_ms, until_ms, CHUNK_MS):
            end = min(begin + CHUNK_MS, until_ms)
            parts.append(self._patiently("read metrics", partial(self._chunk, begin, end)))
        return pa.concat_tables(parts).unify_dictionaries() if parts else METRICS.empty_table()

    def _chunk(self, since_ms: int, until_ms: int) -> pa.Table:
        texts = " and ".join(
            f"not (r._measurement == {_flux(m)} and r._field == {_flux(f)})" for m, f in TEXT_FIELDS.items()
        )
        query = f"""
            {self._from(since_ms, until_ms)}
            |> filter(fn: (r) => r._measurement != {_flux(EVENT)} and r._measurement != {_flux(PROBE)})
            |> filter(fn: (r) => {texts})
            |> toFloat() |> group() |> keep(columns: {json.dumps(_COLUMNS)})
            """
        answer = self._query.query_raw(query, dialect=Dialect(header=True, delimiter=",", annotations=[]))
        return _table(bytes(answer.data))

    def emitted(self, components: Sequence[str], since_ms: int, until_ms: int, bucket_ms: int) -> pa.Table:
        """Return the tuples that components emitted, summed over longer buckets: few rows of a long time.

        Parameters
        ----------
        components : sequence of str
            Whose.
        since_ms, until_ms : int
            As of ``rows``.
        bucket_ms : int
            Buckets end at whole multiples of it since the epoch.

        Returns
        -------
        Table
            Of schema ``harness.schemas.METRICS``, by task, worker and stream; ``peer`` is empty.
        """
        named = " or ".join(f"r.component == {_flux(name)}" for name in components)
        key = ["_measurement", "_field", "component", "task", "host", "port", "stream"]
        query = f"""
            {self._from(since_ms, until_ms)}
            |> filter(fn: (r) => r._measurement == {_flux(Metric.EMITTED)})
            |> filter(fn: (r) => r._field == {_flux(MetricField.COUNT)} and ({named}))
            |> toFloat() |> timeShift(duration: -1ms) |> group(columns: {json.dumps(key)})
            |> aggregateWindow(every: {bucket_ms}ms, fn: sum, createEmpty: false)
            |> group() |> keep(columns: {json.dumps(_COLUMNS)})
            """
        dialect = Dialect(header=True, delimiter=",", annotations=[])
        ask = partial(self._query.query_raw, query, dialect=dialect)
        return _table(bytes(self._patiently("read metrics", ask).data))

    def texts(self, measurement: str, since_ms: int) -> list[Mapping[str, object]]:
        """Return the text fields of a measurement in buckets that end after ``since_ms``, by time.

        Returns
        -------
        list of mapping
            With the keys of ``harness.backends.metrics.rows.Text``.
        """
        field = TEXT_FIELDS.get(measurement)
        if field is None:
            return []
        self._await_delivery()
        query = f"""
            {self._from(since_ms, _FOREVER_MS)}
            |> filter(fn: (r) => r._measurement == {_flux(measurement)} and r._field == {_flux(field)})
            |> group() |> sort(columns: ["_time"])
            """
        tables = self._patiently("read metrics", lambda: self._query.query(query))
        return [
            {
                "bucket_end_ms": _epoch_ms(record.get_time()),
                "topology": self._topology,
                "measurement": measurement,
                "component": record["component"],
                "task": int(record["task"]),
                "worker": f"{record['host']}:{record['port']}",
                "field": field,
                "value": record.get_value() or "",  # the client makes None of an empty text
            }
            for table in tables
            for record in table.records
        ]

    def forget(self, until_ms: int) -> None:
        """Keep everything: the bucket's retention forgets."""

    def write_events(self, events: Sequence[Event]) -> None:
        """Write events; one that is there already is not doubled."""
        points = [
            Point(EVENT)
            .tag("topology", self._topology)
            .tag("kind", e.kind)
            .field("run", e.run)
            .field("step", e.step)
            .field("configuration", e.configuration)
            .time(e.at_ms * _NS_PER_MS, WritePrecision.NS)
            for e in events
        ]
        self._patiently("write events", lambda: self._write.write(self._bucket, self._org, points))

    def events(self, since_ms: int, until_ms: int) -> list[Event]:
        """Return the events of a span, by time."""
        query = f"""
            {self._from(since_ms, until_ms)}
            |> filter(fn: (r) => r._measurement == {_flux(EVENT)})
            |> pivot(rowKey: ["_time", "kind"], columnKey: ["_field"], valueColumn: "_value")
            |> group() |> sort(columns: ["_time"])
            """
        tables = self._patiently("read events", lambda: self._query.query(query))
        return [
            Event(r["kind"], _epoch_ms(r.get_time()), r["run"], int(r["step"]), r["configuration"])
            for table in tables
            for r in table.records
        ]

    def _from(self, since_ms: int, until_ms: int) -> str:
        """Return the start of a query; Flux has a range's start in and its end out, we the other way."""
        start, stop = ((ms + 1) * _NS_PER_MS for ms in (since_ms, until_ms))
        return (
            f"from(bucket: {_flux(self._bucket)})"
            f" |> range(start: time(v: {start}), stop: time(v: {stop}))"
            f" |> filter(fn: (r) => r.topology == {_flux(self._topology)})"
        )

    def _await_delivery(self) -> None:
        """Wait until the server takes points, and has taken every batch that was put aside before now."""
        now_ms, deadline = time.time_ns() // 1_000_000, time.monotonic() + self._patience_s
        refused, orphaned = "", time.monotonic() + ORPHANED_S
        while (refusal := self._refusal()) or refused or self._spool.waiting(now_ms):
            if FULL in refusal or time.monotonic() > deadline:
                raise ClusterError(
                    f"influxdb at {self.url} does not take metrics: {refusal or 'it is behind with them'}"
                    f" (batches that wait: {self._spool.waiting(now_ms)})",
                    "they are kept on disk, and are delivered when it takes them again",
                )
            self._attend()
            if refusal:
                orphaned = time.monotonic() + ORPHANED_S
            elif time.monotonic() > orphaned:
                self._spool.deliver(self._post)
            # Where a spool has no room either, a batch is in a consumer's memory until it tries again.
            time.sleep(min(RETRY_S, self._patience_s) if refusal or refused else 0.05)
            refused = refusal

    def _refusal(self) -> str:
        """Return the server's objection to a point of ours; empty when the server takes it.

        Raises
        ------
        UsageError
            When it refuses the token.
        """
        point = Point(PROBE).tag("topology", self._topology).field("count", 1)
        try:
            self._write.write(self._bucket, self._org, point)
        except ApiException as error:
            self._require_token(error)
            return _said(error)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            require_trusted(self._trust, f"influxdb at {self.url}", error)
            return _one_line(error)
        return ""

    def _require_token(self, error: ApiException) -> None:
        if error.status in (401, 403):
            raise UsageError(
                f"influxdb at {self.url} refuses the token: {_said(error)}", TOKEN_HINT
            ) from None

    def _patiently(self, doing: str, call: Callable[[], T], most_s: float = math.inf) -> T:
        deadline = time.monotonic() + min(self._patience_s, most_s)
        pause_s = 0.1
        while True:
            try:
                return call()
            except ApiException as error:
                self._require_token(error)
                reason = _said(error)
                if error.status in REFUSALS:
                    raise UsageError(f"influxdb at {self.url}: cannot {doing}: {reason}") from None
            except (urllib3.exceptions.HTTPError, OSError) as error:
                require_trusted(self._trust, f"influxdb at {self.url}", error)
                reason = _one_line(error)
            if time.monotonic() > deadline:
                raise ClusterError(f"influxdb at {self.url}: cannot {doing}: {reason}")
            self._attend()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 2.0)

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _flux(text: str) -> str:
    """Return a text as Flux writes it: as JSON does, but for what would be filled in."""
    return json.dumps(text, ensure_ascii=False).replace("${", "\\${")


def _epoch_ms(time_: datetime) -> int:
    return round((time_ - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


def _said(error: ApiException) -> str:
    """Return the server's own words; nothing of the request is in them."""
    body = error.body
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body or "")
    with suppress(ValueError, TypeError, KeyError):
        text = str(json.loads(text)["message"])
    return " ".join(text.split()) or f"status {error.status} {error.reason}"


def _one_line(error: BaseException) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    text = getattr(cause, "strerror", None) or str(cause)
    return " ".join(text.split()) or type(error).__name__


def _table(answer: bytes) -> pa.Table:
    """Return the rows of an answer in CSV, which has one table as all rows have one group."""
    if not answer.strip():
        return METRICS.empty_table()
    header = answer.split(b"\r\n", 1)[0].decode().split(",")
    if "_value" not in header:  # an error that came after the status: columns error, reference
        raise ClusterError(f"influxdb: {answer.decode(errors='replace').split(chr(10))[1].strip()}")
    read = pa.csv.read_csv(
        pa.BufferReader(answer),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            include_columns=list(_COLUMNS),
            include_missing_columns=True,
            strings_can_be_null=False,
            column_types={
                **dict.fromkeys(_COLUMNS, pa.string()),
                "_time": pa.timestamp("ns", "UTC"),
                "_value": pa.float64(),
                "task": pa.int32(),
            },
        ),
    )
    columns = {
        "bucket_end_ms": pc.divide(read["_time"].cast(pa.int64()), _NS_PER_MS),
        "measurement": read["_measurement"],
        "component": read["component"],
        "task": read["task"],
        "worker": pc.binary_join_element_wise(read["host"], read["port"], ":"),
        "stream": read["stream"].fill_null(""),
        "peer": read["peer"].fill_null(""),
        "field": read["_field"],
        "value": read["_value"],
    }
    table = pa.table(columns).sort_by([(name, "ascending") for name in METRICS.names])
    encoded = [
        c.dictionary_encode() if pa.types.is_dictionary(METRICS.field(n).type) else c
        for n, c in ((n, table[n]) for n in METRICS.names)
    ]
    return pa.table(encoded, names=METRICS.names).cast(METRICS)
