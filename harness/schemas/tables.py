"""The run directory's tables: names, types and units of every column, and the schema number.

``docs/run-directory.md`` says in prose what this module says to pyarrow; a test keeps them equal.
"""

from __future__ import annotations

import pyarrow as pa

from harness.schemas.meanings import ADAPTATION_COLUMNS, LATENCY_COLUMNS, METRICS_COLUMNS, describe_columns

SCHEMA_VERSION = 4
"""Version of a run directory. It is raised when a record or a table gets or loses a key or a column, or one
of them means something else. Then ``harness.schemas.migrations`` makes the records of older runs into
today's."""

HOP = pa.struct([("task", pa.int32()), ("received_ns", pa.int64()), ("emitted_ns", pa.int64())])
"""One component passed: the spout's ``received_ns`` equals its ``emitted_ns``."""

_LATENCY = pa.schema(
    [
        ("message_id", pa.int64()),
        ("child", pa.int32()),
        ("in_interval", pa.bool_()),
        ("scheduled_ns", pa.int64()),
        ("sent_ns", pa.int64()),
        ("entered_ns", pa.int64()),
        ("left_ns", pa.int64()),
        ("ground_truth_ms", pa.float64()),
        ("broker_ms", pa.float64()),
        ("scheduled_ms", pa.float64()),
        ("thesis_ground_truth_ms", pa.float64()),
        ("path", pa.dictionary(pa.int32(), pa.string())),
        ("sink", pa.dictionary(pa.int32(), pa.string())),
        ("output_partition", pa.int32()),
        ("output_offset", pa.int64()),
        ("hops", pa.list_(HOP)),
    ]
)

_ADAPTATION = pa.schema(
    [
        ("period", pa.int32()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("decision", pa.string()),
        ("reason", pa.string()),
        ("asked_ns", pa.int64()),
        ("in_force_ns", pa.int64()),
        ("executors_moved", pa.int32()),
        ("workers_restarted", pa.int32()),
        ("restarted", pa.bool_()),
        ("pause_ms", pa.float64()),
        ("lost", pa.int64()),
        ("repeated", pa.int64()),
        ("latency_mean_ms", pa.float64()),
        ("latency_p95_ms", pa.float64()),
        ("rate_tps", pa.float64()),
        ("planned_tps", pa.float64()),
        ("forecast", pa.string()),
        ("quantile", pa.float64()),
        ("horizon_s", pa.float64()),
        ("forecast_declined", pa.string()),
        ("executors", pa.int32()),
        ("workers", pa.int32()),
        ("nodes", pa.int32()),
        ("nodes_added", pa.list_(pa.string())),
        ("nodes_removed", pa.list_(pa.string())),
        ("nodes_marked", pa.list_(pa.string())),
        ("batches", pa.list_(pa.string())),
        ("batches_asked", pa.list_(pa.string())),
        ("bottleneck", pa.string()),
        ("cpu_use_pct", pa.float64()),
        ("heap_use_pct", pa.float64()),
        ("sent_use_pct", pa.float64()),
        ("groups_moved", pa.int32()),
        ("moved_state_bytes", pa.int64()),
        ("group_pause_ms", pa.float64()),
        ("over_target_s", pa.int32()),
        ("between_workers_tps", pa.float64()),
        ("between_nodes_tps", pa.float64()),
        ("load_distance_pct", pa.float64()),
        ("collocation_factor", pa.float64()),
        ("load_cores", pa.float64()),
        ("load_index_pct", pa.float64()),
    ]
)

_METRICS = pa.schema(
    [
        ("bucket_end_ms", pa.int64()),
        ("measurement", pa.dictionary(pa.int32(), pa.string())),
        ("component", pa.dictionary(pa.int32(), pa.string())),
        ("task", pa.int32()),
        ("worker", pa.dictionary(pa.int32(), pa.string())),
        ("stream", pa.dictionary(pa.int32(), pa.string())),
        ("peer", pa.dictionary(pa.int32(), pa.string())),
        ("field", pa.dictionary(pa.int32(), pa.string())),
        ("value", pa.float64()),
    ]
)

LATENCY = describe_columns(_LATENCY, LATENCY_COLUMNS)
METRICS = describe_columns(_METRICS, METRICS_COLUMNS)
ADAPTATION = describe_columns(_ADAPTATION, ADAPTATION_COLUMNS)
"""Their fields say in the files what they mean, and in which unit."""

PREDICTIONS = pa.schema(
    [
        ("model", pa.string()),
        ("source_step", pa.int32()),
        ("proposed_step", pa.int32()),
        ("measure", pa.string()),
        ("subject", pa.string()),
        ("statistic", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("status", pa.string()),
        ("reason", pa.string()),
    ]
)

ERRORS = pa.schema(
    [
        *PREDICTIONS,
        ("protocol", pa.string()),
        ("actual", pa.float64()),
        ("noise", pa.float64()),
        ("relative_error", pa.float64()),
        ("abs_error_pct", pa.float64()),
        ("q_error", pa.float64()),
        ("error_over_noise", pa.float64()),
        ("covered", pa.bool_()),
        ("verdict", pa.string()),
    ]
)
