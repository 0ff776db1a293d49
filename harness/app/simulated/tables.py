"""A played step as generator and receiver would hand it over: what was sent, what came out, what is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from harness.app.simulated.networks import SEND_MS
from harness.experiments.workload_tables import RECEIVED, SENT
from harness.models.contract.layout import FloatArray, IntArray
from harness.models.simulator import SimulatedRun
from harness.models.simulator.kinds import COUNT_WINDOW, TIME_WINDOW
from harness.schemas import HOP
from harness.topologies.roles import traits
from harness.topologies.ways import member_ways

PARTITIONS = 16


@dataclass(frozen=True)
class Played:
    """A step's messages and what became of them; simulated times count from the plan's being up.

    Attributes
    ----------
    run : SimulatedRun
    offsets_ns : array (messages)
        When each is sent.
    first_id : int
        Identifier of the first.
    up_ns, up_epoch_ms : int
        The virtual clocks when the plan was up.
    """

    run: SimulatedRun
    offsets_ns: IntArray
    first_id: int
    up_ns: int
    up_epoch_ms: int

    def ns(self, times_ms: FloatArray) -> IntArray:
        """Return times of the simulation by the virtual monotonic clock."""
        return self.up_ns + np.rint(times_ms * 1e6).astype(np.int64)

    def epoch_ms(self, times_ms: FloatArray) -> IntArray:
        """Return times of the simulation by the virtual wall clock."""
        return self.up_epoch_ms + np.floor(times_ms).astype(np.int64)

    @property
    def last_ms(self) -> float:
        """When the last tuple was served, or its ack read."""
        times = np.concatenate([self.run.visits["served"] + SEND_MS, self.run.messages["acked"]])
        return float(times[np.isfinite(times)].max(initial=0.0))

    @property
    def ids(self) -> IntArray:
        """Identifiers by position among the run's messages."""
        return self.first_id + self.run.messages["given"].astype(np.int64)

    def of_kind(self, *kinds: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which tuples are at components of these kinds."""
        world = self.run.world
        return np.isin(world.components["kind"][self._component(np.arange(self.run.visits.size))], kinds)

    def _component(self, visits: IntArray) -> IntArray:
        world = self.run.world
        return np.asarray(world.tasks["component"][world.visits["task"][visits]], dtype=np.int64)

    def from_multiplier(self, visits: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which tuples were made by a multiplier, and so are numbered."""
        plan = self.run.network.layout.plan.query_plan
        order = self.run.network.layout.order
        multipliers = [i for i, name in enumerate(order) if traits(plan.component(name).role).multiplies]
        parent = self.run.visits["parent"][visits]
        found = np.zeros(visits.size, dtype=np.bool_)
        made = np.flatnonzero(parent >= 0)
        found[made] = np.isin(self._component(parent[made].astype(np.int64)), multipliers)
        return found

    def child(self, visits: IntArray) -> IntArray:
        """Return the number that the multiplier on its way gave each tuple; 0 where there was none.

        Windows have none before them: their outputs are of several messages.
        """
        found, at = np.zeros(visits.size, dtype=np.int64), visits.astype(np.int64)
        waiting = np.arange(visits.size)
        while waiting.size:
            here = self.from_multiplier(at)
            found[waiting[here]] = self.run.visits["ordinal"][at[here]]
            parent = self.run.visits["parent"][at].astype(np.int64)
            onward = ~here & (parent >= 0)
            waiting, at = waiting[onward], parent[onward]
        return found


def sent(played: Played) -> pa.Table:
    """Return the messages, rows of ``SENT``."""
    number = played.first_id + np.arange(played.offsets_ns.size)
    scheduled = played.up_ns + played.offsets_ns
    columns = {
        "message_id": number,
        "scheduled_ns": scheduled,
        "sent_ns": scheduled,
        "partition": (number % PARTITIONS).astype(np.int32),
        "offset": number // PARTITIONS,
        "append_ms": played.epoch_ms(played.offsets_ns / 1e6),
        "error": pa.nulls(number.size, pa.string()),
    }
    return pa.table(columns, schema=SENT)


def received(played: Played, seed: int) -> pa.Table:
    """Return a row a member that came to a sink, rows of ``RECEIVED``; ``seed`` draws windows' paths."""
    run, (first, steps) = played.run, played.run.paths
    visits, world, layout = run.visits, run.world, run.network.layout
    begins, ends = steps[first[:-1]], steps[first[1:] - 1]
    entered, left = played.ns(visits["emitted"][begins]), played.ns(visits["emitted"][ends])
    identifiers = run.parts.identifiers
    tasks = identifiers[visits["task"][steps]].astype(np.int32)
    path, names = _paths(first, tasks, {t: e.component for t, e in layout.plan.by_task.items()})
    output, record = np.unique(ends, return_inverse=True)
    chosen = _any_row(record, output.size, seed)
    rows = pd.DataFrame({"record": record, "path": path, "entered": entered})
    together = rows.groupby(["record", "path"])["entered"].transform("mean").to_numpy()
    number = np.empty(output.size, dtype=np.int64)
    number[np.argsort(visits["emitted"][output], kind="stable")] = np.arange(output.size)
    hops = pa.StructArray.from_arrays(
        [tasks, played.ns(visits["received"][steps]), played.ns(visits["emitted"][steps])], fields=list(HOP)
    )
    columns = {
        "message_id": played.ids[visits["root"][begins]],
        "child": _children(played).astype(np.int32),
        "entered_ns": entered,
        "left_ns": left,
        "thesis_entered_ns": np.rint(together[chosen][record]).astype(np.int64),
        "output_partition": (number[record] % PARTITIONS).astype(np.int32),
        "output_offset": number[record] // PARTITIONS,
        "append_ms": played.epoch_ms(visits["emitted"][ends] + SEND_MS),
        "sink": np.array(layout.order, dtype=object)[world.tasks["component"][visits["task"][ends]]],
        "record_path": np.array(names, dtype=object)[path[chosen][record]],
        "hops": pa.ListArray.from_arrays(first.astype(np.int32), hops),
    }
    return pa.table(columns, schema=RECEIVED)


def held(played: Played) -> list[Mapping[str, object]]:
    """Return what each windowed task holds at the end and has not let out, as its dump would say."""
    run, layout = played.run, played.run.network.layout
    inside = played.of_kind(COUNT_WINDOW, TIME_WINDOW) & np.isnan(run.visits["emitted"])
    mine = np.flatnonzero(inside & np.isfinite(run.visits["received"]) & (run.visits["root"] >= 0))
    tasks = run.parts.identifiers[run.visits["task"][mine]]
    members = zip(played.ids[run.visits["root"][mine]].tolist(), played.child(mine).tolist(), strict=True)
    dumps: dict[int, list[str]] = {}
    for task, (message, child) in zip(tasks.tolist(), members, strict=True):
        dumps.setdefault(task, []).append(f"{message}/{child}")
    by_task = layout.plan.by_task
    end_ms = int(played.epoch_ms(np.array([run.interval_ms[1]]))[0])
    return [
        {"component": by_task[t].component, "task": t, "bucket_end_ms": end_ms, "value": ",".join(texts)}
        for t, texts in dumps.items()
    ]


def members(played: Played) -> IntArray:
    """Return how many members each message has, by its number in the step: its children, and itself."""
    plan, visits = played.run.network.layout.plan.query_plan, played.run.visits
    ways = member_ways(plan)
    past = any(ways[sink].plain for sink in plan.sinks)
    made = np.flatnonzero(played.from_multiplier(np.arange(visits.size)))
    names = np.unique(np.stack([visits["root"][made], visits["ordinal"][made]], axis=1), axis=0)
    counts = np.bincount(names[:, 0], minlength=played.offsets_ns.size)
    found = np.empty(counts.size, dtype=np.int64)
    found[played.run.messages["given"]] = counts + int(past)
    return found


def _children(played: Played) -> IntArray:
    """Return each row's child: the number of the tuple on its path that a multiplier made."""
    first, steps = played.run.paths
    numbered = np.flatnonzero(played.from_multiplier(steps.astype(np.int64)))
    row = np.repeat(np.arange(first.size - 1), np.diff(first))
    found = np.zeros(first.size - 1, dtype=np.int64)
    found[row[numbered]] = played.run.visits["ordinal"][steps[numbered]]
    return found


def _any_row(record: IntArray, records: int, seed: int) -> IntArray:
    """Return one row of each record, any of them alike."""
    order = np.random.default_rng([seed, 4]).permutation(record.size)
    found = np.empty(records, dtype=np.int64)
    found[record[order]] = order
    return found


def _paths(first: IntArray, tasks: IntArray, components: Mapping[int, str]) -> tuple[IntArray, list[str]]:
    """Return each row's path as a number, and what the numbers stand for."""
    lengths, codes, names = np.diff(first), np.zeros(first.size - 1, dtype=np.int64), list[str]()
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        distinct, which = np.unique(
            tasks[first[rows][:, None] + np.arange(length)], axis=0, return_inverse=True
        )
        codes[rows] = which.reshape(-1) + len(names)
        names += ["/".join(f"{components[t]}:{t}" for t in path) for path in distinct.tolist()]
    return codes, names
