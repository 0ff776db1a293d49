"""Proposals of several tuners, each with the composite model's prediction for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.errors import HarnessError, ModelDeclined, UsageError
from harness.models.composite.model import Prepared, composite
from harness.plans import Frozen, PhysicalPlan
from harness.protocols import Estimate, Observation, PredictionStatus, Settings, Tuner, TuningProposal
from harness.schedulers.limits import LOWER, MOST_LIMITS, PlanLimit, plan_limits
from harness.schedulers.plan_costs import executors_moved, workers_restarted
from harness.schemas import LATENCIES, Measure
from harness.tuning.placement import Placement, deal_evenly


class PredictedPerformance(Frozen):
    """A model's view of a configuration at a rate.

    Attributes
    ----------
    model : str
    status : {"ok", "saturated", "declined"}
    reason : str
        Why there is no latency, or what the prediction leaves out; else empty.
    latency : str
        The measure that the latencies are of.
    mean_ms, low_ms, high_ms, p95_ms : float, optional
        Mean with the ends of its 90 % interval, and the 95th percentile.
    throughput_tps, max_sustainable_tps : float, optional
        Messages a second that come out, and the highest input rate that does not overload the plan.
    """

    model: str
    status: PredictionStatus
    reason: str = ""
    latency: str = LATENCIES[0]
    mean_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    p95_ms: float | None = None
    throughput_tps: float | None = None
    max_sustainable_tps: float | None = None


class PredictedProposal(Frozen):
    """A proposal and its predicted performance; None where the tuner declined.

    Attributes
    ----------
    proposal : TuningProposal
    predicted : PredictedPerformance, optional
    limits : tuple of PlanLimit
        Those first that are full first as the rate grows.
    executors_moved, workers_restarted : int, optional
        Beside the measured plan, where executors are placed as predicted.
    """

    proposal: TuningProposal
    predicted: PredictedPerformance | None = None
    limits: tuple[PlanLimit, ...] = ()
    executors_moved: int | None = None
    workers_restarted: int | None = None

    def as_json(self) -> dict[str, object]:
        """Return the proposal as ``harness tune --json`` and ``tuning.json`` have it."""
        said = self.proposal.model_dump(mode="json")
        decisions = said.pop("decisions")
        return {
            **said,
            "predicted": self.predicted.model_dump(mode="json") if self.predicted else None,
            "executors_moved": self.executors_moved,
            "workers_restarted": self.workers_restarted,
            "limits": [vars(limit) for limit in self.limits[:MOST_LIMITS]],
            "decisions": decisions,
        }


@dataclass(frozen=True)
class TuningTable:
    """A measured step, as it is and as tuners would have it, at one input rate.

    Attributes
    ----------
    source : Observation
    rate_tps : float
        Messages a second.
    place : Placement
        Where executors of a configuration would run.
    """

    source: Observation
    rate_tps: float
    place: Placement = deal_evenly

    def as_measured(self) -> PredictedPerformance:
        """Return the predicted performance of the measured step's own plan."""
        return self._predicted(self.source.plan, self.source.settings)[0]

    def propose(self, name: str, tuner: Tuner) -> PredictedProposal:
        """Return a tuner's proposal and its predicted performance; a tuner that crashes has declined.

        Raises
        ------
        UsageError
            When the tuner refuses one of its parameters.
        """
        proposal = self.ask(name, tuner)
        configuration = proposal.configuration if proposal.status == "ok" else None
        if configuration is None:
            return PredictedProposal(proposal=proposal)
        running = self.source.plan
        try:
            plan = self.place(running, configuration)
        except ModelDeclined as why:
            return PredictedProposal(proposal=proposal, predicted=_declined(why))
        predicted, limits = self._predicted(plan, replace(self.source.settings, batching=proposal.batching))
        return PredictedProposal(
            proposal=proposal,
            predicted=predicted,
            limits=limits,
            executors_moved=executors_moved(running, plan),
            workers_restarted=workers_restarted(running, plan),
        )

    def ask(self, name: str, tuner: Tuner) -> TuningProposal:
        """Return a tuner's proposal alone; a tuner that crashes has declined.

        Raises
        ------
        UsageError
            As ``propose``.
        """
        try:
            proposal = tuner.propose(self.source, self.rate_tps)
            if not isinstance(proposal, TuningProposal):
                raise TypeError(f"it answered {type(proposal).__name__}, not a TuningProposal")
        except UsageError:
            raise
        except HarnessError as why:
            return TuningProposal(tuner=name, status="declined", reason=str(why))
        except Exception as why:  # a user's tuner may raise anything
            reason = f"the tuner failed with {type(why).__name__}: {why}"
            return TuningProposal(tuner=name, status="declined", reason=reason)
        return proposal.model_copy(update={"tuner": name})

    def _predicted(
        self, plan: PhysicalPlan, settings: Settings
    ) -> tuple[PredictedPerformance, tuple[PlanLimit, ...]]:
        try:
            prepared: Prepared = composite.prepare(self.source)
        except ModelDeclined as why:
            return _declined(why), ()
        estimates = prepared.predict(plan, settings, self.rate_tps).estimates
        whole = performance(estimates, self.source.latencies)
        lower = prepared.cpu(plan, settings, LOWER * self.rate_tps).estimates
        return whole, plan_limits(plan, estimates, lower, self.source, self.rate_tps)


def _declined(why: ModelDeclined) -> PredictedPerformance:
    return PredictedPerformance(model="composite", status="declined", reason=str(why))


def performance(answered: Iterable[Estimate], latencies: Sequence[Measure]) -> PredictedPerformance:
    """Return a configuration's performance from the composite model's estimates.

    Parameters
    ----------
    answered : iterable of Estimate
        Those of parts of the topology are left out.
    latencies : sequence of Measure
        The first that the model answers is the performance's (``Observation.latencies``).
    """
    estimates = {(e.measure, e.statistic): e for e in answered if not e.subject}
    means = [e for measure in latencies if (e := estimates.get((measure, "mean")))]
    if not means:
        return PredictedPerformance(model="composite", status="declined", reason="no latency is predicted")
    mean = next((e for e in means if e.value is not None), means[0])

    def value(measure: str, statistic: str) -> float | None:
        estimate = estimates.get((measure, statistic))
        return None if estimate is None else estimate.value

    return PredictedPerformance(
        model="composite",
        status=mean.status,
        reason=mean.reason,
        latency=mean.measure,
        mean_ms=mean.value,
        low_ms=mean.low,
        high_ms=mean.high,
        p95_ms=value(mean.measure, "p95"),
        throughput_tps=value(Measure.THROUGHPUT, "mean"),
        max_sustainable_tps=value(Measure.SUSTAINABLE, "mean"),
    )
