"""Joins the messages that were sent with those that were received into the rows of ``latency.parquet``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.experiments.workload_tables import entered_ns as entered
from harness.schemas import LATENCY

Int64 = npt.NDArray[np.int64]
NS_PER_MS = 1e6


@dataclass(frozen=True)
class Assembled:
    """Every received row, whatever is wrong with it, and what is wrong.

    ``complaints`` is empty when each value is there and possible. Nothing is left out or altered:
    a value that cannot be had is null, an impossible one stands as it was measured.
    """

    latency: pa.Table
    complaints: tuple[str, ...]


def assemble(
    sent: pa.Table,
    received: pa.Table,
    components: Mapping[int, str],
    interval_ns: tuple[int, int],
    hosts: Mapping[int, str] | None = None,
) -> Assembled:
    """Join the two sides of the workload, message by message.

    Parameters
    ----------
    sent, received : Table
        ``harness.experiments.workload_tables.SENT`` and ``RECEIVED``. Rows without hops (of a jar's output
        topic) have an empty path.
    components : mapping of int to str
        The component of each task.
    interval_ns : tuple of int
        Start and end of the measured interval: start <= scheduled_ns < end.
    hosts : mapping of int to str, optional
        The host of each task, when there is more than one: without a shared clock between the ends
        of a path its ground truth is null. Of rows whose entry only the broker knows it is taken from the
        hops, where there are any: those are the host's times.

    Returns
    -------
    Assembled
        Rows of schema ``harness.schemas.LATENCY``, in the order of ``received``.
    """
    at, known = _positions(_int64(sent["message_id"]), _int64(received["message_id"]))

    def of_sent(name: str) -> pa.Array:
        return pc.take(sent[name].combine_chunks(), pa.array(at, mask=~known))

    scheduled_ns, sent_ns, append_ms = (of_sent(n) for n in ("scheduled_ns", "sent_ns", "append_ms"))
    left_ns, entered_ns = received["left_ns"].combine_chunks(), entered(received, append_ms)
    hops = received["hops"].combine_chunks()
    by_broker = received["entered_ns"].is_null().to_numpy()
    ground_truth_ms = pc.if_else(
        pa.array(by_broker & _passed(hops)), _within_ms(hops), _milliseconds(left_ns, entered_ns)
    )
    thesis_ms = _milliseconds(left_ns, received["thesis_entered_ns"].combine_chunks())
    if hosts is not None:
        apart = pa.array(_hosts_differ(hops, hosts))
        ground_truth_ms = pc.if_else(apart, pa.scalar(None, pa.float64()), ground_truth_ms)
        elsewhere = pa.array(_begins_elsewhere(received["record_path"].combine_chunks(), hops, hosts))
        thesis_ms = pc.if_else(pc.or_(apart, elsewhere), pa.scalar(None, pa.float64()), thesis_ms)
    path, unknown_tasks = _paths(hops, components)
    columns = {
        "message_id": received["message_id"].combine_chunks(),
        "child": received["child"].combine_chunks(),
        "in_interval": pc.fill_null(
            pc.and_(pc.greater_equal(scheduled_ns, interval_ns[0]), pc.less(scheduled_ns, interval_ns[1])),
            False,
        ),
        "scheduled_ns": scheduled_ns,
        "sent_ns": sent_ns,
        "entered_ns": entered_ns,
        "left_ns": left_ns,
        "ground_truth_ms": ground_truth_ms,
        "broker_ms": pc.cast(pc.subtract(received["append_ms"].combine_chunks(), append_ms), pa.float64()),
        "scheduled_ms": _milliseconds(left_ns, scheduled_ns),
        "thesis_ground_truth_ms": thesis_ms,
        "path": path,
        "sink": _dictionary(received["sink"].combine_chunks()),
        "output_partition": received["output_partition"].combine_chunks(),
        "output_offset": received["output_offset"].combine_chunks(),
        "hops": hops,
    }
    table = pa.Table.from_arrays([columns[f.name] for f in LATENCY], schema=LATENCY)
    first_id = pc.min(sent["message_id"]).as_py() or 0
    complaints = _complaints(table, known, first_id, unknown_tasks, hosts, by_broker)
    return Assembled(table, tuple(complaints))


def _int64(column: pa.ChunkedArray) -> Int64:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _positions(ids: Int64, wanted: Int64) -> tuple[Int64, npt.NDArray[np.bool_]]:
    """Return where each wanted identifier stands among ``ids``, and whether it does."""
    if not len(ids):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    order = np.argsort(ids, kind="stable")
    at = order[np.searchsorted(ids, wanted, sorter=order).clip(max=len(ids) - 1)]
    return at, ids[at] == wanted


def _milliseconds(end_ns: pa.Array, start_ns: pa.Array) -> pa.Array:
    return pc.divide(pc.cast(pc.subtract(end_ns, start_ns), pa.float64()), NS_PER_MS)


def _passed(hops: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which rows have hops."""
    return np.asarray(hops.value_lengths().to_numpy() > 0)


