"""Prices of the composite model's mechanisms: errors with each and without it, over judged pairs.

A mechanism is priced over the experiments in which it acts: those in which switching it off changes a judged
prediction of a priced measure. All pairs of these are counted, those that it leaves alone, too.

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
from harness.analysis.judge.arithmetic import StepStates, abs_error_pct, quantile
from harness.analysis.judge.evaluation import Split, read_measured
from harness.analysis.judge.judged_rows import is_judged
from harness.analysis.judge.pair_errors import measured_values
from harness.analysis.judge.predicting import rate_tps, settings
from harness.analysis.judge.raw_steps import RawStep
from harness.analysis.spark.inputs import RunRecord, read_raw
from harness.errors import ModelDeclined
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.models.composite.mechanisms import ANCHORING, FITTED, MECHANISMS
from harness.models.composite.model import Prepared, coarsely_answered, composite
from harness.models.composite.played import answered
from harness.models.composite.solved_measures import Answers, Parts, predicted
from harness.models.contract.answers import require_no_relief
from harness.models.network import Network
from harness.protocols import Estimate, Observation
from harness.runs import Run
from harness.schemas import Measure

MODEL = "composite"
PARTS: Parts = (
    ((), Answers.service),
    ((), Answers.ground_truth),
    ((), Answers.complete),
    ((), Answers.cpu),
)
"""Parts of an answer that have the priced measures."""
ALL = "all"
"""Names every mechanism."""
SEEN = ("tuning", "development")
BOTH = "both"
"""Sets by which a mechanism may be taken out, and both together: what decides is not held out."""
_SAME = 1e-9
"""Relative difference up to which two predictions are one."""

Kind = tuple[Measure, str]
"""Measure and statistic."""
PRICED: Mapping[Kind, str] = {
    (Measure.GROUND_TRUTH, "mean"): "ground truth, mean",
    (Measure.GROUND_TRUTH, "p99"): "ground truth, p99",
    (Measure.COMPLETE, "mean"): "complete latency, mean",
    (Measure.SERVICE, "mean"): "service time, mean",
    (Measure.WORKER_CPU, "mean"): "CPU by worker",
}
"""Priced, and what they are called; latencies are the whole topology's."""
Key = tuple[str, str, str]
"""Measure, statistic and subject."""
Pair = tuple[int, int]
"""Source and proposed step."""


class ErrorChange(NamedTuple):
    """Errors of one kind of prediction, with a mechanism and without it.

    Attributes
    ----------
    pairs : int
        Predictions that are counted.
    median_pct, p95_pct : tuple of float
        Of the absolute errors.
    covered_pct : tuple of float
        Predictions within their 90 % interval.
    """

    pairs: int
    median_pct: tuple[float, float]
    p95_pct: tuple[float, float]
    covered_pct: tuple[float, float]

    @property
    def points(self) -> float:
        """Growth of the median or the 95th percentile without it, whichever is more.

        Examples
        --------
        >>> ErrorChange(2, (5.0, 5.5), (9.0, 8.0), (90.0, 90.0)).points
        0.5
        """
        return max(without - whole for whole, without in (self.median_pct, self.p95_pct))


class MechanismPrice(NamedTuple):
    """Worth of a mechanism in one set, over the experiments in which it acts.

    Attributes
    ----------
    mechanism, part : str
        ``part`` is a set of the split, or ``BOTH``.
    experiments : tuple of str
        In which it acts; none: it changes nothing there.
    changes : mapping of Kind to ErrorChange
        Of the kinds that it changes.
    """

    mechanism: str
    part: str
    experiments: tuple[str, ...]
    changes: Mapping[Kind, ErrorChange]

    @property
    def points(self) -> float | None:
        """The price: the most that errors of any kind grow by without it; None where it acts nowhere."""
        return max((change.points for change in self.changes.values()), default=None)

    def as_json(self) -> dict[str, object]:
        """Return the price as plain values."""
        changes = {f"{measure} {statistic}": c._asdict() for (measure, statistic), c in self.changes.items()}
        return {"mechanism": self.mechanism, "set": self.part, "experiments": self.experiments, **changes}


class _PairOutcome(NamedTuple):
    """One prediction: its error in percent, and whether its interval held what was measured."""

    value: float
    error_pct: float
    covered: bool


Outcomes = Mapping[tuple[int, int, str, str, str], _PairOutcome]
"""By source and proposed step, measure, statistic and subject."""


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
        A row a mechanism and set that some run is in.

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
    return [price_of(name, part, runs) for name in wanted for part, runs in parts.items() if runs]


def priced_runs(
    paths: Sequence[Path],
    names: Sequence[str],
    progress: Callable[[str], None] = lambda _: None,
    processes: int | None = None,
) -> list[PricedRun]:
    """Return the outcomes of runs, in the order given; parameters and exceptions are ``price``'s."""
    # every mistake is found before the first prediction
    pairs = {path: len(read_measured(path).steps) ** 2 for path in paths}
    number = processes or len(os.sched_getaffinity(0))
    found: dict[Path, PricedRun] = {}
    with ProcessPoolExecutor(min(number, len(paths)), get_context("spawn")) as pool:
        largest_first = sorted(paths, key=lambda path: -pairs[path])
        asked = {pool.submit(priced_run, path, names): path for path in largest_first}
        for done in as_completed(asked):
            found[asked[done]] = done.result()
            progress(f"{asked[done]}: predicted without {', '.join(names)}")
    return [found[path] for path in paths]


