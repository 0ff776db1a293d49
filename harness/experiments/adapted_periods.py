"""Periods of a step that adapts: decisions, their effect on messages, and the judgement of the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.experiments.key_group_moves import MovedGroup
from harness.experiments.live_batches import ReportedSizes, sizes_text
from harness.experiments.planned_rates import PlannedRate
from harness.plans import (
    AskedPlacement,
    Batching,
    BatchSize,
    PhysicalPlan,
    RoutingTables,
    TopologyConfiguration,
    WorkerNode,
)
from harness.quality import Adaptation, Finding, Ledger
from harness.schemas import ADAPTATION

TimesNs = npt.NDArray[np.int64]

APPLY_MOST_S = 60.0
"""Longest time that a plan may take until it is in force."""
AROUND_S = 5.0
"""A message is a decision's if it was due from so much before the decision was asked for to so much after it
was in force. The message was in a worker that ended, or on its way to one that began."""
MOST_UNEXPLAINED_SHARE = 0.001
"""Share of the messages sent that may be lost or repeated with no restart near them."""
ADAPTED = dict.fromkeys(
    ("plan-unchanged", "steady", "burn-in", "precision", "ledger", "samples", "backlog"),
    "the step adapts its plan while it is measured",
)
"""Checks that a step which adapts has not; its own are ``plan-as-decided`` and ``losses-explained``."""

Decision = Literal["applied", "stays", "declined"]


class AskedChange(NamedTuple):
    """A change that the cluster is asked for.

    Attributes
    ----------
    configuration : TopologyConfiguration
        Executors of the query plan's components, and workers.
    placement : AskedPlacement, optional
        None leaves executors to Storm's own scheduler.
    batching : mapping of str to BatchSize, optional
        Sizes of all streams that may be batched, by ``component:stream``; None where they stay.
    tables : mapping of str to tuple of int, optional
        Routing tables of all components with key groups; None where the groups stay.
    """

    configuration: TopologyConfiguration
    placement: AskedPlacement | None = None
    batching: Batching | None = None
    tables: RoutingTables | None = None

    @property
    def live(self) -> bool:
        """True where batch sizes or key groups change: only a fresh submission has the first ones again."""
        return self.batching is not None or self.tables is not None

    @classmethod
    def pinned(cls, plan: PhysicalPlan, by: str, step: int) -> AskedChange:
        """Return the change to a plan that a scheduler made of a step's period, executor by executor."""
        workers = {e.label: e.worker.label for e in plan.executors}
        return cls(components_of(plan), AskedPlacement(by=by, source=step, workers=workers))


class NodeChange(NamedTuple):
    """A change of the worker nodes that a period decides on, by their names.

    Attributes
    ----------
    added : tuple of str
        Nodes that are started before the plan is applied.
    marked : tuple of str
        Nodes from which executors are to go, and to which none comes.
    unmarked : tuple of str
        Nodes that were marked and stay after all.
    removed : tuple of str
        Nodes that were marked and are empty: their supervisors are ended.
    """

    added: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    unmarked: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class PeriodDecision(NamedTuple):
    """Decision on a period.

    Attributes
    ----------
    decision : {"applied", "stays", "declined"}
        Whether another plan is to be applied.
    reason : str
    change : AskedChange, optional
        The plan to be applied.
    figures : mapping of str to float
        Of the plan that was in force: columns of ``adaptation.parquet``.
    nodes : NodeChange
    bottleneck : str
        The resource that was used most; empty where nothing says it.
    planned : PlannedRate, optional
        The rate that the plan was made for; None where nobody was asked for one.
    """

    decision: Decision
    reason: str
    change: AskedChange | None
    figures: dict[str, float]
    nodes: NodeChange = NodeChange()
    bottleneck: str = ""
    planned: PlannedRate | None = None

    def unchanged(self, why: str) -> PeriodDecision:
        """Return the decision with nothing to be done, for a reason that goes before its own."""
        reason = f"{why}: {self.reason}"
        return self._replace(decision="stays", reason=reason, change=None, nodes=NodeChange())


NO_PLAN = TopologyConfiguration(executors={}, workers=1)
"""Stands for a configuration that nobody has read."""


