"""Scores of a run under today's models: small, without samples, and as a baseline keeps them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from harness.experiments.config import Experiment
from harness.plans import Frozen
from harness.protocols import Verdict

FEWEST_BLOCKS = 8
"""Fewer blocks of an interval do not say how far what they carry repeats."""

Numbers = tuple[float | None, ...]
Matrix = tuple[Numbers, ...]
"""Source by proposed step; null on the diagonal and where there is nothing to compare."""


class StepScore(Frozen):
    """One measured step.

    Attributes
    ----------
    label : str
        Its configuration, with ``#2`` and so on for repeats: what steps of two nights are matched by.
    unusable : str
        Why its measurement cannot be used; empty when it can.
    data : mapping of str to str
        By file, a sum over the rows' contents that neither the rows' order nor the tasks' numbers change.
    rows : int
        Latencies of the interval.
    blocks : int
        Metric buckets of the interval: the blocks in which it is drawn again.
    noise_pct : float, optional
        Standard error of the mean ground truth, from batches of the interval.
    seconds : mapping of str to float
        What the step took beside measuring: rebalance, burn-in, and after the interval.
    sent, gone : int
        Messages of the step, and how many of them were lost, failed, repeated or left without a child.
    """

    label: str
    unusable: str
    data: Mapping[str, str]
    rows: int
    blocks: int
    noise_pct: float | None
    seconds: Mapping[str, float]
    sent: int
    gone: int


class MeasuredValues(Frozen):
    """One measured statistic by step.

    The statistic moves by ``within`` between resampled nights (1 sd, relative), and rests on ``carriers``
    blocks of the interval (their effective number). Both are empty where no nights were made.
    """

    protocol: str
    measure: str
    statistic: str
    subject: str
    values: Numbers
    within: Numbers = ()
    carriers: Numbers = ()

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Key that this statistic shares with the same statistic of another night."""
        return self.protocol, self.measure, self.statistic, self.subject

    @property
    def name(self) -> str:
        """The statistic in words, e.g. ``service_time_ms mean of bolt-a``."""
        return _name(self.measure, self.statistic, self.protocol) + (
            f" of {self.subject}" if self.subject else ""
        )


class Accuracy(Frozen):
    """Errors of one model, protocol, measure and statistic over the off-diagonal pairs.

    Attributes
    ----------
    subjects : one or many
        Of one subject (the whole topology) the errors are signed. Other measures have many (executors,
        connections, workers), and the median of their absolute errors.
    errors_pct : matrix
        Relative errors in percent.
    unanswered : pairs of int
        Source and proposed step of the pairs of which something was measured and not predicted.
    grown_points, spread_points : float, optional
        By how much the mean absolute error over the pairs grows in resampled nights, and how far it moves
        between them (1 sd); None where none were made.
    silent : (int, int), optional
        In how many resampled nights of source steps some pair was not answered, and how many there were.
    """

    model: str
    protocol: str
    measure: str
    statistic: str
    subjects: Literal["one", "many"]
    errors_pct: Matrix
    unanswered: tuple[tuple[int, int], ...]
    grown_points: float | None = None
    spread_points: float | None = None
    silent: tuple[int, int] | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Key that these errors share with the same errors of another night."""
        return self.model, self.protocol, self.measure, self.statistic

    @property
    def name(self) -> str:
        """The errors in words, e.g. ``storm-tracer ground_truth_latency_ms mean``."""
        return f"{self.model} {_name(self.measure, self.statistic, self.protocol)}"


def _name(measure: str, statistic: str, protocol: str) -> str:
    return f"{measure} {statistic}" + ("" if protocol == "ours" else f" ({protocol}'s protocol)")


class RunScores(Frozen):
    """A run, scored.

    Attributes
    ----------
    settings : mapping
        The experiment as resolved; only runs of the same one are compared.
    run : str
        The run's stamp.
    commit, machine : str
        What it was measured with and on.
    verdict : str
        By today's checks; ``failed`` lists those that did not pass.
    predict_ms : mapping of str to tuple of float
        CPU time of one prediction by model and source step, where that was asked for.
    models : tuple of str
        The models that were asked.
    scored_on : str
        The machine that predicted.
    nights : int
        Resampled nights that ``within``, ``grown_points`` and ``spread_points`` were learnt from.
    edited : tuple of str
        By what it shows that files were changed after they were measured; no part of the verdict, since a run
        is scored as it is given.
    """

    experiment: str
    settings: Mapping[str, object]
    run: str
    commit: str
    machine: str
    verdict: Verdict
    failed: tuple[str, ...]
    steps: tuple[StepScore, ...]
    measured: tuple[MeasuredValues, ...]
    accuracy: tuple[Accuracy, ...]
    models: tuple[str, ...]
    predict_ms: Mapping[str, tuple[float, ...]] = {}
    scored_on: str = ""
    nights: int = 0
    edited: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The steps' labels, by step."""
        return [s.label for s in self.steps]

    def same_experiment(self, other: RunScores) -> str:
        """Return the first key in which two runs' experiments differ; empty when none does.

        Settings are compared as today's harness reads them, so a key that is new and left at its default
        makes no difference. Which models were listed, and the name, make none either.
        """
        mine, theirs = (
            _flat(Experiment.model_validate(r.settings).model_dump(mode="json", exclude={"models", "name"}))
            for r in (self, other)
        )
        return next((k for k in sorted(mine | theirs) if mine.get(k) != theirs.get(k)), "")


def _flat(value: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(value, Mapping | list) or not value:
        return {prefix: value}
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    out: dict[str, object] = {}
    for key, inner in items:
        out |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return out


def rounded(value: float | None) -> float | None:
    """Return a number to nine digits, or None for a missing one; a baseline needs no more.

    Examples
    --------
    >>> rounded(1.23456789012), rounded(float("nan"))
    (1.23456789, None)
    """
    if value is None or math.isnan(value):
        return None
    return float(f"{float(value):.9g}")
