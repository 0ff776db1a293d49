"""Causes of the composite model's error: one thing after the other replaced by its measured value.

The error of the mean ground-truth latency is taken apart twice. First the answer: that latency is the sum of
its stages' parts, so a stage that is replaced by its measured value takes its own part out of the error. Then
the estimates behind the answer: one that was got from the source is replaced by the same estimate got from
the proposed step itself. The error that is left with all of them replaced is not the source's fault. Errors
of service times are taken apart in the second way, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.analysis.judge.evaluation import Evaluated, mean_ground_truth, means
from harness.analysis.judge.judged_rows import judged_rows
from harness.analysis.judge.predicting import observation
from harness.errors import ModelDeclined
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.models.composite.model import COARSE, composite
from harness.models.composite.plan.network_builder import build_network
from harness.models.composite.played import answered
from harness.models.composite.source.evidence import Evidence
from harness.models.composite.source_estimates import SourceEstimates
from harness.models.solver.forward import moments
from harness.models.solver.rates import ROWS
from harness.models.solver.solve import Solution
from harness.plans import PhysicalPlan
from harness.protocols import Settings
from harness.runs import Run
from harness.schemas import Measure

MODEL = "composite"
Stage = tuple[str, str]
WAY, SERVICE, WINDOW = "hop and queue", "service", "window"
ESTIMATES: Mapping[str, Sequence[str]] = {
    "input and polls": ["inputs"],
    "keys and fan-outs": ["keyed", "fans"],
    "demand": ["demand", "cold_ms"],
    "host's other work": ["beyond", "polling"],
    "hops": ["times", "rows"],
}
"""Estimates from a source, by the names that ``SourceEstimates`` has for them."""
NOTHING, EVERYTHING = "nothing", "all"
LEAST_PCT = 0.5
"""A stage whose part is less in the median of an experiment is not shown."""


class Causes(NamedTuple):
    """Causes of the errors of some pairs.

    Attributes
    ----------
    parts : DataFrame
        A row a pair and stage: its ``part`` in the error, in percent of the measured latency.
    left : DataFrame
        A row a pair and replacement: the ``error`` that is left, in percent of the measured latency.
    services : DataFrame
        A row a pair, replacement and executor: the same of its service time.
    """

    parts: pd.DataFrame
    left: pd.DataFrame
    services: pd.DataFrame


def measured(evidence: Evidence) -> dict[Stage, float]:
    """Return the part of each stage in the mean latency of a step, in ms, by its hop records.

    Raises
    ------
    ModelDeclined
        When there are none.
    """
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
    names = solution.names
    waits, holds = solution.stage_means()
    cells = solution.flat.classes["first_cell"]
    rows: dict[str, float] = {}
    service: dict[str, float] = {}
    for key, first, last in zip(names.inputs, cells[:-1], cells[1:], strict=True):
        if key.source:
            mine = solution.rates.cell[ROWS, first:last]
            rows[key.component] = rows.get(key.component, 0.0) + float(mine.sum())
            spent = float(mine @ solution.service.cell[first:last, 0])
            service[key.component] = service.get(key.component, 0.0) + spent
    found = {}
    for name in waits:
        share = _passed_by(solution, name)
        found[name, WAY] = share * waits[name]
        inside = WINDOW if name in holds else SERVICE
        found[name, inside] = share * (holds.get(name, 0.0) + service[name] / rows[name])
    return found


def _passed_by(solution: Solution, component: str) -> float:
    """Return the share of the rows at the sinks that have come by a component (a multiplier makes more)."""
    layout = solution.network.layout
    through = np.ones(solution.flat.first_acker)
    sinks = np.zeros(through.size, dtype=bool)
    for name in layout.plan.query_plan.sinks:
        sinks[layout.of[name]] = True
    everything = moments(solution.stages, through)[sinks, 0].sum()
    through[layout.of[component]] = 0.0
    return 1.0 - float(moments(solution.stages, through)[sinks, 0].sum() / everything)


def variants(told: SourceEstimates, own: SourceEstimates) -> dict[str, SourceEstimates]:
    """Return what a source says, with what the proposed step itself says put in its place bit by bit."""
    found = {NOTHING: told}
    for name, fields in ESTIMATES.items():
        found[name] = replace(told, **{f: getattr(own, f) for f in fields})
    found[EVERYTHING] = replace(told, **{f: getattr(own, f) for all_ in ESTIMATES.values() for f in all_})
    return found


class AblatedStep(NamedTuple):
    """A step as a source and as a proposed plan."""

    estimates: SourceEstimates
    parts_ms: Mapping[Stage, float]
    plan: PhysicalPlan
    settings: Settings
    rate_tps: float

    def solve(self, estimates: SourceEstimates) -> Solution:
        """Return the solution of this step's plan by what some step says."""
        return answered(build_network(estimates, self.plan, self.settings, self.rate_tps), COARSE)


