"""Where a tuple's time goes, component by component, from the hop records.

Every tuple carries, for each component that it passed, the times when it was received and when it was
emitted. Between the emit of one component and the receipt by the next lie transfer and queueing. These cannot
be told apart, since the receipt is taken where ``execute`` begins, after the wait in the receive queue.
Between receipt and emit lies the component's own work or, in a component with a window, the member's stay in
the window. The parts of a tuple add up to its ground-truth latency exactly, so the means of the parts add up
to the mean.

Storm 1.2 passed lists of tuples between queues, whose sizes the thesis predicts (5.6). Storm 2.x passes
tuples one by one and keeps no such lists. The cost of a queue is the wait, which is shown.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.analysis.spark import tables
from harness.analysis.spark.distribution import MISSING, ZERO, batch_of, log_bin
from harness.analysis.spark.inputs import Source
from harness.analysis.spark.noise import quantile_error
from harness.plans import QueryPlan
from harness.schemas import Measure

Floats = npt.NDArray[np.float64]

TRANSFER, INSIDE = "transfer", "inside"
"""Measures by which a model can say its expectations of a stage; the subject is the component."""
BINS_PER_OCTAVE = 16
BATCHES = 10
PLACES = ("within a worker", "between workers", "between nodes")

_PLACED = pa.schema([(name, pa.int32()) for name in ("step", "task", "component", "worker", "node", "host")])
_STAGES = (TRANSFER, INSIDE)
_TRANSFER, _INSIDE = range(len(_STAGES))


def stages(spark: SparkSession, source: Source) -> pd.DataFrame:
    """Count the parts of all latencies of the measured intervals.

    Returns
    -------
    DataFrame
        step, component, stage (``transfer``: from the emit upstream to the receipt; ``inside``: from there to
        the emit), place (how far the transfer went; empty for ``inside``), batch (a tenth of the interval),
        bin (floor of 16 log2 ns, or as in ``distribution``), n and sum_ns. Transfers between hosts, which
        share no clock, are missing.
    """
    tasks, components = _placed(spark, source)
    before = tasks.select("step", *(sf.col(c).alias(f"from_{c}") for c in ("task", "worker", "node", "host")))
    hops, at = sf.col("hops"), sf.col("at")
    hop, previous = sf.get(hops, at), sf.get(hops, at - 1)
    # Every name is a number until the rows are counted: there are many more of them than of messages.
    passed = (
        tables.latency(spark, source)
        .where("in_interval AND size(hops) >= 2")
        .select(
            "step",
            batch_of(sf.col("scheduled_ns"), sf.col("start_ns"), sf.col("end_ns"), BATCHES).alias("batch"),
            "hops",
            sf.explode(sf.sequence(sf.lit(1), sf.size("hops") - 1)).alias("at"),
        )
        .select(
            "step",
            "batch",
            hop["task"].alias("task"),
            previous["task"].alias("from_task"),
            (hop["received_ns"] - previous["emitted_ns"]).alias("transfer_ns"),
            (hop["emitted_ns"] - hop["received_ns"]).alias("inside_ns"),
        )
        .join(sf.broadcast(tasks), ["step", "task"])
        .join(sf.broadcast(before), ["step", "from_task"])
    )
    place = (
        sf.when(sf.col("worker") == sf.col("from_worker"), 0)
        .when(sf.col("node") == sf.col("from_node"), 1)
        .otherwise(2)
    )
    known = sf.col("host") == sf.col("from_host")
    parts = sf.array(
        _part(_TRANSFER, place, sf.when(known, sf.col("transfer_ns"))),
        _part(_INSIDE, sf.lit(-1), sf.col("inside_ns")),
    )
    counted = (
        passed.select("step", "component", "batch", sf.explode(parts).alias("p"))
        .select("step", "component", "batch", "p.*")
        .withColumn("bin", _bin(sf.col("ns")))
        .groupBy("step", "component", "stage", "place", "batch", "bin")
        .agg(sf.count("*").alias("n"), sf.coalesce(sf.sum("ns"), sf.lit(0)).alias("sum_ns"))
    )
    frame = tables.collect_frame(counted, "stages")
    return frame.assign(
        component=np.array(components, dtype=object)[frame["component"]],
        stage=np.array(_STAGES, dtype=object)[frame["stage"]],
        place=np.array([*PLACES, ""], dtype=object)[frame["place"]],
    )


def _part(stage: int, place: Column, ns: Column) -> Column:
    return sf.struct(sf.lit(stage).alias("stage"), place.alias("place"), ns.alias("ns"))


def _bin(ns: Column) -> Column:
    return sf.when(ns.isNull(), MISSING).otherwise(log_bin(ns, BINS_PER_OCTAVE))


def _placed(spark: SparkSession, source: Source) -> tuple[DataFrame, list[str]]:
    """Return where every task is, with numbers for names, and the components that the numbers stand for."""
    numbers: dict[str, dict[str, int]] = {k: {} for k in ("component", "worker", "node", "host")}

    def number(kind: str, name: str) -> int:
        return numbers[kind].setdefault(name, len(numbers[kind]))

    rows: list[dict[str, object]] = [
        {
            "step": s.index,
            "task": task,
            "component": number("component", e.component),
            "worker": number("worker", e.worker.label),
            "node": number("node", e.worker.node),
            "host": number("host", s.plan.start.node_names[e.worker.node].host),
        }
        for s in source.steps
        for task, e in s.plan.start.by_task.items()
    ]
    return tables.from_rows(spark, rows, _PLACED), list(numbers["component"])


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
        return Measure.QUEUE_WAIT
    return Measure.RESIDENCE if query.component(component).window else Measure.SERVICE


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


def visits(found: pd.DataFrame, step: int, component: str, stage: str) -> tuple[Floats, Floats]:
    """Return the bins above zero of a stage's visits, and their counts."""
    mine = found[
        (found["step"] == step)
        & (found["component"] == component)
        & (found["stage"] == stage)
        & (found["bin"] > ZERO)
    ]
    counted = mine.groupby("bin")["n"].sum()
    return counted.index.to_numpy(dtype=float), counted.to_numpy(dtype=float)