def _within_ms(hops: pa.Array) -> pa.Array:
    """Return the time from the first hop's emit to the last one's; of rows without hops anything."""
    if not len(hops.values):
        return pa.nulls(len(hops), pa.float64())
    _, begins, lengths = _tasks(hops)
    emitted_ns = _int64(hops.values.field("emitted_ns"))
    first, last = (emitted_ns.take(at, mode="clip") for at in (begins, begins + lengths - 1))
    return pa.array((last - first) / NS_PER_MS)


def _dictionary(column: pa.Array) -> pa.Array:
    return pc.cast(pc.dictionary_encode(column), pa.dictionary(pa.int32(), pa.string()))


def _tasks(hops: pa.Array) -> tuple[Int64, Int64, Int64]:
    """Return the tasks of all hops in a row, where each path begins among them, and its length."""
    offsets = np.asarray(hops.offsets.to_numpy(), dtype=np.int64)
    tasks = np.asarray(hops.values.field("task").to_numpy(), dtype=np.int64)
    return tasks, offsets[:-1], np.diff(offsets)


def _paths(hops: pa.Array, components: Mapping[int, str]) -> tuple[pa.Array, list[int]]:
    """Return each row's path as text, and the tasks that no component is known for."""
    tasks, begins, lengths = _tasks(hops)
    codes = np.zeros(len(hops), dtype=np.int32)
    names: list[str] = []
    if not lengths.all():  # nothing is known of the way: code 0
        names.append("")
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        paths = tasks[begins[rows][:, None] + np.arange(length)]
        distinct, which = np.unique(paths, axis=0, return_inverse=True)
        codes[rows] = which.reshape(-1) + len(names)
        names += ["/".join(f"{components.get(t, '?')}:{t}" for t in p) for p in distinct.tolist()]
    unknown = [t for t in np.unique(tasks).tolist() if t not in components]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names, pa.string())), unknown


def _host_numbers(tasks: Int64, hosts: Mapping[int, str]) -> Int64:
    """Return a number for the host of each task, -1 where that is not known."""
    names = sorted(set(hosts.values()))
    known = np.array(sorted(hosts), dtype=np.int64)
    numbers = np.array([names.index(hosts[task]) for task in known.tolist()], dtype=np.int64)
    at, there = _positions(known, tasks)
    return np.where(there, numbers[at] if len(known) else -1, -1)


def _hosts_differ(hops: pa.Array, hosts: Mapping[int, str]) -> npt.NDArray[np.bool_]:
    tasks, begins, lengths = _tasks(hops)
    if not lengths.all():  # of a jar: both times are the broker's
        return np.zeros(len(hops), dtype=np.bool_)
    where = _host_numbers(tasks, hosts)
    first, last = where[begins], where[begins + lengths - 1]
    return np.asarray((first != last) | (first < 0))


