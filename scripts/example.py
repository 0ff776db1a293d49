"""Cuts the example that the conformance checks use from an archived run, a few seconds of one step.

python scripts/example.py reports/runs/all-in-one/20261121T210350Z
"""

from __future__ import annotations

import json
from pathlib import Path

import click
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.analysis.judge.predicting import settings
from harness.experiments.loading import load
from harness.runs import Run, read_latency

TARGET = Path(__file__).resolve().parent.parent / "harness" / "assets" / "example"
SOURCE, PROPOSED = 1, 2
"""Steps: the one observed, and the one whose plan is asked about."""
SECONDS = 6
"""Three metric buckets."""


@click.command()
@click.argument("run_path", type=click.Path(path_type=Path, exists=True))
def main(run_path: Path) -> None:
    """Write the example."""
    run = Run(run_path)
    interval, folder = run.interval(SOURCE), run.step_path(SOURCE)
    end_epoch_ms = interval.start_epoch_ms + 1000 * SECONDS
    latency = read_latency(folder)
    due = pc.less(latency["scheduled_ns"], interval.start_ns + SECONDS * 10**9)
    metrics = pq.read_table(folder / "metrics.parquet")
    ends = metrics["bucket_end_ms"]
    inside = pc.and_(pc.greater(ends, interval.start_epoch_ms), pc.less_equal(ends, end_epoch_ms))
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, table in (
        ("latency", latency.filter(pc.and_(due, latency["in_interval"]))),
        ("metrics", metrics.filter(inside)),
    ):
        # Dictionaries that only hold what is used, so that the files are small.
        pq.write_table(
            table.unify_dictionaries(), TARGET / f"{name}.parquet", compression="zstd", compression_level=15
        )
    said = settings(run, load(run.path / "experiment.yaml"))
    case = {
        "cut_from": f"{run.path.parent.name}/{run.path.name}, step {SOURCE}; proposed is step {PROPOSED}",
        "rate_tps": interval.rate_tps,
        "interval_s": float(SECONDS),
        "version": said.version,
        "storm": dict(said.storm),
        "poll_timeout_ms": said.poll_timeout_ms,
        "complete_latency_ms": {k: v.mean_ms for k, v in interval.complete_latency_ms.items()},
        "source_plan": json.loads(run.plan(SOURCE).start.model_dump_json()),
        "proposed_plan": json.loads(run.plan(PROPOSED).start.model_dump_json()),
    }
    (TARGET / "case.json").write_text(json.dumps(case) + "\n", encoding="utf-8")
    size = sum(p.stat().st_size for p in TARGET.iterdir())
    click.echo(f"{TARGET.name}: {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
