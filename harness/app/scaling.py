"""Decision on a period of a step whose worker nodes come and go."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from harness.errors import SchedulerDeclined
from harness.experiments.adapted_periods import AskedChange, NodeChange, PeriodDecision
from harness.experiments.adapting import PeriodSeen
from harness.experiments.config import Experiment
from harness.experiments.step_settings import AdaptSpec
from harness.protocols import NodeAmounts, Observation, Resource
from harness.schedulers import make_scheduler
from harness.schedulers.plan_costs import cost_plan, improvement, no_improvement
from harness.schedulers.scaling import ScaledNodes, ScaleLimits, plan_period


def amounts_of(experiment: Experiment, asked: AdaptSpec) -> NodeAmounts:
    """Return the amounts of resources that a step that adapts has on each node."""
    heap_mb, link_bytes_s = experiment.worker_heap_mb, asked.scaling.link_bytes_s
    return NodeAmounts(worker_heap_mb=heap_mb, link_bytes_s=link_bytes_s)


def decide_scaled(
    experiment: Experiment,
    asked: AdaptSpec,
    seen: PeriodSeen,
    source: Observation,
    most_used: Resource | None,
) -> PeriodDecision:
    """Ask a scheduler for a plan on as many nodes as its potential plan says that it takes.

    A plan that takes executors to nodes that came, or from nodes that are to leave, is applied in any case.

    Parameters
    ----------
    most_used : Resource, optional
        The period's bottleneck; None where no metrics say it.

    Raises
    ------
    SchedulerDeclined
        When the scheduler has no plan, or one that cannot be had, or nothing says how much is used.
    """
    if asked.nodes is None or asked.scheduler is None or most_used is None:
        raise SchedulerDeclined("no metrics say how much of any resource is used")
    limits = ScaleLimits(asked.scaling.out_pct, asked.scaling.in_pct, *asked.nodes)
    workers_a_node = ceil(seen.step.configuration.workers / experiment.cluster.nodes)
    nodes = ScaledNodes(seen.nodes.there, seen.nodes.marked, seen.nodes.spare, workers_a_node)
    scheduler, amounts = make_scheduler(asked.scheduler), amounts_of(experiment, asked)
    planned = plan_period(scheduler, source, nodes, limits, most_used, amounts)
    plan, scaling, distances = planned.proposal.plan, planned.scaling, planned.load_distance_pct
    now, then = (
        replace(cost_plan(of, source), load_distance_pct=distance)  # of the bottleneck
        for of, distance in zip((seen.plan, plan), distances, strict=True)
    )
    figures = then.moves | {"load_distance_pct": distances[0]}
    change = NodeChange(scaling.added, scaling.marked, scaling.unmarked, planned.ended)
    gain = improvement(now, then, asked.improvement_pct)
    low = no_improvement(asked.improvement_pct)
    drained = "executors leave a node that is to go" if planned.drains else ""
    ended = f"{', '.join(planned.ended)} is empty and ends" if planned.ended else ""
    why = "; ".join(filter(None, [ended, scaling.reason, drained or gain or low]))
    if not then.executors_moved or not (scaling.changes or drained or gain):
        return PeriodDecision("stays", why, None, figures, change)
    return PeriodDecision(
        "applied", why, AskedChange.pinned(plan, asked.by, seen.step.index), figures, change
    )
