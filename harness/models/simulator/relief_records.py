"""Records of helping and back-pressure: whose queues are watched, by which workers, and who speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import ModelDeclined
from harness.models.network import Network
from harness.models.simulator.kinds import (
    CARE,
    HEARD,
    NONE,
    WATCHED,
    WORKER,
    Counters,
    Floats,
    Records,
)


@dataclass(frozen=True)
class ReliefRecords:
    """The part of a world that relief comes of; attributes as in ``World``."""

    relief: Counters
    watched: Records
    cares: Records
    heard: Records
    workers: Records
    shares: Floats


def require_playable(network: Network) -> None:
    """Decline relief that is not played.

    Raises
    ------
    ModelDeclined
        Naming what stands beside it.
    """
    if not (network.relief.parts or network.most_pending):
        return
    if max(network.batch, network.transfer_batch) > 1:
        raise ModelDeclined(
            "helping, pauses and limits of pending messages beside Storm's batches are not played"
        )
    for helped, helper in network.helpers.items():
        if helper in network.windows:
            raise ModelDeclined(f"help of {helper}, which has windows, for {helped} is not played")
        if helped in network.layout.plan.query_plan.sinks:
            raise ModelDeclined(f"help for {helped}, behind which is nothing, is not played")


def relief_records(network: Network, help_inputs: Mapping[str, int]) -> ReliefRecords:
    """Make the records.

    Parameters
    ----------
    help_inputs : mapping of str to int
        By helped component: the input of a tuple that its helper serves.
    """
    layout, marks, helpers = network.layout, network.marks, network.helpers
    names, workers = list(marks), len(layout.workers)
    watched, shares = np.zeros(len(names), dtype=WATCHED), 0
    cares = np.zeros((workers, len(names)), dtype=CARE)
    heard = np.zeros((workers, len(names), workers), dtype=HEARD)
    heard["at"] = -np.inf
    records = np.zeros(workers, dtype=WORKER)
    records["said"] = -np.inf
    records["speaker"] = NONE
    for number, name in enumerate(names):
        record, mark = watched[number], marks[name]
        record["component"] = layout.order.index(name)
        record["high"], record["low"] = (
            pct / 100 * network.queue_room for pct in (mark.high_pct, mark.low_pct)
        )
        record["helper"] = record["input"] = NONE
        if name in helpers:
            record["helper"], record["input"] = names.index(helpers[name]), help_inputs[name]
            record["delta"], record["first_share"] = network.relief.helping[name].delta, shares
            shares += len(layout.tasks[helpers[name]])
        cares["here"][np.unique(layout.worker[layout.of[name]]), number] = 1
    if workers > 1:
        spoken = [e for name in names for e in range(*layout.of[name].indices(len(layout)))]
        for executor in sorted(spoken, key=lambda e: layout.executors[e].first_task, reverse=True):
            records["speaker"][layout.worker[executor]] = executor  # the lowest task's is the last
    return ReliefRecords(
        relief=np.array(
            [bool(names), network.relief.backpressure is not None, network.most_pending], dtype=np.int64
        ),
        watched=watched,
        cares=cares.ravel(),
        heard=heard.ravel(),
        workers=records,
        shares=np.zeros(shares),
    )
