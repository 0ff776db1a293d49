"""Prices of the composite model's mechanisms: errors with each and without it, over judged pairs.

A mechanism is priced over the experiments in which it acts: those in which switching it off changes a judged
prediction of the measure. All pairs of these are counted, those that it leaves alone, too.

A run is read once, and measured as ``rescoring`` measures it. Only the priced measures of the composite model
are predicted. A mechanism without which every network of a pair is the same is not asked for that pair.
"""

from __future__ import annotations

import ast
import os
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import fields, replace
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

import harness.models.composite as composite_room
from harness.analysis.judge import checks, raw_steps
from harness.analysis.judge.arithmetic import StepStates, abs_error_pct
from harness.analysis.judge.evaluation import Split
from harness.analysis.judge.judged_rows import is_judged
from harness.analysis.judge.pair_errors import measured_values
from harness.analysis.judge.predicting import rate_tps, settings
from harness.analysis.judge.raw_steps import RawStep
from harness.analysis.spark.inputs import RunRecord, read_raw
from harness.errors import ModelDeclined, UsageError
from harness.experiments.loading import load
from harness.models.composite.mechanisms import ANCHORING, FITTED, MECHANISMS
from harness.models.composite.model import (
    Answers,
    Parts,
    Prepared,
    coarsely_answered,
    composite,
    predicted,
)
from harness.models.composite.played import answered
from harness.models.contract.answers import require_no_relief
from harness.models.network import Network
from harness.protocols import Estimate, Observation
from harness.runs import Run
from harness.schemas import Measure

MODEL = "composite"
PRICED = (Measure.GROUND_TRUTH, Measure.SERVICE, Measure.WORKER_CPU)
"""Measures whose means are priced; the latency is the whole topology's."""
PARTS: Parts = ((), Answers.service), ((), Answers.ground_truth), ((), Answers.cpu)
"""Of an answer, those that have the priced measures."""
ALL = "all"
"""Names every mechanism."""
SEEN = ("tuning", "development")
BOTH = "both"
"""Sets by which a mechanism may be taken out, and the two together: a set that decides is no reporting set."""
_SAME = 1e-9
"""Relative difference up to which two predictions are one."""

Key = tuple[str, str]
"""Measure and subject."""
Pair = tuple[int, int]
"""Source and proposed step."""


class MechanismPrice(NamedTuple):
    """Errors of one measure's means in one set, over the experiments in which a mechanism acts.

    Attributes
    ----------
    mechanism, measure, part : str
        ``part`` is a set of the split, or ``BOTH``.
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

    @property
    def points(self) -> float | None:
        """Growth of median or 95th percentile without it, whichever is more; None where it acts nowhere.

        Examples
        --------
        >>> MechanismPrice("starts", "m", "tuning", ("a",), 2, (5.0, 5.5), (9.0, 8.0), (90.0, 90.0)).points
        0.5
        """
        if self.median_pct is None or self.p95_pct is None:
            return None
        return max(without - whole for whole, without in (self.median_pct, self.p95_pct))


class _PairOutcome(NamedTuple):
    """One prediction: its error in percent, and whether its interval held what was measured."""

    value: float
    error_pct: float
    covered: bool


Outcomes = Mapping[tuple[int, int, str, str], _PairOutcome]
"""By source and proposed step, measure and subject."""


class PricedRun(NamedTuple):
    """Outcomes of one run's judged pairs, by the whole model and by those without each mechanism."""

    experiment: str
    whole: Outcomes
    without: Mapping[str, Outcomes]


def price(
    paths: Sequence[Path],
    split: Split,
    names: Iterable[str],
    progress: Callable[[str], None] = lambda _: None,
    processes: int | None = None,
) -> list[MechanismPrice]:
    """Price mechanisms over measured runs.

    Parameters
    ----------
    paths : sequence of Path
        Of the runs.
    split : Split
        The set of each experiment.
    names : iterable of str
        Of mechanisms.
    progress : callable
        Told of each run.
    processes : int, optional
        That predict, a run at a time; by default one a core.

    Returns
    -------
    list of MechanismPrice
        A row a mechanism, measure and set that some run is in.

    Raises
    ------
    UsageError
        Naming the first run that is unreadable or was not measured.
    """
    wanted = tuple(names)
    found = priced_runs(paths, wanted, progress, processes)
    parts: dict[str, list[PricedRun]] = {part: [] for part in (*SEEN, BOTH, "reporting", "neither")}
    for run in found:
        part = split.part(run.experiment)
        parts[part].append(run)
        if part in SEEN:
            parts[BOTH].append(run)
    return [
        _price(name, measure, part, runs)
        for name in wanted
        for measure in PRICED
        for part, runs in parts.items()
        if runs
    ]


def priced_runs(
    paths: Sequence[Path],
    names: Sequence[str],
    progress: Callable[[str], None] = lambda _: None,
    processes: int | None = None,
) -> list[PricedRun]:
    """Return the outcomes of runs, in the order given; parameters and exceptions are ``price``'s."""
    weights = {}
    for path in paths:
        record = read_raw(path)  # every mistake is found before the first prediction
        if not record.measured:
            raise UsageError(f"{path}: simulated, not measured", "accuracy is told of measured runs only")
        weights[path] = len(record.steps) ** 2
    number = processes or len(os.sched_getaffinity(0))
    found: dict[Path, PricedRun] = {}
    with ProcessPoolExecutor(min(number, len(paths)), get_context("spawn")) as pool:
        largest_first = sorted(paths, key=lambda path: -weights[path])
        asked = {pool.submit(priced_run, path, names): path for path in largest_first}
        for done in as_completed(asked):
            found[asked[done]] = done.result()
            progress(f"{asked[done]}: predicted without {', '.join(names)}")
    return [found[path] for path in paths]


