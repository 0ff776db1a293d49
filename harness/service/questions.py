"""Caladrius's questions of a topology that runs here know: its traffic to come, its plan, another plan."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.judge.predicting import ask, observation, reader
from harness.app.forecasting import read_subjects
from harness.errors import UsageError
from harness.experiments.loading import load
from harness.forecasts import FORECASTERS
from harness.forecasts.alerting import SubjectForecast, forecast_subjects
from harness.forecasts.histories import SubjectHistory
from harness.models import MODELS
from harness.models.contract.observe import observe
from harness.plans import Executor, PhysicalPlan, Worker
from harness.protocols import Observation, Proposal, RateHistory
from harness.runs import Run
from harness.schedulers import SCHEDULERS, make_scheduler
from harness.schedulers.side_by_side import PlacementTable
from harness.schemas import LATENCIES
from harness.service.answers import (
    CurrentAnswer,
    LatencyAnswer,
    ProposalAsked,
    TaskPerformance,
    TrafficForecast,
)
from harness.service.run_index import UnknownName

ALL = "all"
PERCENTS = (10, 50, 90, 95, 99)
"""Quantiles of a forecast, in percent."""
_computing = threading.Lock()
"""Held while a model works: on a small machine two of them are slower than one after the other."""


class PlanGiven:
    """A plan that a client gave, proposed as a scheduler would.

    Parameters
    ----------
    plan : PhysicalPlan
    """

    def __init__(self, plan: PhysicalPlan) -> None:
        self._plan = plan

    def propose(self, *_: object) -> Proposal:
        """Return the plan."""
        return Proposal(self._plan)


def named(asked: Sequence[str], known: Mapping[str, Any], kind: str, default: str) -> list[str]:
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
    run: Run,
    step: int | None,
    models: Sequence[str],
    source_hours: float,
    future_mins: float,
    bucket_s: float,
) -> dict[str, TrafficForecast]:
    """Forecast what each spout component and task will emit into each stream."""
    chosen = step_of(run, step)
    subjects = [_latest(s, source_hours * 3600) for s in read_subjects(run.path, chosen, (), bucket_s)]
    details: dict[str, str | int | float] = {
        "run": f"{run.path.parent.name}/{run.path.name}",
        "step": chosen,
        "history_s": max(len(s.history.rate_tps) * s.history.bucket_s for s in subjects),
        "bucket_s": bucket_s,
        "future_mins": future_mins,
    }
    levels = tuple(p / 100 for p in PERCENTS)
    answers = {}
    for model in models:
        try:
            with _computing:
                made = forecast_subjects(subjects, {model: FORECASTERS[model]}, future_mins * 60, (), levels)
            answers[model] = _summarise(made, details)
        except UsageError as error:
            answers[model] = TrafficForecast(details=details, reason=str(error))
    return answers


def _latest(subject: SubjectHistory, seconds: float) -> SubjectHistory:
    history = subject.history
    kept = max(round(seconds / history.bucket_s), 1)
    dropped = max(len(history.rate_tps) - kept, 0)
    start_s = history.start_s + dropped * history.bucket_s
    shorter = RateHistory(history.rate_tps[dropped:], history.bucket_s, start_s)
    return SubjectHistory(subject.component, subject.task, subject.stream, shorter)


def _summarise(made: Sequence[SubjectForecast], details: dict[str, str | int | float]) -> TrafficForecast:
    answer = TrafficForecast(details=details)
    median = PERCENTS.index(50)
    for one in made:
        if one.fine.status == "declined":
            continue
        rates = one.asked.rate_tps
        statistics = {f"{p}-quantile": rates[:, i].mean() for i, p in enumerate(PERCENTS) if p != 50}
        statistics |= {"median": rates[:, median].mean(), "mean": rates[:, median].mean()}
        statistics |= {"min": rates[:, median].min(), "max": rates[:, median].max()}
        subject = one.subject
        into, name = (
            (answer.components, subject.component)
            if subject.task is None
            else (answer.instances, str(subject.task))
        )
        for statistic, rate in statistics.items():
            into.setdefault(statistic, {}).setdefault(name, {})[subject.stream] = float(rate)
    return answer


def assess_current(run: Run, step: int | None, model: str) -> CurrentAnswer:
    """Answer how a topology performs in a measured step, and what a model makes of its latency."""
    chosen = step_of(run, step)
    with _computing:
        source = _observation(run.path, chosen)
        answer = ask(reader(MODELS[model], source), source.plan, source.settings, source.rate_tps)
        tasks = _tasks(source)
    latency = [
        LatencyAnswer(
            measure=e.measure, statistic=e.statistic, value_ms=e.value, low_ms=e.low, high_ms=e.high
        )
        for e in answer.estimates
        if e.measure in LATENCIES and not e.subject
    ]
    mean_ms = run.interval(chosen).mean_ms
    return CurrentAnswer(
        run=f"{run.path.parent.name}/{run.path.name}",
        step=chosen,
        rate_tps=source.rate_tps,
        tasks=tasks,
        latency=latency,
        measured_mean_ms=mean_ms if np.isfinite(mean_ms) else None,
    )


def _tasks(source: Observation) -> list[TaskPerformance]:
    measured = observe(source)
    plan = source.plan
    busy: dict[str, float] = {}
    rows = []
    for name in (c.name for c in plan.query_plan.components if plan.query_plan.inputs(c.name)):
        executors = [e for e in plan.of(name) for _ in e.tasks]
        tasks = [task for e in plan.of(name) for task in e.tasks]
        rates = measured.arrivals(name) / measured.seconds[name]
        service = measured.service_ms(name)
        for task, executor, rate, mean_ms in zip(tasks, executors, rates, service, strict=True):
            timed = bool(np.isfinite(mean_ms))
            capacity_pct = float(rate * mean_ms / 10) if timed else None
            busy[executor.label] = busy.get(executor.label, 0.0) + (capacity_pct or 0.0)
            rows.append(
                TaskPerformance(
                    task=task,
                    component=name,
                    executor=executor.label,
                    service_time_ms=float(mean_ms) if timed else None,
                    arrival_rate_tps=float(rate),
                    capacity_pct=capacity_pct,
                    back_pressure=False,
                )
            )
    # An executor's tasks share its thread.
    return [row.model_copy(update={"back_pressure": busy[row.executor] >= 100}) for row in rows]


def predict_proposed(run: Run, step: int | None, asked: ProposalAsked) -> dict[str, Any]:
    """Answer what another plan of a topology would do, as ``harness schedule --json`` does.

    Raises
    ------
    UnknownName
        When nobody knows the scheduler.
    UnusablePlan
        When the placement is no plan of the topology.
    """
    chosen = step_of(run, step)
    if asked.scheduler is not None and asked.scheduler not in SCHEDULERS:
        raise UnknownName("scheduler", asked.scheduler, list(SCHEDULERS))
    with _computing:
        source = _observation(run.path, chosen)
        if asked.placement is not None:
            name, scheduler = "placement", PlanGiven(placed(source.plan, asked.placement))
        else:
            name = str(asked.scheduler)
            scheduler = make_scheduler({**asked.parameters, "name": name})  # type: ignore[assignment]
        rate_tps = asked.rate_tps or source.rate_tps  # what is asked is above 0
        table = PlacementTable(source, source.plan.configuration(), source.plan.nodes, rate_tps)
        (proposal,) = table.propose({name: scheduler})
        as_it_is = table.as_measured()
    return {
        "run": f"{run.path.parent.name}/{run.path.name}",
        "step": chosen,
        "rate_tps": rate_tps,
        "current": as_it_is.as_json(),
        "proposed": proposal.as_json(),
    }


_DIGITS = 10
"""A task's number of so many digits is none."""


