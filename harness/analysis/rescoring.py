"""Archived runs scored anew from their raw latencies and metrics, with today's models; nothing is written.

A run's directory is only read: predictions go to a temporary folder that links to its steps.
"""

from __future__ import annotations

import math
import os
import platform
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.analysis import checks, tables
from harness.analysis.counters import ARRIVALS, SERVICE
from harness.analysis.distribution import nanoseconds
from harness.analysis.errors import TOPOLOGY_MEASURES, primary
from harness.analysis.inputs import RunRecord, StepRecord, read_raw, read_run
from harness.analysis.judging import Judged, judged
from harness.analysis.predicting import observation, predict
from harness.analysis.repredicting import moved
from harness.analysis.session import spark_session
from harness.environment import describe
from harness.experiments.loading import load
from harness.models import MODELS, resolve
from harness.regression.scores import Accuracy, Matrix, Measured, RunScores, StepScore, rounded
from harness.runs import Run

OF_COMPONENTS = (ARRIVALS, SERVICE)
"""Measures that are also compared as they were measured, by component."""
UNANSWERED = ("not-predicted", "saturated")
MEDIAN_FACTOR = math.sqrt(math.pi / 2)
"""A median's standard error over a mean's, for normal errors."""
REPLICATES = 10
"""Resampled nights that a baseline is made with: as many as an interval has batches."""
ROUNDS = 3
"""Predictions are timed so often; the quickest counts."""

KIND = ["model", "protocol", "measure", "statistic"]


def rescore(
    paths: Sequence[Path],
    models: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
    timed: bool = False,
    replicates: int = 0,
) -> list[RunScores]:
    """Score runs from their raw tables, all in one Spark session.

    Parameters
    ----------
    paths : sequence of Path
        Run directories.
    models : sequence of str
        Models; all that are registered when empty.
    progress : callable
        Told what is being done.
    timed : bool
        Whether to time the models' predictions too.
    replicates : int
        Resampled nights to learn from how far predictions move by chance; a baseline needs some.

    Returns
    -------
    list of RunScores
        In the order given.

    Raises
    ------
    UsageError
        Naming the first file that is missing, unreadable, foreign or of a newer schema.
    """
    raw_rows = sum(read_raw(path).rows for path in paths)  # every mistake is found before Spark is started
    with spark_session(raw_rows, remember_classes=True) as spark:
        return [_rescore(spark, path, models, progress, timed, replicates) for path in paths]


def _rescore(
    spark: SparkSession,
    path: Path,
    models: Sequence[str],
    progress: Callable[[str], None],
    timed: bool,
    replicates: int,
) -> RunScores:
    progress(f"{path}: predicting and judging")
    with linked_copy(path) as copy:
        made = Run(copy)
        predict(made, models)
        record = read_run(copy)
        with judged(spark, record) as found:
            cells = moved(made, found.actuals, models, replicates, lambda line: progress(f"{path}: {line}"))
            scored = score(spark, record, found, *cells)
        times = prediction_times(made, models) if timed else {}
    return scored.model_copy(update={"run": path.resolve().name, "predict_ms": times})


@contextmanager
def linked_copy(path: Path) -> Iterator[Path]:
    """Give a temporary run directory with the run's small files and links to its steps."""
    source = Run(path).path
    with tempfile.TemporaryDirectory(prefix="harness-rescore-") as folder:
        copy = Path(folder) / source.name
        copy.mkdir()
        for name in ("experiment.yaml", "environment.json"):
            shutil.copy(source / name, copy / name)
        os.symlink(source / "steps", copy / "steps", target_is_directory=True)
        yield copy


def score(
    spark: SparkSession, run: RunRecord, found: Judged, errors: pd.DataFrame, values: pd.DataFrame
) -> RunScores:
    """Put together what a run is worth, from its judged pairs and what resampled nights moved by."""
    unusable = checks.unusable(found.checks)
    machine: Any = run.environment.get("machine", {})
    return RunScores(
        experiment=run.name,
        settings=load(run.path / "experiment.yaml").model_dump(mode="json"),
        run=run.path.name,
        commit=str(run.environment.get("commit", "")),
        machine=_machine(machine),
        verdict=checks.verdict(found.checks),
        failed=tuple(
            (f"step {c.step}: " if c.step is not None else "") + f"{c.check}: {c.detail}"
            for c in found.checks
            if c.status != "valid"
        ),
        steps=_steps(spark, run, unusable),
        measured=tuple(_measured(run, found.actuals, values)),
        accuracy=tuple(_accuracy(run, _cells(found.pairs), errors)),
        scored_on=_machine(describe("", {})["machine"]),
    )


