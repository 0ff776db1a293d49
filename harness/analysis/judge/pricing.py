"""Prices of the composite model's mechanisms: errors with each and without it, over judged pairs.

A mechanism is priced over the experiments in which it acts: those in which switching it off changes a judged
prediction of the measure. All pairs of these are counted, those that it leaves alone, too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import harness.models.composite as composite_room
from harness.analysis.judge.arithmetic import abs_error_pct
from harness.analysis.judge.evaluation import Evaluated, means
from harness.analysis.judge.judged_rows import judged_rows
from harness.analysis.judge.predicting import observation, rate_tps
from harness.experiments.loading import load
from harness.models.composite.mechanisms import MECHANISMS
from harness.models.composite.model import Prepared, composite
from harness.protocols import Estimate
from harness.runs import Run
from harness.schemas import Measure

MODEL = "composite"
PRICED = (Measure.GROUND_TRUTH, Measure.SERVICE, Measure.WORKER_CPU)
"""Measures whose means are priced; the latency is the whole topology's."""
ALL = "all"
"""Names every mechanism."""
_SAME = 1e-9
"""Relative difference up to which two predictions are one."""

Key = tuple[str, str]
"""Measure and subject."""


class MechanismPrice(NamedTuple):
    """Errors of one measure's means in one set, over the experiments in which a mechanism acts.

    Attributes
    ----------
    mechanism, measure, part : str
    experiments : tuple of str
        In which it acts; none: it changes nothing there.
    pairs : int
        Predictions that are counted.
    median_pct, p95_pct, covered_pct : tuple of float, optional
        With and without it: errors, and how many were within their 90 % interval. None where it acts nowhere.
    """

    mechanism: str
    measure: str
    part: str
    experiments: tuple[str, ...]
    pairs: int
    median_pct: tuple[float, float] | None = None
    p95_pct: tuple[float, float] | None = None
    covered_pct: tuple[float, float] | None = None


class _PairOutcome(NamedTuple):
    """One prediction: its error in percent, and whether its interval held what was measured."""

    value: float
    error_pct: float
    covered: bool


Outcomes = Mapping[tuple[int, int, str, str], _PairOutcome]
"""By source and proposed step, measure and subject."""


def price(
    paths: Sequence[Path],
    runs: Sequence[Evaluated],
    names: Iterable[str],
    progress: Callable[[str], None] = lambda _: None,
) -> list[MechanismPrice]:
    """Price mechanisms over judged runs.

    Parameters
    ----------
    paths : sequence of Path
        Of the runs.
    runs : sequence of Evaluated
    names : iterable of str
        Of mechanisms.
    progress : callable
        Told of each run.
    """
    wanted = list(names)
    found: dict[str, list[tuple[Evaluated, Outcomes, Outcomes]]] = {name: [] for name in wanted}
    for path, run in zip(paths, runs, strict=True):
        progress(f"{path}: predicting without {', '.join(wanted)}")
        whole, without = outcomes(path, judged(run.pairs), wanted)
        for name in wanted:
            found[name].append((run, whole, without[name]))
    parts = dict.fromkeys(run.part for run in runs)
    return [
        _price(name, measure, part, [of for of in found[name] if of[0].part == part])
        for name in wanted
        for measure in PRICED
        for part in parts
    ]


def judged(pairs: pd.DataFrame) -> dict[tuple[int, int], dict[Key, float]]:
    """Return the priced measures' measured values, by pair that the model was judged by.

    Parameters
    ----------
    pairs : DataFrame
        Rows of ``errors.parquet``.
    """
    found: dict[tuple[int, int], dict[Key, float]] = {}
    for measure in PRICED:
        mine = means(pairs, MODEL, measure)
        mine = mine[(mine["verdict"] == "judged") & judged_rows(mine)]
        if measure == Measure.GROUND_TRUTH:
            mine = mine[mine["subject"] == ""]
        columns = (mine[c].tolist() for c in ("source_step", "proposed_step", "subject", "actual"))
        for source, proposed, subject, actual in zip(*columns, strict=True):
            found.setdefault((int(source), int(proposed)), {})[measure, str(subject)] = float(actual)
    return found


