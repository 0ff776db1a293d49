"""Run directories with plans alone: what the questions about plans need, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from made_records import interval, step_plan

from harness.plans import ACKER, Component, Executor, PhysicalPlan, QueryPlan, Stream, Worker, WorkerNode
from harness.runs import Run

EPOCH_MS = 1_700_000_000_000

# spout -> a -> sink, two tasks each; and spout -> sink by a stream of its own
PLAN = QueryPlan(
    name="small",
    components=(
        Component(name="spout", role="spout", tasks=2),
        Component(name="a", role="json", tasks=2),
        Component(name="sink", role="sender", tasks=2),
    ),
    streams=(
        Stream(source="spout", target="a", grouping="shuffle"),
        Stream(source="a", target="sink", grouping="fields"),
        Stream(source="spout", target="sink", grouping="all", stream="side"),
    ),
)


def placed(
    query_plan: QueryPlan, executors: int, nodes: int = 2, slots: int = 2, first: int = 0
) -> PhysicalPlan:
    """Deal executors round over the workers, an acker a worker first; ``first`` turns the round."""
    worker_nodes = tuple(
        WorkerNode(
            name=f"node-{i + 1}",
            address=f"127.0.0.{i + 2}",
            host="here",
            cores=2,
            slots=tuple(range(6700 + 100 * i, 6700 + 100 * i + slots)),
        )
        for i in range(nodes)
    )
    workers = [Worker(node=n.name, port=n.slots[s]) for s in range(slots) for n in worker_nodes]
    found: list[Executor] = []
    task = 1
    for name, tasks, count in [
        (ACKER, len(workers), len(workers)),
        *((c.name, c.tasks, min(executors, c.tasks)) for c in query_plan.components),
    ]:
        for i in range(count):
            last = task + tasks // count + (i < tasks % count) - 1
            worker = workers[(len(found) + first) % len(workers)]
            found.append(Executor(component=name, first_task=task, last_task=last, worker=worker))
            task = last + 1
    return PhysicalPlan(query_plan=query_plan, nodes=worker_nodes, executors=tuple(found))


def write_run(folder: Path, plans: Sequence[PhysicalPlan], name: str = "made") -> Run:
    """Write a run whose steps have these plans; the last step ends with another one than it began with."""
    run = Run.create(
        folder,
        name,
        {"experiment.yaml": "name: made\n"},
        {"started": "2026-01-02T03:04:05+00:00", "commit": "c"},
    )
    for index, plan in enumerate(plans):
        step = run.step_path(index)
        step.mkdir()
        end = plans[0] if index == len(plans) - 1 else plan
        (step / "plan.json").write_text(step_plan(plan, end=end).model_dump_json(indent=1))
        found = interval(
            step=index,
            configuration=f"spec-{index}",
            rate_tps=50,
            rebalance_start_ns=10**9,
            up_ns=2 * 10**9,
            start_ns=5 * 10**9,
            end_ns=9 * 10**9,
            settled_ns=None,
            drained_ns=None,
            done_ns=10 * 10**9,
            start_epoch_ms=EPOCH_MS,
            end_epoch_ms=EPOCH_MS + 4_000,
            half_width_ms=0.1,
            precision_pct_asked=3,
            precision_pct_reached=3,
            submission="first" if index == 0 else "rebalance",
        )
        (step / "interval.json").write_text(found.model_dump_json(indent=1))
    return run
