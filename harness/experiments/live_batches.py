"""Batch sizes that change while messages flow: sizes asked for, and sizes in force as tasks report them.

Only the streams that a topology was submitted with batches for can change theirs (docs/rewriting.md); a size
of 1 is enough for it. Sizes are by ``component:stream`` here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from harness.plans import Batching, BatchSize, PhysicalPlan, QueryPlan, stream_sizes
from harness.schemas import Metric, MetricField

ReportedSizes = Mapping[str, tuple[BatchSize, ...]]
"""The sizes that a stream's tasks report, by ``component:stream``: one where all agree."""


def sizes_by_stream(plan: QueryPlan, batching: Batching) -> dict[str, BatchSize]:
    """Return the size of each stream of a topology that may be batched, those of 1 included.

    Examples
    --------
    >>> from harness.plans import Component, Stream
    >>> ends = (Component(name="spout", role="spout", tasks=1), Component(name="sink", role="other", tasks=1))
    >>> way = Stream(source="spout", stream="default", target="sink", grouping="shuffle")
    >>> plan = QueryPlan(name="two", components=ends, streams=(way,))
    >>> {name: b.size for name, b in sizes_by_stream(plan, {"spout": BatchSize(size=1)}).items()}
    {'spout:default': 1}
    """
    return {f"{s.source}:{s.stream}": size for s, size in stream_sizes(plan, batching).items()}


def proposed_sizes(in_force: Batching, plan: QueryPlan, proposed: Batching) -> dict[str, BatchSize]:
    """Return the sizes to ask for: as proposed, and 1 where a proposal names no batch for a stream.

    Parameters
    ----------
    in_force : mapping of str to BatchSize
        By ``component:stream``: all streams that may be batched.
    proposed : mapping of str to BatchSize
        As ``topology.batching`` says it; what it says of other streams is left out.

    Examples
    --------
    >>> from harness.plans import Component, Stream
    >>> ends = [Component(name=c, role="spout", tasks=1) for c in "abc"]
    >>> ends += [Component(name="sink", role="other", tasks=1)]
    >>> ways = [Stream(source=c, stream="s", target="sink", grouping="shuffle") for c in "abc"]
    >>> plan = QueryPlan(name="three", components=tuple(ends), streams=tuple(ways))
    >>> now = {"a:s": BatchSize(size=1), "b:s": BatchSize(size=9, flush_ms=20)}
    >>> sizes_text(proposed_sizes(now, plan, {"a": BatchSize(size=7), "c": BatchSize(size=3)}))
    ['a:s 7/5 ms', 'b:s 1']
    """
    wanted = sizes_by_stream(plan, proposed)
    alone = {name: size.model_copy(update={"size": 1}) for name, size in in_force.items()}
    return {name: wanted.get(name, alone[name]) for name in in_force}


def sizes_by_component(sizes: Batching) -> dict[str, BatchSize]:
    """Return sizes by component where all of a component's streams have one, else by stream.

    Examples
    --------
    >>> list(sizes_by_component({"a:s": BatchSize(size=2), "a:t": BatchSize(size=2)}))
    ['a']
    >>> list(sizes_by_component({"a:s": BatchSize(size=2), "a:t": BatchSize(size=3)}))
    ['a:s', 'a:t']
    """
    found: dict[str, set[BatchSize]] = {}
    for name, size in sizes.items():
        found.setdefault(_component(name), set()).add(size)
    return {
        (c if len(found[c]) == 1 else name): size for name, size in sizes.items() if (c := _component(name))
    }


def reported_sizes(rows: pa.Table, streams: Iterable[str]) -> dict[str, tuple[BatchSize, ...]]:
    """Return the sizes that the tasks of streams reported last, without repetitions.

    Parameters
    ----------
    rows : Table
        Of the columns of ``metrics.parquet``.
    streams : iterable of str
        By ``component:stream``. One that nobody reports is left out.
    """
    found: dict[str, set[BatchSize]] = {name: set() for name in streams}
    for (name, _), size in _last_reports(rows).items():
        if name in found:
            found[name].add(size)
    return {
        name: tuple(sorted(sizes, key=lambda b: (b.size, b.flush_ms)))
        for name, sizes in found.items()
        if sizes
    }


def not_in_force(rows: pa.Table, plan: PhysicalPlan, asked: Batching) -> list[str]:
    """Return the streams, by ``component:stream``, whose tasks do not all report the size that was asked for.

    Parameters
    ----------
    rows : Table
        Of buckets that ended after it was asked for.
    asked : mapping of str to BatchSize
        By ``component:stream``.
    """
    last = _last_reports(rows)
    return [
        name
        for name, size in asked.items()
        if any(
            last.get((name, task)) != size
            for e in plan.of(_component(name))
            for task in range(e.first_task, e.last_task + 1)
        )
    ]


def sizes_text(sizes: Batching | ReportedSizes) -> list[str]:
    """Return sizes as ``adaptation.parquet`` has them: a text a stream.

    Examples
    --------
    >>> sizes_text({"a:s": BatchSize(size=20), "b:s": (BatchSize(size=1), BatchSize(size=4, flush_ms=9))})
    ['a:s 20/5 ms', 'b:s 1 or 4/9 ms']
    """
    several = {name: s if isinstance(s, tuple) else (s,) for name, s in sizes.items()}
    return [f"{name} {' or '.join(map(size_text, s))}" for name, s in several.items()]


def size_text(size: BatchSize) -> str:
    """Return a size and the time after which a smaller batch leaves; a tuple alone waits for nothing.

    Examples
    --------
    >>> size_text(BatchSize(size=20, flush_ms=5)), size_text(BatchSize(size=1))
    ('20/5 ms', '1')
    """
    return "1" if size.size == 1 else f"{size.size}/{size.flush_ms} ms"


def _component(name: str) -> str:
    return name.partition(":")[0]


def _last_reports(rows: pa.Table) -> dict[tuple[str, int], BatchSize]:
    """Return the size that each task reported last, by ``component:stream`` and task."""
    of_batches = pc.equal(rows["measurement"].cast(pa.string()), str(Metric.BATCH))
    named = pc.is_in(
        rows["field"].cast(pa.string()), pa.array([str(MetricField.SIZE), str(MetricField.FLUSH_MS)])
    )
    kept = rows.filter(pc.and_(of_batches, named)).sort_by("bucket_end_ms")
    found: dict[tuple[str, int], dict[str, int]] = {}
    columns = ("component", "stream", "task", "field", "value")
    for component, stream, task, field, value in zip(*(kept[c].to_pylist() for c in columns), strict=True):
        found.setdefault((f"{component}:{stream}", task), {})[field] = round(value)
    return {key: BatchSize.model_validate(fields) for key, fields in found.items() if len(fields) == 2}
