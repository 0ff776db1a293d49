"""Caladrius's questions of a topology: its traffic to come, and how it performs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from harness.analysis.judge.predicting import ask, observation, reader
from harness.app.submitted.spout_history import hours_needed
from harness.errors import UsageError
from harness.experiments.loading import load
from harness.forecasts import FORECASTERS
from harness.forecasts.alerting import forecast_subjects
from harness.forecasts.seasons import known_seasons
from harness.models import MODELS
from harness.models.contract.layout import outputs
from harness.models.contract.observe import observe
from harness.protocols import Observation, Prediction
from harness.runs import Run
from harness.schemas import LATENCIES, Measure
from harness.service.answers import (
    CurrentAnswer,
    Details,
    LatencyAnswer,
    SpoutTraffic,
    TaskPerformance,
    TrafficAsked,
    TrafficForecast,
)
from harness.service.asked import AskedTopology
from harness.service.run_index import UnknownName
from harness.service.traffic_answers import PERCENTS, summarise
from harness.service.turns import ModelTurns

ALL = "all"
computing = ModelTurns()
"""Had while a model works."""


def named(asked: Sequence[str], known: Collection[str], kind: str, default: str) -> list[str]:
    """Return the names asked for, all of them for ``all``; code of others is not loaded for a client.

    Raises
    ------
    UnknownName
        When one is not among the harness's own.

    Examples
    --------
    >>> named([], {"a": 1, "b": 2}, "model", "a"), named(["all"], {"a": 1, "b": 2}, "model", "a")
    (['a'], ['a', 'b'])
    """
    if ALL in asked:
        return list(known)
    for name in asked:
        if name not in known:
            raise UnknownName(kind, name, list(known))
    return list(dict.fromkeys(asked)) or [default]


def step_of(run: Run, step: int | None) -> int:
    """Return the step asked for, the last finished one by default.

    Raises
    ------
    UnknownName
        When it is not finished.
    """
    finished = run.finished_steps
    chosen = finished[-1] if step is None else step
    if chosen not in finished:
        raise UnknownName("step", str(chosen), [str(n) for n in finished])
    return chosen


def forecast_traffic(
    topology: AskedTopology, models: Sequence[str], asked: TrafficAsked
) -> dict[str, TrafficForecast]:
    """Forecast what each spout component and task will emit into each stream.

    Where no seasons are asked for, those of the topology count that the history is long enough to show.
    """
    seasons = asked.season_s or topology.season_s
    hours = hours_needed(seasons) if asked.source_hours is None else asked.source_hours
    read = topology.histories(hours, asked.bucket_s, seasons)
    subjects = [s.latest(round(hours * 3600 / s.history.bucket_s)) for s in read]
    history = subjects[0].history
    season_s = asked.season_s or known_seasons(history, seasons)
    details: Details = {
        **topology.named,
        "history_s": len(history.rate_tps) * history.bucket_s,
        "bucket_s": history.bucket_s,
        "season_s": list(season_s),
        "from_epoch_s": float(history.time_s[-1]),
        "future_mins": asked.future_mins,
    }
    levels = tuple(p / 100 for p in PERCENTS)
    answers = {}
    for model in models:
        try:
            with computing:
                made = forecast_subjects(
                    subjects, {model: FORECASTERS[model]}, asked.future_mins * 60, season_s, levels
                )
            answers[model] = summarise(made, details)
        except UsageError as error:
            answers[model] = TrafficForecast(details=details, reason=str(error))
    return answers


def assess_current(topology: AskedTopology, model: str) -> CurrentAnswer:
    """Answer how a topology performs, with the latency that a model predicts for it."""
    source = topology.observe()
    with computing:
        answer = _ask(model, source, source.rate_tps)
        tasks = assess_tasks(source)
    return CurrentAnswer.model_validate(
        {
            **topology.named,
            "rate_tps": source.rate_tps,
            "tasks": tasks,
            "latency": _latencies(answer),
            "measured_mean_ms": topology.measured_mean_ms(source),
        }
    )


def assess_traffic(topology: AskedTopology, model: str, traffic: SpoutTraffic) -> CurrentAnswer:
    """Answer how the plan in force would perform if its spouts emitted something else.

    Tuples go on as measured, as Caladrius takes them to; the model says how long they are served.

    Raises
    ------
    UnusableTraffic
        When a task is no spout's, a stream is not one of its, or nothing is emitted at all.
    """
    source = topology.observe()
    with computing:
        times = _times(source, traffic)
        answer = _ask(model, source, source.rate_tps * times)
        tasks = assess_tasks(source, times, _service_ms(answer))
    return CurrentAnswer.model_validate(
        {
            **topology.named,
            "rate_tps": source.rate_tps * times,
            "tasks": tasks,
            "latency": _latencies(answer),
            "measured_mean_ms": None,
        }
    )


def _ask(model: str, source: Observation, rate_tps: float) -> Prediction:
    return ask(reader(MODELS[model], source), source.plan, source.settings, rate_tps)


def _latencies(answer: Prediction) -> list[LatencyAnswer]:
    return [
        LatencyAnswer(
            measure=e.measure,
            path=e.subject,
            statistic=e.statistic,
            value_ms=e.value,
            low_ms=e.low,
            high_ms=e.high,
        )
        for e in answer.estimates
        if e.measure in LATENCIES
    ]


def _service_ms(answer: Prediction) -> dict[str, float]:
    """Return the service times that a model answers, by executor."""
    means = (e for e in answer.estimates if (e.measure, e.statistic) == (Measure.SERVICE, "mean"))
    return {e.subject: e.value for e in means if e.value is not None and np.isfinite(e.value)}


class UnusableTraffic(UsageError):
    """Traffic that the spouts of the topology cannot emit."""


def _times(source: Observation, traffic: SpoutTraffic) -> float:
    """Return how many times what was measured the spouts are to emit, all together."""
    plan = source.plan
    known = {
        str(task): {s.stream for s in plan.query_plan.outputs(name)}
        for name in plan.query_plan.spouts
        for e in plan.of(name)
        for task in e.tasks
    }
    for task, streams in traffic.items():
        if task not in known:
            raise UnusableTraffic(f"task {task[:40]!r} is no spout's", f"spout tasks are {', '.join(known)}")
        if other := next((s for s in streams if s not in known[task]), None):
            raise UnusableTraffic(
                f"task {task} emits nothing on {other[:40]!r}",
                f"it emits on {', '.join(sorted(known[task]))}",
            )
    asked_tps = sum(rate for streams in traffic.values() for rate in streams.values())
    if not (asked_tps > 0 and np.isfinite(times := asked_tps / measured_emits_tps(source))):
        raise UnusableTraffic("the spouts are to emit nothing", "give tuples a second by task and stream")
    return times


def measured_emits_tps(source: Observation) -> float:
    """Return the tuples that all spouts emitted a second."""
    measured, plan = observe(source), source.plan.query_plan
    return sum(
        float((measured.emitted(out) / measured.seconds[name]).sum())
        for name in plan.spouts
        for out in outputs(plan, name)
    )


def assess_tasks(
    source: Observation, times: float = 1.0, service_ms: Mapping[str, float] = MappingProxyType({})
) -> list[TaskPerformance]:
    """Return what tasks do where so many times what was measured arrives.

    Parameters
    ----------
    service_ms : mapping
        By executor; what was measured of a task where it is not in there.
    """
    measured = observe(source)
    plan = source.plan
    busy: dict[str, float] = {}
    rows = []
    for stream in (s for c in plan.query_plan.components for s in plan.query_plan.inputs(c.name)):
        name = stream.target
        executors = [e for e in plan.of(name) for _ in e.tasks]
        tasks = [task for e in plan.of(name) for task in e.tasks]
        rates = measured.received(stream) / measured.seconds[name] * times
        timed = measured.service_ms(name)
        for task, executor, rate, timed_ms in zip(tasks, executors, rates, timed, strict=True):
            mean_ms = service_ms.get(executor.label, float(timed_ms))
            known = bool(np.isfinite(mean_ms))
            capacity = float(rate * mean_ms / 10) if known else None
            busy[executor.label] = busy.get(executor.label, 0.0) + (capacity or 0.0)
            rows.append(
                TaskPerformance(
                    task=task,
                    stream=stream.stream,
                    source=stream.source,
                    component=name,
                    executor=executor.label,
                    latency_ms=mean_ms if known else None,
                    tuples_per_sec=1000 / mean_ms if known and mean_ms > 0 else None,
                    arrival_rate=float(rate),
                    capacity=capacity,
                    back_pressure=False,
                )
            )
    # An executor's tasks share its thread.
    return [row.model_copy(update={"back_pressure": busy[row.executor] >= 100}) for row in rows]


def address(run: Run) -> str:
    """Return the names of a run's two folders."""
    return f"{run.path.parent.name}/{run.path.name}"


@lru_cache(maxsize=4)
def observation_of(path: Path, step: int) -> Observation:
    """Read a finished step, which does not change any more."""
    return observation(Run(path), load(path / "experiment.yaml"), step)
