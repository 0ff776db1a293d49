"""Where a tuple's time goes, component by component, from the hop records.

Every tuple carries for each component that it passed when it was received and when it was emitted. Between
the emit of one component and the receipt by the next lie transfer and queueing (they cannot be told apart:
the receipt is taken where ``execute`` begins, after the wait in the receive queue); between receipt and emit
lies the component's own work or, in a component with a window, the member's stay in the window. The parts of
a tuple add up to its ground-truth latency exactly, so the means of the parts add up to the mean.

Storm 1.2 passed lists of tuples between queues, whose sizes the thesis predicts (5.6). Storm 2.x passes
tuples one by one and keeps no such lists; what a queue costs is the wait, which is what is shown.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.analysis import tables
from harness.analysis.distribution import MISSING, NEGATIVE, ZERO, batch_of
from harness.analysis.inputs import RunRecord
from harness.analysis.noise import quantile_error
from harness.plans import QueryPlan

TRANSFER, INSIDE = "transfer", "inside"
QUEUE_WAIT, SERVICE, RESIDENCE = "queue_wait_ms", "service_time_ms", "window_residence_ms"
"""Measures by which a model can say what it expects of a stage; the subject is the component."""
BINS_PER_OCTAVE = 16
BATCHES = 10
PLACES = ("within a worker", "between workers", "between nodes")

_TASKS = pa.schema(
    [
        ("step", pa.int32()),
        ("task", pa.int32()),
        *((name, pa.string()) for name in ("component", "worker", "node", "host")),
    ]
)


def stages(spark: SparkSession, run: RunRecord) -> pd.DataFrame:
    """Count the parts of all latencies of the measured intervals.

    Returns
    -------
    DataFrame
        step, component, stage (``transfer``: from the emit upstream to the receipt; ``inside``: from there to
        the emit), place (how far the transfer went; empty for ``inside``), batch (a tenth of the interval),
        bin (floor of 16 log2 ns, or as in ``distribution``), n and sum_ns. Transfers between hosts, which
        share no clock, are missing.
    """
    when = sf.broadcast(tables.intervals(spark, run))
    rows = (
        tables.latency(spark, run)
        .where("in_interval AND size(hops) >= 2")
        .join(when, "step")
        .select(
            "step",
            batch_of(sf.col("scheduled_ns"), sf.col("start_ns"), sf.col("end_ns"), BATCHES).alias("batch"),
            sf.explode(_parts(sf.col("hops"))).alias("p"),
        )
        .select("step", "batch", "p.*")
    )
    tasks = _tasks(spark, run)
    before = tasks.select("step", *(sf.col(c).alias(f"from_{c}") for c in ("task", "worker", "node", "host")))
    placed = rows.join(sf.broadcast(tasks), ["step", "task"]).join(
        sf.broadcast(before), ["step", "from_task"]
    )
    transfer = sf.col("stage") == TRANSFER
    place = (
        sf.when(~transfer, "")
        .when(sf.col("worker") == sf.col("from_worker"), PLACES[0])
        .when(sf.col("node") == sf.col("from_node"), PLACES[1])
        .otherwise(PLACES[2])
    )
    known = ~transfer | (sf.col("host") == sf.col("from_host"))
    ns = sf.when(known, sf.col("ns"))
    counted = (
        placed.select("step", "component", "stage", place.alias("place"), "batch", ns.alias("ns"))
        .withColumn("bin", _bin(sf.col("ns")))
        .groupBy("step", "component", "stage", "place", "batch", "bin")
        .agg(sf.count("*").alias("n"), sf.coalesce(sf.sum("ns"), sf.lit(0)).alias("sum_ns"))
    )
    return tables.collect_frame(counted, "stages")


def _parts(hops: Column) -> Column:
    """Return two parts a hop: the way to it, and what it took itself."""

    def part(hop: Column, before: Column, stage: str, ns: Column) -> Column:
        return sf.struct(
            hop["task"].alias("task"),
            before["task"].alias("from_task"),
            sf.lit(stage).alias("stage"),
            ns.alias("ns"),
        )

    def both(i: Column) -> Column:
        hop, before = sf.get(hops, i), sf.get(hops, i - 1)
        return sf.array(
            part(hop, before, TRANSFER, hop["received_ns"] - before["emitted_ns"]),
            part(hop, before, INSIDE, hop["emitted_ns"] - hop["received_ns"]),
        )

    return sf.flatten(sf.transform(sf.sequence(sf.lit(1), sf.size(hops) - 1), both))


def _bin(ns: Column) -> Column:
    return (
        sf.when(ns.isNull(), MISSING)
        .when(ns < 0, NEGATIVE)
        .when(ns == 0, ZERO)
        .otherwise(sf.floor(sf.log2(ns.cast("double")) * BINS_PER_OCTAVE).cast("int"))
    )


def _tasks(spark: SparkSession, run: RunRecord) -> DataFrame:
    rows: list[dict[str, object]] = [
        {
            "step": s.index,
            "task": task,
            "component": e.component,
            "worker": e.worker.label,
            "node": e.worker.node,
            "host": s.plan.start.node_names[e.worker.node].host,
        }
        for s in run.steps
        for task, e in s.plan.start.by_task.items()
    ]
    return tables.from_rows(spark, rows, _TASKS)


def order(query: QueryPlan) -> list[tuple[str, str]]:
    """Return the stages (component, stage) in the order in which a tuple meets them."""
    reached = list(query.spouts)
    for name in reached:
        reached += [s.target for s in query.outputs(name) if s.target not in reached]
    depth = dict.fromkeys(query.spouts, 0)
    for _ in reached:
        for name in reached:
            for s in query.outputs(name):
                depth[s.target] = max(depth.get(s.target, 0), depth.get(name, 0) + 1)
    bolts = sorted((n for n in reached if query.inputs(n)), key=lambda n: (depth[n], reached.index(n)))
    return [(name, stage) for name in bolts for stage in (TRANSFER, INSIDE)]


def label(query: QueryPlan, component: str, stage: str) -> str:
    """Return a stage in words, e.g. ``bolt-a: transfer and queue``."""
    if stage == TRANSFER:
        return f"{component}: transfer and queue"
    return f"{component}: " + ("window" if query.component(component).window else "service")


def measure(query: QueryPlan, component: str, stage: str) -> str:
    """Return the measure by which a model predicts a stage."""
    if stage == TRANSFER:
        return QUEUE_WAIT
    return RESIDENCE if query.component(component).window else SERVICE


def means(found: pd.DataFrame, query: QueryPlan) -> pd.DataFrame:
    """Return each stage's mean, and its part in the mean ground-truth latency.

    Parameters
    ----------
    found : DataFrame
        What ``stages`` gives.
    query : QueryPlan
        Its sinks end every latency.

    Returns
    -------
    DataFrame
        Index step, component and stage; n (visits), visit_ms (mean of a visit), part_ms (what all visits add
        to the mean latency: the parts of a step add up to its mean), part_error_ms (standard error).
    """
    by = ["step", "component", "stage"]
    known = found[found["bin"] > MISSING]
    ends = known[known["component"].isin(query.sinks) & (known["stage"] == INSIDE)]
    latencies = ends.groupby(["step", "batch"])["n"].sum()
    sums = known.groupby(by)[["n", "sum_ns"]].sum()
    of_step = latencies.groupby("step").sum().reindex(sums.index.get_level_values("step"))
    of_batch = known.groupby([*by, "batch"])["sum_ns"].sum()
    out = pd.DataFrame(
        {
            "n": sums["n"],
            "visit_ms": sums["sum_ns"] / sums["n"] / 1e6,
            "part_ms": sums["sum_ns"] / of_step.to_numpy() / 1e6,
        }
    )
    errors = []
    for step, component, stage in sums.index:
        counts = latencies.loc[step]
        mine = of_batch.loc[step, component, stage].reindex(counts.index, fill_value=0)
        part = float(out.loc[(step, component, stage), "part_ms"])
        errors.append(quantile_error((mine / counts).to_numpy() / 1e6, counts.to_numpy(), part))
    return out.assign(part_error_ms=np.array(errors, dtype=float))


def visits(found: pd.DataFrame, step: int, component: str, stage: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the bins above zero of a stage's visits, and their counts."""
    mine = found[
        (found["step"] == step)
        & (found["component"] == component)
        & (found["stage"] == stage)
        & (found["bin"] > ZERO)
    ]
    counted = mine.groupby("bin")["n"].sum()
    return counted.index.to_numpy(dtype=float), counted.to_numpy(dtype=float)
