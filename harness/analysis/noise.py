"""How far a measured number repeats: within an interval by batches, and between repeats.

A step's interval is cut into batches of equal time. A mean or a rate is a ratio of two sums
(latency over messages, tuples over seconds, tuples to one executor over tuples to all), and its
standard error is that of a ratio estimator over the batches; where all batches weigh the same this is
the usual batch-means error. A percentile's is found in the same way from the batches' percentiles.

Where a configuration was measured more than once, the variance of its repeats that the intervals' own
errors do not explain is added:

    noise^2 = within^2 + max(0, var(repeats) - mean(within^2))

so ``noise`` is one standard deviation of what measuring that configuration again would give.
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

FEWEST_IN_TAIL = 5
"""A batch's percentile needs so many samples beyond it; batches are joined until it has them."""
FEWEST_BATCHES = 4


def ratio(cells: DataFrame, keys: list[str]) -> DataFrame:
    """Return sum(num)/sum(den) of every key over its batches, with its standard error.

    Parameters
    ----------
    cells : DataFrame
        One row a key and batch: the keys, num and den. A batch without anything to divide has den 0.
    keys : list of str
        The columns that name a measured number.

    Returns
    -------
    DataFrame
        The keys, value (null where the denominators sum to 0), within (null with fewer than four
        batches) and n (sum of den).
    """
    whole = Window.partitionBy(*keys)
    value = sf.try_divide(sf.sum("num").over(whole), sf.sum("den").over(whole))
    deviation = sf.col("num") - sf.col("ratio") * sf.col("den")
    batches = sf.count("*")
    spread = sf.sqrt(sf.sum(deviation * deviation) / (batches * (batches - 1))) / sf.avg("den")
    return (
        cells.withColumn("ratio", value)
        .groupBy(*keys)
        .agg(
            sf.first("ratio").alias("value"),
            sf.when((batches >= FEWEST_BATCHES) & (sf.avg("den") > 0), spread).alias("within"),
            sf.sum("den").cast("double").alias("n"),
        )
    )


def combined(actuals: DataFrame) -> DataFrame:
    """Add ``noise``: within the interval and, where a configuration was repeated, between its repeats.

    Parameters
    ----------
    actuals : DataFrame
        With configuration, protocol, measure, subject, statistic, value and within.

    Returns
    -------
    DataFrame
        The same with noise, and with repeats, the number of steps of that configuration.
    """
    same = Window.partitionBy("configuration", "protocol", "measure", "subject", "statistic")
    repeats = sf.count("value").over(same)
    variance = sf.when(repeats > 1, sf.var_samp("value").over(same))
    explained = sf.coalesce(sf.avg(sf.col("within") * sf.col("within")).over(same), sf.lit(0.0))
    between = sf.greatest(sf.lit(0.0), variance - explained)
    within = sf.col("within") * sf.col("within")
    return actuals.withColumn("repeats", repeats.cast("int")).withColumn("noise", _root(within, between))


def _root(within: Column, between: Column) -> Column:
    """Square root of the sum of the parts that exist; null where neither does."""
    zero = sf.lit(0.0)
    total = sf.coalesce(within, zero) + sf.coalesce(between, zero)
    return sf.when(within.isNotNull() | between.isNotNull(), sf.sqrt(total))


def quantile_error(values: np.ndarray, counts: np.ndarray, whole: float) -> float | None:
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
