"""Errors of the composite model and of the simulator, which plays the same networks, on measured runs.

    python bench/simulated_pairs.py reports/runs/loaded-batching/*

Both predict the same network of every judged pair of RUNs. Each row has the median
and the worst absolute error, in percent of the measured value, and the CPU time of a prediction.
"""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

import click
import numpy as np

from harness.analysis.judge.evaluation import find_runs
from harness.analysis.judge.predicting import reader
from harness.analysis.judge.pricing import PRICED, Kind, judged_run, outcomes
from harness.models import resolve
from harness.schemas import LATENCIES

MODELS = ("composite", "harness.models.composite.simulated:simulator")


@click.command()
@click.argument("run_paths", metavar="RUN...", type=click.Path(path_type=Path, exists=True), nargs=-1)
def main(run_paths: tuple[Path, ...]) -> None:
    """Print a row an experiment, kind of latency and model."""
    errors: dict[tuple[str, Kind, str], list[float]] = defaultdict(list)
    spent_s: dict[tuple[str, str], list[float]] = defaultdict(list)
    for path in find_runs(run_paths):
        run, name = judged_run(path), path.parent.name
        for source, proposed in run.measured:
            there, rate_tps = run.seen[proposed], run.rate_tps(source, proposed)
            for model in MODELS:
                begun = time.process_time()
                told = reader(resolve(model), run.seen[source])(there.plan, there.settings, rate_tps)
                spent_s[name, model].append(time.process_time() - begun)
                for key, of in outcomes(told.estimates, run.measured[source, proposed]).items():
                    for kind in PRICED:
                        if key[:2] == kind:
                            errors[name, kind, model].append(of.error_pct)
    click.echo("| experiment | kind | model | pairs | median, % | worst, % | CPU of a prediction, s |")
    click.echo("| --- | --- | --- | --- | --- | --- | --- |")
    for (name, kind, model), of_pairs in sorted(errors.items()):
        if kind[0] in LATENCIES:
            values = f"{len(of_pairs)} | {np.median(of_pairs):.1f} | {max(of_pairs):.1f}"
            cpu_s = np.median(spent_s[name, model])
            click.echo(f"| {name} | {PRICED[kind]} | {model.rpartition(':')[2]} | {values} | {cpu_s:.2f} |")


if __name__ == "__main__":
    main()
