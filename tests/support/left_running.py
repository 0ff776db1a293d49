"""The folder of a submitted topology, made of an archived run's first step: plan, settings, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from harness.app.submitted.folder import SubmittedFacts, SubmittedTopology
from harness.app.submitted.live_rows import LiveRows
from harness.app.submitted.observing import RowSpan
from harness.experiments.clusters import FoundNode, Running
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.runs import Run, read_table
from harness.schemas import METRICS, Metric

ARCHIVE = Path(__file__).resolve().parents[2] / "reports" / "runs"
STEP = 0


def archived() -> Run:
    """Return a run whose steps differ in executors and workers."""
    return Run(next((ARCHIVE / "loaded-workers").iterdir()))


def left_running(
    folder: Path,
    name: str = "words",
    url: str = "http://127.0.0.1:9",
    season_s: tuple[float, ...] = (),
    up_s: float = 0.0,
) -> SubmittedTopology:
    """Write what ``harness submit`` would have written, had it submitted the run's topology.

    Nobody listens at the cluster's addresses.

    Parameters
    ----------
    up_s : float
        How long it has been up before the step.
    """
    run = archived()
    plan, interval = run.plan(STEP).start, run.interval(STEP)
    found = tuple(
        FoundNode(name=n.name, address=n.address, slots=n.slots, cores=n.cores, here=True) for n in plan.nodes
    )
    shape = Running(nimbus="127.0.0.1:9", kafka="127.0.0.1:9", nodes=len(found), found=found)
    given = load(run.path / "experiment.yaml").model_dump(mode="json")
    store = {"store": "influxdb", "url": url, "org": "harness", "bucket": "harness"}
    given |= {"name": name, "cluster": shape.model_dump(mode="json"), "metrics": store}
    experiment = Experiment.model_validate(given)
    facts = SubmittedFacts(
        topology=f"{name}-of-storm",
        at_epoch_ms=interval.start_epoch_ms - round(1e3 * (experiment.measure.burn_in.least_s + up_s)),
        cluster=shape,
        storm_version="2.8.3",
        settings=experiment.storm_settings(),
        season_s=season_s,
    )
    return SubmittedTopology.create(folder / name, experiment, facts, plan)


def live() -> LiveRows:
    """Return the step's metrics as the last minutes of the topology at the end of its interval."""
    run = archived()
    interval = run.interval(STEP)
    table = read_table(run.step_path(STEP) / "metrics.parquet")
    known = pc.less_equal(table["bucket_end_ms"], interval.end_epoch_ms)  # what came after is not there yet
    return LiveRows(table.filter(known), RowSpan(interval.start_epoch_ms - 60_000, interval.end_epoch_ms))


class ArchivedMetrics:
    """The step's metrics in the place of ``LiveMetrics``."""

    def rows(self, topology: SubmittedTopology) -> LiveRows:
        del topology
        return live()

    def past(self, topology: SubmittedTopology) -> None:
        del topology

    def emitted(
        self,
        topology: SubmittedTopology,
        components: Sequence[str],
        since_ms: int,
        until_ms: int,
        bucket_s: float,
    ) -> pa.Table:
        del topology
        return summed_emits(live().table, components, since_ms, until_ms, round(bucket_s * 1e3))


def summed_emits(
    table: pa.Table, components: Sequence[str], since_ms: int, until_ms: int, bucket_ms: int
) -> pa.Table:
    """Sum what components emitted over longer buckets, as ``InfluxStore.emitted`` has to."""
    rows = table.to_pandas().astype({"component": str, "worker": str, "stream": str})
    inside = (since_ms < rows["bucket_end_ms"]) & (rows["bucket_end_ms"] <= until_ms)
    rows = rows[inside & (rows["measurement"] == Metric.EMITTED) & rows["component"].isin(components)]
    rows = rows.assign(bucket_end_ms=-(-rows["bucket_end_ms"] // bucket_ms) * bucket_ms, peer="")
    key = [name for name in METRICS.names if name != "value"]
    summed: pd.DataFrame = rows.astype({"measurement": str, "field": str}).groupby(key)["value"].sum()
    return pa.Table.from_pandas(summed.reset_index()[METRICS.names], METRICS, preserve_index=False)
