"""Decision on a period of a step whose key groups move while messages flow."""

from __future__ import annotations

from harness.errors import UsageError
from harness.experiments.adapted_periods import AskedChange, PeriodDecision, components_of
from harness.experiments.adapting import PeriodSeen
from harness.experiments.key_group_moves import moved_groups
from harness.experiments.step_settings import AdaptSpec, AskedPlugIn, plug_in_name
from harness.protocols import Observation, Resource
from harness.schedulers import make_scheduler
from harness.schedulers.collocation import collocation_factor
from harness.schedulers.groups import SendingGroups
from harness.schedulers.key_groups import GroupMover, read_key_groups
from harness.schedulers.loads import IntArray
from harness.schedulers.migration_costs import MadeMove
from harness.schedulers.plan_costs import PlanCosts, improvement, no_improvement


def key_group_mover(asked: AskedPlugIn) -> GroupMover:
    """Return a scheduler that moves key groups.

    Raises
    ------
    UsageError
        When it moves executors only, or evens out another resource than CPU.
    """
    scheduler = make_scheduler(asked)
    if not isinstance(scheduler, GroupMover):
        name = plug_in_name(asked, "a scheduler")
        raise UsageError(
            f"adapt.moves: {name} moves executors, no key groups", "name balance, albic, flux or cola"
        )
    if (resource := scheduler.terms().resource) is not Resource.CPU:
        raise UsageError(
            f"adapt.scheduler: resource {resource}: the loads of key groups are of the CPU", "leave it out"
        )
    return scheduler


def decide_key_groups(
    asked: AdaptSpec, mover: GroupMover, seen: PeriodSeen, source: Observation
) -> PeriodDecision:
    """Ask a scheduler where key groups should be, and move them where that is better by enough.

    Raises
    ------
    SchedulerDeclined
        When the scheduler has no allocation, or nothing says the groups' loads.
    """
    made = [MadeMove(m.state_bytes, m.pause_ms / 1e3) for m in moved_groups(seen.metrics)]
    groups = read_key_groups(source, seen.tables, mover.terms(), made)
    sending, problem = groups.sending, groups.sending.problem
    allocation, notes = mover.move_groups(sending)
    problem.require_feasible(allocation)
    now, then = (_costs(sending, each) for each in (problem.allocation, allocation))
    figures = now.moves | {"load_distance_pct": problem.load_distance(problem.allocation)}
    if sending.traffic_tps.any():
        figures["collocation_factor"] = collocation_factor(sending.traffic_tps, problem.allocation)
    tables, said = groups.tables_of(allocation), "; ".join((*notes, *groups.notes))
    if tables == seen.tables:
        return PeriodDecision("stays", f"every key group stays; {said}", None, figures)
    gain = improvement(now, then, asked.improvement_pct)
    if not gain:
        return PeriodDecision("stays", no_improvement(asked.improvement_pct), None, figures)
    change = AskedChange(components_of(seen.plan), tables=tables)
    return PeriodDecision("applied", f"{gain}; {said}", change, figures)


def _costs(sending: SendingGroups, allocation: IntArray) -> PlanCosts:
    """Return traffic and load of an allocation of key groups, for which no executor moves."""
    staying = collocation_factor(sending.traffic_tps, allocation)
    return PlanCosts(
        between_workers_tps=None,
        between_nodes_tps=float(sending.traffic_tps.sum()) * (1 - staying),
        load_distance_pct=sending.problem.load_distance(allocation),
        executors_moved=0,
        workers_restarted=0,
    )
