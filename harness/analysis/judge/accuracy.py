"""Accuracy of the models on the evaluation set: figures over pairs, and the goals that are set for them.

Works on judged pairs (``errors.parquet``) of several runs, off-diagonal, by our own protocol. Percentages are
of the measured value; half-widths of the predicted one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy.stats import t as student

from harness.analysis.judge import arithmetic
from harness.analysis.judge.evaluation import Evaluated, mean_ground_truth
from harness.analysis.judge.judged_rows import judged_rows
from harness.schemas import LATENCIES, Measure

BUSIEST = 0.9
"""Load of the busiest executor up to which tails are asked for."""
BUSY_PCT = (0, 60, 70, 80, 90, 100)
"""Ends of the classes of a machine's use, and the names of these classes."""
BUSY = tuple(f"{low} to {high} %" for low, high in pairwise(BUSY_PCT))
LEVEL = 0.9
"""Level of the models' intervals."""

Pairs = pd.DataFrame
"""Rows of pair tables.

- ``run``, ``experiment``, ``machine``
- ``proposed``: the configuration
- ``full``: a step that was measured as saturated has no latency and is no source
- ``busiest``: load of the proposed step's busiest executor
- ``busy_pct``: use of the machine, in the step in which it was busier
"""


def gather(runs: Iterable[Evaluated]) -> Pairs:
    """Put runs' pair tables together: what models are judged by, off the diagonal, by our protocol."""
    frames = []
    for run in runs:
        frame = run.pairs[run.pairs["protocol"] == "ours"]
        busiest = frame["proposed_step"].map(busiest_executor(frame))
        source, proposed = (frame[c].isin(list(run.saturated)) for c in ("source_step", "proposed_step"))
        full = arithmetic.is_full(source, proposed, frame["measure"].isin(LATENCIES))
        asked = frame["proposed_step"].map(dict(run.configurations))
        whose = {"run": run.name, "experiment": run.experiment, "machine": run.machine}
        source_busy, busy = (frame[c].map(dict(run.busy_pct)) for c in ("source_step", "proposed_step"))
        busy = busy.where(busy >= source_busy, source_busy).where(busy.notna())
        named = frame.assign(**whose, proposed=asked, full=full, busiest=busiest, busy_pct=busy)
        frames.append(named[judged_rows(frame) & (frame["source_step"] != frame["proposed_step"])])
    return with_repeats(pd.concat(frames, ignore_index=True)) if frames else pd.DataFrame()


def with_repeats(rows: Pairs) -> Pairs:
    """Add to the noise the differences between runs of one experiment that their intervals do not explain.

    The estimate is that of a run's repeated steps (``arithmetic.between_share``), of runs instead of steps,
    pooled over the configurations of each experiment and kind of machine. It is a share of the value for each
    of its measures and statistics, and known only of the machine that it was learnt on. A step whose rate was
    changed in the meantime repeats nothing, nor does one on another kind of machine. Only measurements of the
    whole topology are widened: executors and workers of two runs of one plan are not the same ones. An
    experiment with one run keeps the noise that its intervals show, a lower bound.

    Parameters
    ----------
    rows : DataFrame
        Rows as ``gather`` puts them together.
    """
    kind = ["experiment", "machine", "measure", "statistic"]
    once = rows[~unusable(rows) & (rows["subject"] == "")].drop_duplicates([*kind, "proposed", "run"])
    once = once.assign(value=once["actual"], within=once["noise"])
    found = rows.merge(arithmetic.between_share(once, kind, ["proposed"]), "left", kind)
    share = found.pop("share").where(found["subject"] == "").to_numpy(dtype=float)
    judged_value = found["value"].where(found["verdict"] == "judged").to_numpy(dtype=float)
    actual, within = (found[name].to_numpy(dtype=float) for name in ("actual", "noise"))
    noise = arithmetic.widened(within, share * actual)
    return found.assign(
        noise=noise,
        error_over_noise=arithmetic.error_over_noise(judged_value, actual, noise),
        error_over_noise_within=arithmetic.error_over_noise(judged_value, actual, within),
    )


def busiest_executor(pairs: pd.DataFrame) -> Mapping[int, float]:
    """Return the measured load of each step's busiest executor, from its arrivals and service times."""
    means = pairs[(pairs["statistic"] == "mean") & judged_rows(pairs)]
    wide = means[means["measure"].isin([Measure.ARRIVALS, Measure.SERVICE])].pivot_table(
        index=["proposed_step", "subject"], columns="measure", values="actual", aggfunc="first"
    )
    if not {Measure.ARRIVALS, Measure.SERVICE} <= set(wide.columns):
        return {}
    load = (wide[Measure.ARRIVALS] * wide[Measure.SERVICE] / 1e3).groupby(level="proposed_step").max()
    return {int(str(step)): float(value) for step, value in load.items()}


