"""A run's plans as rows, and the Cypher statements that write them; the graph of ``docs/plan-graph.md``.

Plans are named after their contents, so equal ones are one. Everything is merged: a statement that finds
its rows there changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from harness.plans import PhysicalPlan, QueryPlan, Window
from harness.runs import Run

GRAPH_VERSION = 1
"""Raised whenever a reader of the older graph would misread the newer one."""
LABELS = (
    "Topology",
    "QueryPlan",
    "Component",
    "LogicalPlan",
    "Executor",
    "PhysicalPlan",
    "WorkerNode",
    "Worker",
    "Experiment",
    "Run",
    "Step",
)
"""Kinds of nodes that have a unique ``id``."""


class RanPlan(NamedTuple):
    """A plan that a topology ran with.

    Attributes
    ----------
    at_epoch_ms : int
        Since when; until the next one's.
    seen : str
        How it came into force.
    plan : PhysicalPlan
    """

    at_epoch_ms: int
    seen: str
    plan: PhysicalPlan


Rows = Sequence[Mapping[str, object]]


def run_id(run: Run) -> str:
    """Return a run's name in the graph: ``experiment/start``."""
    return f"{run.path.parent.name}/{run.path.name}"


def fingerprint(run: Run) -> str:
    """Return a digest that tells runs of one name apart; resuming and archiving a run do not change it."""
    known = run.environment
    return _digest([known.get("started"), known.get("commit"), known.get("machine")])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def step_statements(run: Run, step: int) -> Iterator[tuple[str, Rows]]:
    """Yield Cypher statements and their rows, which write all the plans of a step; each takes ``$rows``."""
    plans, interval = run.plan(step), run.interval(step)
    written: dict[str, str] = {}
    for end, plan in (("STARTED_WITH", plans.start), ("ENDED_WITH", plans.end)):
        written[end] = physical_plan_id(plan)
        if end == "STARTED_WITH" or written[end] != written["STARTED_WITH"]:
            yield from _plan_statements(plan, written[end])
    name = run_id(run)
    row = {
        "experiment": run.path.parent.name,
        "run": name,
        "started": run.environment.get("started", ""),
        "fingerprint": fingerprint(run),
        "id": f"{name}/{step:02d}",
        "step": step,
        "configuration": interval.configuration,
        "rate_tps": interval.rate_tps,
        "start_epoch_ms": interval.start_epoch_ms,
        "end_epoch_ms": interval.end_epoch_ms,
        "start_plan": written["STARTED_WITH"],
        "end_plan": written["ENDED_WITH"],
    }
    yield _STEP, [row]


_STEP = """
    UNWIND $rows AS row
    MERGE (x:Experiment {id: row.experiment})
    MERGE (r:Run {id: row.run}) ON CREATE SET r.started = row.started, r.fingerprint = row.fingerprint
    MERGE (s:Step {id: row.id}) ON CREATE SET s.step = row.step, s.configuration = row.configuration,
        s.rate_tps = row.rate_tps, s.start_epoch_ms = row.start_epoch_ms, s.end_epoch_ms = row.end_epoch_ms
    MERGE (x)-[:RUN]->(r)
    MERGE (r)-[:STEP]->(s)
    WITH row, s
    MATCH (p:PhysicalPlan {id: row.start_plan}), (q:PhysicalPlan {id: row.end_plan})
    MERGE (s)-[:STARTED_WITH]->(p)
    MERGE (s)-[:ENDED_WITH]->(q)
"""


def ran_statements(ran: RanPlan, topology: str, nimbus: str) -> Iterator[tuple[str, Rows]]:
    """Yield the statements that write a plan of a topology that no run measured, and since when it ran."""
    physical = physical_plan_id(ran.plan)
    yield from _plan_statements(ran.plan, physical)
    row = {"topology": topology, "nimbus": nimbus, "plan": physical}
    yield _RAN, [{**row, "at_epoch_ms": ran.at_epoch_ms, "seen": ran.seen}]


_RAN = """
    UNWIND $rows AS row
    MERGE (t:Topology {id: row.topology})
    WITH row, t
    MATCH (p:PhysicalPlan {id: row.plan})
    MERGE (t)-[r:RAN {nimbus: row.nimbus, at_epoch_ms: row.at_epoch_ms}]->(p) ON CREATE SET r.seen = row.seen
"""


def query_plan_id(plan: QueryPlan) -> str:
    """Return the name that a query plan has by its contents."""
    return _digest(plan.model_dump(mode="json"))


def physical_plan_id(plan: PhysicalPlan) -> str:
    """Return the name that a plan has by its contents."""
    ordered = sorted(plan.executors, key=lambda e: e.first_task)
    return _digest(plan.model_copy(update={"executors": tuple(ordered)}).model_dump(mode="json"))


