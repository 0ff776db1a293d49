"""Do the files of a step agree with each other and with the experiment? What one says, others bear out.

Each figure in ``interval.json`` and ``quality.json`` is computed again from the tables, where they hold all
that it was computed from; the others are compared with the experiment. Whoever edits one file, or puts
together files of several runs, would have to edit all of them alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.analysis.spark.inputs import StepRecord
from harness.errors import StepInvalid
from harness.experiments.precision import critical, look
from harness.machine import seals
from harness.quality import Ledger
from harness.runs import judged
from harness.schemas import Metric, Subject

RELATIVE = 1e-6
"""Most that a figure may differ from the same one computed again: sums are added up in another order. In the
121 archived steps it is 1e-13."""
MOST_CLOCKS_MS = 2.0
"""Most by which the interval's length may differ between its two clocks, read one after the other."""
MOST_NAMED = 5
OF_NODES = [metric for metric in Metric if metric.subject == Subject.NODES]
"""Measurements between worker nodes, whose rows are of no task."""
LOOKS = (1, 4, 5)
"""Numbers of looks that widen the half-width differently (``precision.look_alpha``); how many were planned is
not kept."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of a step's files with each other.

    Attributes
    ----------
    disagreements : tuple of str
        One line each; empty where all files agree.
    broken : tuple of str or None
        In what the folder differs from its seal (``harness.machine.seals``); None where it has none.
    drawn_anew : bool
        A resampled night: its tables were drawn from another's, on purpose.
    """

    disagreements: tuple[str, ...] = ()
    broken: tuple[str, ...] | None = ()
    drawn_anew: bool = False


def agreement(step: StepRecord, latency: pa.Table, metrics: pa.Table) -> Agreement:
    """Compare the files of a step with each other.

    Parameters
    ----------
    step : StepRecord
        Its small files, and what the experiment asked of it.
    latency, metrics : Table
        Its tables: of the first at least the columns of ``LATENCY_COLUMNS``.
    """
    if step.drawn_anew:
        return Agreement(drawn_anew=True)
    found = (*_asked(step), *_not_applying(step), *_tasks(step, metrics), *_figures(step, latency))
    return Agreement(found, seals.broken(step.folder))


LATENCY_COLUMNS = [
    *("message_id", "in_interval", "scheduled_ns", "entered_ns", "left_ns"),
    *("ground_truth_ms", "broker_ms"),
]


def _asked(step: StepRecord) -> Iterator[str]:
    """Compare the step's own record with the experiment's request."""
    at, asked = step.interval, step.asked
    if at.step != step.index:
        yield f"interval.json is of step {at.step}"
    if asked is None:
        yield "experiment.yaml has no such step"
        return
    labels = [asked.step.label]
    if step.plan.placement is not None:
        labels.append(f"{asked.step.label}/{step.plan.placement.digest}")
    if not asked.step.tuned_by and at.configuration not in labels:  # what a tuner proposes is no file's
        yield f"interval.json is of {at.configuration}, and experiment.yaml asks for {asked.step.label}"
    if asked.sent:
        mean_tps = asked.step.mean_tps((at.end_ns - at.start_ns) / 1e9)
        if not _same(at.rate_tps, mean_tps):
            yield f"interval.json has {at.rate_tps:g} messages/s, experiment.yaml {mean_tps:g}"
    if at.precision_pct_asked != asked.precision_pct:
        yield (
            f"interval.json was asked for ±{at.precision_pct_asked:g} %,"
            f" and experiment.yaml asks for ±{asked.precision_pct:g} %"
        )
    wanted = step.plan.asked if asked.step.tuned_by else asked.step.configuration
    for name, count in wanted.executors.items():
        if (said := step.plan.asked.executors.get(name)) != count:
            yield f"plan.json was asked for {said} executors of {name}, and experiment.yaml asks for {count}"
    if step.plan.placement is None and step.plan.asked.workers != wanted.workers:  # it may leave some out
        yield f"plan.json was asked for {step.plan.asked.workers} workers, experiment.yaml {wanted.workers}"
    clocks_ms = (at.end_ns - at.start_ns) / 1e6 - (at.end_epoch_ms - at.start_epoch_ms)
    if abs(clocks_ms) > MOST_CLOCKS_MS:
        yield f"the interval is {clocks_ms:.0f} ms longer by one of its clocks than by the other"


