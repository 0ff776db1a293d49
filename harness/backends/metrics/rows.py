"""Metrics in memory: lines of InfluxDB's line protocol in, columns of ``metrics.parquet`` out."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from line_protocol_parser import LineFormatError, parse_line

from harness.schemas import METRICS

REQUIRED_TAGS = ("topology", "component", "task", "host", "port")
NS_PER_UNIT = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Timestamp units by the name that the write interface gives them."""
_NAMED = 20
_MOST_TASK = 2**31 - 1
_MOST_EPOCH_MS = 2**63 // 1_000_000
"""Latest time that InfluxDB can keep in ns, in the year 2262."""
_LABELS = ("measurement", "component", "worker", "stream", "peer", "field", "topology")
_KEY = ("bucket_end_ms", "measurement", "component", "task", "worker", "stream", "peer", "field")


class Text(NamedTuple):
    """A text field of a line, such as the members that a window holds."""

    bucket_end_ms: int
    topology: str
    measurement: str
    component: str
    task: int
    worker: str
    field: str
    value: str


class MalformedLine(ValueError):
    """Why a line cannot be taken."""


@dataclass
class _Columns:
    """Rows that came in one request."""

    bucket_end_ms: list[int] = field(default_factory=list)
    task: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    labels: tuple[list[int], ...] = field(default_factory=lambda: tuple([] for _ in _LABELS))


@dataclass(frozen=True)
class _Chunk:
    """The same, packed."""

    bucket_end_ms: npt.NDArray[np.int64]
    task: npt.NDArray[np.int32]
    value: npt.NDArray[np.float64]
    labels: tuple[npt.NDArray[np.int32], ...]

    def take(self, mask: npt.NDArray[np.bool_]) -> _Chunk:
        return _Chunk(
            self.bucket_end_ms[mask], self.task[mask], self.value[mask], tuple(c[mask] for c in self.labels)
        )


