"""A submitted topology as a model sees it: the last rows of its metrics, with the plan that they are of."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from harness.analysis.judge.predicting import ask, reader
from harness.app.submitted.folder import SubmittedTopology
from harness.errors import UsageError
from harness.experiments import records
from harness.experiments.contracts import Metrics
from harness.models import resolve
from harness.plans import PhysicalPlan
from harness.protocols import Observation, Settings
from harness.schemas import LATENCY, Measure, Metric, MetricField


class RowSpan(NamedTuple):
    """Start and end of what is read, in epoch ms."""

    since_ms: int
    until_ms: int


class Outlook(NamedTuple):
    """Measurements of the plan in force, and a model's prediction for another one.

    Attributes
    ----------
    source : Observation
    before_ms : float, optional
        Mean emit-to-ack latency in ms; None where nothing was acked.
    predicted_ms, low_ms, high_ms : float
        The proposed plan's mean, and the ends of its 90 % interval.
    """

    source: Observation
    before_ms: float | None
    predicted_ms: float
    low_ms: float
    high_ms: float


def observe_span(
    plan: PhysicalPlan, settings: Settings, rows: pa.Table, span: RowSpan, steady: bool = True
) -> Observation:
    """Return a span's rows as an observation; the plan was in force all the time.

    Parameters
    ----------
    steady : bool
        Whether a burn-in lies before the span.

    Raises
    ------
    UsageError
        When spouts emitted nothing in it.
    """
    metrics = records.metrics(rows, plan.nodes)
    rate_tps = records.rate_tps(metrics, plan.query_plan.spouts, span)
    if not rate_tps > 0:
        raise UsageError(
            f"spouts emitted nothing in the last {(span.until_ms - span.since_ms) / 1e3:g} s",
            "is the topology active, and does its InfluxDB take its metrics?",
        )
    return Observation(
        plan=plan,
        settings=settings,
        rate_tps=rate_tps,
        interval_s=(span.until_ms - span.since_ms) / 1e3,
        metrics=metrics.to_pandas(),
        latency=LATENCY.empty_table().to_pandas(),
        hop_records=False,
        steady=steady,
    )


def mean_ack_ms(rows: pa.Table) -> float | None:
    """Return the mean time from emit to ack in ms; None where nothing was acked."""
    acks = rows.filter(pc.equal(rows["measurement"], Metric.ACK))

    def total(field: MetricField) -> float:
        return float(pc.sum(acks["value"].filter(pc.equal(acks["field"], field))).as_py() or 0.0)

    count = total(MetricField.COUNT)
    return total(MetricField.SUM_NS) / count / 1e6 if count else None


def look_ahead(
    topology: SubmittedTopology,
    store: Metrics,
    running: PhysicalPlan,
    proposed: PhysicalPlan,
    span: RowSpan,
    model: str,
) -> Outlook:
    """Let a model predict a plan from the metrics of the one in force.

    Raises
    ------
    UsageError
        When nothing was measured, or the model has no mean with an interval for that plan.
    """
    rows = store.rows(*span)
    source = observe_span(running, topology.settings(), rows, span)
    answer = ask(reader(resolve(model), source), proposed, source.settings, source.rate_tps)
    mean = (Measure.ACK, "mean", "")
    found = next((e for e in answer.estimates if (e.measure, e.statistic, e.subject) == mean), None)
    if found is None or found.value is None or found.low is None or found.high is None:
        gap = found or next(iter(answer.estimates), None)
        why = gap.reason if gap and gap.reason else "no mean of the emit-to-ack latency with an interval"
        raise UsageError(f"{model} cannot predict that plan: {why}")
    return Outlook(source, mean_ack_ms(rows), found.value, found.low, found.high)
