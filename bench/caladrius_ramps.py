"""Throughput and CPU of parallelism 2 to 4, predicted from parallelism 1: appendix D's throughput model.

    python bench/caladrius_ramps.py                 # measures caladrius-ramps, 15 minutes
    python bench/caladrius_ramps.py --run RUN       # of a run that there is
    python bench/caladrius_ramps.py --simulated     # a trial without a cluster

One row a step and each model that predicts throughput, all predicted from the step of one executor nearest
below saturation. CPU is of all worker processes together. Tables are Markdown.
"""

from __future__ import annotations

from pathlib import Path

import click
import pandas as pd
from carried_out import carry_out_experiment

import harness
from harness.schemas import Measure

EXPERIMENT = "caladrius-ramps"
SOURCE = 1
"""One executor of bolt-a, busy for 0.83 of the time."""
BOLT = "bolt-a"


def whole(errors: pd.DataFrame, measure: Measure, model: str, step: int) -> tuple[float, float]:
    """Return what was predicted and measured of a step, summed over subjects; NaN where one is missing."""
    asked = {"measure": measure, "model": model, "source_step": SOURCE, "proposed_step": step}
    rows = errors[(errors[list(asked)] == pd.Series(asked)).all(axis=1) & (errors["statistic"] == "mean")]
    if rows.empty:
        return float("nan"), float("nan")
    return float(rows["value"].sum(skipna=False)), float(rows["actual"].sum(skipna=False))


def cells(errors: pd.DataFrame, measure: Measure, model: str, step: int, digits: int) -> list[str]:
    """Return predicted, measured and error in percent as a table has them."""
    predicted, actual = whole(errors, measure, model, step)
    shown = [f"{predicted:.{digits}f}", f"{actual:.{digits}f}", f"{100 * (predicted / actual - 1):+.1f}"]
    return ["-" if cell.endswith("nan") else cell for cell in shown]


def show(path: Path) -> None:
    """Print a run's table."""
    run = harness.load_run(path)
    errors, steps = run.errors, run.steps
    click.echo(f"{run.path.parent.name}/{run.path.name}, {run.verdict}; predicted from step {SOURCE}\n")
    click.echo(
        f"| model | {BOLT} | offered/s | saturated | throughput/s | measured | % | CPU cores | measured | % |"
    )
    click.echo("| --- |" + " ---: |" * 2 + " --- |" + " ---: |" * 6)
    answered = errors[(errors["measure"] == Measure.THROUGHPUT) & errors["value"].notna()]
    for model in dict.fromkeys(answered["model"]):
        for step, row in steps.iterrows():
            number = int(str(step))
            if number == SOURCE:
                continue
            executors = len(run.plan(number).of(BOLT))
            shown = [model, str(executors), f"{row['rate_tps']:g}", "yes" if row["saturated"] else "no"]
            shown += cells(errors, Measure.THROUGHPUT, model, number, 1)
            shown += cells(errors, Measure.WORKER_CPU, model, number, 3)
            click.echo(f"| {' | '.join(shown)} |")


@click.command()
@click.option("--run", "measured", type=click.Path(path_type=Path, exists=True), help="A run of before.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--simulated", is_flag=True, help="Played, not measured.")
def main(measured: Path | None, runs: Path, simulated: bool) -> None:
    """Measure the ramps, and print what was predicted from one executor."""
    show(measured or carry_out_experiment(EXPERIMENT, runs, simulated=simulated))


if __name__ == "__main__":
    main()