class MetricRows:
    """Rows and texts since the last ``forget``, fed and read from different threads.

    A line with the series, time and field of an earlier one replaces it, as in InfluxDB, so a batch
    that was delivered twice counts once.

    Attributes
    ----------
    lines : int
        Lines taken.
    malformed : int
        Lines refused; the first few are in ``complaints``.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.malformed = 0
        self.complaints: list[str] = []
        self._lock = threading.Lock()
        self._codes: dict[str, int] = {}
        self._chunks: list[_Chunk] = []
        self._texts: list[Text] = []

    def add(self, body: str, ns_per_unit: int) -> list[str]:
        """Take the good lines of a request and return what is wrong with the others.

        Parameters
        ----------
        body : str
            Lines separated by line feeds; empty lines and comments are passed over.
        ns_per_unit : int
            Unit of the timestamps.
        """
        columns, texts, complaints, taken = _Columns(), list[Text](), list[str](), 0
        with self._lock:
            for number, line in enumerate(body.split("\n"), start=1):
                if not line.strip():
                    continue
                try:
                    self._take(line, ns_per_unit, columns, texts)
                    taken += 1
                except (LineFormatError, ValueError) as e:
                    complaints.append(f"line {number}: {e}: {line[:120]!r}")
            if columns.value:
                self._chunks.append(
                    _Chunk(
                        np.array(columns.bucket_end_ms, np.int64),
                        np.array(columns.task, np.int32),
                        np.array(columns.value, np.float64),
                        tuple(np.array(c, np.int32) for c in columns.labels),
                    )
                )
            self._texts += texts
            self.lines += taken
            self.malformed += len(complaints)
            self.complaints = (self.complaints + complaints)[:_NAMED]
        return complaints

    def _take(self, line: str, ns_per_unit: int, columns: _Columns, texts: list[Text]) -> None:
        point = parse_line(line)
        if point is None:
            return
        tags, measurement = point["tags"], point["measurement"]
        missing = [t for t in REQUIRED_TAGS if t not in tags]
        if missing:
            raise MalformedLine(f"no tag {missing[0]}")
        if point["time"] is None:
            raise MalformedLine("no timestamp")
        try:
            task = int(tags["task"])
        except ValueError:
            raise MalformedLine(f"task {tags['task'][:20]!r} is not a number") from None
        if not 0 <= task <= _MOST_TASK:
            raise MalformedLine(f"task {task} is none of Storm's, which are 0 to {_MOST_TASK}")
        if any(isinstance(v, bool) for v in point["fields"].values()):
            raise MalformedLine("a field is true or false, which no measurement is")
        bucket_end_ms = point["time"] * ns_per_unit // 1_000_000
        if not 0 <= bucket_end_ms <= _MOST_EPOCH_MS:
            raise MalformedLine(f"timestamp {point['time']} is not of this age")
        worker = f"{tags['host']}:{tags['port']}"
        series = [self._code(v) for v in (measurement, tags["component"], worker)]
        ends = [self._code(tags.get("stream", "")), self._code(tags.get("peer", ""))]
        for name, value in point["fields"].items():
            if isinstance(value, str):
                texts.append(
                    Text(
                        bucket_end_ms,
                        tags["topology"],
                        measurement,
                        tags["component"],
                        task,
                        worker,
                        name,
                        value,
                    )
                )
                continue
            columns.bucket_end_ms.append(bucket_end_ms)
            columns.task.append(task)
            columns.value.append(float(value))
            codes = (*series, *ends, self._code(name), self._code(tags["topology"]))
            for column, code in zip(columns.labels, codes, strict=True):
                column.append(code)

    def _code(self, text: str) -> int:
        return self._codes.setdefault(text, len(self._codes))

    def rows(self, since_ms: int, until_ms: int, topology: str | None = None) -> pa.Table:
        """Return the rows of the buckets that end after ``since_ms`` and not after ``until_ms``.

        Parameters
        ----------
        topology : str, optional
            Leave out the other topologies' rows.

        Returns
        -------
        Table
            Of schema ``harness.schemas.METRICS``; ``worker`` is ``host:port``, and ``stream`` and
            ``peer`` are empty where a measurement has none.
        """
        with self._lock:
            wanted = self._codes.get(topology, -1) if topology is not None else None
            parts = [self._slice(c, since_ms, until_ms, wanted) for c in self._chunks]
            words = pa.array(list(self._codes), pa.string())
        return _latest(_table(parts, words))

    @staticmethod
    def _slice(chunk: _Chunk, since_ms: int, until_ms: int, topology: int | None) -> _Chunk:
        mask = (chunk.bucket_end_ms > since_ms) & (chunk.bucket_end_ms <= until_ms)
        if topology is not None:
            mask &= chunk.labels[_LABELS.index("topology")] == topology
        return chunk if mask.all() else chunk.take(mask)

    def texts(
        self, measurement: str, since_ms: int, topology: str | None = None
    ) -> list[Mapping[str, object]]:
        """Return the text fields of a measurement in buckets that end after ``since_ms``.

        Returns
        -------
        list of mapping
            With the fields of ``Text`` as keys, in the order of arrival.
        """
        with self._lock:
            latest = {
                t[:-1]: t  # all but its value
                for t in self._texts
                if t.measurement == measurement
                and t.bucket_end_ms > since_ms
                and topology in (None, t.topology)
            }
            return [t._asdict() for t in latest.values()]

    def forget(self, until_ms: int) -> None:
        """Drop what belongs to buckets that end at ``until_ms`` or before."""
        with self._lock:
            kept = [c.take(c.bucket_end_ms > until_ms) for c in self._chunks]
            self._chunks = [c for c in kept if len(c.value)]
            self._texts = [t for t in self._texts if t.bucket_end_ms > until_ms]


Number = TypeVar("Number", np.int32, np.int64, np.float64)


def _table(parts: list[_Chunk], words: pa.Array) -> pa.Table:
    def joined(arrays: Sequence[npt.NDArray[Number]], dtype: type[Number]) -> pa.Array:
        return pa.array(np.concatenate(arrays) if arrays else np.empty(0, dtype))

    columns = {
        "bucket_end_ms": joined([p.bucket_end_ms for p in parts], np.int64),
        "task": joined([p.task for p in parts], np.int32),
        "value": joined([p.value for p in parts], np.float64),
    }
    for i, label in enumerate(_LABELS):
        codes = joined([p.labels[i] for p in parts], np.int32)
        columns[label] = pa.DictionaryArray.from_arrays(codes, words)
    return pa.Table.from_arrays([columns[f.name] for f in METRICS], schema=METRICS)


def _latest(rows: pa.Table) -> pa.Table:
    """Keep the last of the rows that have everything but their value in common."""
    codes = {k: rows[k].combine_chunks() for k in _KEY}
    keys = pa.table({k: c.indices if pa.types.is_dictionary(c.type) else c for k, c in codes.items()})
    number = pa.array(np.arange(rows.num_rows))
    last = keys.append_column("row", number).group_by(list(_KEY)).aggregate([("row", "max")])["row_max"]
    if len(last) == rows.num_rows:
        return rows
    return rows.take(pa.array(np.sort(last.to_numpy())))
