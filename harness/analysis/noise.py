"""How far a measured number repeats: within an interval by batches, and between repeats.

A step's interval is cut into batches of equal time. A mean or a rate is a ratio of two sums
(latency over messages, tuples over seconds, tuples to one executor over tuples to all), and its
standard error is that of a ratio estimator over the batches; where all batches weigh the same this is
the usual batch-means error. A percentile's is found in the same way from the batches' percentiles.

What stays the same throughout a step (placement of threads, phases of windows and timers) shows only
between repeats of one configuration. Where a run has repeats, the variance between them that the
intervals' own errors do not explain is taken as a share of the value, pooled over the configurations
and subjects that were repeated, and added for every step:

    noise^2 = within^2 + value^2 * max(0, mean((var(repeats) - mean(within^2)) / mean(repeats)^2))

so ``noise`` is one standard deviation of what measuring the configuration again would give. Without
repeats it is the first part only, a lower bound, and the report says so.
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import DataFrame, Window
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
    """Add ``noise``: within the interval and, where configurations were repeated, between repeats.

    Parameters
    ----------
    actuals : DataFrame
        With configuration, protocol, measure, subject, statistic, value and within.

    Returns
    -------
    DataFrame
        The same with noise; with repeats, the number of steps of that configuration; and with
        between_share, the pooled spread between repeats as a share of the value (null without any).
    """
    kind = ["protocol", "measure", "statistic"]
    same = Window.partitionBy("configuration", "subject", *kind)
    squared = sf.col("within") * sf.col("within")
    share = (
        actuals.groupBy("configuration", "subject", *kind)
        .agg(
            sf.var_samp("value").alias("variance"),
            sf.coalesce(sf.avg(squared), sf.lit(0.0)).alias("explained"),
            sf.avg("value").alias("mean"),
            sf.count("value").alias("steps"),
        )
        .where("steps > 1 AND mean != 0")
        .groupBy(*kind)
        .agg(
            sf.avg((sf.col("variance") - sf.col("explained")) / (sf.col("mean") * sf.col("mean"))).alias(
                "share"
            )
        )
        .select(*kind, sf.sqrt(sf.greatest(sf.lit(0.0), "share")).alias("between_share"))
    )
    between = sf.col("between_share") * sf.col("value")
    zero = sf.lit(0.0)
    total = sf.coalesce(squared, zero) + sf.coalesce(between * between, zero)
    known = sf.col("within").isNotNull() | between.isNotNull()
    return (
        actuals.withColumn("repeats", sf.count("value").over(same).cast("int"))
        .join(sf.broadcast(share), kind, "left")
        .withColumn("noise", sf.when(known, sf.sqrt(total)))
    )


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
