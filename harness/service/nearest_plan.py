"""A client's plan for a submitted topology, predicted from the plan of those it ran with that is nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from harness.app.submitted.folder import SubmittedTopology
from harness.app.submitted.live_rows import LiveMetrics, LiveRows
from harness.app.submitted.observing import RowSpan, observe_span
from harness.errors import UsageError
from harness.plans import PhysicalPlan
from harness.protocols import Observation
from harness.schedulers.plan_distance import PlanDistance, PlanWanted, plan_distance
from harness.service.answers import ProposalAsked
from harness.service.live_topology import observe_of
from harness.service.placing import UnusablePlan, placed
from harness.service.proposals import predict_observed
from harness.service.questions import computing


@dataclass(frozen=True)
class ComparedPlan:
    """A plan that the topology ran with, and its distance from the client's.

    Attributes
    ----------
    plan : PhysicalPlan
    span : RowSpan, optional
        When; None where it is in force.
    distance : PlanDistance
    """

    plan: PhysicalPlan
    span: RowSpan | None
    distance: PlanDistance

    def as_json(self, considered: int) -> dict[str, object]:
        """Return it as an answer has it, with how many plans there were."""
        which = "the plan in force"
        if self.span is not None:
            ended = datetime.fromtimestamp(self.span.until_ms / 1e3, UTC)
            which = f"the plan that ran until {ended:%Y-%m-%dT%H:%M:%SZ}"
        return {
            "since_epoch_ms": None if self.span is None else self.span.since_ms,
            "until_epoch_ms": None if self.span is None else self.span.until_ms,
            "distance": self.distance.total,
            **asdict(self.distance),
            "why": f"{which} is the nearest of {considered} that have metrics ({self.distance.text})",
        }


def predict_nearest(
    topology: SubmittedTopology,
    metrics: LiveMetrics,
    live: LiveRows,
    running: PhysicalPlan | None,
    asked: ProposalAsked,
) -> dict[str, object]:
    """Predict a placement from the metrics of the nearest plan, beside the plan in force.

    Parameters
    ----------
    live : LiveRows
        Of the plan in force.
    running : PhysicalPlan, optional
        That plan, where it is not the kept one.

    Raises
    ------
    UnusablePlan
        When the placement is no plan of the topology as it runs.
    UsageError
        When nothing is emitted now.
    ClusterError
        When InfluxDB, or a Neo4j that is named, is away.
    """
    from harness.app.submitted.recorded_plans import recorded_plans  # noqa: PLC0415 (takes a second)

    with computing:
        now = observe_of(topology, live, running=running)
    known: list[tuple[PhysicalPlan, RowSpan | None]] = [(now.plan, None), *recorded_plans(topology)]
    ran = _by_distance(known, asked.placement or {})
    for rejected, one in enumerate(ran):
        source = now if one.span is None else _observed(topology, metrics, one.plan, one.span)
        if source is not None:
            with computing:
                answer = predict_observed(source, asked, now)
            return {"nearest": one.as_json(len(ran) - rejected), **answer}
    raise AssertionError("the plan in force is one of them")


def _by_distance(
    known: Sequence[tuple[PhysicalPlan, RowSpan | None]], placement: dict[str, str]
) -> list[ComparedPlan]:
    """Return the plans, nearest first, of those that are as near the later one; the first has to fit."""
    found = []
    for plan, span in known:
        try:
            wanted = PlanWanted(placed=placed(plan, placement))
        except UnusablePlan:
            if span is None:
                raise
            continue  # its tasks or slots were others
        found.append(ComparedPlan(plan, span, plan_distance(wanted, plan)))
    return sorted(found, key=lambda one: one.distance.total)


def _observed(
    topology: SubmittedTopology, metrics: LiveMetrics, plan: PhysicalPlan, span: RowSpan
) -> Observation | None:
    """Return the last minutes of a plan that ran; None where nothing of them is kept."""
    rows = metrics.before(topology, span)
    try:
        with computing:
            return observe_span(plan, topology.settings(), rows.table, rows.span)
    except UsageError:  # nothing was emitted, or the bucket has forgotten it
        return None