def _begins_elsewhere(paths: pa.Array, hops: pa.Array, hosts: Mapping[int, str]) -> npt.NDArray[np.bool_]:
    """Return which rows' records are of a path that begins on another host than their sink's.

    A window's record is of the path that was chosen among its members' (thesis 5.3.1).
    """
    tasks, begins, lengths = _tasks(hops)
    if not lengths.all() or len(set(hosts.values())) < 2:
        return np.zeros(len(hops), dtype=np.bool_)
    named = pc.dictionary_encode(paths)
    begun = [re.match(r"[^/]*:(\d+)", path) for path in named.dictionary.to_pylist()]
    first = np.array([int(found[1]) if found else -1 for found in begun], dtype=np.int64)
    from_hosts = _host_numbers(first, hosts)[named.indices.to_numpy()]
    return np.asarray(from_hosts != _host_numbers(tasks, hosts)[begins + lengths - 1])


def _complaints(
    table: pa.Table,
    known: npt.NDArray[np.bool_],
    first_id: int,
    unknown_tasks: list[int],
    hosts: Mapping[int, str] | None,
    by_broker: npt.NDArray[np.bool_],
) -> list[str]:
    """Name every value that is missing or impossible.

    A window in a worker that a rebalance left alone still holds members of the time before it, and sends them
    with the first of the step's own. They are older than all that the step sent, and not amiss.
    """
    complaints = []
    never_sent = ~known & (_int64(table["message_id"]) >= first_id)
    if never_sent.any():
        example = table["message_id"][int(np.flatnonzero(never_sent)[0])]
        complaints.append(f"{int(never_sent.sum())} rows of messages that were not sent (first: {example})")
    if unknown_tasks:
        complaints.append(f"tasks of no known component in the hop records: {unknown_tasks[:10]}")
    unconfirmed = int((table["broker_ms"].is_null().to_numpy() & known).sum())
    if unconfirmed:
        complaints.append(f"broker_ms: {unconfirmed} rows of messages that the broker did not confirm")
    for name in ("ground_truth_ms", "thesis_ground_truth_ms", "broker_ms", "scheduled_ms"):
        if hosts is not None and name == "scheduled_ms":
            continue  # meaningful only where generator and sinks share a clock
        values = table[name].to_numpy()
        negative = values < 0
        if negative.any():
            worst = int(np.nanargmin(values))
            complaints.append(
                f"{name}: {int(negative.sum())} negative rows "
                f"(worst: {values[worst]:.6f} of message {table['message_id'][worst]})"
            )
    return complaints + _hop_complaints(table, hosts, by_broker)


def _hop_complaints(
    table: pa.Table, hosts: Mapping[int, str] | None, by_broker: npt.NDArray[np.bool_]
) -> list[str]:
    """Check that time runs forward along each path and that its ends are the row's own.

    As far as that can be seen: not from one host to another, nor of ends that are the broker's.
    """
    hops = table["hops"].combine_chunks()
    tasks, begins, lengths = _tasks(hops)
    if not lengths.all():
        return []
    received = hops.values.field("received_ns").to_numpy()
    emitted = hops.values.field("emitted_ns").to_numpy()
    complaints = []
    backwards = int((emitted < received).sum())
    if backwards:
        complaints.append(f"hops: {backwards} were emitted before they were received")
    follows = np.ones(len(received), dtype=np.bool_)
    follows[begins] = False
    arrivals = np.flatnonzero(follows)
    if hosts is not None:
        where = _host_numbers(tasks, hosts)
        arrivals = arrivals[where[arrivals] == where[arrivals - 1]]
    early = int((received[arrivals] < emitted[arrivals - 1]).sum())
    if early:
        complaints.append(f"hops: {early} were received before the hop before them was emitted")
    entered_ns, left_ns = (_int64(table[name].fill_null(0)) for name in ("entered_ns", "left_ns"))
    ends = (emitted[begins] != entered_ns) | (emitted[begins + lengths - 1] != left_ns)
    ends &= ~by_broker
    if ends.any():
        complaints.append(
            f"hops: {int(ends.sum())} rows whose first and last hop are not entered_ns and left_ns"
        )
    return complaints