class JudgedRun(NamedTuple):
    """A run's steps as models see them, and what they are judged by.

    Attributes
    ----------
    experiment : Experiment
    seen : mapping of int to Observation
        By step.
    measured : mapping of (int, int) to mapping of Key to float
        The priced kinds' measured values, by pair that a model is judged by.
    """

    experiment: Experiment
    seen: Mapping[int, Observation]
    measured: Mapping[Pair, Mapping[Key, float]]

    def rate_tps(self, source: int, proposed: int) -> float:
        """Return the input rate that a model is given for a pair."""
        return rate_tps(self.experiment, self.seen[source].rate_tps, self.seen[proposed].rate_tps)


def judged_run(path: Path) -> JudgedRun:
    """Read a run, every table once.

    Raises
    ------
    UsageError
        Naming the first file that is missing or unreadable.
    """
    record, run = read_raw(path), Run(path)
    raw = {s.index: raw_steps.read_step(s) for s in record.steps}
    experiment = load(run.path / "experiment.yaml")
    alike = settings(run, experiment)
    seen = {step: of.observation(alike) for step, of in raw.items()}
    return JudgedRun(experiment, seen, _measured(record, raw, seen))


def priced_run(path: Path, names: Sequence[str]) -> PricedRun:
    """Return the outcomes of a run's judged pairs."""
    run = judged_run(path)
    whole: dict[tuple[int, int, str, str, str], _PairOutcome] = {}
    without: dict[str, dict[tuple[int, int, str, str, str], _PairOutcome]] = {name: {} for name in names}
    for source in dict.fromkeys(pair[0] for pair in run.measured):
        try:
            models = _Models(composite.prepare(run.seen[source]), names)
        except ModelDeclined:
            continue
        for step in (pair[1] for pair in run.measured if pair[0] == source):
            answers = models.answers(run.seen[step], run.rate_tps(source, step))
            for name, told in answers.items():
                into = without[name] if name else whole
                found = outcomes(told, run.measured[source, step])
                into |= {(source, step, *key): of for key, of in found.items()}
    return PricedRun(path.parent.name, whole, without)


def _measured(
    record: RunRecord, raw: Mapping[int, RawStep], seen: Mapping[int, Observation]
) -> dict[Pair, dict[Key, float]]:
    """Return the priced measures' measured values, by pair that a model is judged by."""
    results = checks.run_checks(record, {step: raw_steps.samples(of) for step, of in raw.items()})
    states = StepStates.of(record.steps, checks.unusable(results, record.steps))
    found: dict[Pair, dict[Key, float]] = {}
    for step, of in seen.items():
        values = [
            ((measure, statistic, subject), value)
            for measure, statistic, subject, value in measured_values(of, raw[step])
            if (measure, statistic) in PRICED and value != 0 and is_judged(measure, subject)
        ]
        for source in seen:
            mine = {
                key: value
                for key, value in values
                if source != step and not states.excluded(source, step, key[0])[0]
            }
            if mine:
                found[source, step] = mine
    return dict(sorted(found.items()))


class _Models:
    """The model of a source that was read, whole (name empty) and without each mechanism."""

    def __init__(self, prepared: Prepared, names: Sequence[str]) -> None:
        self.models = {"": prepared} | {name: without_one(prepared, name) for name in names}

    def answers(self, there: Observation, rate_tps: float) -> dict[str, Sequence[Estimate]]:
        """Return the answers of each for a step, in the priced measures; nothing where it declines."""
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
    """Return the outcomes of what was predicted and measured."""
    found = {}
    for e in told:
        key = e.measure, e.statistic, e.subject
        actual = measured.get(key)
        if actual is None or e.value is None:
            continue
        held = e.low is not None and e.high is not None and e.low <= actual <= e.high
        found[key] = _PairOutcome(e.value, abs_error_pct(e.value, actual), held)
    return found


def price_of(name: str, part: str, runs: Sequence[PricedRun]) -> MechanismPrice:
    """Return a mechanism's price over runs of one set."""
    changed = [
        {key[2:4] for key, of in run.whole.items() if _differs(of, run.without[name].get(key))}
        for run in runs
    ]
    acts = {run.experiment for run, kinds in zip(runs, changed, strict=True) if kinds}
    changes = {}
    for kind in PRICED:
        both = [
            (of, run.without[name][key])
            for run in runs
            if run.experiment in acts
            for key, of in run.whole.items()
            if key[2:4] == kind and key in run.without[name]
        ]
        if both and any(kind in kinds for kinds in changed):
            changes[kind] = _change(both)
    return MechanismPrice(name, part, tuple(sorted(acts)), changes)


def _change(both: Sequence[tuple[_PairOutcome, _PairOutcome]]) -> ErrorChange:
    whole, without = (_summed(side) for side in zip(*both, strict=True))
    return ErrorChange(len(both), *zip(whole, without, strict=True))


def _summed(side: Sequence[_PairOutcome]) -> tuple[float, float, float]:
    errors = [of.error_pct for of in side]
    covered_pct = 100 * float(np.mean([of.covered for of in side]))
    return quantile(errors, 0.5), quantile(errors, 0.95), covered_pct


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
