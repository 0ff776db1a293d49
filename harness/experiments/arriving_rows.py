"""Rows of metrics as they arrive in the step that is being measured: a file of it that pages read."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import HarnessError
from harness.experiments.contracts import Metrics
from harness.experiments.plan_traffic import TRAFFIC
from harness.experiments.watching import REPORTED_S
from harness.schemas import METRICS

ARRIVING = "arriving.arrows"
"""An Arrow stream beside ``progress.jsonl``; it is there only while a step is measured."""
EVERY_S = 5.0
"""So often it grows: reading the rows that have arrived takes CPU time of the machine that is measured."""
STEP = b"step"
COLUMNS = pa.schema(
    [pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in METRICS]
)
"""Schema of the file: every batch of rows can be read without the ones before."""


class ArrivingRows:
    """Appends the rows that arrive in a step to a file of the run, a few seconds at a time.

    The file is removed when the block ends. A disk that is full loses it and stops no campaign.

    Parameters
    ----------
    run : Path
        The run directory.
    metrics : Metrics
        Where metrics arrive.
    step : int
    since_ms : int
        Epoch ms at which the plan was in force.
    now_s : callable, optional
        Epoch s.
    """

    def __init__(
        self, run: Path, metrics: Metrics, step: int, since_ms: int, now_s: Callable[[], float] = time.time
    ) -> None:
        self._path = run / ARRIVING
        self._metrics = metrics
        self._until_ms = since_ms
        self._now_s = now_s
        self._file: pa.OSFile | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None
        with suppress(OSError):
            self._file = pa.OSFile(str(self._path), "wb")
            schema = COLUMNS.with_metadata({STEP: str(step).encode()})
            self._writer = pa.ipc.new_stream(self._file, schema)

    def keep(self) -> None:
        """Append the buckets that have been reported whole, when the last ones are old enough."""
        until_ms = round((self._now_s() - REPORTED_S) * 1e3)
        if self._writer is None or until_ms - self._until_ms < EVERY_S * 1e3:
            return
        try:
            rows = self._metrics.rows(self._until_ms, until_ms)
        except HarnessError:  # the campaign says itself what its store lacks
            return
        self._until_ms = until_ms
        kept = rows.filter(pc.is_in(rows["measurement"].cast(pa.string()), pa.array(TRAFFIC)))
        with suppress(OSError):
            self._writer.write_table(kept.cast(COLUMNS))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the file: the step is written, or will not be."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        with suppress(OSError):
            self._path.unlink()


def arriving_rows(run: Path, step: int) -> pa.Table | None:
    """Return the rows that have arrived of a step, of schema ``METRICS``; None where it is not measured now.

    Parameters
    ----------
    run : Path
        The run directory, which another process may be measuring into.
    """
    try:
        with pa.OSFile(str(run / ARRIVING), "rb") as file:
            stream = pa.ipc.open_stream(file)
            if (stream.schema.metadata or {}).get(STEP) != str(step).encode():
                return None
            batches = _whole(stream)
    except (OSError, pa.ArrowInvalid):  # not there, removed meanwhile, or without its first bytes yet
        return None
    return pa.Table.from_batches(batches, COLUMNS).cast(METRICS)


def _whole(stream: pa.RecordBatchStreamReader) -> list[pa.RecordBatch]:
    """Return the batches that are whole; the last one may be half written."""
    batches = []
    with suppress(StopIteration, pa.ArrowInvalid, OSError):
        while True:
            batches.append(stream.read_next_batch().replace_schema_metadata(None))
    return batches