class AdaptedMessages(NamedTuple):
    """Times of a step's messages on the monotonic clock.

    Attributes
    ----------
    lost_ns : ndarray of int64
        When the messages were due that did not come out.
    twice_ns : ndarray of int64
        When those were due of which a member came out twice.
    due_ns, left_ns : ndarray of int64
        Of each output: when its message was due, -1 for one of an earlier step; and when it left.
    """

    lost_ns: TimesNs
    twice_ns: TimesNs
    due_ns: TimesNs
    left_ns: TimesNs

    @classmethod
    def of(cls, sent: pa.Table, received: pa.Table) -> AdaptedMessages:
        """Return the times in a step's tables (``harness.experiments.workload_tables``)."""
        good = sent.filter(pc.is_null(sent["error"]))
        ids, scheduled_ns = good["message_id"].to_numpy(), good["scheduled_ns"].to_numpy()
        missing = ~np.isin(ids, received["message_id"].to_numpy())
        members = received.group_by(["message_id", "child", "sink"]).aggregate([([], "count_all")])
        twice = members.filter(pc.greater(members["count_all"], 1))["message_id"].to_numpy()
        known = dict(zip(sent["message_id"].to_pylist(), sent["scheduled_ns"].to_pylist(), strict=True))
        due_ns = np.array([known.get(i, -1) for i in received["message_id"].to_pylist()], dtype=np.int64)
        lost_ns, twice_ns = scheduled_ns[missing], scheduled_ns[np.isin(ids, twice)]
        return cls(lost_ns, twice_ns, due_ns, received["left_ns"].to_numpy())

    def seconds_over(self, target_ms: float, first_ns: int, start_ns: int, end_ns: int) -> int:
        """Count the seconds whose messages have a 95th percentile of the latency above a target.

        A second has the messages that were due in it, with their latency since then. One that was lost is
        above every target.

        Parameters
        ----------
        first_ns : int
            From which seconds are counted.
        start_ns, end_ns : int
            The seconds that begin in this span are counted.
        """
        at_ns = np.concatenate((self.due_ns, self.lost_ns))
        latency_ms = np.concatenate(((self.left_ns - self.due_ns) / 1e6, np.full(self.lost_ns.size, np.inf)))
        second = (at_ns - first_ns) // 1_000_000_000
        since, until = (-((first_ns - t) // 1_000_000_000) for t in (start_ns, end_ns))
        inside = (second >= since) & (second < until) & (at_ns >= 0)
        order = np.lexsort((latency_ms[inside], second[inside]))
        second, latency_ms = second[inside][order], latency_ms[inside][order]
        begins = np.flatnonzero(np.diff(second, prepend=second[:1] - 1))
        sizes = np.diff(np.append(begins, second.size))
        # the least value that at least 95 % are not above: no mean with a lost message's infinity
        ranks = begins + np.ceil(0.95 * sizes).astype(np.int64) - 1
        return int((latency_ms[ranks] > target_ms).sum())


@dataclass
class AdaptedPeriod:
    """A period and what was decided at its end; times of the monotonic clock."""

    start_ns: int
    end_ns: int
    decided: PeriodDecision
    asked_ns: int = 0
    in_force_ns: int = 0
    rate_tps: float = 0.0
    """Messages a second that were due."""
    configuration: TopologyConfiguration = NO_PLAN
    """In force at its end, before anything is changed."""
    nodes: tuple[WorkerNode, ...] = ()
    """Worker nodes that Nimbus knew then."""
    marked: tuple[str, ...] = ()
    """Those that are marked for removal when the decision is carried out."""
    batches: ReportedSizes = field(default_factory=dict)
    """Batch sizes that tasks reported last by its end, of streams that may be batched."""
    moved: tuple[MovedGroup, ...] = ()
    """Key groups that came to other tasks by the decision."""

    @property
    def applied(self) -> bool:
        """True where a change was asked for."""
        return self.asked is not None

    @property
    def asked(self) -> AskedChange | None:
        """The change that was asked for at its end; None where there was none."""
        return self.decided.change if self.asked_ns else None

    @property
    def asked_batches(self) -> Batching | None:
        """The batch sizes that were asked for at its end; None where they stayed."""
        return self.asked.batching if self.asked else None

    @property
    def restarted(self) -> bool:
        """True where another plan was asked for: batch sizes and key groups change without a restart."""
        if self.asked is None:
            return False
        return self.asked.placement is not None or self.asked.configuration != self.configuration

    def explains(self, astray_ns: TimesNs, waited_ns: int) -> npt.NDArray[np.bool_]:
        """Return which lost or repeated messages are the decision's: those near a restart of workers.

        Parameters
        ----------
        astray_ns : ndarray of int64
            When they were due.
        waited_ns : int
            How long messages were on their way when the change was asked for.
        """
        return self.near(astray_ns, waited_ns) & self.restarted

    def near(self, at_ns: TimesNs, waited_ns: int = 0) -> npt.NDArray[np.bool_]:
        """Return which times are near the change; none where no change was asked for."""
        if not self.applied:
            return np.zeros(at_ns.size, dtype=bool)
        around_ns = round(AROUND_S * 1e9)
        since_ns = self.asked_ns - around_ns - waited_ns
        until_ns = self.in_force_ns or self.asked_ns + round(APPLY_MOST_S * 1e9)
        return np.asarray((at_ns >= since_ns) & (at_ns <= until_ns + around_ns))

    def waited_ns(self, outputs: AdaptedMessages) -> int:
        """Return the longest way of the messages that came out just before the change was asked for.

        As long ago was the oldest message due that was in a worker then: queues keep their order.
        """
        since_ns, left_ns = self.asked_ns - round(AROUND_S * 1e9), outputs.left_ns
        before = (left_ns >= since_ns) & (left_ns <= self.asked_ns) & (outputs.due_ns >= 0)
        return int((left_ns - outputs.due_ns)[before].max(initial=0))


def components_of(plan: PhysicalPlan) -> TopologyConfiguration:
    """Return a plan's executors of the query plan's components, without Storm's own, and its workers."""
    if not plan.executors:
        return NO_PLAN
    found = plan.configuration()
    counts = {c.name: found.executors[c.name] for c in plan.query_plan.components}
    return TopologyConfiguration(executors=counts, workers=found.workers)


def nodes_of(periods: Sequence[AdaptedPeriod], *plans: PhysicalPlan) -> tuple[WorkerNode, ...]:
    """Return the worker nodes that were there in any period, or are in a plan."""
    found = [node for p in periods for node in p.nodes] + [node for plan in plans for node in plan.nodes]
    return tuple({node.name: node for node in found}.values())


def adaptation_table(
    periods: Sequence[AdaptedPeriod], sent: pa.Table, received: pa.Table, target_p95_ms: float | None = None
) -> pa.Table:
    """Return ``adaptation.parquet``: a row a period, with the effect of its decision on messages.

    Parameters
    ----------
    periods : sequence of AdaptedPeriod
    sent, received : Table
        ``harness.experiments.workload_tables``, when all has come out.
    target_p95_ms : float, optional
        For which the seconds above it are counted.
    """
    times = AdaptedMessages.of(sent, received)
    left_ns, came_ns, due_ns = np.sort(times.left_ns), times.left_ns, times.due_ns
    lost, repeated = (
        _decisions_of(periods, astray_ns, times) for astray_ns in (times.lost_ns, times.twice_ns)
    )
    rows = []
    for number, p in enumerate(periods):
        inside = (came_ns >= p.start_ns) & (came_ns < p.end_ns) & (due_ns >= 0)
        latency_ms = (came_ns[inside] - due_ns[inside]) / 1e6
        first = p.decided
        span = periods[0].start_ns, p.start_ns, p.end_ns
        rows.append(
            {
                "period": number,
                "start_ns": p.start_ns,
                "end_ns": p.end_ns,
                "decision": first.decision,
                "reason": first.reason,
                "asked_ns": p.asked_ns or None,
                "in_force_ns": p.in_force_ns or None,
                "restarted": p.restarted,
                "pause_ms": _pause_ms(p, left_ns),
                "lost": int((lost == number).sum()),
                "repeated": int((repeated == number).sum()),
                "latency_mean_ms": float(latency_ms.mean()) if latency_ms.size else None,
                "latency_p95_ms": float(np.quantile(latency_ms, 0.95)) if latency_ms.size else None,
                "rate_tps": p.rate_tps,
                **(first.planned.columns if first.planned else {}),
                "executors": sum(p.configuration.executors.values()) or None,
                "workers": p.configuration.workers if p.configuration.executors else None,
                "nodes": len(p.nodes) or None,
                "nodes_added": list(first.nodes.added),
                "nodes_removed": list(first.nodes.removed),
                "nodes_marked": list(p.marked),
                "batches": sizes_text(p.batches),
                "batches_asked": None if p.asked_batches is None else sizes_text(p.asked_batches),
                "bottleneck": first.bottleneck or None,
                "groups_moved": len(p.moved) or None,
                "moved_state_bytes": sum(m.state_bytes for m in p.moved) if p.moved else None,
                "group_pause_ms": max((m.pause_ms for m in p.moved), default=None),
                "over_target_s": None if target_p95_ms is None else times.seconds_over(target_p95_ms, *span),
                **first.figures,
            }
        )
    return pa.Table.from_pylist(rows, ADAPTATION)


def _decisions_of(
    periods: Sequence[AdaptedPeriod], astray_ns: TimesNs, times: AdaptedMessages
) -> npt.NDArray[np.intp]:
    """Return whose decision lost or repeated each message: the last one that explains it; -1 for none's."""
    found = np.full(astray_ns.size, -1)
    for number, p in enumerate(periods):
        if p.applied and astray_ns.size:
            found[p.explains(astray_ns, p.waited_ns(times))] = number
    return found


def _pause_ms(period: AdaptedPeriod, left_ns: TimesNs) -> float | None:
    """Return the longest time without an output around a decision; None where nothing was asked for."""
    near = left_ns[period.near(left_ns)]
    return float(np.diff(near).max() / 1e6) if near.size > 1 else None


def _nodes_not_as_decided(periods: Sequence[AdaptedPeriod]) -> str:
    """Return the first period whose worker nodes are not those of before with its change; empty for none."""
    for number, (p, after) in enumerate(pairwise(periods), start=1):
        change = p.decided.nodes
        wanted = {n.name for n in p.nodes} - set(change.removed) | set(change.added)
        found = {n.name for n in after.nodes}
        if wanted != found:
            words = (", ".join(sorted(names)) or "none" for names in (wanted, found))
            return "in period {} nodes {} were decided on and {} were there".format(number, *words)
    return ""


def _batches_not_as_decided(periods: Sequence[AdaptedPeriod]) -> str:
    """Return the first period whose batch sizes are not those asked for last; empty for none."""
    asked: dict[str, tuple[BatchSize, ...]] = {}
    for number, p in enumerate(periods):
        others = {name: size for name, size in asked.items() if p.batches.get(name) != size}
        if others:
            found = {name: p.batches[name] for name in others if name in p.batches}
            words = (", ".join(sizes_text(sizes)) or "none" for sizes in (others, found))
            return "in period {} batches {} were decided on and {} were in force".format(number, *words)
        asked = asked if p.asked_batches is None else {n: (size,) for n, size in p.asked_batches.items()}
    return ""


def judged_adaptation(
    ledger: Ledger | None, periods: Sequence[AdaptedPeriod], sent: pa.Table, received: pa.Table
) -> Adaptation:
    """Judge a step that adapts, in place of the checks ``ADAPTED``.

    Plans, nodes and batch sizes are as decided, and losses and repetitions are explained by decisions.
    """
    balanced = ledger is not None and ledger.balanced
    applied = [p for p in periods if p.applied]
    late = [str(i) for i, p in enumerate(periods) if p.applied and not p.in_force_ns]
    others = "; ".join(filter(None, (_nodes_not_as_decided(periods), _batches_not_as_decided(periods))))
    times = AdaptedMessages.of(sent, received)
    unexplained = [
        int((_decisions_of(periods, astray_ns, times) < 0).sum())
        for astray_ns in (times.lost_ns, times.twice_ns)
    ]
    text = (
        f"of {sent.num_rows} messages {times.lost_ns.size} lost and {times.twice_ns.size} repeated,"
        f" {unexplained[0]} and {unexplained[1]} of them with no restart near"
    )
    held = 0 if ledger is None else ledger.absorbed  # by windows: they are not lost
    unexplained[0] = max(unexplained[0] - held, 0)
    ok = balanced and sum(unexplained) <= MOST_UNEXPLAINED_SHARE * sent.num_rows
    return Adaptation(
        periods=len(periods),
        applied=len(applied),
        plan_as_decided=Finding(
            ok=not late and not others,
            detail=f"{len(applied)} changes applied in {len(periods)} periods"
            + (f"; not in force after {APPLY_MOST_S:g} s in period {', '.join(late)}" if late else "")
            + (f"; {others}" if others else ""),
        ),
        losses_explained=Finding(ok=ok, detail=text + ("" if balanced else "; the ledger does not add up")),
    )
