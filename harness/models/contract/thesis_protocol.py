"""The ground truth of an observation by the thesis's protocol of comparison.

Thesis 5.3.1 and 5.7.2. Each output of a sink has one latency, that of the path which the windowed bolt chose
at random. Only paths that begin and end on one worker node count, and only latencies up to the complete
latency. The thesis cuts at the complete latency, at its 90th percentile and, in a caption, at its average;
Storm measures the average.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray, IntArray
from harness.plans import PhysicalPlan


def same_node_mean_ms(latency: pd.DataFrame, plan: PhysicalPlan, cut_ms: float) -> float:
    """Return the mean latency of the outputs that stay on one worker node, up to the cut.

    Parameters
    ----------
    latency : DataFrame
        Rows of ``latency.parquet``.
    plan : PhysicalPlan
        In force when they were measured.
    cut_ms : float
        Mean complete latency.

    Raises
    ------
    ModelDeclined
        When none is left, or a latency or the ways are missing.
    """
    kept = _same_node_places(latency, plan, cut_ms)
    return float(latency["thesis_ground_truth_ms"].to_numpy(dtype=np.float64)[kept].mean())


def same_node_rows(latency: pd.DataFrame, plan: PhysicalPlan, cut_ms: float) -> pd.DataFrame:
    """Return the rows of ``latency`` that ``same_node_mean_ms`` is the mean of: one an output.

    Raises
    ------
    ModelDeclined
        As there.
    """
    return latency.iloc[_same_node_places(latency, plan, cut_ms)]


def _same_node_places(latency: pd.DataFrame, plan: PhysicalPlan, cut_ms: float) -> IntArray:
    """Return where those rows are. Columns are taken one by one: there can be gigabytes of rows."""
    inside = np.flatnonzero(latency["in_interval"].to_numpy(dtype=bool))
    paths = pd.Categorical(latency["path"].iloc[inside])
    if "" in paths.categories:
        raise ModelDeclined("the outputs of the source step do not say which way their messages took")
    node = {f"{e.component}:{task}": e.worker.node for task, e in plan.by_task.items()}
    ends = np.array(
        [node[p.partition("/")[0]] == node[p.rpartition("/")[2]] for p in paths.categories], dtype=bool
    )
    values = latency["thesis_ground_truth_ms"].to_numpy(dtype=np.float64)[inside]
    if np.isnan(values).any():
        raise ModelDeclined("messages of the source step without ground truth (their ends share no clock)")
    codes = paths.codes
    chosen = np.arange(inside.size)
    if any(c.window is not None for c in plan.query_plan.components):
        rows = latency[["output_partition", "output_offset", "entered_ns", "left_ns"]].iloc[inside]
        chosen = _chosen_rows(rows, codes.astype(np.int64), values)
    kept = chosen[ends[codes[chosen]] & (values[chosen] <= cut_ms)]
    if not kept.size:
        raise ModelDeclined("no path of the source step begins and ends on one worker node below the cut")
    return np.asarray(inside[kept])


def _chosen_rows(rows: pd.DataFrame, path: IntArray, value_ms: FloatArray) -> IntArray:
    """Return one row for each output: a member on the chosen path.

    A window bolt reports the mean entry time of the members on its chosen path only. So that path is the one
    whose members' mean latency is nearest to the output's.
    """
    partition = rows["output_partition"].to_numpy(dtype=np.int64)
    offset = rows["output_offset"].to_numpy(dtype=np.int64)
    _, output = np.unique(partition * (offset.max() + 1) + offset, return_inverse=True)
    _, first, group = np.unique(output * (path.max() + 1) + path, return_index=True, return_inverse=True)
    own_ms = (rows["left_ns"] - rows["entered_ns"]).to_numpy(dtype=np.float64) / 1e6
    mean_ms = np.bincount(group, weights=own_ms) / np.bincount(group)
    off = np.abs(mean_ms - value_ms[first])
    order = np.lexsort((off, output[first]))
    _, nearest = np.unique(output[first][order], return_index=True)
    return np.asarray(first[order][nearest])
