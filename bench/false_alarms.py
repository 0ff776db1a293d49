"""How often `harness regress` finds something in nights that differ from the baseline by chance alone.

    python bench/false_alarms.py reports/runs/all-in-one/20260102T030405Z --nights 60

Every night is the run's raw data drawn again in blocks of time, scored in full (docs/regression.md).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
from scipy import stats

from harness.analysis.rescoring import rescore
from harness.analysis.session import spark_session
from harness.errors import UsageError
from harness.regression import baseline
from harness.regression.outcomes import Limits
from harness.regression.outputs import lines
from harness.regression.regress import regress
from harness.regression.resampling import resample

Existing = click.Path(path_type=Path, exists=True)


@click.command()
@click.argument("run_path", type=Existing)
@click.option("--baseline", "file", type=Existing, default=Path("reports/baseline.json"), show_default=True)
@click.option("--nights", default=60, show_default=True)
@click.option("--seed", default=1000, show_default=True, help="Of the first night; the others follow.")
@click.option("--limits/--no-limits", default=True, help="Whether small changes are no finding.")
def main(run_path: Path, file: Path, nights: int, seed: int, limits: bool) -> None:
    """Count false alarms."""
    chosen = Limits() if limits else Limits(mean_points=0, pair_points=0)
    known = [n for n in baseline.read(file) if n.run == run_path.resolve().name]
    if not known:
        raise UsageError(f"{file}: has no scores of {run_path}")
    alarms = 0
    with spark_session():
        for night in range(seed, seed + nights):
            with tempfile.TemporaryDirectory() as folder:
                target = Path(folder) / run_path.resolve().parent.name / f"resampled-{night}"
                target.parent.mkdir()
                found = regress(known, rescore([resample(run_path, target, night)]), chosen)
            alarms += found.status == 1
            click.echo(f"night {night}: {len(found.worse)} of {found.tested} comparisons worse")
            for line in lines(found) if found.worse else ():
                click.echo(f"  {line}")
    interval = stats.binomtest(alarms, nights).proportion_ci(0.95)
    click.echo(f"{alarms} of {nights} nights with a finding, {alarms / nights:.3f}", nl=False)
    click.echo(f" (95 % interval {interval.low:.3f} to {interval.high:.3f})")


if __name__ == "__main__":
    main()
