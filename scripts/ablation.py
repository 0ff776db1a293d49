"""Where the composite model's error comes from: each stage replaced by what was measured of it.

    python scripts/ablation.py runs/all-in-one/20260102T030405Z > causes.md

A mean ground-truth latency is the sum of its stages' parts (``harness.analysis.stages``), so a stage that is
replaced by its measured value takes its own part out of the error. Printed in Markdown, for the page that
`harness accuracy --notes causes.md` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np
import pandas as pd

from harness.analysis.evaluation import find_runs
from harness.analysis.predicting import observation
from harness.errors import ModelDeclined
from harness.experiments.loading import load
from harness.models.analytic.rates import ROWS
from harness.models.analytic.solve import Solution
from harness.models.analytic.stage_means import stage_means
from harness.models.composite import composite
from harness.models.evidence import Evidence, read
from harness.runs import Run

Stage = tuple[str, str]
WAY, SERVICE, WINDOW = "hop and queue", "service", "window"


def measured(evidence: Evidence) -> dict[Stage, float]:
    """Return what each stage adds to the mean latency of a step, in ms, by its hop records."""
    records, plan = evidence.hops, evidence.plan.query_plan
    if records is None:
        raise ModelDeclined("no hop records")
    rows = records.message.size
    legs = records.legs
    found = {}
    for number, name in enumerate(evidence.layout.order):
        mine = legs[records.component[legs] == number]
        if mine.size:
            inside = WINDOW if plan.component(name).window else SERVICE
            way_ms = records.received_ms[mine] - records.emitted_ms[mine - 1]
            found[name, WAY] = float(way_ms.sum()) / rows
            found[name, inside] = float((records.emitted_ms[mine] - records.received_ms[mine]).sum()) / rows
    return found


def predicted(solution: Solution) -> dict[Stage, float]:
    """Return the same of a solved network; a window's executes belong to it."""
    names, plan = solution.names, solution.network.layout.plan.query_plan
    waits, holds = stage_means(solution)
    cells = solution.flat.klass["first_cell"]
    rows: dict[str, float] = {}
    service: dict[str, float] = {}
    for key, first, last in zip(names.inputs, cells[:-1], cells[1:], strict=True):
        if key.source:
            mine = solution.rates.cell[ROWS, first:last]
            rows[key.component] = rows.get(key.component, 0.0) + float(mine.sum())
            spent = float(mine @ solution.service.cell[first:last, 0])
            service[key.component] = service.get(key.component, 0.0) + spent
    total = sum(rows.get(sink, 0.0) for sink in plan.sinks)
    found = {(n, WAY): waits[n] * rows[n] / total for n in waits}
    for name in waits:
        own = service[name] / total
        if name in holds:
            found[name, WINDOW] = holds[name] * rows[name] / total + own
        else:
            found[name, SERVICE] = own
    return found


def pairs(path: Path) -> pd.DataFrame:
    """Return one row a pair and stage: its part in the error, in percent of the measured latency."""
    run = Run(path)
    experiment = load(run.path / "experiment.yaml")
    seen = {s: observation(run, experiment, s) for s in run.finished_steps}
    actual = {s: measured(read(o)) for s, o in seen.items()}
    rows = []
    for source, told in seen.items():
        prepared = composite.prepare(told)
        for step, there in seen.items():
            if step == source:
                continue
            solution = prepared.solve(there.plan, there.settings, there.rate_tps)
            if solution.overloaded or run.quality(step).saturated:
                continue
            expected = predicted(solution)
            latency = sum(actual[step].values())
            for stage, value in actual[step].items():
                part = 100 * (expected.get(stage, 0.0) - value) / latency
                rows.append((path.parent.name, source, step, *stage, part))
    return pd.DataFrame(rows, columns=["experiment", "source", "step", "component", "stage", "part"])


def table(found: pd.DataFrame) -> str:
    """Return the page's section."""
    lines = ["| experiment | stage | its part in the error, median | median error with it measured |"]
    lines.append("| --- | --- | --- | --- |")
    for experiment, mine in found.groupby("experiment", sort=False):
        errors = mine.groupby(["source", "step"])["part"].sum()
        lines.append(f"| {experiment} | none | | {errors.abs().median():.1f} % |")
        parts: Mapping[object, pd.DataFrame] = dict(iter(mine.groupby(["component", "stage"], sort=False)))
        for (component, stage), of in parts.items():  # type: ignore[misc]  # the keys are pairs
            part = of.set_index(["source", "step"])["part"]
            left = (errors - part.reindex(errors.index, fill_value=0.0)).abs().median()
            lines.append(f"| | {component}: {stage} | {np.median(part):+.1f} % | {left:.1f} % |")
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
def main(runs: tuple[Path, ...]) -> None:
    """Print the table of some runs."""
    click.echo("## Where the rest comes from\n")
    click.echo(
        "Each stage replaced by its measured value: its part in the error of the mean ground-truth latency"
        " (of all off-diagonal pairs, in percent of the measured latency), and the median error that is left"
        " with it replaced. What a bolt does after its emits is in its service, and is taken off its hop.\n"
    )
    click.echo(table(pd.concat([pairs(path) for path in find_runs(runs)])))


if __name__ == "__main__":
    main()