def _machine(of: Mapping[str, Any]) -> str:
    return f"{of.get('cpu', '') or platform.machine()}, {of.get('cores', '?')} cores"


def _steps(
    spark: SparkSession, run: RunRecord, unusable: Mapping[int, tuple[str, str]]
) -> tuple[StepScore, ...]:
    data = _contents(spark, run)
    seen: Counter[str] = Counter()
    out = []
    for s in run.steps:
        seen[s.interval.configuration] += 1
        repeat = seen[s.interval.configuration]
        ledger, rows = s.quality.ledger, data[s.index]
        out.append(
            StepScore(
                label=s.interval.configuration + (f"#{repeat}" if repeat > 1 else ""),
                unusable=unusable.get(s.index, ("", ""))[1],
                data={name: rows[name] for name in ("latency.parquet", "metrics.parquet", "interval.json")},
                rows=int(rows["rows"]),
                seconds=_seconds(s),
                sent=int(ledger["sent"]),
                gone=sum(int(ledger.get(k, 0)) for k in ("failed", "lost", "duplicates")),
            )
        )
    return tuple(out)


def _seconds(step: StepRecord) -> dict[str, float]:
    at = step.interval
    return {
        "rebalance_s": round((at.up_ns - at.rebalance_start_ns) / 1e9, 3),
        "burn_in_s": round(at.burn_in.seconds, 3),
        "after_s": round((at.done_ns - at.end_ns) / 1e9, 3),
    }


def _contents(spark: SparkSession, run: RunRecord) -> dict[int, dict[str, str]]:
    """Sum up every step's data so that any change of a value shows, and an order of rows does not."""

    def content(*columns: str) -> Any:
        return sf.sum(sf.xxhash64(*columns).cast("decimal(38,0)"))

    rows = (
        tables.latency(spark, run)
        .where("in_interval")
        .withColumn("ns", nanoseconds(sf.col("ground_truth_ms")))
        .withColumn("thesis_ns", nanoseconds(sf.col("thesis_ground_truth_ms")))
        .withColumn("taken_ns", sf.col("left_ns") - sf.col("entered_ns"))
        .groupBy("step")
        .agg(
            sf.count("*").alias("rows"),
            content("message_id", "child", "ns", "thesis_ns", "taken_ns", "scheduled_ns").alias("hash"),
        )
    )
    metrics = (
        tables.metrics(spark, run)
        .groupBy("step")
        .agg(
            sf.count("*").alias("rows"),
            content("bucket_end_ms", "measurement", "component", "stream", "field", "value").alias("hash"),
        )
    )
    found: dict[int, dict[str, str]] = {}
    for s in run.steps:
        complete = sorted(str(c.model_dump_json()) for c in s.interval.complete_latency_ms.values())
        found[s.index] = {
            "rows": "0",
            "latency.parquet": "empty",
            "metrics.parquet": "empty",
            "interval.json": f"{s.interval.start_ns}-{s.interval.end_ns}:{'/'.join(complete)}",
        }
    for name, table in (("latency.parquet", rows), ("metrics.parquet", metrics)):
        for row in tables.collect_frame(table, name).to_dict("records"):
            found[int(row["step"])][name] = f"{row['rows']}:{row['hash']}"
            if name == "latency.parquet":
                found[int(row["step"])]["rows"] = str(row["rows"])
    return found


def _measured(run: RunRecord, actuals: pd.DataFrame, again: pd.DataFrame) -> Iterator[Measured]:
    """Yield the measured latencies of the topology, and the means of rates and service times by component."""
    components = {c.name for s in run.steps for c in s.plan.start.query_plan.components}
    whole = actuals["measure"].isin(TOPOLOGY_MEASURES) & (actuals["subject"] == "")
    parts = actuals["measure"].isin(OF_COMPONENTS) & actuals["subject"].isin(components)
    rows = actuals[whole | (parts & (actuals["statistic"] == "mean"))]
    # Where a value comes without batches (Storm's own, histograms'), resampled nights say how far it repeats.
    resampled = again.set_index(["measure", "protocol", "statistic", "subject", "step"])["within"]
    order = ["measure", "protocol", "statistic", "subject"]
    for key, of in rows.groupby(order, sort=True):
        measure, protocol, statistic, subject = (str(k) for k in key)
        by_step = of.set_index("step")
        within = (by_step["within"] / by_step["value"]).astype("float64")
        if (measure, protocol, statistic, subject) in resampled.index:
            within = within.combine_first(resampled.loc[(measure, protocol, statistic, subject)])
        yield Measured(
            protocol=protocol,
            measure=measure,
            statistic=statistic,
            subject=subject,
            values=tuple(rounded(by_step["value"].get(s.index)) for s in run.steps),
            within=tuple(rounded(within.get(s.index)) for s in run.steps),
        )