def priced_run(path: Path, names: Sequence[str]) -> PricedRun:
    """Return the outcomes of a run's judged pairs."""
    record = read_raw(path)
    raw = {s.index: raw_steps.read_step(s) for s in record.steps}
    run = Run(path)
    experiment = load(run.path / "experiment.yaml")
    alike = settings(run, experiment)
    seen = {step: of.observation(alike) for step, of in raw.items()}
    measured = judged(record, raw, seen)
    whole: dict[tuple[int, int, str, str], _PairOutcome] = {}
    without: dict[str, dict[tuple[int, int, str, str], _PairOutcome]] = {name: {} for name in names}
    for source in dict.fromkeys(pair[0] for pair in measured):
        try:
            models = _Models(composite.prepare(seen[source]), names)
        except ModelDeclined:
            continue
        for step in (pair[1] for pair in measured if pair[0] == source):
            there, actual = seen[step], measured[source, step]
            known_tps = rate_tps(experiment, seen[source].rate_tps, there.rate_tps)
            for name, told in models.answers(there, known_tps).items():
                into = without[name] if name else whole
                into |= {(source, step, *key): of for key, of in outcomes(told, actual).items()}
    return PricedRun(run.path.parent.name, whole, without)


def judged(
    record: RunRecord, raw: Mapping[int, RawStep], seen: Mapping[int, Observation]
) -> dict[Pair, dict[Key, float]]:
    """Return the priced measures' measured values, by pair that a model is judged by."""
    results = checks.run_checks(record, {step: raw_steps.samples(of) for step, of in raw.items()})
    states = StepStates.of(record.steps, checks.unusable(results, record.steps))
    found: dict[Pair, dict[Key, float]] = {}
    for step, of in seen.items():
        values = [
            (measure, subject, value)
            for measure, statistic, subject, value in measured_values(of, raw[step])
            if measure in PRICED and statistic == "mean" and value != 0 and is_judged(measure, subject)
        ]
        for source in seen:
            mine = {
                (measure, subject): value
                for measure, subject, value in values
                if source != step and not states.excluded(source, step, measure)[0]
            }
            if mine:
                found[source, step] = mine
    return dict(sorted(found.items()))


class _Models:
    """The model of a source that was read, whole (name empty) and without each mechanism."""

    def __init__(self, prepared: Prepared, names: Sequence[str]) -> None:
        self.models = {"": prepared} | {name: without_one(prepared, name) for name in names}

    def answers(self, there: Observation, rate_tps: float) -> dict[str, Sequence[Estimate]]:
        """Return what each says of the priced measures of a step; nothing where it declines."""
        found: dict[str, Sequence[Estimate]] = {}
        known: dict[tuple[bytes, str], Sequence[Estimate]] = {}
        for name, model in self.models.items():
            try:
                require_no_relief(there.settings.relief, "proposed")
                networks = model.networks(there.plan, there.settings, rate_tps)
                anchored = "" if model.measured is None else name  # at the source's own prediction: its own
                key = _contents(networks), anchored
                if key not in known:
                    known[key] = _answer(model, networks, rate_tps)
                found[name] = known[key]
            except ModelDeclined:
                found[name] = ()
        return found


def without_one(prepared: Prepared, name: str) -> Prepared:
    """Return a source that was read, for the model without a mechanism."""
    names = frozenset({name})
    measured = None if name == ANCHORING else prepared.measured
    weighed = replace(prepared.weighed, without=names) if name in FITTED else prepared.weighed
    return replace(prepared, weighed=weighed, without=names, measured=measured)


def _answer(model: Prepared, networks: Sequence[Network], rate_tps: float) -> Sequence[Estimate]:
    others = coarsely_answered(networks)
    own = answered(networks[0])
    return model.anchor(predicted(own, others, rate_tps, model.calibrations, parts=PARTS)).estimates


def _contents(networks: Sequence[Network]) -> bytes:
    """Return a digest of networks of one layout: of two with the same one every prediction is the same."""
    names = [f.name for f in fields(Network) if f.name != "layout"]
    content = pickle.dumps([[getattr(network, name) for name in names] for network in networks])
    return blake2b(content, digest_size=16).digest()


def outcomes(told: Iterable[Estimate], measured: Mapping[Key, float]) -> dict[Key, _PairOutcome]:
    """Return the outcomes of the means that were predicted and measured."""
    found = {}
    for e in told:
        actual = measured.get((e.measure, e.subject))
        if e.statistic != "mean" or actual is None or e.value is None:
            continue
        held = e.low is not None and e.high is not None and e.low <= actual <= e.high
        found[e.measure, e.subject] = _PairOutcome(e.value, abs_error_pct(e.value, actual), held)
    return found


def _price(
    name: str, measure: str, part: str, runs: Sequence[PricedRun]
) -> MechanismPrice:
    acts = {
        run.experiment
        for run in runs
        if any(_differs(o, run.without[name].get(key)) for key, o in run.whole.items() if key[2] == measure)
    }
    both = [
        (o, run.without[name][key])
        for run in runs
        if run.experiment in acts
        for key, o in run.whole.items()
        if key[2] == measure and key in run.without[name]
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
