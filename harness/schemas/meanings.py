"""The meaning and unit of each column of a step's tables, as metadata of its field in the Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa


class ColumnMeaning(NamedTuple):
    """The meaning of a column, and its unit; empty where it has none."""

    meaning: str
    unit: str = ""


LATENCY_COLUMNS: Mapping[str, ColumnMeaning] = {
    "message_id": ColumnMeaning("number of the message"),
    "child": ColumnMeaning("child of the message, 0 where no component multiplies"),
    "in_interval": ColumnMeaning("scheduled within the measured interval"),
    "scheduled_ns": ColumnMeaning("time when the generator should have sent the message", "ns"),
    "sent_ns": ColumnMeaning("time when the generator sent the message", "ns"),
    "entered_ns": ColumnMeaning("time of the spout's emit", "ns"),
    "left_ns": ColumnMeaning("time just before the sink sent the output", "ns"),
    "ground_truth_ms": ColumnMeaning("latency through the topology, left_ns - entered_ns", "ms"),
    "broker_ms": ColumnMeaning("log append of the input to log append of the output, on one broker", "ms"),
    "scheduled_ms": ColumnMeaning("latency since the message was due, left_ns - scheduled_ns", "ms"),
    "thesis_ground_truth_ms": ColumnMeaning("latency of the output tuple as the thesis has it (5.3.1)", "ms"),
    "path": ColumnMeaning("component and task of every hop"),
    "sink": ColumnMeaning("component that sent the output"),
    "output_partition": ColumnMeaning("partition of the record in the output topic"),
    "output_offset": ColumnMeaning("offset of the record; members of one window share it"),
    "hops": ColumnMeaning("task, received_ns and emitted_ns of every hop, the spout first", "ns"),
}
METRICS_COLUMNS: Mapping[str, ColumnMeaning] = {
    "bucket_end_ms": ColumnMeaning("end of the metric bucket since 1970", "ms"),
    "measurement": ColumnMeaning("name of the metric"),
    "component": ColumnMeaning("component that the metric is of"),
    "task": ColumnMeaning("task that the metric is of"),
    "worker": ColumnMeaning("node and port of the worker"),
    "stream": ColumnMeaning("input or output stream, empty where the metric has none"),
    "peer": ColumnMeaning("other end of the stream, or clock of a histogram"),
    "field": ColumnMeaning("field of the metric, whose unit docs/run-directory.md has"),
    "value": ColumnMeaning("value of the field in this bucket"),
}
ADAPTATION_COLUMNS: Mapping[str, ColumnMeaning] = {
    "period": ColumnMeaning("number of the period, from 0"),
    "start_ns": ColumnMeaning("begin of the period", "ns"),
    "end_ns": ColumnMeaning("end of the period, when the scheduler or tuner was asked", "ns"),
    "decision": ColumnMeaning("applied, stays or declined"),
    "reason": ColumnMeaning("reason of the decision"),
    "asked_ns": ColumnMeaning("time when the cluster was asked for a change", "ns"),
    "in_force_ns": ColumnMeaning(
        "time when every executor was in its place, with the batch sizes and key groups asked for", "ns"
    ),
    "executors_moved": ColumnMeaning("executors that the proposal puts elsewhere"),
    "workers_restarted": ColumnMeaning("workers that the proposal begins or changes"),
    "restarted": ColumnMeaning("whether the decision restarted workers; null before schema 4"),
    "pause_ms": ColumnMeaning("longest time without an output near the decision", "ms"),
    "lost": ColumnMeaning("messages due near a decision that restarts workers, which never came out"),
    "repeated": ColumnMeaning("messages due near a decision that restarts workers, which came out twice"),
    "latency_mean_ms": ColumnMeaning("mean latency since messages were due, of outputs of the period", "ms"),
    "latency_p95_ms": ColumnMeaning("its 95th percentile", "ms"),
    "rate_tps": ColumnMeaning("messages due in the period", "messages/s"),
    "planned_tps": ColumnMeaning("rate that the decision's plan is made for", "messages/s"),
    "forecast": ColumnMeaning("forecaster that was asked for that rate"),
    "quantile": ColumnMeaning("quantile of the rate that it was asked for"),
    "horizon_s": ColumnMeaning("seconds after the decision until which it was asked", "s"),
    "forecast_declined": ColumnMeaning("why it had none: the last period's rate is planned for"),
    "executors": ColumnMeaning("executors in force at its end, without Storm's own"),
    "workers": ColumnMeaning("workers in force at its end"),
    "nodes": ColumnMeaning("worker nodes there at its end"),
    "nodes_added": ColumnMeaning("worker nodes that the decision starts"),
    "nodes_removed": ColumnMeaning("worker nodes, marked and empty, that the decision ends"),
    "nodes_marked": ColumnMeaning("worker nodes that are marked for removal by the decision or before"),
    "batches": ColumnMeaning("batch sizes in force at its end, as tasks reported them last"),
    "batches_asked": ColumnMeaning("batch sizes that the decision asks for"),
    "bottleneck": ColumnMeaning("resource that is used most: cpu, heap or sent"),
    "cpu_use_pct": ColumnMeaning("CPU in use, of that of the nodes that are not marked", "%"),
    "heap_use_pct": ColumnMeaning("heap that is kept, of that of their slots", "%"),
    "sent_use_pct": ColumnMeaning("bytes sent to other workers, of what their links may send", "%"),
    "groups_moved": ColumnMeaning("key groups that the decision moved to other tasks"),
    "moved_state_bytes": ColumnMeaning("size of their states, written out", "bytes"),
    "group_pause_ms": ColumnMeaning("longest time that a task held a moving group's tuples back", "ms"),
    "over_target_s": ColumnMeaning("seconds whose messages have a p95 above the step's target", "s"),
    "between_workers_tps": ColumnMeaning("traffic between workers, of the plan in force", "tuples/s"),
    "between_nodes_tps": ColumnMeaning("traffic between nodes, of the plan in force", "tuples/s"),
    "load_distance_pct": ColumnMeaning("load distance of the plan in force", "points of a node"),
    "collocation_factor": ColumnMeaning("share of the tuples that stay on their node"),
    "load_cores": ColumnMeaning("CPU of all executors", "cores"),
    "load_index_pct": ColumnMeaning("load_cores over that of the first period", "%"),
}


def describe_columns(schema: pa.Schema, columns: Mapping[str, ColumnMeaning]) -> pa.Schema:
    """Return a schema whose fields have ``meaning`` and, where they have one, ``unit`` as metadata.

    Raises
    ------
    KeyError
        When a column has no meaning.

    Examples
    --------
    >>> described = describe_columns(pa.schema([("child", pa.int32())]), LATENCY_COLUMNS)
    >>> described.field("child").metadata
    {b'meaning': b'child of the message, 0 where no component multiplies'}
    """
    return pa.schema([field.with_metadata(_metadata(columns[field.name])) for field in schema])


def _metadata(column: ColumnMeaning) -> dict[str, str]:
    return {"meaning": column.meaning} | ({"unit": column.unit} if column.unit else {})