def _step(run: Run, experiment: Experiment, number: int) -> AblatedStep | None:
    """Return a step of a run; None where the model declines it."""
    told = observation(run, experiment, number)
    try:
        prepared = composite.prepare(told)
        parts_ms = measured(prepared.source.evidence)
    except ModelDeclined:
        return None
    return AblatedStep(prepared.estimates, parts_ms, told.plan, told.settings, told.rate_tps)


def causes(
    path: Path, judged: Iterable[tuple[int, int]], service_ms: Mapping[int, Mapping[str, float]]
) -> Causes:
    """Look for the causes of one run's errors.

    Parameters
    ----------
    path : Path
        Of the run.
    judged : iterable of (int, int)
        Its pairs of source and proposed step that the model was judged by.
    service_ms : mapping
        What was measured, by step and executor.
    """
    run = Run(path)
    experiment = load(run.path / "experiment.yaml")
    seen: dict[int, AblatedStep | None] = {}
    parts, left, services = [], [], []
    for source, step in judged:
        for number in {source, step} - set(seen):
            seen[number] = _step(run, experiment, number)
        told, there = seen[source], seen[step]
        if told is None or there is None:
            continue
        latency_ms = sum(there.parts_ms.values())
        told_or_own = variants(told.estimates, there.estimates)
        solved = {what: there.solve(estimates) for what, estimates in told_or_own.items()}
        if any(solution.overloaded for solution in solved.values()):
            continue  # medians over other pairs could not be compared
        for what, solution in solved.items():
            expected = predicted(solution)
            left.append((source, step, what, 100 * (sum(expected.values()) - latency_ms) / latency_ms))
            spent_ms = dict(zip(solution.network.layout.labels, solution.service.hold[:, 0], strict=False))
            for executor, ms in service_ms.get(step, {}).items():
                services.append((source, step, what, executor, 100 * (spent_ms[executor] - ms) / ms))
            if what == NOTHING:
                for stage, value in there.parts_ms.items():
                    part = 100 * (expected.get(stage, 0.0) - value) / latency_ms
                    parts.append((source, step, *stage, part))
    return Causes(
        pd.DataFrame(parts, columns=["source", "step", "component", "stage", "part"]),
        pd.DataFrame(left, columns=["source", "step", "replaced", "error"]),
        pd.DataFrame(services, columns=["source", "step", "replaced", "executor", "error"]),
    )


def section(
    paths: Sequence[Path], runs: Sequence[Evaluated], progress: Callable[[str], None] = lambda _: None
) -> str:
    """Return the section of the accuracy page, the tuning set last.

    Parameters
    ----------
    paths : sequence of Path
        Of the runs.
    runs : sequence of Evaluated
    progress : callable
        Told of each run.
    """
    found: list[tuple[Evaluated, Causes]] = []
    for path, run in sorted(zip(paths, runs, strict=True), key=_tuning_last):
        if pairs := judged_pairs(run.pairs):
            progress(f"{path}: looking for causes")
            found.append((run, causes(path, pairs, measured_services(run.pairs))))
    if not found:
        return ""
    latencies = _left_table([(run, of.left) for run, of in found])
    services = _left_table([(run, of.services) for run, of in found])
    return "\n".join([_HEAD, latencies, _SERVICES, services, _BETWEEN, _parts_table(found)])


