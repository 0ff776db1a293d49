"""Plans proposed for a topology: a client's, a scheduler's, a tuner's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.app.nearest_step import choose_step, usable_steps
from harness.app.submitted.folder import SubmittedTopology
from harness.app.submitted.live_rows import LiveRows
from harness.app.submitted.plan_file import differences
from harness.errors import HarnessError
from harness.plans import PhysicalPlan
from harness.protocols import Observation, Proposal
from harness.runs import Run
from harness.schedulers import SCHEDULERS, make_scheduler
from harness.schedulers.plan_distance import PlanWanted
from harness.schedulers.side_by_side import PlacementTable
from harness.service.answers import ForecastRate, FutureAsked, PackingPlan, ProposalAsked
from harness.service.asked import AskedTopology
from harness.service.live_topology import observe_of
from harness.service.placing import UnusablePlan, placed
from harness.service.questions import (
    address,
    computing,
    forecast_traffic,
    measured_emits_tps,
    observation_of,
    step_of,
)
from harness.service.run_index import UnknownName
from harness.service.traffic_answers import level_name
from harness.tuning import TUNERS, make_tuner
from harness.tuning.side_by_side import TuningTable


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


def predict_proposed(run: Run, step: int | None, asked: ProposalAsked) -> dict[str, object]:
    """Predict another plan of a topology; the answer is as of ``harness schedule`` and ``tune --json``.

    Raises
    ------
    UnknownName
        When nobody knows the scheduler or tuner.
    UnusablePlan
        When the placement is no plan of the topology, or it is asked from another plan than the step's.
    """
    if step is None:
        choice = choose_step(run, _possible(run, asked))
        chosen, named = choice.step, choice.as_json()
    else:
        chosen, named = step_of(run, step), None
    with computing:
        observed = observation_of(run.path, chosen)
        if asked.source is not None and (other := differences(asked.source, observed.plan)):
            raise UnusablePlan(f"from: step {chosen} had another plan: {other}", "leave it out")
        answer = predict_observed(observed, asked)
    return {"run": address(run), "step": chosen, "nearest": named, **answer}


def _possible(run: Run, asked: ProposalAsked) -> dict[int, PlanWanted]:
    """Return the steps that a proposal may be predicted from, the last first, and what is proposed.

    Raises
    ------
    UnusablePlan
        When a placement is no plan of any of them, or none had the plan that is asked from; of the last.
    """
    possible: dict[int, PlanWanted] = {}
    refusals: list[UnusablePlan] = []
    for step in reversed(usable_steps(run)):
        plan = run.plan(step).start
        if asked.source is not None and (other := differences(asked.source, plan)):
            refusals.append(UnusablePlan(f"from: step {step} had another plan: {other}", "leave it out"))
            continue
        try:
            there = None if asked.placement is None else placed(plan, asked.placement)
        except UnusablePlan as refusal:
            refusals.append(refusal)
        else:
            possible[step] = PlanWanted(placed=there, rate_tps=asked.rate_tps)
    if not possible:
        raise refusals[0]
    return possible


def predict_left(
    topology: SubmittedTopology, rows: LiveRows, asked: ProposalAsked, running: PhysicalPlan | None = None
) -> dict[str, object]:
    """Answer the same of a submitted topology, from its last minutes.

    Parameters
    ----------
    running : PhysicalPlan, optional
        The plan in force, where it is not the kept one; who asks may say another.

    Raises
    ------
    UsageError
        When its spouts emitted nothing in them, or a placement is no plan of it.
    """
    if asked.source is not None:
        running = placed(topology.plan.plan, asked.source, "from")
    with computing:
        answer = predict_observed(observe_of(topology, rows, running=running), asked)
    return {"submitted": topology.name, **answer}


def predict_observed(
    source: Observation, asked: ProposalAsked, now: Observation | None = None
) -> dict[str, object]:
    """Predict another plan of what was observed, beside the plan in force.

    Parameters
    ----------
    now : Observation, optional
        Of the plan in force, where a placement is predicted from another one; by default the source.
    """
    now = source if now is None else now
    rate_tps = asked.rate_tps or now.rate_tps  # what is asked is above 0
    if asked.tuner is not None:
        current, proposed = _tuned(source, asked.tuner, asked.parameters, rate_tps)
    else:
        current, proposed = _scheduled(source, now, asked, rate_tps)
    return {"rate_tps": rate_tps, "current": current, "proposed": proposed}


def _tuned(
    source: Observation, name: str, parameters: Mapping[str, object], rate_tps: float
) -> tuple[dict[str, object], dict[str, object]]:
    if name not in TUNERS:
        raise UnknownName("tuner", name, list(TUNERS))
    tuner, table = make_tuner(name, parameters), TuningTable(source, rate_tps)
    counts = source.plan.configuration()
    current: dict[str, object] = {
        "executors": dict(counts.executors),
        "workers": counts.workers,
        "predicted": table.as_measured().model_dump(mode="json"),
    }
    return current, table.propose(name, tuner).as_json()


def _scheduled(
    source: Observation, now: Observation, asked: ProposalAsked, rate_tps: float
) -> tuple[dict[str, object], dict[str, object]]:
    if asked.placement is not None:
        name, scheduler = "placement", PlanGiven(placed(source.plan, asked.placement))
    else:
        name = str(asked.scheduler)
        if name not in SCHEDULERS:
            raise UnknownName("scheduler", name, list(SCHEDULERS))
        scheduler = make_scheduler({**asked.parameters, "name": name})  # type: ignore[assignment]
    current = PlacementTable(now, now.plan.configuration(), now.plan.nodes, rate_tps)
    table = current if source is now else replace(current, source=source, running=now.plan)
    (proposal,) = table.propose({name: scheduler})
    return current.as_measured().as_json(), proposal.as_json()


class NoForecast(HarnessError):
    """There is no forecast of a topology's traffic, so that no plan fits it."""


def pack_current(topology: AskedTopology, tuner: str) -> PackingPlan:
    """Propose a plan for the rate that was measured."""
    return _pack(topology, topology.observe(), ProposalAsked(tuner=tuner))


def pack_future(topology: AskedTopology, tuner: str, future: FutureAsked) -> PackingPlan:
    """Propose a plan for the highest bucket of a quantile of the traffic that is forecast.

    A plan that is applied now has to carry it; an average over a rising season is too small for its end.

    Raises
    ------
    NoForecast
        When the forecaster declines.
    """
    answer = forecast_traffic(topology, [future.model], future.traffic)[future.model]
    emitted_tps = answer.peak_tps.get(level_name(future.quantile_pct), 0.0)
    if not emitted_tps > 0:
        raise NoForecast(f"{future.model}: {answer.reason or 'it foresees no traffic'}")
    source = topology.observe()
    with computing:
        rate_tps = source.rate_tps * emitted_tps / measured_emits_tps(source)
    made = ForecastRate(
        model=future.model,
        quantile_pct=future.quantile_pct,
        future_mins=future.traffic.future_mins,
        rate_tps=rate_tps,
    )
    return _pack(topology, source, ProposalAsked(tuner=tuner, rate_tps=rate_tps), made)


def _pack(
    topology: AskedTopology, source: Observation, asked: ProposalAsked, forecast: ForecastRate | None = None
) -> PackingPlan:
    with computing:
        said = predict_observed(source, asked)
    return PackingPlan.model_validate({**topology.named, **said, "forecast": forecast})