def _not_applying(step: StepRecord) -> Iterator[str]:
    """Name the checks that are said not to apply, and do."""
    if surplus := sorted(step.quality.absent.keys() - step.may_be_absent):
        yield f"quality.json says that checks do not apply, and they do: {', '.join(surplus)}"


def _tasks(step: StepRecord, metrics: pa.Table) -> Iterator[str]:
    """Name tasks that the plan has not, and executors whose complete latency is not of a spout."""
    plan = step.plan.start
    of_nodes = pc.is_in(metrics["measurement"].cast(pa.string()), pa.array(OF_NODES))
    tasks = metrics.filter(pc.invert(of_nodes))["task"]
    if strange := sorted(set(tasks.unique().to_pylist()) - set(plan.by_task)):
        named = ", ".join(str(task) for task in strange[:MOST_NAMED])
        yield f"metrics.parquet has tasks that plan.json has not: {named}"
    spouts = {e.label for name in plan.query_plan.spouts for e in plan.of(name)}
    if surplus := sorted(step.interval.complete_latency_ms.keys() - spouts):
        yield f"interval.json has complete latencies of what is no spout executor of plan.json: {surplus[0]}"


def _figures(step: StepRecord, latency: pa.Table) -> Iterator[str]:
    """Compute again the numbers that were computed from the interval's latencies."""
    at, ledger = step.interval, step.quality.ledger
    if at.latency not in ("ground-truth", "topics"):
        return
    rows = latency.filter(latency["in_interval"])
    messages = len(np.unique(rows["message_id"].to_numpy()))
    if ledger is not None and not _accounted(messages, ledger):
        yield f"latency.parquet has {messages} messages, and the ledger {ledger.received} received"
    if at.latency == "ground-truth" and (wrong := _astray(rows)):
        yield f"latency.parquet has {wrong} ground truths that are not from entered_ns to left_ns"
    rows = judged(rows, at.latency)
    rows = rows.filter(rows["ground_truth_ms"].is_valid())
    length_s = (at.end_ns - at.start_ns) / 1e9
    scheduled_s = (rows["scheduled_ns"].to_numpy() - at.start_ns) / 1e9
    try:
        seen = look(scheduled_s, rows["ground_truth_ms"].to_numpy(), 0.0, length_s, at.precision_pct_asked)
    except (StepInvalid, ValueError):  # the checks of samples and interval say so
        return
    if not _same(at.mean_ms, seen.mean):
        yield f"the mean is {at.mean_ms:.6g} ms in interval.json and {seen.mean:.6g} ms in latency.parquet"
    widths = [critical(seen.batches, looks) * seen.standard_error for looks in LOOKS]
    if not any(_same(at.half_width_ms, width) for width in widths):
        yield (
            f"the half-width of the mean is {at.half_width_ms:.6g} ms in interval.json"
            f" and {seen.half_width:.6g} ms in latency.parquet"
        )
    reached = 100 * at.half_width_ms / at.mean_ms if at.mean_ms > 0 else math.inf
    if not _same(at.precision_pct_reached, reached):
        yield (
            f"interval.json has ±{at.precision_pct_reached:.4g} % reached,"
            f" and a half-width of ±{reached:.4g} % of its mean"
        )


def _accounted(messages: int, ledger: Ledger) -> bool:
    """Say whether so many messages were received; one that the client took for not sent may have come out."""
    return ledger.received <= messages <= ledger.received + ledger.unconfirmed


def _astray(rows: pa.Table) -> int:
    """Count rows whose ground truth is not the time between its two stamps, where all are there."""
    own_ms = pc.divide(pc.cast(pc.subtract(rows["left_ns"], rows["entered_ns"]), pa.float64()), 1e6)
    apart = pc.abs(pc.subtract(own_ms, rows["ground_truth_ms"]))
    return int(pc.sum(pc.greater(apart, 1e-3)).as_py() or 0)


def _same(one: float, other: float) -> bool:
    """Compare two figures; two that are not known, or have no bound, are the same."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=1e-9)
