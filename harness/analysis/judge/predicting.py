"""Every source -> proposed pair of a run through every model; writes ``predictions.parquet``.

Needs no Spark and no cluster: a model gets the source step's observation and the proposed plan,
settings and input rate, and nothing else of the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.analysis.judge.predicted_with import stale, stamp, stamped
from harness.analysis.spark.inputs import check_parquet, read_raw
from harness.errors import HarnessError, ModelDeclined, UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.machine.whole_files import own_folder
from harness.models import MODELS, NO_CHANGE, resolve
from harness.models.contract.answers import require_no_relief
from harness.plans import PhysicalPlan, Relief
from harness.protocols import Estimate, Model, Observation, Prediction, PreparingModel, Settings
from harness.runs import Interval, Run, StepPlan, judged, judged_alone, read_latency, read_table
from harness.schemas import PREDICTIONS, Measure

SAYING_S = 10.0
"""Between two words on how far predictions are."""


def observation(run: Run, experiment: Experiment, step: int) -> Observation:
    """Return the measurements of one step, cut to its measured interval."""
    folder = run.step_path(step)
    return observed(
        run.plan(step),
        settings(run, experiment),
        run.interval(step),
        read_table(folder / "metrics.parquet"),
        read_latency(folder, where="in_interval"),
    )


def observed(
    plan: StepPlan, settings_: Settings, interval: Interval, metrics: pa.Table, latency: pa.Table
) -> Observation:
    """Return a step's tables as a model gets to see them, cut to the measured interval.

    Parameters
    ----------
    settings_ : Settings
        The run's; the step's own batch sizes take the place of its.
    """
    # Every task has buckets of its own phase. Those that end within the interval are, for each task, the
    # interval's length over the bucket's: the part before the start belongs to the steady burn-in.
    end = metrics["bucket_end_ms"]
    inside = pc.and_(pc.greater(end, interval.start_epoch_ms), pc.less_equal(end, interval.end_epoch_ms))
    measured = latency["in_interval"]  # the rows can be gigabytes: they are not copied where all are shown
    shown = _shown(latency if pc.all(measured).as_py() else latency.filter(measured), interval)
    shown = shown.select(shown.column_names)  # a table of its own, which is taken apart below
    del latency, measured
    return Observation(
        plan=plan.start,
        settings=_of_step(settings_, plan),
        rate_tps=interval.rate_tps,
        interval_s=(interval.end_epoch_ms - interval.start_epoch_ms) / 1e3,
        metrics=metrics.filter(inside).to_pandas(),
        latency=shown.to_pandas(types_mapper=_nested, split_blocks=True, self_destruct=True),
        complete_latency_ms={
            name: c.mean_ms for name, c in interval.complete_latency_ms.items() if c.mean_ms is not None
        },
        hop_records=interval.latency == "ground-truth",
    )


def _of_step(settings_: Settings, plan: StepPlan) -> Settings:
    """Return the run's settings with a step's own batch sizes and relief."""
    batching = settings_.batching if plan.batching is None else plan.batching
    return replace(settings_, batching=batching, relief=plan.relief)


def _shown(latency: pa.Table, interval: Interval) -> pa.Table:
    """Return the rows as they are judged; times of hops that are not by one clock are no model's business."""
    latency = judged(latency, interval.latency)
    if interval.latency == "ground-truth":
        return latency
    at = latency.schema.get_field_index("hops")
    none = pa.array([[]] * latency.num_rows, latency.schema.field(at).type)
    return latency.set_column(at, latency.schema.field(at), none)


def _nested(kind: pa.DataType) -> pd.ArrowDtype | None:
    """Leave lists as Arrow has them: made into Python objects they take longer than all else."""
    return pd.ArrowDtype(kind) if pa.types.is_list(kind) else None


