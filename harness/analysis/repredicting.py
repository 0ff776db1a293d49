"""How far predictions move when their source is measured again: resampled nights, predicted anew.

Needs no Spark: a resampled night's predictions are compared with what was measured once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from harness.analysis.errors import THESIS_STATISTICS, TOPOLOGY_MEASURES
from harness.analysis.predicting import predict
from harness.models import MODELS
from harness.regression.resampling import resample
from harness.runs import Run

NO_CHANGE = "no-change"
"""Asked for its own source, it answers with what was measured: with that of a resampled night, here."""

CELL = ["model", "protocol", "measure", "statistic", "source_step", "proposed_step"]
MEASURED = ["protocol", "measure", "statistic", "subject", "step"]


def moved(
    run: Run,
    actuals: pd.DataFrame,
    models: Sequence[str],
    replicates: int,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return how far errors and measured values move between resampled nights.

    Parameters
    ----------
    run : Run
    actuals : DataFrame
        What was measured (``errors.actuals``).
    models : sequence of str
        Models; all that are registered when empty.
    replicates : int
        Resampled nights.

    Returns
    -------
    tuple of DataFrame
        By ``CELL``, ``moved_pct``: the errors' standard deviation in points, of the median over subjects
        where there are many. By ``MEASURED``, ``within``: the measured values' relative standard deviation.
    """
    names = list(models or MODELS)
    if NO_CHANGE not in names:
        names.append(NO_CHANGE)
    errors, values = [], []
    for seed in range(replicates):
        progress(f"resampled night {seed + 1} of {replicates}")
        with tempfile.TemporaryDirectory(prefix="harness-resampled-") as folder:
            night = resample(run.path, Path(folder) / "night", seed)
            predicted = predict(Run(night), names).to_pandas()
        thesis = predicted["statistic"] == predicted["measure"].map(THESIS_STATISTICS)
        predicted = predicted.assign(protocol=np.where(thesis, "thesis", "ours"))
        predicted = predicted[predicted["status"] == "ok"].dropna(subset=["value"])
        errors.append(_errors(predicted, actuals))
        own = predicted[
            (predicted["model"] == NO_CHANGE) & (predicted["source_step"] == predicted["proposed_step"])
        ]
        values.append(own.rename(columns={"source_step": "step"}).set_index(MEASURED)["value"])
    if not errors:
        return pd.DataFrame(columns=[*CELL, "moved_pct"]), pd.DataFrame(columns=[*MEASURED, "within"])
    by_cell = pd.concat(errors).groupby(level=CELL).std().rename("moved_pct")
    by_value = pd.concat(values).groupby(level=MEASURED)
    within = (by_value.std() / by_value.mean()).rename("within")
    return by_cell.reset_index(), within.reset_index()


def _errors(predicted: pd.DataFrame, actuals: pd.DataFrame) -> pd.Series[float]:
    """Return the error of every pair and kind: signed for the topology, else the median absolute one."""
    measured = actuals[["step", "protocol", "measure", "subject", "statistic", "value"]]
    measured = measured.rename(columns={"step": "proposed_step", "value": "actual"})
    rows = predicted.merge(measured, on=["proposed_step", "protocol", "measure", "subject", "statistic"])
    whole = rows["measure"].isin(TOPOLOGY_MEASURES)
    judged = np.where(whole, rows["subject"] == "", rows["subject"].str.contains("[", regex=False))
    rows = rows[judged & (rows["actual"] != 0)]
    error = (rows["value"] / rows["actual"] - 1) * 100
    rows = rows.assign(error_pct=np.where(rows["measure"].isin(TOPOLOGY_MEASURES), error, error.abs()))
    found: pd.Series[float] = rows.groupby(CELL)["error_pct"].median()
    return found
