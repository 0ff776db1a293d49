"""Copies a finished run to reports/runs/, small: the latencies of the measured interval, no pictures.

    python scripts/archive.py runs/windowed/20260102T030405Z

Left out: rows of the burn-in in latency.parquet, figures/, report.html and servers' logs. What is
left is enough for ``harness predict`` and ``harness report`` to give the same numbers again. Each step is
sealed again, with the SHA-256 that its latencies had before.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click
import pyarrow.parquet as pq

from harness.experiments.provenance import PROVENANCE
from harness.machine import seals
from harness.runs import Run

ARCHIVE = Path(__file__).resolve().parent.parent / "reports" / "runs"
KEPT = ("experiment.yaml", "trace.txt", "environment.json", "log.txt", "summary.json", "verdict.json")

KEPT_OF_STEP = ("plan.json", "interval.json", "quality.json", "metrics.parquet", PROVENANCE)


@click.command()
@click.argument("run_path", type=click.Path(path_type=Path, exists=True))
def main(run_path: Path) -> None:
    """Archive one run."""
    run = Run(run_path)
    target = ARCHIVE / run.path.parent.name / run.path.name
    target.mkdir(parents=True)
    for name in KEPT:
        if (run.path / name).is_file():
            shutil.copy(run.path / name, target / name)
    for path in (*run.path.glob("placement-*.yaml"), *run.path.glob("declined/*.json")):
        copy = target / path.relative_to(run.path)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    environment = {**run.environment, "archived": "latencies of the measured intervals only"}
    (target / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")
    for step in run.finished_steps:
        source, folder = run.step_path(step), target / "steps" / f"{step:02d}"
        folder.mkdir(parents=True)
        if wrong := seals.broken(source):
            raise click.ClickException(f"{source}: {wrong[0]}; what was changed is not archived")
        for name in KEPT_OF_STEP:
            if (source / name).is_file():
                shutil.copy(source / name, folder / name)
        rows = pq.read_table(source / "latency.parquet")
        pq.write_table(
            rows.filter(rows["in_interval"]),
            folder / "latency.parquet",
            compression="zstd",
            compression_level=15,
            use_dictionary=["path", "sink"],
        )
        if (source / seals.SEAL).is_file():
            seals.seal(folder, left_out={"latency.parquet": seals.sha256(source / "latency.parquet")})
    size = sum(p.stat().st_size for p in target.rglob("*") if p.is_file())
    click.echo(f"{target.relative_to(ARCHIVE.parent.parent)}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