def settings(run: Run, experiment: Experiment) -> Settings:
    """Return the facts about the deployment that a model may know."""
    version = str(run.environment.get("cluster", {}).get("storm", "unknown"))
    poll_ms = experiment.topology.poll_timeout_ms
    return Settings(
        storm=experiment.storm_settings(),
        version=version,
        poll_timeout_ms=poll_ms,
        batching=experiment.topology.batching,
        relief=experiment.topology.relief,
    )


def predict(
    run: Run, names: Sequence[str] = (), progress: Callable[[str], None] = lambda _: None
) -> pa.Table:
    """Let models predict every pair of the run's finished steps and write ``predictions.parquet``.

    What other models than the named ones predicted before stays in it.

    Parameters
    ----------
    run : Run
    names : sequence of str
        Models; all that are registered when empty.
    progress : callable
        Takes the models' names at first, and every ten seconds how many source steps they have read.

    Returns
    -------
    Table
        ``harness.schemas.PREDICTIONS``, the diagonal included.

    Raises
    ------
    UsageError
        No finished step, an unknown model, or another process that judges the run.
    """
    steps = run.finished_steps
    if not steps:
        raise UsageError(f"{run.path}: no finished step", "measure it with harness run --resume")
    chosen: Mapping[str, Model] = {name: resolve(name) for name in (names or tuple(MODELS))}
    experiment = load(run.path / "experiment.yaml")
    progress(", ".join(chosen))
    said_s = time.monotonic()
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in chosen}
    for read, source in enumerate(steps):
        if time.monotonic() - said_s >= SAYING_S:
            progress(f"{', '.join(chosen)}, from {read} of {len(steps)} steps so far")
            said_s = time.monotonic()
        for name, prediction in _predicted_from(run, experiment, source, chosen):
            rows[name] += prediction
    table = pa.Table.from_pylist([row for each in rows.values() for row in each], schema=PREDICTIONS)
    with judged_alone(run.path):
        _write(run, table, tuple(chosen), whole=not names)
    return table


def _predicted_from(
    run: Run, experiment: Experiment, source: int, models: Mapping[str, Model]
) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Yield the rows of each model from one source step, whose tables alone are in memory."""
    seen = observation(run, experiment, source)
    alike = settings(run, experiment)
    proposed = [
        (step, _of_step(alike, plan), plan.start, run.interval(step).rate_tps)
        for step in run.finished_steps
        for plan in [run.plan(step)]
    ]
    for name, model in models.items():
        answers = reader(model, seen)
        rows: list[dict[str, object]] = []
        for step, asked, plan, asked_tps in proposed:
            known_tps = rate_tps(experiment, seen.rate_tps, asked_tps)
            their = answers if model is MODELS[NO_CHANGE] else _without_relief(answers, seen.settings.relief)
            answer = ask(their, plan, asked, known_tps)
            rows.extend(_row(name, source, step, estimate) for estimate in answer.estimates)
        yield name, rows


def ensure_predicted(run: Run, progress: Callable[[str], None] = lambda _: None) -> None:
    """Let models predict that have not, or whose predictions are of other code or measurements than now's.

    Predictions that are out of date are left out where their model is not here to predict again.

    Raises
    ------
    UsageError
        Naming a file that is missing, unreadable or not of the declared schema, before anything is written;
        and as ``predict``.
    """
    target = run.path / "predictions.parquet"
    read_raw(run.path)
    if not target.is_file():
        predict(run, (), progress)
        return
    check_parquet(target, PREDICTIONS)
    there = read_table(target, ["model"])["model"].unique().to_pylist()
    old = stale(run, target, sorted(there))
    gone = [name for name in old if not _there(name)]
    if again := [name for name in old if name not in gone]:
        predict(run, again, progress)
    if gone:
        progress(f"nothing: its earlier predictions are out of date, and {', '.join(gone)} is not here")
        with judged_alone(run.path):
            _write(run, PREDICTIONS.empty_table(), gone, whole=False)


def _there(model: str) -> bool:
    try:
        resolve(model)
    except UsageError:
        return False
    return True


def _write(run: Run, table: pa.Table, models: Sequence[str], *, whole: bool) -> None:
    """Write predictions; unless they are all, beside those of other models in the file."""
    target = run.path / "predictions.parquet"
    kept, before = PREDICTIONS.empty_table(), {}
    if not whole and target.is_file():
        earlier, before = pq.read_table(target, schema=PREDICTIONS), stamped(target)
        kept = earlier.filter(pc.invert(pc.is_in(earlier["model"], pa.array(list(models)))))
    made = pa.concat_tables([kept, table])
    made = made.replace_schema_metadata({**(made.schema.metadata or {}), **stamp(run, models, before)})
    with own_folder(target.parent, "predictions") as folder:
        pq.write_table(made, folder / target.name, compression="zstd")
        (folder / target.name).rename(target)


def rate_tps(experiment: Experiment, source_tps: float, proposed_tps: float) -> float:
    """Return the input rate that a model is given for a proposed step, of both steps' rates.

    A topology that makes its own messages has no rate that was asked for. Its rate in the proposed step is a
    measurement, which a model must not see, so the model is given the source's rate.
    """
    return proposed_tps if experiment.topology.traffic().sent else source_tps


Answers = Callable[[PhysicalPlan, Settings, float], Prediction]


def reader(model: Model, source: Observation) -> Answers:
    """Return the model with its source read, where it can read it once for all proposed plans."""
    if isinstance(model, PreparingModel):
        try:
            return model.prepare(source).predict
        except Exception:  # asked pair by pair, the model says itself what is wrong
            return partial(model, source)
    return partial(model, source)


def _without_relief(answers: Answers, source: Relief) -> Answers:
    """Return a model's answers, which declines where bolts help each other or spouts pause."""

    def asked(proposed: PhysicalPlan, settings_: Settings, rate_tps: float) -> Prediction:
        require_no_relief(source, "source")
        require_no_relief(settings_.relief, "proposed")
        return answers(proposed, settings_, rate_tps)

    return asked


