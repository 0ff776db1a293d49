"""Results of a run's analysis: small tables, from which files, figures and the page are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import pyarrow as pa

from harness.analysis.judge.summary import Summary
from harness.analysis.spark.inputs import RunRecord, StepRecord
from harness.plans import QueryPlan
from harness.protocols import CheckResult

WITHIN_NOISE = 2.0
"""An error of at most so many standard deviations of the measurement's noise cannot be told from none."""


@dataclass(frozen=True)
class Results:
    """All that is written and drawn.

    Attributes
    ----------
    pairs : Table
        ``errors.parquet``.
    actuals : DataFrame
        What was measured, with noise (``errors.actuals``).
    matrices : DataFrame
        The error matrices' cells (``summary.matrices``).
    histogram : DataFrame
        The latencies' distributions (``distribution.histogram``).
    stages : DataFrame
        The parts of the latencies (``stages.stages``).
    timeline, pace : DataFrame
        The campaign in buckets of time (``timeline``).
    latency_points, traffic_points : DataFrame
        Steps that differ by who placed their executors, over time (``placed_steps``).
    relief_points : DataFrame
        Steps whose bolts may help or whose spouts may pause, over time (``relief``).
    """

    run: RunRecord
    summary: Summary
    checks: Sequence[CheckResult]
    pairs: pa.Table
    actuals: pd.DataFrame
    matrices: pd.DataFrame
    histogram: pd.DataFrame
    stages: pd.DataFrame
    timeline: pd.DataFrame
    pace: pd.DataFrame
    latency_points: pd.DataFrame
    traffic_points: pd.DataFrame
    relief_points: pd.DataFrame

    @property
    def steps(self) -> list[int]:
        """The finished steps."""
        return [s.index for s in self.run.steps]

    @property
    def query(self) -> QueryPlan:
        """The query plan, which all steps share."""
        return self.run.steps[0].plan.start.query_plan

    @cached_property
    def models(self) -> list[str]:
        """Names of the models that predicted."""
        return sorted(self.matrices["model"].unique()) if len(self.matrices) else []

    @cached_property
    def frame(self) -> pd.DataFrame:
        """``pairs`` as a pandas frame."""
        found: pd.DataFrame = self.pairs.to_pandas()
        return found

    def step_words(self, index: int) -> str:
        """Return a step's configuration in words: executors, and workers and rate where these differ."""
        steps = self.run.steps
        step = next(s for s in steps if s.index == index)
        words = executors(step)
        if len({len(s.plan.start.workers) for s in steps}) > 1:
            workers = len(step.plan.start.workers)
            words += f", {workers} worker" + "s" * (workers > 1)
        if len({s.interval.rate_tps for s in steps}) > 1:
            words += f", {step.interval.rate_tps:g}/s"
        return words

    def measured(self, measure: str, statistic: str = "mean") -> pd.DataFrame:
        """Rows of ``actuals`` for the whole topology, by our protocol."""
        rows = self.actuals
        return rows[
            (rows["measure"] == measure)
            & (rows["statistic"] == statistic)
            & (rows["subject"] == "")
            & (rows["protocol"] == "ours")
        ]

    def judged(self) -> pd.DataFrame:
        """Return the judged rows of the off-diagonal pairs."""
        rows = self.frame
        return rows[(rows["source_step"] != rows["proposed_step"]) & (rows["verdict"] == "judged")]

    def cells(self, measure: str, statistic: str = "mean", protocol: str = "ours") -> pd.DataFrame:
        """Return the cells of one kind of error matrix, of all models."""
        rows = self.matrices
        return rows[
            (rows["protocol"] == protocol) & (rows["measure"] == measure) & (rows["statistic"] == statistic)
        ]


def executors(step: StepRecord) -> str:
    """Return a step's executors in words: the most frequent number, and the components that differ."""
    plan = step.plan.start
    counts = {c.name: len(plan.of(c.name)) for c in plan.query_plan.components}
    usual, components = Counter(counts.values()).most_common(1)[0]
    if 2 * components <= len(counts):  # no number is the usual one
        return ", ".join(f"{count} {name}" for name, count in counts.items())
    others = ", ".join(f"{name} {count}" for name, count in counts.items() if count != usual)
    return f"{usual} each" + (f" but {others}" if others else "")
