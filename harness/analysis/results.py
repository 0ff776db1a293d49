"""What the analysis of a run found: small tables, from which files, figures and the page are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from harness.analysis.inputs import RunRecord
from harness.analysis.summary import Summary
from harness.protocols import CheckResult

WORST_ROWS = 25


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
    timeline : DataFrame
        The campaign in buckets of time (``timeline.timeline``).
    """

    run: RunRecord
    summary: Summary
    checks: Sequence[CheckResult]
    pairs: pa.Table
    actuals: pd.DataFrame
    matrices: pd.DataFrame
    histogram: pd.DataFrame
    timeline: pd.DataFrame

    @property
    def steps(self) -> list[int]:
        """The finished steps."""
        return [s.index for s in self.run.steps]

    @property
    def models(self) -> list[str]:
        """Names of the models that predicted."""
        return sorted(self.matrices["model"].unique()) if len(self.matrices) else []

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
        frame: pd.DataFrame = self.pairs.to_pandas()
        return frame[(frame["source_step"] != frame["proposed_step"]) & (frame["verdict"] == "judged")]
