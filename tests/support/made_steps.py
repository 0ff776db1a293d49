"""What a campaign gathers in a step of the smallest topology, made by hand: a spout and a sender."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from harness.experiments import records
from harness.experiments.contracts import unplanned
from harness.experiments.loading import expand_steps, load
from harness.experiments.measuring import MachineSeen, MeasuredInterval
from harness.experiments.precision import look
from harness.experiments.recording import AttemptAsked, AttemptDrained, AttemptSettled, AttemptUp
from harness.experiments.schedule import BegunSchedule, Constant
from harness.experiments.steady import Steadiness
from harness.experiments.workload_tables import RECEIVED, SENT
from harness.plans import Component, Executor, PhysicalPlan, QueryPlan, Stream, Worker, WorkerNode
from harness.runs import BurnInFound

NS = 1_000_000_000
START_S, END_S = 20, 60
UNDISTURBED = MachineSeen(50.0, 0.0, clock_offset_start_ns=0, clock_offset_end_ns=0, came_up=())


def plan() -> PhysicalPlan:
    parts = tuple(Component(name=n, role=r, tasks=1) for n, r in (("spout", "spout"), ("sender", "sender")))
    query = QueryPlan(
        name="line", components=parts, streams=(Stream(source="spout", target="sender", grouping="shuffle"),)
    )
    node = WorkerNode(name="node-1", address="127.0.0.2", host="here", cores=2, slots=(6700,))
    worker = Worker(node="node-1", port=6700)
    executors = tuple(
        Executor(component=n, first_task=i, last_task=i, worker=worker)
        for i, n in ((1, "spout"), (2, "sender"))
    )
    return PhysicalPlan(query_plan=query, nodes=(node,), executors=executors)


def gathered(rate_tps: int, out_tps: int) -> records.GatheredStep:
    """A constant input, of which at most ``out_tps`` come out, in order, over 60 s and what is left after."""
    number = rate_tps * END_S
    scheduled = np.arange(number) * (NS // rate_tps)
    left = np.maximum(scheduled + NS // 100, np.arange(number) * (NS // out_tps) + NS // 100)
    columns = {
        "message_id": np.arange(number),
        "scheduled_ns": scheduled,
        "sent_ns": scheduled,
        "append_ms": scheduled // 1_000_000,
        "partition": np.arange(number) % 16,
        "offset": np.arange(number) // 16,
        "error": pa.nulls(number, pa.string()),
    }
    sent = pa.table([pa.array(columns[f.name], f.type) for f in SENT], schema=SENT)
    hops = [
        [
            {"task": 1, "received_ns": int(s), "emitted_ns": int(s)},
            {"task": 2, "received_ns": int(t), "emitted_ns": int(t)},
        ]
        for s, t in zip(scheduled, left, strict=True)
    ]
    rows = {
        "message_id": np.arange(number),
        "child": np.zeros(number),
        "entered_ns": scheduled,
        "left_ns": left,
        "thesis_entered_ns": scheduled,
        "append_ms": left // 1_000_000 + 1,
        "sink": ["sender"] * number,
        "record_path": ["spout:1/sender:2"] * number,
        "output_partition": np.arange(number) % 16,
        "output_offset": np.arange(number) // 16,
        "hops": hops,
    }
    received = pa.table([pa.array(rows[f.name], f.type) for f in RECEIVED], schema=RECEIVED)
    return records.GatheredStep(
        sent=sent,
        received=received,
        input_records=number,
        output_records=number,
        records_read=number,
        foreign_records=0,
        held=[],
        failed=[],
        errors=[],
        topics={"in": 0},
        due=BegunSchedule(Constant(rate_tps), skip=0, base_ns=0).due(START_S * NS, END_S * NS),
        expected=None,
    )


def measured(steady: bool) -> MeasuredInterval:
    none = np.empty(0)
    return MeasuredInterval(
        latency="ground-truth",
        start_ns=START_S * NS,
        end_ns=END_S * NS,
        start_epoch_ms=0,
        end_epoch_ms=1000 * (END_S - START_S),
        burn_in=BurnInFound(found=steady, seconds=20, reason="steady" if steady else "drift"),
        look=look(none, none, 0, END_S - START_S, precision_pct=5),
        looks=3,
        looks_planned=3,
        stop_reason="precision" if steady else "time-limit",
        steadiness=Steadiness(steady, True, 0.0 if steady else None, "steady" if steady else "drift"),
        complete_latency_ms={},
        machine=UNDISTURBED,
        disturbance="",
    )


def drained(when: MeasuredInterval) -> AttemptDrained:
    """The first attempt at a step whose plan was as asked and stayed, of which nothing is left."""
    experiment = load("quick")
    (step, *_) = expand_steps(experiment)
    asked = AttemptAsked(experiment, step, unplanned(step), plan().configuration(), first_ns=0, at_ns=0)
    up = AttemptUp(asked, "first", plan(), at_ns=0, at_epoch_ms=0)
    settled = AttemptSettled(up, when, plan(), at_ns=when.end_ns)
    return AttemptDrained(settled, left_before="", left="", at_ns=when.end_ns)