@dataclass(frozen=True)
class Figures:
    """Accuracy of one model, measure and statistic over some pairs; None where nothing is known.

    Attributes
    ----------
    measured, usable, judged : int
        Rows of measured pairs; those with something to compare in steps that can be used; those that were
        judged.
    median_pct, p95_pct, worst_pct : float or None
        Of the absolute errors.
    q_error, over_noise, over_noise_within, half_width_pct : float or None
        Medians; the third of errors over the noise within intervals alone.
    coverage, coverage_low, coverage_high : float or None
        Share of intervals that hold what was measured, and its 95 % interval, clustered by experiment.
    """

    measured: int
    usable: int
    judged: int
    median_pct: float | None = None
    p95_pct: float | None = None
    worst_pct: float | None = None
    q_error: float | None = None
    over_noise: float | None = None
    over_noise_within: float | None = None
    half_width_pct: float | None = None
    coverage: float | None = None
    coverage_low: float | None = None
    coverage_high: float | None = None

    @property
    def judged_pct(self) -> float | None:
        """Share of usable rows that were judged."""
        return 100 * self.judged / self.usable if self.usable else None


def unusable(rows: Pairs) -> pd.Series[bool]:
    """Return which rows are of steps that could not be used, or have nothing to compare with."""
    return rows["verdict"].isin(["invalid", "unsteady", "not-measured"]) | rows["full"]


def figures(rows: Pairs) -> Figures:
    """Sum up pairs of one model."""
    usable, of_judged = rows[~unusable(rows)], judged(rows)
    coverage, low, high = clustered_share(of_judged["covered"], of_judged["experiment"])
    quantiles = {name: arithmetic.quantile_of_known(*quantile_of(rows, name)) for name in QUANTILES}
    worst = of_judged["abs_error_pct"].max()
    return Figures(
        measured=len(rows),
        usable=len(usable),
        judged=len(of_judged),
        worst_pct=float(worst) if len(of_judged) else None,
        coverage=coverage,
        coverage_low=low,
        coverage_high=high,
        **quantiles,
    )


def judged(rows: Pairs) -> Pairs:
    """Return the rows that were judged, of steps that can be used."""
    return rows[~unusable(rows) & (rows["verdict"] == "judged")]


QUANTILES: Mapping[str, tuple[str, float]] = {
    "median_pct": ("abs_error_pct", 0.5),
    "p95_pct": ("abs_error_pct", 0.95),
    "q_error": ("q_error", 0.5),
    "over_noise": ("error_over_noise", 0.5),
    "over_noise_within": ("error_over_noise_within", 0.5),
    "half_width_pct": ("half_width_pct", 0.5),
}
"""Figures that are a quantile of one value a row."""


def quantile_of(rows: Pairs, figure: str) -> tuple[pd.Series[float], float]:
    """Return the values of the judged rows that a figure is a quantile of, and which quantile."""
    column, share = QUANTILES[figure]
    of = judged(rows)
    if column == "half_width_pct":
        return (of["high"] - of["low"]) / 2 / of["value"].abs().replace(0, np.nan) * 100, share
    return of[column], share


def clustered_share(
    covered: pd.Series[bool], cluster: pd.Series[str]
) -> tuple[float | None, float | None, float | None]:
    """Return a share and its 95 % interval where rows of one cluster are not independent.

    The estimator is the ratio over clusters (rows covered over rows), with Student's t for their number.
    Pairs of one experiment share steps, so an experiment is worth one observation, not as many as it has
    pairs. The ends are None with a single cluster.

    Examples
    --------
    >>> clustered_share(pd.Series([True, True, False, True]), pd.Series(["a", "a", "b", "b"]))[0]
    0.75
    """
    known = covered.notna()
    if not known.any():
        return None, None, None
    hits = covered[known].astype(float).groupby(cluster[known]).agg(["sum", "count"])
    share = float(hits["sum"].sum() / hits["count"].sum())
    clusters = len(hits)
    if clusters < 2:
        return share, None, None
    deviation = hits["sum"] - share * hits["count"]
    variance = clusters / (clusters - 1) * float((deviation**2).sum()) / float(hits["count"].sum()) ** 2
    half = float(student.ppf(0.975, clusters - 1)) * math.sqrt(variance)
    return share, share - half, share + half