class UnusablePlan(UsageError):
    """A placement that is no plan of the topology."""


def placed(plan: PhysicalPlan, placement: Mapping[str, str]) -> PhysicalPlan:
    """Return a plan of the same query plan with executors where they are asked.

    Storm's own executors stay where they are if they are not named.

    Raises
    ------
    UnusablePlan
        When a label or a slot cannot be, a task is twice or nowhere.
    """
    tasks = {t: e.component for e in plan.executors for t in e.tasks}
    slots = {f"{n.name}:{port}": Worker(node=n.name, port=port) for n in plan.nodes for port in n.slots}
    executors: list[Executor] = []
    for label, slot in placement.items():
        component, _, span = label.removesuffix("]").rpartition("[")
        first, _, last = span.partition("-")
        if not (label.endswith("]") and first.isdecimal() and last.isdecimal()):
            raise UnusablePlan(f"placement: {label!r} is no executor", "write COMPONENT[FIRST-LAST]")
        if slot not in slots:
            raise UnusablePlan(f"placement: {label!r}: no slot {slot!r}", f"there are {', '.join(slots)}")
        ends = [int(end) for end in (first, last) if len(end) < _DIGITS]
        if len(ends) < 2 or not set(ends) <= tasks.keys() or ends[0] > ends[1]:
            raise UnusablePlan(f"placement: {label[:80]!r} has no such tasks")
        executor = Executor(component=component, first_task=ends[0], last_task=ends[1], worker=slots[slot])
        if wrong := next((t for t in executor.tasks if tasks.get(t) != component), None):
            raise UnusablePlan(f"placement: {label!r}: task {wrong} is not one of {component!r}")
        executors.append(executor)
    seen = [t for e in executors for t in e.tasks]
    if len(seen) != len(set(seen)):
        raise UnusablePlan("placement: a task is in two executors")
    names = {c.name for c in plan.query_plan.components} | {tasks[t] for t in seen}
    if missing := sorted(t for t, c in tasks.items() if c in names and t not in set(seen)):
        raise UnusablePlan(f"placement: task {missing[0]} of {tasks[missing[0]]!r} is nowhere")
    own = [e for e in plan.executors if e.component not in names]
    return plan.model_copy(update={"executors": tuple(executors + own)})


@lru_cache(maxsize=4)
def _observation(path: Path, step: int) -> Observation:
    """Read a finished step, which does not change any more."""
    return observation(Run(path), load(path / "experiment.yaml"), step)