def _tuning_last(of: tuple[Path, Evaluated]) -> tuple[bool, str, str]:
    run = of[1]
    return run.part == "tuning", run.part, run.name


_HEAD = f"""\
## Where the rest comes from

Mean ground-truth latency of `{MODEL}`: the median error in percent when one kind of estimate is replaced.
The estimate is then not the source's, but the one that the proposed step itself gives. The error left when
all are replaced is the network's and the solution's own: mechanisms that they lack, or have in another form.
Pairs that any replacement would overload, or whose proposed step says nothing, are in no column.
"""
_SERVICES = """\
The same of service times: medians over these pairs and their executors. "Host's other work" is the part of
the contention in the proposed step itself that the law of contention does not explain. With this part
replaced, the prediction has the step's own contention, whatever the law says. So the error that goes with it
is the law's and the host's.
"""
_BETWEEN = """\
Here each stage of the latency is replaced by its measured value. Part: the stage's part in the error (median
over pairs, in percent of the measured latency). Error without it: the median error that is left. Work that a
bolt does after its emits is in its service, and is taken off its hop.
"""


def judged_pairs(pairs: pd.DataFrame) -> list[tuple[int, int]]:
    """Return the off-diagonal pairs whose mean ground truth the model was judged by.

    Parameters
    ----------
    pairs : DataFrame
        Rows of ``errors.parquet``.
    """
    mine = mean_ground_truth(pairs, MODEL)
    mine = mine[mine["verdict"] == "judged"]
    return [(int(s), int(p)) for s, p in zip(mine["source_step"], mine["proposed_step"], strict=True)]


def measured_services(pairs: pd.DataFrame) -> dict[int, dict[str, float]]:
    """Return the service times that the model was judged by, by proposed step and executor."""
    mine = means(pairs, MODEL, Measure.SERVICE)
    mine = mine[(mine["verdict"] == "judged") & judged_rows(mine)]
    return {
        int(str(step)): dict(zip(of["subject"], of["actual"].astype(float), strict=True))
        for step, of in mine.groupby("proposed_step")
    }


def _left_table(found: Iterable[tuple[Evaluated, pd.DataFrame]]) -> str:
    columns = [NOTHING, *ESTIMATES, EVERYTHING]
    head = ["set", "run", "pairs", *columns]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for run, left in found:
        pairs = f"{left.groupby(['source', 'step']).ngroups} of {len(judged_pairs(run.pairs))}"
        errors = left.assign(error=left["error"].abs()).groupby("replaced")["error"].median()
        cells = (f"{errors[c]:.1f}" if c in errors.index else "–" for c in columns)
        lines.append(f"| {run.part} | {run.name} | {pairs} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _parts_table(found: Iterable[tuple[Evaluated, Causes]]) -> str:
    lines = ["| set | run | stage | part | error without it |", "| --- | --- | --- | --- | --- |"]
    for run, of in found:
        parts = of.parts
        errors = parts.groupby(["source", "step"])["part"].sum()
        lines.append(f"| {run.part} | {run.name} | | | {errors.abs().median():.1f} |")
        for name in dict.fromkeys(zip(parts["component"], parts["stage"], strict=True)):
            mine = parts[(parts["component"] == name[0]) & (parts["stage"] == name[1])]
            part = mine.set_index(["source", "step"])["part"].reindex(errors.index, fill_value=0.0)
            if np.median(part.abs()) >= LEAST_PCT:
                without = (errors - part).abs().median()
                lines.append(f"| | | {name[0]}: {name[1]} | {np.median(part):+.1f} | {without:.1f} |")
    return "\n".join(lines) + "\n"
