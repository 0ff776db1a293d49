"""Executors from true rates in one pass: DS2.

Kalavri et al., *Three steps is all you need: fast, accurate, automatic scaling decisions for distributed
streaming dataflows* (OSDI 2018). A component's true processing rate is what it would process if it never
waited for input. The rule takes all executors of a component to have the same load, and rates to add up. So,
as the thesis remarks (3.2), the rule does not fit components that are fed by key; the record says so of each
such component.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from harness.protocols import Scalar, TuningDecision
from harness.tuning.bounds import bounded_by_tasks
from harness.tuning.dataflow import DataflowNode, producers_first

FORMULA = "p = ceil(sum of upstream true output rates at target / (u true_rate / p_now))"
EVEN = Fraction(5, 4)
"""The record has the remark where a component's busiest task gets more than so many times the mean."""


def scaled_executors(
    target_tps: Fraction, true_rate_tps: Fraction, executors: int, utilisation: Fraction = Fraction(1)
) -> int:
    """Return the executors that a component needs for a rate.

    Parameters
    ----------
    target_tps : Fraction
        Tuples that would arrive a second.
    true_rate_tps : Fraction
        Tuples a second that its executors of today would process if they never waited.
    executors : int
        As many as it has.
    utilisation : Fraction
        Share of time that an executor is to be busy. DS2 itself has 1; the tuner ``flink`` has 0.7.

    Examples
    --------
    >>> scaled_executors(Fraction(1000), Fraction(800), 2)
    3
    """
    return max(ceil(target_tps / (utilisation * true_rate_tps / executors)), 1)


@dataclass(frozen=True)
class ScaledDataflow:
    """Executors by component in the order of the decisions, a record of each, and the tuples that arrive."""

    executors: Mapping[str, int]
    decisions: tuple[TuningDecision, ...]
    target_tps: Mapping[str, Fraction]


def scale(nodes: Iterable[DataflowNode], utilisation: Fraction = Fraction(1)) -> ScaledDataflow:
    """Return the executors that all components need at the sources' rates, in one pass downstream.

    Sources keep their executors. Each component is taken to pass all on that arrives, however many
    executors it has now: that is what makes one pass enough.

    Raises
    ------
    CyclicDataflow
        When nodes feed one another in a circle.
    """
    order = producers_first(nodes)
    targets = {link.target for node in order for link in node.links}
    arriving = {node.name: node.rate_tps for node in order}
    executors: dict[str, int] = {}
    decisions: list[TuningDecision] = []
    for node in order:
        if node.name not in targets:
            executors[node.name] = node.executors
            values: dict[str, Scalar] = {"target_tps": float(node.rate_tps)}
            decisions.append(
                _record(node.name, "p given", values, node.executors, "A source keeps its executors.")
            )
        else:
            wanted = _wanted(node, arriving[node.name], utilisation)
            why = "So many executors process at their true rate what arrives."
            values = _values(node, arriving[node.name], utilisation)
            decisions.append(_record(node.name, FORMULA, values, wanted, why + _remark(node, order)))
            executors[node.name], bound = bounded_by_tasks(node.name, wanted, node.tasks)
            decisions += bound
        for link in node.links:
            arriving[link.target] += arriving[node.name] * link.fan_out
    return ScaledDataflow(executors, tuple(decisions), arriving)


def _wanted(node: DataflowNode, target_tps: Fraction, utilisation: Fraction) -> int:
    if not node.ppt_s:
        return 1
    return scaled_executors(target_tps, node.executors / node.ppt_s, node.executors, utilisation)


def _values(node: DataflowNode, target_tps: Fraction, utilisation: Fraction) -> dict[str, Scalar]:
    return {
        "target_tps": float(target_tps),
        "true_rate_tps": float(node.executors / node.ppt_s) if node.ppt_s else None,
        "p_now": node.executors,
        "u": float(utilisation),
        "ppt_from": node.ppt_origin,
    }


def _remark(node: DataflowNode, order: Iterable[DataflowNode]) -> str:
    """Return the thesis' remark where tuples reach a component's tasks unevenly; else nothing."""
    uneven = [
        max(link.key_shares) * len(link.key_shares)
        for producer in order
        for link in producer.links
        if link.target == node.name
    ]
    if max(uneven) <= EVEN:
        return ""
    times = float(max(uneven))
    return f" DS2 takes all tasks to get the same; here the busiest gets {times:.1f} times the mean."


def _record(name: str, formula: str, values: Mapping[str, Scalar], result: int, why: str) -> TuningDecision:
    return TuningDecision(node=name, formula=formula, values=values, result=result, why=why)