def outcomes(
    path: Path, measured: Mapping[tuple[int, int], Mapping[Key, float]], names: Sequence[str]
) -> tuple[Outcomes, dict[str, Outcomes]]:
    """Return the outcomes of a run's judged pairs, by the whole model and by those without each mechanism."""
    run = Run(path)
    experiment = load(run.path / "experiment.yaml")
    whole: dict[tuple[int, int, str, str], _PairOutcome] = {}
    without: dict[str, dict[tuple[int, int, str, str], _PairOutcome]] = {name: {} for name in names}
    for source in dict.fromkeys(pair[0] for pair in measured):
        seen = observation(run, experiment, source)
        prepared = composite.prepare(seen)
        others = {name: without_one(prepared, name) for name in names}
        for step in (pair[1] for pair in measured if pair[0] == source):
            there = observation(run, experiment, step)
            known_tps = rate_tps(experiment, seen.rate_tps, there.rate_tps)
            for model, into in ((prepared, whole), *((others[name], without[name]) for name in names)):
                told = model.predict(there.plan, there.settings, known_tps).estimates
                for key, outcome in _judged(told, measured[source, step]).items():
                    into[source, step, *key] = outcome
    return whole, dict(without)


def without_one(prepared: Prepared, name: str) -> Prepared:
    """Return a source that was read, for the model without a mechanism."""
    measured = None if name == "anchoring" else prepared.measured
    return replace(prepared, without=frozenset({name}), measured=measured)


def _judged(told: Iterable[Estimate], measured: Mapping[Key, float]) -> dict[Key, _PairOutcome]:
    found = {}
    for e in told:
        actual = measured.get((e.measure, e.subject))
        if e.statistic != "mean" or actual is None or e.value is None:
            continue
        held = e.low is not None and e.high is not None and e.low <= actual <= e.high
        found[e.measure, e.subject] = _PairOutcome(e.value, abs_error_pct(e.value, actual), held)
    return found


def _price(
    name: str, measure: str, part: str, of_runs: Sequence[tuple[Evaluated, Outcomes, Outcomes]]
) -> MechanismPrice:
    acts = {
        run.experiment
        for run, whole, without in of_runs
        if any(_differs(o, without.get(key)) for key, o in whole.items() if key[2] == measure)
    }
    both = [
        (o, without[key])
        for run, whole, without in of_runs
        if run.experiment in acts
        for key, o in whole.items()
        if key[2] == measure and key in without
    ]
    if not both:
        return MechanismPrice(name, measure, part, tuple(sorted(acts)), 0)
    errors = np.array([[o.error_pct for o in pair] for pair in both])
    covered = 100 * np.array([[o.covered for o in pair] for pair in both]).mean(axis=0)
    median, p95 = np.median(errors, axis=0), np.quantile(errors, 0.95, axis=0)
    return MechanismPrice(
        name,
        measure,
        part,
        tuple(sorted(acts)),
        len(both),
        (float(median[0]), float(median[1])),
        (float(p95[0]), float(p95[1])),
        (float(covered[0]), float(covered[1])),
    )


def _differs(one: _PairOutcome, other: _PairOutcome | None) -> bool:
    return other is None or abs(one.value - other.value) > _SAME * abs(one.value)


def lines_of(name: str) -> int:
    """Return the lines of code that are there for a mechanism alone, its docstrings included.

    Examples
    --------
    >>> lines_of("wake-ups")
    0
    """
    return sum(_lines(place) for place in MECHANISMS[name].made_by)


def _lines(place: str) -> int:
    """Return the lines of a module below the composite model's, or of ``module:function`` in it."""
    module, _, inner = place.partition(":")
    source = Path(composite_room.__path__[0], *module.split(".")).with_suffix(".py")
    text = source.read_text(encoding="utf-8")
    if not inner:
        return len(text.splitlines())
    node: ast.AST = ast.parse(text)
    for part in inner.split("."):
        node = next(
            n
            for n in ast.iter_child_nodes(node)
            if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == part
        )
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    return (node.end_lineno or node.lineno) - node.lineno + 1


def price_table(prices: Sequence[MechanismPrice]) -> str:
    """Return prices as a Markdown table, with the experiments' number and each figure with and without."""
    head = ["mechanism", "lines", "measure", "set", "experiments", "predictions", "median, %", "p95, %",
            "within 90 % interval, %", "without it"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for p in prices:
        figures = [_change(pair) for pair in (p.median_pct, p.p95_pct, p.covered_pct)]
        cells = [p.mechanism, lines_of(p.mechanism), p.measure, p.part, len(p.experiments), p.pairs, *figures]
        lines.append(f"| {' | '.join(map(str, cells))} | {MECHANISMS[p.mechanism].says} |")
    return "\n".join(lines) + "\n"


def _change(with_and_without: tuple[float, float] | None) -> str:
    return "–" if with_and_without is None else "{:.1f} → {:.1f}".format(*with_and_without)
