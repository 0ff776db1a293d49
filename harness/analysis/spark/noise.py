"""Noise of a measured number: within an interval by batches, and between repeats.

A step's interval is cut into batches of equal time. A mean or a rate is a ratio of two sums (latency over
messages, tuples over seconds, tuples to one executor over tuples to all). Its standard error is that of a
ratio estimator over the batches, which is the usual batch-means error where all batches weigh the same. A
percentile's error is found in the same way from the batches' percentiles.

Some causes stay the same throughout a step: placement of threads, phases of windows and timers. They show
only between repeats of one configuration. Where a run has repeats, a part of the variance between them is not
explained by the intervals' own errors. That part is taken as a share of the value, pooled over the
configurations and subjects that were repeated, and added for every step:

    noise^2 = within^2 + value^2 * max(0, mean((var(repeats) - mean(within^2)) / mean(repeats)^2))

So ``noise`` is one standard deviation of measuring the configuration again. Without repeats it is the first
part only, a lower bound, and the report says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

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


def borrowed(actuals: DataFrame, borrower: str, lender: str) -> DataFrame:
    """Give a measure that is known as one mean only the error of another one of the same tuples.

    Storm states its complete latency as a mean; the wrappers time the same tuples from emit to ack, in
    buckets. As a share of the value, the one mean is as uncertain as the other.

    Parameters
    ----------
    actuals : DataFrame
        With step, measure, subject, statistic, value and within.
    borrower, lender : str
        Measures; of the lender the means are used.
    """
    lends = (sf.col("measure") == lender) & (sf.col("statistic") == "mean")
    share = sf.max(sf.when(lends, sf.try_divide("within", "value")))
    lent = share.over(Window.partitionBy("step", "subject")) * sf.col("value")
    mine = sf.when(sf.col("measure") == borrower, lent)
    return actuals.withColumn("within", sf.coalesce("within", mine))


def combined(actuals: DataFrame, repeated: bool, per: Sequence[str] = ()) -> DataFrame:
    """Add ``noise``: within the interval and, where configurations were repeated, between repeats.

    Parameters
    ----------
    actuals : DataFrame
        With configuration, protocol, measure, subject, statistic, value and within.
    repeated : bool
        Whether any configuration was measured more than once.
    per : sequence of str
        Columns that tell runs apart, which repeat nothing of each other.

    Returns
    -------
    DataFrame
        The same with noise, and between_share: the spread between repeats as a share of the value,
        pooled over a measure's repeated configurations and subjects (null without any).
    """
    within = sf.col("within")
    if not repeated:
        return actuals.withColumns({"between_share": sf.lit(None).cast("double"), "noise": within})
    kind = [*per, "protocol", "measure", "statistic"]
    mean = sf.col("mean")
    excess = (_variance("values") - sf.coalesce(_mean("explained"), sf.lit(0.0))) / (mean * mean)
    share = (
        actuals.groupBy("configuration", "subject", *kind)
        .agg(sf.collect_list("value").alias("values"), sf.collect_list(within * within).alias("explained"))
        .withColumn("mean", _mean("values"))
        .where("size(values) > 1 AND mean != 0")
        .withColumn("excess", excess)
        .groupBy(*kind)
        .agg(sf.collect_list("excess").alias("excesses"))
        .select(*kind, sf.sqrt(sf.greatest(sf.lit(0.0), _mean("excesses"))).alias("between_share"))
    )
    between = sf.col("between_share") * sf.col("value")
    zero = sf.lit(0.0)
    total = sf.coalesce(within * within, zero) + sf.coalesce(between * between, zero)
    known = within.isNotNull() | between.isNotNull()
    joined = actuals.join(sf.broadcast(share), kind, "left")
    # In the order of the columns that a run without repeats has: both may be in one job.
    return joined.select(*actuals.columns, "between_share", sf.when(known, sf.sqrt(total)).alias("noise"))


def _mean(numbers: str) -> Column:
    """Return the mean of an array's numbers, null of none."""
    return sf.try_divide(ordered_sum(sf.col(numbers)), sf.size(numbers))


def _variance(numbers: str) -> Column:
    """Return the sample variance of two or more numbers, from their distances to the smallest."""
    count = sf.size(numbers)
    off = sf.transform(numbers, lambda x: x - sf.array_min(numbers))
    total = ordered_sum(off)
    squares = ordered_sum(sf.transform(off, lambda x: x * x))
    return (squares - total * total / count) / (count - 1)


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