@dataclass(frozen=True)
class Goal:
    """A figure that a model should reach: at most ``limit``."""

    name: str
    figure: str
    limit: float
    unit: str
    measures: Sequence[str]
    statistic: str | None = "mean"
    up_to_busiest: float = math.inf

    def of(self, rows: Pairs) -> Pairs:
        """Return the rows that the goal is about."""
        wanted = rows["measure"].isin(list(self.measures))
        if self.statistic is not None:
            wanted &= rows["statistic"] == self.statistic
        if math.isfinite(self.up_to_busiest):
            wanted &= rows["busiest"] <= self.up_to_busiest
        return rows[wanted]

    def reached(self, rows: Pairs) -> float | None:
        """Return the figure that a model's rows have."""
        found: float | None = getattr(figures(self.of(rows)), self.figure)
        return found


ENDS = (Measure.GROUND_TRUTH, Measure.COMPLETE)
GOALS = (
    Goal("ground-truth latency, mean: median error", "median_pct", 5, "%", [Measure.GROUND_TRUTH]),
    Goal("ground-truth latency, mean: 95th percentile", "p95_pct", 15, "%", [Measure.GROUND_TRUTH]),
    Goal("complete latency, mean: median error", "median_pct", 8, "%", [Measure.COMPLETE]),
    Goal("complete latency, mean: 95th percentile", "p95_pct", 20, "%", [Measure.COMPLETE]),
    Goal(
        f"ground-truth latency, p99, busiest executor up to {BUSIEST:g}: median error",
        *("median_pct", 12, "%", [Measure.GROUND_TRUTH], "p99", BUSIEST),
    ),
    Goal("latency, mean: median q-error", "q_error", 1.05, "", ENDS),
    Goal("arrival rate: median error", "median_pct", 3, "%", [Measure.ARRIVALS]),
    Goal("throughput: median error", "median_pct", 5, "%", [Measure.THROUGHPUT]),
    Goal("maximum sustainable rate: median error", "median_pct", 10, "%", [Measure.SUSTAINABLE]),
    Goal("service time: median error", "median_pct", 10, "%", [Measure.SERVICE]),
    Goal("CPU by worker: median error", "median_pct", 10, "%", [Measure.WORKER_CPU]),
    Goal("latency, mean: error over measurement noise, median", "over_noise", 1.5, "", ENDS),
    Goal("latency, mean: error over the noise within intervals", "over_noise_within", 1.5, "", ENDS),
    Goal("90 % intervals of latency: median half-width", "half_width_pct", 15, "%", LATENCIES, None),
)
"""Goals for a model, but for the two below that are no upper limits."""
LEAST_JUDGED_PCT = 95.0


def by_model(rows: Pairs, measure: str, statistic: str) -> dict[str, Figures]:
    """Return every model's figures of one statistic, best first."""
    wanted = rows[(rows["measure"] == measure) & (rows["statistic"] == statistic)]
    found = {str(model): figures(of) for model, of in wanted.groupby("model")}
    return dict(sorted(found.items(), key=lambda f: math.inf if f[1].median_pct is None else f[1].median_pct))


def by_experiment(rows: Pairs, measure: str, statistic: str) -> dict[str, dict[str, Figures]]:
    """Return every experiment's figures of one statistic, by model."""
    return {str(name): by_model(of, measure, statistic) for name, of in rows.groupby("experiment")}


def by_busy(rows: Pairs, measure: str) -> dict[str, Figures]:
    """Return figures of a measure's mean by how busy the machine was, of pairs where that is known."""
    mine = rows[(rows["measure"] == measure) & (rows["statistic"] == "mean")]
    part = pd.cut(mine["busy_pct"], BUSY_PCT, labels=BUSY)
    return {name: figures(mine[part == name]) for name in BUSY}


@dataclass(frozen=True)
class SaturationScore:
    """Pairs whose source kept up: did the proposed step too, and did the model say that it would."""

    called: int
    missed: int
    false_alarms: int
    kept_up: int


def saturation(runs: Iterable[Evaluated], model: str) -> SaturationScore:
    """Count where a model says saturated, against where the backlog grew."""
    called = missed = alarms = kept = 0
    for run in runs:
        rows = mean_ground_truth(run.pairs, model)
        mine = rows[
            ~rows["source_step"].isin(list(run.saturated)) & ~rows["verdict"].isin(["invalid", "unsteady"])
        ]
        full = mine["proposed_step"].isin(list(run.saturated))
        said = mine["status"] == "saturated"
        answered = mine["status"] == "ok"
        called += int((full & said).sum())
        missed += int((full & answered).sum())
        alarms += int((~full & said).sum())
        kept += int((~full & answered).sum())
    return SaturationScore(called, missed, alarms, kept)