def _plan_statements(plan: PhysicalPlan, physical: str) -> Iterator[tuple[str, Rows]]:
    query = query_plan_id(plan.query_plan)
    logical = _digest([query, sorted(e.label for e in plan.executors)])
    yield from _query_plan_statements(plan.query_plan, query)
    yield _LOGICAL_PLAN, [{"id": logical, "query_plan": query}]
    components = {c.name for c in plan.query_plan.components}
    executors = [
        {
            "id": f"{logical}/{e.label}",
            "plan": logical,
            "label": e.label,
            "component": e.component,
            "first_task": e.first_task,
            "last_task": e.last_task,
            "of": f"{query}/{e.component}" if e.component in components else None,
        }
        for e in plan.executors
    ]
    yield _EXECUTORS, executors
    yield _EXECUTORS_OF, [row for row in executors if row["of"] is not None]
    yield (
        _CONNECTS,
        [
            {
                "source": f"{logical}/{a.label}",
                "target": f"{logical}/{b.label}",
                "stream": stream.stream,
                "label": stream.label,
                "grouping": stream.grouping,
            }
            for stream, a, b in plan.connections()
        ],
    )
    yield _PHYSICAL_PLAN, [{"id": physical, "logical_plan": logical}]
    yield (
        _WORKER_NODES,
        [
            {
                "id": f"{physical}/{n.name}",
                "plan": physical,
                "properties": {
                    k: v for k, v in n.model_dump(mode="json").items() if k != "slots" and v is not None
                },
                "slots": list(n.slots),
            }
            for n in plan.nodes
        ],
    )
    yield (
        _WORKERS,
        [
            {
                "id": f"{physical}/{w.label}",
                "plan": physical,
                "on": f"{physical}/{w.node}",
                "label": w.label,
                "node": w.node,
                "port": w.port,
            }
            for w in plan.workers
        ],
    )
    yield (
        _RUNS,
        [
            {"worker": f"{physical}/{e.worker.label}", "executor": f"{logical}/{e.label}"}
            for e in plan.executors
        ],
    )


def _query_plan_statements(plan: QueryPlan, query: str) -> Iterator[tuple[str, Rows]]:
    yield _QUERY_PLAN, [{"id": query, "topology": plan.name}]
    yield (
        _COMPONENTS,
        [
            {
                "id": f"{query}/{c.name}",
                "plan": query,
                "properties": {"name": c.name, "role": c.role, "tasks": c.tasks, **_window(c.window)},
            }
            for c in plan.components
        ],
    )
    yield (
        _STREAMS,
        [
            {
                "source": f"{query}/{s.source}",
                "target": f"{query}/{s.target}",
                "stream": s.stream,
                "grouping": s.grouping,
            }
            for s in plan.streams
        ],
    )


def _window(window: Window | None) -> Mapping[str, object]:
    if window is None:
        return {}
    return {"window_kind": window.kind, "window_length": window.length, "window_slide": window.slide}


_QUERY_PLAN = """
    UNWIND $rows AS row
    MERGE (t:Topology {id: row.topology})
    MERGE (q:QueryPlan {id: row.id})
    MERGE (q)-[:OF]->(t)
"""
_COMPONENTS = """
    UNWIND $rows AS row
    MATCH (q:QueryPlan {id: row.plan})
    MERGE (c:Component {id: row.id}) ON CREATE SET c += row.properties
    MERGE (q)-[:HAS]->(c)
"""
_STREAMS = """
    UNWIND $rows AS row
    MATCH (a:Component {id: row.source}), (b:Component {id: row.target})
    MERGE (a)-[s:STREAM {stream: row.stream}]->(b) ON CREATE SET s.grouping = row.grouping
"""
_LOGICAL_PLAN = """
    UNWIND $rows AS row
    MATCH (q:QueryPlan {id: row.query_plan})
    MERGE (l:LogicalPlan {id: row.id})
    MERGE (l)-[:REALISES]->(q)
"""
_EXECUTORS = """
    UNWIND $rows AS row
    MATCH (l:LogicalPlan {id: row.plan})
    MERGE (e:Executor {id: row.id}) ON CREATE SET e.label = row.label, e.component = row.component,
        e.first_task = row.first_task, e.last_task = row.last_task
    MERGE (l)-[:HAS]->(e)
"""
_EXECUTORS_OF = """
    UNWIND $rows AS row
    MATCH (e:Executor {id: row.id}), (c:Component {id: row.of})
    MERGE (e)-[:OF]->(c)
"""
_CONNECTS = """
    UNWIND $rows AS row
    MATCH (a:Executor {id: row.source}), (b:Executor {id: row.target})
    MERGE (a)-[s:SENDS {stream: row.stream}]->(b)
        ON CREATE SET s.grouping = row.grouping, s.label = row.label
"""
_PHYSICAL_PLAN = """
    UNWIND $rows AS row
    MATCH (l:LogicalPlan {id: row.logical_plan})
    MERGE (p:PhysicalPlan {id: row.id})
    MERGE (p)-[:PLACES]->(l)
"""
_WORKER_NODES = """
    UNWIND $rows AS row
    MATCH (p:PhysicalPlan {id: row.plan})
    MERGE (n:WorkerNode {id: row.id}) ON CREATE SET n += row.properties, n.slots = row.slots
    MERGE (p)-[:HAS]->(n)
"""
_WORKERS = """
    UNWIND $rows AS row
    MATCH (p:PhysicalPlan {id: row.plan}), (n:WorkerNode {id: row.on})
    MERGE (w:Worker {id: row.id}) ON CREATE SET w.label = row.label, w.node = row.node, w.port = row.port
    MERGE (p)-[:USES]->(w)
    MERGE (w)-[:ON]->(n)
"""
_RUNS = """
    UNWIND $rows AS row
    MATCH (w:Worker {id: row.worker}), (e:Executor {id: row.executor})
    MERGE (w)-[:RUNS]->(e)
"""
