"""Errors by pair of steps, of one night or of many resampled ones at once.

A step's answers and measurements come as arrays over nights. Steps are drawn independently of each other, so
any night of the source step goes with any night of the proposed step. A pair's errors are a matrix of both,
and nights are put together by picking one night for every step. Pairs that share a step share its pick.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import permutations
from typing import TypeVar

import numpy as np

from harness.analysis.judge import capacity
from harness.analysis.judge.arithmetic import Bools, Floats, StepStates, protocol_of, relative_error
from harness.analysis.judge.carriers import Statistic
from harness.analysis.judge.judged_rows import is_judged
from harness.analysis.judge.predicting import ask, reader
from harness.analysis.judge.raw_steps import RawStep, worker_cpu_cores
from harness.analysis.judge.scores import FEWEST_BLOCKS, Accuracy, Matrix, MeasuredValues, rounded
from harness.analysis.spark.inputs import RunRecord
from harness.models import MODELS, NO_CHANGE
from harness.protocols import Model, Observation, Prediction
from harness.schemas import LATENCIES, JudgedRows, Measure

Kind = tuple[str, str, str]
"""Model, measure, statistic."""
Of = tuple[str, str, int]
"""Measure, statistic, step."""
Pair = tuple[int, int]
Carriers = Mapping[int, Mapping[Statistic, float]]
"""By step, the effective number of blocks that a measured statistic rests on."""
K = TypeVar("K")

OF_COMPONENTS = (Measure.ARRIVALS, Measure.SERVICE)
"""Measures that are also compared as they were measured, by component."""
PICKED = 1000
"""Nights that are put together from the resampled steps."""


@dataclass(frozen=True)
class Asked:
    """One night: what models answered, and what was measured.

    Attributes
    ----------
    answers : mapping of (Kind, Pair) to mapping of subject to float
        Without the answers that are none.
    measured : mapping of Of to mapping of subject to float
    told : mapping of (measure, statistic, Pair) to set of subject
        What the source says of the proposed plan's subjects without any model: what no-change answers.
    """

    answers: Mapping[tuple[Kind, Pair], Mapping[str, float]]
    measured: Mapping[Of, Mapping[str, float]]
    told: Mapping[tuple[str, str, Pair], Set[str]]

    @classmethod
    def of(
        cls,
        seen: Mapping[int, Observation],
        raw: Mapping[int, RawStep],
        models: Mapping[str, Model],
        record: RunRecord,
    ) -> Asked:
        """Ask all models for all pairs of different steps."""
        answers: dict[tuple[Kind, Pair], dict[str, float]] = defaultdict(dict)
        measured: dict[Of, dict[str, float]] = defaultdict(dict)
        told: dict[tuple[str, str, Pair], set[str]] = defaultdict(set)
        for i, source in seen.items():
            unchanged = reader(MODELS[NO_CHANGE], source)
            read = {
                name: unchanged if model is MODELS[NO_CHANGE] else reader(model, source)
                for name, model in models.items()
            }
            for measure, statistic, subject, value in measured_values(source, raw[i]):
                measured[measure, statistic, i][subject] = value
            for j, proposed in seen.items():
                if i == j:
                    continue
                same = ask(unchanged, proposed.plan, proposed.settings, proposed.rate_tps)
                for measure, statistic, subject, _ in _values(same):
                    told[measure, statistic, (i, j)].add(subject)
                for name, answers_of in read.items():
                    found = (
                        same
                        if answers_of is unchanged
                        else ask(answers_of, proposed.plan, proposed.settings, proposed.rate_tps)
                    )
                    for measure, statistic, subject, value in _values(found):
                        if is_judged(measure, subject):
                            answers[(name, measure, statistic), (i, j)][subject] = value
        for row in (*capacity.throughput(record), *capacity.sustainable_rate(record)):
            if row.value is not None:
                measured[row.measure, row.statistic, row.step][""] = float(row.value)
        return cls(answers, measured, told)


def measured_values(seen: Observation, raw: RawStep) -> Iterator[tuple[str, str, str, float]]:
    """Yield measure, statistic, subject and value of all that was measured of a step but its capacity.

    That is what no-change answers for the step itself, and the CPU use of workers.
    """
    unchanged = reader(MODELS[NO_CHANGE], seen)
    yield from _values(ask(unchanged, seen.plan, seen.settings, seen.rate_tps))
    for worker, cores in worker_cpu_cores(raw).items():
        yield Measure.WORKER_CPU, "mean", worker, cores


def _values(of: Prediction) -> Iterator[tuple[str, str, str, float]]:
    for e in of.estimates:
        if e.status == "ok" and e.value is not None and np.isfinite(e.value):
            yield e.measure, e.statistic, e.subject, float(e.value)


@dataclass(frozen=True)
class Errors:
    """Errors and measured values of one night or of several.

    Attributes
    ----------
    of_pairs : mapping of Kind to mapping of Pair to array (nights of source, nights of proposed)
        Relative errors in percent: signed where there is one subject, else the median of the absolute ones.
    unanswered : mapping of Kind to mapping of Pair to array (nights of source)
        Pairs of which something was measured and not predicted, and in which nights. What the source says
        nothing of is not asked for: some tasks get a tuple a minute, and not every night has one.
    values : mapping of (measure, statistic, subject) to mapping of step to array (nights)
        What was measured.
    steps : tuple of int
        The run's steps.
    nights : int
    """

    of_pairs: Mapping[Kind, Mapping[Pair, Floats]]
    unanswered: Mapping[Kind, Mapping[Pair, Bools]]
    values: Mapping[Statistic, Mapping[int, Floats]]
    steps: tuple[int, ...]
    nights: int

    def measured(
        self, again: Errors | None = None, carriers: Carriers | None = None
    ) -> Iterator[MeasuredValues]:
        """Yield the measured latencies of the topology, and the means of rates and service times.

        ``again`` holds resampled nights, ``carriers`` by step how many blocks a statistic rests on.
        """
        for key in sorted(self.values):
            measure, statistic, subject = key
            by_step = self.values[key]
            nights = again.values.get(key, {}) if again else {}
            yield MeasuredValues(
                protocol=protocol_of(measure, statistic),
                measure=measure,
                statistic=statistic,
                subject=subject,
                values=tuple(_of_night(by_step.get(s)) for s in self.steps),
                within=tuple(_relative_sd(nights.get(s)) for s in self.steps) if again else (),
                carriers=tuple(rounded(carriers[s].get(key)) for s in self.steps) if carriers else (),
            )

    def accuracy(self, again: Errors | None = None, carriers: Carriers | None = None) -> Iterator[Accuracy]:
        """Yield the errors of every kind; ``again`` and ``carriers`` as for ``measured``.

        How far they move is learnt from the pairs whose measurements have blocks enough to rest on.
        """
        place = {s: i for i, s in enumerate(self.steps)}
        for kind in sorted(self.of_pairs):
            model, measure, statistic = kind
            found = self.of_pairs[kind]
            thin = {
                step
                for step, of in (carriers or {}).items()
                if of.get((measure, statistic, ""), np.inf) < FEWEST_BLOCKS
            }
            firm = {pair: of for pair, of in found.items() if not thin & set(pair)}
            grown, spread = (None, None) if again is None else _moves(firm, again.of_pairs.get(kind, {}))
            yield Accuracy(
                model=model,
                protocol=protocol_of(measure, statistic),
                measure=measure,
                statistic=statistic,
                subjects="one" if is_judged(measure, "") else "many",
                errors_pct=self._matrix(found),
                unanswered=tuple(sorted((place[i], place[j]) for i, j in self.unanswered[kind])),
                grown_points=grown,
                spread_points=spread,
                silent=None if again is None else again.silent(kind, self.unanswered[kind].keys()),
            )

    def silent(self, kind: Kind, but: Set[Pair]) -> tuple[int, int]:
        """Return in how many nights of sources an answer is lost, and how many there are.

        ``but`` holds pairs that are not answered anyway.
        """
        pairs = {*self.of_pairs.get(kind, {}), *self.unanswered.get(kind, {})} - but
        lost: dict[int, Bools] = {}
        for pair, nights in self.unanswered.get(kind, {}).items():
            if pair in pairs:
                lost[pair[0]] = lost[pair[0]] | nights if pair[0] in lost else nights
        return sum(int(nights.sum()) for nights in lost.values()), len({i for i, _ in pairs}) * self.nights

    def _matrix(self, found: Mapping[Pair, Floats]) -> Matrix:
        return tuple(
            tuple(rounded(found[i, j][0, 0]) if (i, j) in found else None for j in self.steps)
            for i in self.steps
        )


def _of_night(values: Floats | None) -> float | None:
    return None if values is None else rounded(values[0])


def _relative_sd(values: Floats | None) -> float | None:
    known = values[np.isfinite(values)] if values is not None else np.empty(0)
    if len(known) < 2 or not known.mean() > 0:
        return None
    return rounded(known.std(ddof=1) / known.mean())


def _moves(found: Mapping[Pair, Floats], again: Mapping[Pair, Floats]) -> tuple[float | None, float | None]:
    """Return growth and spread of the mean absolute error over the pairs, between resampled nights."""
    pairs = [p for p in found if p in again and np.isfinite(found[p][0, 0])]
    if not pairs:
        return None, None
    nights = len(again[pairs[0]])
    steps = sorted({s for p in pairs for s in p})
    picks = np.random.default_rng(nights).integers(0, nights, (PICKED, len(steps)))
    of = dict(zip(steps, picks.T, strict=True))
    each = np.stack([np.abs(again[i, j][of[i], of[j]]) for i, j in pairs])
    known = np.isfinite(each)
    mean = np.where(known, each, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    own = float(np.nanmean([np.abs(found[p][0, 0]) for p in pairs]))
    return rounded(mean.mean() - own), rounded(mean.std(ddof=1))


def errors(nights: Sequence[Asked], record: RunRecord, unusable: Mapping[int, tuple[str, str]]) -> Errors:
    """Return all nights' errors against all nights' measurements.

    Parameters
    ----------
    nights : sequence of Asked
    record : RunRecord
    unusable : mapping of int to (str, str)
        Steps that failed a check; they have neither errors nor measured values.
    """
    states = StepStates.of(record.steps, unusable)
    steps = tuple(s.index for s in record.steps)
    never, nothing = np.full(len(nights), np.nan), np.zeros(len(nights), dtype=bool)
    measured = _wide([n.measured for n in nights])
    answers = _wide([n.answers for n in nights])
    judged: dict[Of, dict[str, Floats]] = {
        of: {s: v for s, v in by_subject.items() if is_judged(of[0], s) and np.nan_to_num(v).any()}
        for of, by_subject in measured.items()
    }
    told = _told(nights)
    # The whole topology is of all executors: what is needed for it is the service of each.
    served = {
        (i, j): np.logical_and.reduce(
            [
                told[Measure.SERVICE, "mean", (i, j)].get(subject, nothing)
                for subject in judged.get((Measure.SERVICE, "mean", j), {})
            ]
            or [~nothing]
        )
        for i in steps
        for j in steps
    }
    of_pairs: dict[Kind, dict[Pair, Floats]] = {}
    unanswered: dict[Kind, dict[Pair, Bools]] = {}
    for kind in dict.fromkeys(kind for kind, _ in answers):
        _, measure, statistic = kind
        found: dict[Pair, Floats] = {}
        missing: dict[Pair, Bools] = {}
        for i, j in permutations(sorted(steps), 2):
            if states.excluded(i, j, measure)[0]:
                continue
            actual = judged.get((measure, statistic, j), {})
            predicted = answers.get((kind, (i, j)), {})
            both = [subject for subject in actual if subject in predicted]
            tells = told[measure, statistic, (i, j)]
            lost = nothing.copy()
            for subject in actual:
                known = tells.get(subject, nothing) if JudgedRows.PARTS.include(subject) else served[i, j]
                lost |= known & np.isnan(predicted.get(subject, never))
            if lost.any():
                missing[i, j] = lost
            if both:
                p, a = (np.stack([of[subject] for subject in both]) for of in (predicted, actual))
                found[i, j] = _relative(p, a, one=is_judged(measure, ""))
        if found or missing:
            of_pairs[kind], unanswered[kind] = found, missing
    values = _values_of(measured, record, states)
    return Errors(of_pairs, unanswered, values, steps, len(nights))


def _told(nights: Sequence[Asked]) -> dict[tuple[str, str, Pair], dict[str, Bools]]:
    """Return of which subjects a source says something, by night."""
    out: dict[tuple[str, str, Pair], dict[str, Bools]] = defaultdict(dict)
    for night, asked in enumerate(nights):
        for of, subjects in asked.told.items():
            for subject in subjects:
                out[of].setdefault(subject, np.zeros(len(nights), dtype=bool))[night] = True
    return out


def _wide(nights: Sequence[Mapping[K, Mapping[str, float]]]) -> dict[K, dict[str, Floats]]:
    """Turn nights of numbers into numbers with an array over the nights; NaN where a night has none."""
    out: dict[K, dict[str, Floats]] = {}
    for night, by_key in enumerate(nights):
        for key, by_subject in by_key.items():
            mine = out.setdefault(key, {})
            for subject, value in by_subject.items():
                if subject not in mine:
                    mine[subject] = np.full(len(nights), np.nan)
                mine[subject][night] = value
    return out


def _relative(predicted: Floats, actual: Floats, one: bool) -> Floats:
    """Return errors in percent by night of the source and of the proposed step, from (subjects, nights)."""
    actual = np.where(actual == 0, np.nan, actual)
    each = 100 * relative_error(predicted[:, :, None], actual[:, None, :])
    if one:
        return np.asarray(each[0])
    sizes = np.abs(each)
    if np.isfinite(sizes).all():
        return np.asarray(np.median(sizes, axis=0))
    ordered = np.sort(sizes, axis=0)  # NaN last
    known = np.isfinite(ordered).sum(axis=0)
    low, high = np.maximum(known - 1, 0) // 2, np.minimum(known // 2, len(ordered) - 1)
    below, above = (np.take_along_axis(ordered, at[None], axis=0)[0] for at in (low, high))
    return np.where(known > 0, (below + above) / 2, np.nan)


def _values_of(
    measured: Mapping[Of, Mapping[str, Floats]], record: RunRecord, states: StepStates
) -> dict[tuple[str, str, str], dict[int, Floats]]:
    """Return the topology's latencies and the components' mean rates and service times, by step."""
    components = {c.name for s in record.steps for c in s.plan.start.query_plan.components}
    out: dict[tuple[str, str, str], dict[int, Floats]] = defaultdict(dict)
    for (measure, statistic, step), by_subject in measured.items():
        for subject, value in by_subject.items():
            whole = measure in LATENCIES and subject == "" and step not in states.saturated
            part = measure in OF_COMPONENTS and statistic == "mean" and subject in components
            if (whole or part) and step not in states.unusable:
                out[measure, statistic, subject][step] = value
    return out