def ask(answers: Answers, proposed: PhysicalPlan, settings_: Settings, rate_tps: float) -> Prediction:
    """Return the model's answer; a refusal or a crash becomes a gap with a name."""
    try:
        return _checked(answers(proposed, settings_, rate_tps))
    except ModelDeclined as declined:
        reason = f"declined: {declined.message}"
    except HarnessError as error:
        reason = f"declined: {error}"
    except Exception as error:  # a user's model may raise anything; one pair's crash must not end the rest
        reason = f"declined: the model failed with {type(error).__name__}: {error}"
    gap = Estimate(Measure.GROUND_TRUTH, "mean", None, status="declined", reason=reason)
    return Prediction((gap,))


def _checked(answer: object) -> Prediction:
    """Return a model's answer, if it is what the contract says.

    Raises
    ------
    TypeError
        Something else than a prediction, or values that are not numbers.
    """
    if not isinstance(answer, Prediction):
        raise TypeError(f"it answered {type(answer).__name__}, not a Prediction")
    for estimate in answer.estimates:
        if not isinstance(estimate, Estimate):
            raise TypeError(f"its prediction holds {type(estimate).__name__}, not Estimate")
        for number in (estimate.value, estimate.low, estimate.high):
            if not (number is None or isinstance(number, Real)):
                raise TypeError(f"its {estimate.measure} is {number!r}, not a number")
    return answer


def _row(model: str, source: int, proposed: int, estimate: Estimate) -> dict[str, object]:
    value, status, reason = estimate.value, estimate.status, estimate.reason
    numbers = (estimate.value, estimate.low, estimate.high)
    if wrong := [n for n in numbers if n is not None and not math.isfinite(n)]:
        value, status, reason = None, "declined", f"declined: the model answered {wrong[0]}"
    return {
        "model": model,
        "source_step": source,
        "proposed_step": proposed,
        "measure": estimate.measure,
        "subject": estimate.subject,
        "statistic": estimate.statistic,
        "value": value,
        "low": None if value is None else estimate.low,
        "high": None if value is None else estimate.high,
        "status": status,
        "reason": reason,
    }
