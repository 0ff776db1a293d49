"""What hop records are worth: the composite model with them, without them as for a jar, and no-change.

    python bench/without_hops.py reports/runs/fields-to-fields/*

Every off-diagonal pair of measured runs is predicted twice, the second time with the hop records taken away
from the source. Printed are the absolute errors in percent by measure and model over the pairs that the model
answers both times and whose steps have a latency, steady or not (``harness accuracy`` leaves out steps that
could not be used): median, largest, number.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import click
import pandas as pd

from harness.analysis.judge.predicting import ask, observation, rate_tps, reader
from harness.experiments.loading import load
from harness.models.baselines.no_change import no_change
from harness.models.composite.model import composite
from harness.protocols import Observation, Prediction
from harness.runs import Run
from harness.schemas import Measure

SHOWN = (
    (Measure.GROUND_TRUTH, "mean"),
    (Measure.GROUND_TRUTH, "p99"),
    (Measure.COMPLETE, "mean"),
)


def whole(prediction: Prediction) -> dict[tuple[str, str], float]:
    """Return the values that are of the whole topology."""
    shown = (e for e in prediction.estimates if not e.subject and e.value is not None)
    return {(e.measure, e.statistic): e.value or 0.0 for e in shown}


def measured(of: Observation) -> dict[tuple[str, str], float]:
    """Return what was measured of the whole topology."""
    return whole(no_change(of, of.plan, of.settings, of.rate_tps))


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
def main(runs: tuple[Path, ...]) -> None:
    """Print the errors of every run."""
    for path in runs:
        run = Run(path)
        experiment = load(run.path / "experiment.yaml")
        observations = {step: observation(run, experiment, step) for step in run.finished_steps}
        rows = []
        for of, proposed in permutations(observations.values(), 2):
            jar = replace(of, latency=of.latency.drop(columns="hops"), hop_records=False)
            rate = rate_tps(experiment, of.rate_tps, proposed.rate_tps)
            asked = proposed.plan, proposed.settings, rate
            answers = {
                "composite": whole(ask(reader(composite, of), *asked)),
                "without hop records": whole(ask(reader(composite, jar), *asked)),
                "no-change": measured(of),
            }
            actual = measured(proposed)
            for model, found in answers.items():
                for kind in SHOWN:
                    if all(kind in of_pair for of_pair in (actual, *answers.values())):
                        rows.append((*kind, model, abs(found[kind] / actual[kind] - 1) * 100))
        table = pd.DataFrame(rows, columns=["measure", "statistic", "model", "error_pct"])
        grouped = table.groupby(["measure", "statistic", "model"], sort=False)["error_pct"]
        click.echo(f"{path}: {len(observations) * (len(observations) - 1)} pairs")
        click.echo(grouped.agg(["median", "max", "count"]).round(1).to_string())


if __name__ == "__main__":
    main()
