"""The pair table: every prediction beside what was measured, by both protocols (``errors.parquet``).

Made of what Spark has summed up, a run at a time: tens of thousands of rows, which a join in Spark only
delays.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from harness.analysis.judge import arithmetic
from harness.analysis.judge.arithmetic import StepStates, protocol_of
from harness.analysis.judge.judged_rows import judged_rows
from harness.analysis.spark.inputs import RunRecord
from harness.schemas import ERRORS, Measure

NUMBER = ["step", "protocol", "measure", "subject", "statistic"]
"""Columns that tell measured numbers apart."""
KIND = ["protocol", "measure", "statistic"]
PAIR = ["model", "source_step", "proposed_step"]
EXCLUDED = ["source_step", "proposed_step", "measure"]


def actuals(run: RunRecord, latencies: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """Put all that was measured into one table, with configuration, between_share and noise.

    Parameters
    ----------
    run : RunRecord
    latencies : DataFrame
        Rows of ``latencies.Actual``.
    counted : DataFrame
        Rows of ``counters.measures``.

    Returns
    -------
    DataFrame
        A row a measured number: step, protocol, measure, subject, statistic, value, within, n, note and the
        three. ``between_share`` is the spread between repeats as a share of the value.
    """
    of_counters = counted.assign(protocol="ours", note="")[latencies.columns]
    numbers = {"value": float, "within": float, "n": float}  # all of them may be unknown in one of the two
    tables = [table.astype(numbers) for table in (latencies, of_counters) if len(table)]
    rows = pd.concat(tables or [latencies.astype(numbers)], ignore_index=True)
    rows = rows.assign(
        within=borrowed(rows, borrower=Measure.COMPLETE, lender=Measure.ACK),
        configuration=rows["step"].map({s.index: s.interval.configuration for s in run.steps}),
    )
    return with_noise(rows)


def borrowed(rows: pd.DataFrame, borrower: str, lender: str) -> pd.Series[float]:
    """Return errors within intervals, those of a measure that is known as one mean taken from another one.

    Storm states its complete latency as a mean; the wrappers time the same tuples from emit to ack, in
    buckets. As a share of the value, the one mean is as uncertain as the other.

    Parameters
    ----------
    rows : DataFrame
        With step, measure, subject, statistic, value and within.
    borrower, lender : str
        Measures; of the lender the means are used.
    """
    lends = (rows["measure"] == lender) & (rows["statistic"] == "mean") & (rows["value"] != 0)
    share = (rows["within"] / rows["value"].where(lends)).groupby([rows["step"], rows["subject"]])
    lent = share.transform("max") * rows["value"]
    return rows["within"].fillna(lent.where(rows["measure"] == borrower))


def with_noise(rows: pd.DataFrame) -> pd.DataFrame:
    """Add ``noise``: within the interval and, where configurations were repeated, between repeats."""
    share = arithmetic.between_share(rows, KIND, ["configuration", "subject"])
    between = rows[KIND].merge(share, "left", KIND)["share"].to_numpy(dtype=float)
    value, within = (rows[name].to_numpy(dtype=float) for name in ("value", "within"))
    return rows.assign(between_share=between, noise=arithmetic.widened(within, between * value))


def pairs(predicted: pd.DataFrame, measured: pd.DataFrame, states: StepStates) -> pa.Table:
    """Put predictions beside the measurements of the proposed step.

    Parameters
    ----------
    predicted : DataFrame
        Rows of ``predictions.parquet``.
    measured : DataFrame
        What ``actuals`` gives.
    states : StepStates

    Returns
    -------
    Table
        Schema ``harness.schemas.ERRORS``. Errors are null unless the verdict is ``judged``. What a model
        should have answered and did not has a row ``not-predicted``.
    """
    kinds = predicted[["measure", "statistic"]].drop_duplicates()
    named = kinds.assign(protocol=list(map(protocol_of, kinds["measure"], kinds["statistic"])))
    rows = predicted.merge(named, "left", ["measure", "statistic"])
    gaps = _gaps(rows, measured)
    rows = pd.concat([rows, gaps], ignore_index=True) if len(gaps) else rows
    beside = measured.rename(columns={"step": "proposed_step", "value": "actual"})
    keys = ["proposed_step", *NUMBER[1:]]
    rows = rows.merge(beside[[*keys, "actual", "noise", "note"]], "left", keys)
    return pa.Table.from_pandas(
        _with_errors(_with_verdicts(rows, states)), ERRORS, preserve_index=False
    ).replace_schema_metadata(None)


def _gaps(predicted: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """Return rows for measurements that a model should have predicted and did not.

    Those are the thesis's statistics, of every model, and the statistics that a model predicts for any other
    pair of the run.
    """
    answered = predicted.loc[judged_rows(predicted), ["model", *KIND]].drop_duplicates()
    comparable = measured[judged_rows(measured) | (measured["protocol"] == "thesis")]
    asked = (
        comparable[NUMBER]
        .rename(columns={"step": "proposed_step"})
        .merge(predicted[PAIR].drop_duplicates(), "inner", "proposed_step")
        .merge(answered.assign(answered=True), "left", ["model", *KIND])
    )
    asked = asked[(asked["protocol"] == "thesis") | asked["answered"].notna()].drop(columns="answered")
    keys = list(asked.columns)
    beside = asked.merge(predicted[keys], "left", keys, indicator="found")
    missing = beside[beside["found"] == "left_only"].drop(columns="found")
    unknown = dict.fromkeys(("value", "low", "high"), np.nan)
    reason = "the model gives no " + missing["statistic"]
    return missing.assign(**unknown, status="declined", reason=reason)


def _with_verdicts(rows: pd.DataFrame, states: StepStates) -> pd.DataFrame:
    """Add ``verdict``, and to ``reason`` why a row was not judged."""
    ends = rows[EXCLUDED].drop_duplicates()
    found = [states.excluded(*key) for key in ends.itertuples(index=False)]
    ends = ends.assign(excluded=[verdict for verdict, _ in found], why=[why for _, why in found])
    rows = rows.merge(ends, "left", EXCLUDED)
    excluded, actual = rows["excluded"] != "", rows["actual"]
    verdict = np.select(
        [
            excluded,
            rows["status"] == "saturated",
            (rows["status"] != "ok") | rows["value"].isna(),
            actual.isna() | (actual == 0),
        ],
        [rows["excluded"], "saturated", "not-predicted", "not-measured"],
        "judged",
    )
    note = rows["note"].fillna("")
    unknown = note.mask(note == "", "not measured in the proposed step")
    reason = np.select(
        [
            excluded,
            (verdict == "not-measured") & (actual == 0),
            verdict == "not-measured",
            (verdict == "not-predicted") & (rows["reason"] == ""),
        ],
        [rows["why"], "measured as 0: no relative error", unknown, "the model gave no number"],
        rows["reason"],
    )
    return rows.assign(verdict=verdict, reason=reason)


def _with_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the errors of the rows that were judged."""
    judged = rows["verdict"] == "judged"
    predicted, low, high, actual, noise = (
        rows[name].where(judged).to_numpy(dtype=float) for name in ("value", "low", "high", "actual", "noise")
    )
    bounded = np.isfinite(low) & np.isfinite(high)
    return rows.assign(
        relative_error=arithmetic.relative_error(predicted, actual),
        abs_error_pct=arithmetic.abs_error_pct(predicted, actual),
        q_error=arithmetic.q_error(predicted, actual),
        error_over_noise=arithmetic.error_over_noise(predicted, actual, noise),
        covered=pd.Series(arithmetic.is_covered(low, actual, high), rows.index, "boolean").where(bounded),
    )
