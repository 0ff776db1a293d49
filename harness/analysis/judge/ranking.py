"""Models ranked by their median errors over the pairs of one or several runs, with intervals."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from harness.analysis.judge import bootstrap
from harness.analysis.judge.arithmetic import q_error, quantile, quantile_of_known
from harness.analysis.judge.bootstrap import ConfidenceInterval
from harness.analysis.judge.results import WITHIN_NOISE, Results

Kind = tuple[str, str, str]
"""Protocol, measure and statistic."""
KIND = ["protocol", "measure", "statistic"]


def pair_table(runs: Sequence[Results]) -> pd.DataFrame:
    """Return the judged off-diagonal cells of several runs' error matrices, with the column ``run``."""
    frames = []
    for data in runs:
        cells = data.matrices
        cells = cells[(cells["source_step"] != cells["proposed_step"]) & (cells["judged"] > 0)]
        frames.append(cells.assign(run=f"{data.run.name}/{data.run.path.name}"))
    return pd.concat(frames, ignore_index=True)


def of_kinds(pairs: pd.DataFrame, kinds: Collection[Kind]) -> pd.DataFrame:
    """Return the pairs of some kinds of matrix only."""
    keys = pd.Series(list(zip(*(pairs[k] for k in KIND), strict=True)), index=pairs.index, dtype=object)
    return pairs[keys.isin(list(kinds))]


def intervals(
    runs: Sequence[Results], kinds: Collection[Kind]
) -> dict[tuple[str, str, str, str], ConfidenceInterval]:
    """Return each model's median error with its interval, by protocol, measure, statistic and model."""
    found = {}
    for key, of in of_kinds(pair_table(runs), kinds).groupby([*KIND, "model"]):
        protocol, measure, statistic, model = map(str, key)
        found[protocol, measure, statistic, model] = bootstrap.median(of, "abs_error_pct")
    return found


def ranking(runs: Sequence[Results], kinds: Collection[Kind] = ()) -> pd.DataFrame:
    """Return the leaderboard.

    Parameters
    ----------
    runs : sequence of Results
    kinds : collection of (protocol, measure, statistic)
        All when empty.

    Returns
    -------
    DataFrame
        Columns protocol, measure, statistic, model, runs, pairs, median_pct, low_pct, high_pct (its 95 %
        interval), p95_pct, worst_pct, q_error (median), noise_pct (median of two standard deviations);
        models by median.
    """
    pairs = pair_table(runs)
    rows = []
    grouped = (of_kinds(pairs, kinds) if kinds else pairs).groupby([*KIND, "model"], sort=True)
    for (protocol, measure, statistic, model), of in grouped:
        found = bootstrap.median(of, "abs_error_pct")
        q = q_error(of["predicted"].to_numpy(dtype=float), of["actual"].to_numpy(dtype=float))
        noise = (of["noise"] / of["actual"].abs()).dropna()
        rows.append(
            {
                "protocol": protocol,
                "measure": measure,
                "statistic": statistic,
                "model": model,
                "runs": of["run"].nunique(),
                "pairs": len(of),
                "median_pct": found.value,
                "low_pct": found.low,
                "high_pct": found.high,
                "p95_pct": quantile(of["abs_error_pct"], 0.95),
                "worst_pct": float(of["abs_error_pct"].max()),
                "q_error": quantile_of_known(q, 0.5),
                "noise_pct": float(WITHIN_NOISE * 100 * noise.median()) if len(noise) else None,
            }
        )
    numbers = ["low_pct", "high_pct", "q_error", "noise_pct"]
    table = pd.DataFrame(
        rows,
        columns=[
            *KIND,
            "model",
            "runs",
            "pairs",
            "median_pct",
            "low_pct",
            "high_pct",
            "p95_pct",
            "worst_pct",
            "q_error",
            "noise_pct",
        ],
    )
    table = table.astype(dict.fromkeys(numbers, float))
    return table.sort_values([*KIND, "median_pct"], ignore_index=True)