def _cells(pairs: DataFrame) -> pd.DataFrame:
    """Sum up the off-diagonal pairs' errors: one row a kind and pair."""
    judged_ = sf.col("verdict") == "judged"
    by_noise = sf.abs(sf.col("value") / sf.col("actual")) * sf.col("noise") / sf.abs("actual") * 100
    cells = (
        pairs.where(primary())
        .where("source_step != proposed_step")
        .groupBy(*KIND, "source_step", "proposed_step")
        .agg(
            sf.percentile(sf.col("relative_error") * 100, sf.lit(0.5)).alias("error_pct"),
            sf.percentile("abs_error_pct", sf.lit(0.5)).alias("abs_error_pct"),
            sf.percentile(sf.when(judged_, by_noise), sf.lit(0.5)).alias("moved_pct"),
            sf.count_if(judged_).alias("judged"),
            sf.count_if(sf.col("verdict").isin(*UNANSWERED)).alias("unanswered"),
        )
    )
    return tables.collect_frame(cells, "error cells")


def _accuracy(run: RunRecord, cells: pd.DataFrame, again: pd.DataFrame) -> Iterator[Accuracy]:
    place = {s.index: i for i, s in enumerate(run.steps)}
    steps = ["source_step", "proposed_step"]
    again = again[again["source_step"] != again["proposed_step"]]
    resampled: dict[Any, list[dict[Any, Any]]] = {
        k: of[[*steps, "moved_pct"]].to_dict("records") for k, of in again.groupby(KIND)
    }
    for key, of in cells.groupby(KIND, sort=True):
        model, protocol, measure, statistic = (str(k) for k in key)
        one = measure in TOPOLOGY_MEASURES
        errors: dict[tuple[int, int], float | None] = {}
        noise: dict[tuple[int, int], float | None] = {}
        unanswered = []
        moves = {
            (place[row["source_step"]], place[row["proposed_step"]]): rounded(row["moved_pct"])
            for row in resampled.get(key, [])
        }
        for row in of.to_dict("records"):
            at = place[row["source_step"]], place[row["proposed_step"]]
            errors[at] = rounded(row["error_pct" if one else "abs_error_pct"])
            if row["judged"]:
                noise[at] = rounded(row["moved_pct"] * MEDIAN_FACTOR / math.sqrt(row["judged"]))
            elif row["unanswered"]:
                unanswered.append(at)
        yield Accuracy(
            model=model,
            protocol=protocol,
            measure=measure,
            statistic=statistic,
            subjects="one" if one else "many",
            errors_pct=_matrix(errors, len(place)),
            noise_pct=() if one else _matrix(noise, len(place)),
            moved_pct=_matrix(moves, len(place)) if moves else (),
            unanswered=tuple(sorted(unanswered)),
        )


def _matrix(cells: Mapping[tuple[int, int], float | None], size: int) -> Matrix:
    return tuple(tuple(cells.get((i, j)) for j in range(size)) for i in range(size))


def prediction_times(run: Run, models: Sequence[str] = ()) -> dict[str, tuple[float, ...]]:
    """Return the CPU time of one prediction in ms, by model and source step (mean over proposed plans)."""
    experiment = load(run.path / "experiment.yaml")
    steps = run.finished_steps
    plans = [run.plan(step).start for step in steps]
    found: dict[str, tuple[float, ...]] = {}
    for name in models or tuple(MODELS):
        model = resolve(name)
        of_steps = []
        for step in steps:
            seen = observation(run, experiment, step)
            rounds = []
            for _ in range(ROUNDS):
                begun = time.process_time()
                for plan in plans:
                    model(seen, plan, seen.settings, seen.rate_tps)
                rounds.append((time.process_time() - begun) / len(plans) * 1e3)
            of_steps.append(round(min(rounds), 3))
        found[name] = tuple(of_steps)
    return found
