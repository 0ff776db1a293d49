"""Noise of a measured number within its interval, by batches.

A step's interval is cut into batches of equal time. A mean or a rate is a ratio of two sums (latency over
messages, tuples over seconds, tuples to one executor over tuples to all). Its standard error is that of a
ratio estimator over the batches, which is the usual batch-means error where all batches weigh the same. A
percentile's error is found in the same way from the batches' percentiles.

Some causes stay the same throughout a step: placement of threads, phases of windows and timers. They show
only between repeats of one configuration (``harness.analysis.judge.arithmetic.between_share``). Without
repeats the noise is the part within the interval only, a lower bound, and the report says so.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEWEST_IN_TAIL = 5
"""A batch's percentile needs so many samples beyond it; batches are joined until it has them."""
FEWEST_BATCHES = 4


def ordered_sum(numbers: Column) -> Column:
    """Return the sum of an array's numbers, the smallest first; null of none.

    The last bit of a sum depends on its order, and that of Spark's rows on how many executors there are and
    which other runs are in the job.
    """
    return _sum(sf.sort_array(numbers))


def _sum(numbers: Column) -> Column:
    return sf.aggregate(numbers, sf.lit(None).cast("double"), lambda a, b: sf.coalesce(a + b, b, a))


def ratio(cells: DataFrame, keys: list[str], scale: Column) -> DataFrame:
    """Return sum(num)/sum(den) of every key over its batches, with its standard error.

    Parameters
    ----------
    cells : DataFrame
        One row a key and batch: the keys, num and den. A batch without anything to divide by has den 0
        and counts as none.
    keys : list of str
        The columns that name a measured number.
    scale : Column
        Of the keys: from the unit of num/den to the measure's.

    Returns
    -------
    DataFrame
        The keys, value (null where the denominators sum to 0), within (null with fewer than four
        batches) and n (sum of den).
    """
    sorted_cells = sf.sort_array(sf.collect_list(sf.struct("num", "den")))
    summed = (
        cells.groupBy(*keys)
        .agg(sorted_cells.alias("cells"))
        .select(
            *keys,
            _sum(sf.col("cells.num")).alias("num"),
            _sum(sf.col("cells.den")).alias("den"),
            sf.filter("cells", lambda cell: cell["den"] > 0).alias("batches"),
        )
    )
    value = sf.try_divide("num", "den")
    off = sf.transform("batches", lambda b: b["num"] - value * b["den"])
    count = sf.size("batches")
    spread = sf.sqrt(_sum(sf.transform(off, lambda x: x * x)) / (count * (count - 1)))
    return summed.select(
        *keys,
        (value * scale).alias("value"),
        sf.when(count >= FEWEST_BATCHES, spread / (sf.col("den") / count) * scale).alias("within"),
        sf.col("den").alias("n"),
    )


def quantile_error(values: Floats, counts: Ints, whole: float) -> float | None:
    """Return the standard error of a quantile from the quantiles of batches.

    Parameters
    ----------
    values, counts : ndarray, shape (batches,)
        Each batch's quantile and number of samples.
    whole : float
        The quantile of all samples.
    """
    batches = len(values)
    if batches < FEWEST_BATCHES:
        return None
    deviation = counts / counts.mean() * (values - whole)
    return float(np.sqrt((deviation**2).sum() / (batches * (batches - 1))))


def batches_for(samples: int, fraction: float, most: int) -> int:
    """Return into how many batches an interval may be cut for a quantile: ``most``, halved as needed.

    Examples
    --------
    >>> batches_for(10_000, 0.99, 20), batches_for(5_200, 0.99, 20), batches_for(400, 0.99, 20)
    (20, 10, 0)
    """
    batches = most
    while batches >= FEWEST_BATCHES:
        if samples / batches * min(fraction, 1 - fraction) >= FEWEST_IN_TAIL:
            return batches
        batches //= 2
    return 0
