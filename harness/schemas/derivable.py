"""Columns of ``latency.parquet`` that follow from its others, to the last bit: archived runs leave them out.

``docs/run-directory.md`` marks them. A file that was cut names in its schema's metadata those it lacks. A
column that cannot be computed again exactly is kept, of workers with clocks of their own for instance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.schemas.tables import LATENCY

NEEDED: Mapping[str, tuple[str, ...]] = {
    "path": ("hops",),
    "entered_ns": ("hops",),
    "left_ns": ("hops",),
    "ground_truth_ms": ("left_ns", "entered_ns"),
    "scheduled_ms": ("left_ns", "scheduled_ns"),
    "thesis_ground_truth_ms": ("ground_truth_ms",),
}
"""The columns, each with what it follows from; those before it may be among that."""
LEFT_OUT = b"left_out"
"""Key of the metadata: the names of the columns that were left out, with commas between."""
NS_PER_MS = 1e6


def left_out(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that a file says it leaves out.

    Examples
    --------
    >>> left_out(pa.schema([("child", pa.int32())], metadata={LEFT_OUT: b"path,left_ns"}))
    ('path', 'left_ns')
    """
    said = (schema.metadata or {}).get(LEFT_OUT, b"").decode()
    return tuple(name for name in NEEDED if name in said.split(","))


def without_derivable(table: pa.Table, components: Mapping[int, str]) -> pa.Table:
    """Return a table of latencies without the columns that follow from the others.

    Parameters
    ----------
    table : Table
        As ``LATENCY`` declares it.
    components : mapping of int to str
        By task.
    """
    dropped = [name for name in NEEDED if _equal(table[name], _derived(name, table, components))]
    kept = table.drop_columns(dropped)
    return kept.replace_schema_metadata({**(table.schema.metadata or {}), LEFT_OUT: ",".join(dropped)})


def with_derivable(
    table: pa.Table, components: Mapping[int, str], columns: Sequence[str] = LATENCY.names
) -> pa.Table:
    """Return a table of latencies whole again, as ``LATENCY`` declares it, or with some of its columns.

    Parameters
    ----------
    table : Table
        Of ``columns`` at least those that are ``needed``.
    components : mapping of int to str
        By task.
    columns : sequence of str
        The columns that are computed, where the table lacks them.

    Raises
    ------
    KeyError
        When a hop is of a task that ``components`` has not.
    """
    wanted = _followed(columns, left_out(table.schema))
    for name in (name for name in NEEDED if name in wanted):
        table = table.append_column(LATENCY.field(name), _derived(name, table, components))
    metadata = {k: v for k, v in (table.schema.metadata or {}).items() if k != LEFT_OUT}
    order = [name for name in LATENCY.names if name in table.column_names]
    return table.select(order).replace_schema_metadata(metadata)


def needed(columns: Sequence[str], dropped: Sequence[str]) -> list[str]:
    """Return the columns of a file that some columns are read or computed from.

    Examples
    --------
    >>> needed(["message_id", "ground_truth_ms"], ["left_ns", "ground_truth_ms"])
    ['message_id', 'hops', 'entered_ns']
    """
    found: list[str] = []
    for name in columns:
        found += needed(NEEDED[name], dropped) if name in dropped else [name]
    return list(dict.fromkeys(found))


def _followed(columns: Sequence[str], dropped: Sequence[str]) -> set[str]:
    """Return the columns to compute for some columns, those in between included."""
    mine = {name for name in columns if name in dropped}
    return mine.union(*(_followed(NEEDED[name], dropped) for name in mine))


def _derived(name: str, table: pa.Table, components: Mapping[int, str]) -> pa.Array:
    """Compute one column of a table that has, or has been given, what it follows from."""
    if name == "path":
        return _paths(_hops(table), components)
    if name == "entered_ns":
        return _end(_hops(table), first=True)
    if name == "left_ns":
        return _end(_hops(table), first=False)
    if name == "thesis_ground_truth_ms":
        return table["ground_truth_ms"].combine_chunks()
    end_ns, start_ns = NEEDED[name]
    passed_ns = pc.subtract(table[end_ns].combine_chunks(), table[start_ns].combine_chunks())
    return pc.divide(pc.cast(passed_ns, pa.float64()), NS_PER_MS)


def _hops(table: pa.Table) -> pa.ListArray:
    return table["hops"].combine_chunks()


def _end(hops: pa.ListArray, first: bool) -> pa.Array:
    """Return when the first, or the last, hop emitted; null where a row has no hops."""
    lengths = np.asarray(hops.value_lengths().fill_null(0), dtype=np.int64)
    ends = np.cumsum(lengths)
    at = ends - lengths if first else ends - 1
    return hops.flatten().field("emitted_ns").take(pa.array(at, mask=lengths == 0))


def _paths(hops: pa.ListArray, components: Mapping[int, str]) -> pa.Array:
    """Return ``spout:3/bolt-a:20/sender:40`` of every row; of a task without a name, a name that is none."""
    tasks = hops.flatten().field("task").dictionary_encode()
    names = pa.array([f"{components.get(task, '?')}:{task}" for task in tasks.dictionary.to_pylist()])
    lengths = np.asarray(hops.value_lengths().fill_null(0), dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    spelled = names.take(tasks.indices) if len(names) else pa.array([], pa.string())
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), spelled), "/")
    return joined.dictionary_encode()


def _equal(column: pa.ChunkedArray, computed: pa.Array) -> bool:
    """Say whether two columns are the same in every row, nulls included."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    ours, theirs = pc.cast(column.combine_chunks(), kind), pc.cast(computed, kind)
    return bool(ours.equals(theirs))
