"""Schedulers that a campaign must survive."""

from __future__ import annotations

from typing import Any

from harness.plans import Executor, PhysicalPlan, Worker
from harness.protocols import Proposal


class Raising:
    """Fails as code does."""

    def propose(self, *_: Any) -> Proposal:
        raise ZeroDivisionError("no executors at all")


class Listing:
    """Answers something else than a proposal."""

    def propose(self, *_: Any) -> Any:
        return ["node-1:6700"]


class Astray:
    """Puts every executor on a node that there is not."""

    def propose(self, query_plan: Any, configuration: Any, nodes: Any, source: Any = None) -> Proposal:
        assert source is not None
        there = Worker(node="node-9", port=1)
        executors = tuple(
            Executor(component=e.component, first_task=e.first_task, last_task=e.last_task, worker=there)
            for e in source.plan.executors
        )
        return Proposal(PhysicalPlan(query_plan=query_plan, nodes=nodes, executors=executors))
