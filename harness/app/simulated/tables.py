"""A played step as generator and receiver would hand it over: what was sent, what came out, what is held."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from harness.app.simulated.networks import SEND_MS
from harness.experiments.ledger import AtLeastAtMost
from harness.experiments.turns import Turns
from harness.experiments.workload_tables import RECEIVED, SENT
from harness.models.contract.layout import FloatArray, IntArray
from harness.models.simulator import SimulatedRun
from harness.models.simulator.kinds import COUNT_WINDOW, TIME_WINDOW
from harness.models.simulator.lineage import Paths
from harness.schemas import HOP
from harness.topologies.component_settings import Multiplier
from harness.topologies.ways import child_name, tuples_per_message

PARTITIONS = 16
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Played:
    """A step's messages and their fates; simulated times count from the plan's being up.

    Attributes
    ----------
    run : SimulatedRun
    offsets_ns : array (messages)
        When each is sent.
    first_id : int
        Identifier of the first.
    up_ns, up_epoch_ms : int
        The virtual clocks when the plan was up.
    turns : Turns
        Which spout each message enters.
    multipliers : mapping of str to Multiplier
        How many tuples each multiplier makes of one.
    filters : collection of str
        Components that leave tuples out.
    """

    run: SimulatedRun
    offsets_ns: IntArray
    first_id: int
    up_ns: int
    up_epoch_ms: int
    turns: Turns
    multipliers: Mapping[str, Multiplier]
    filters: Collection[str]

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

    def of_kind(self, *kinds: int) -> BoolArray:
        """Return which tuples are at components of these kinds."""
        kind = self.run.world.components["kind"]
        return np.isin(kind[self._component(np.arange(self.run.visits.size))], kinds)

    def _component(self, visits: IntArray) -> IntArray:
        """Return whose code served tuples, by its position in the layout's order."""
        return np.asarray(self.run.component_of(visits), dtype=np.int64)

    def at(self, visits: IntArray, components: Collection[str]) -> BoolArray:
        """Return which tuples are at some of the components."""
        order = self.run.network.layout.order
        return np.isin(self._component(visits), [order.index(name) for name in components])

    def names(self, paths: Paths) -> IntArray:
        """Return each path's member's name: the numbers that multipliers on the way gave it, put together."""
        first, steps = paths
        found = np.zeros(first.size - 1, dtype=np.int64)
        lengths, order = np.diff(first), self.run.network.layout.order
        for hop in range(1, int(lengths.max(initial=1))):
            on = np.flatnonzero(lengths > hop)
            came_from = self._component(steps[first[on] + hop - 1].astype(np.int64))
            numbered = self.run.visits["ordinal"][steps[first[on] + hop]]
            for name, multiplier in self.multipliers.items():
                mine = came_from == order.index(name)
                at = on[mine]
                found[at] = child_name(found[at], numbered[mine], multiplier.max)
        return found


def sent(played: Played) -> pa.Table:
    """Return the messages, rows of ``SENT``."""
    number = played.first_id + np.arange(played.offsets_ns.size)
    scheduled = played.up_ns + played.offsets_ns
    columns = {
        "message_id": number,
        "scheduled_ns": scheduled,
        "sent_ns": scheduled,
        "partition": played.turns.partition_of(number, PARTITIONS).astype(np.int32),
        "offset": played.turns.before(number) // PARTITIONS,
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
        "child": played.names(run.paths).astype(np.int32),
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
    run = played.run
    inside = played.of_kind(COUNT_WINDOW, TIME_WINDOW) & np.isnan(run.visits["emitted"])
    paths = run.paths_to(np.flatnonzero(inside & np.isfinite(run.visits["received"])))
    first, steps = paths
    tasks = run.parts.identifiers[run.visits["task"][steps[first[1:] - 1]]]
    messages = played.ids[run.visits["root"][steps[first[:-1]]]]
    dumps: dict[int, list[str]] = {}
    for task, message, child in zip(
        tasks.tolist(), messages.tolist(), played.names(paths).tolist(), strict=True
    ):
        dumps.setdefault(task, []).append(f"{message}/{child}")
    by_task = run.network.layout.plan.by_task
    end_ms = int(played.epoch_ms(np.array([run.interval_ms[1]]))[0])
    return [
        {"component": by_task[t].component, "task": t, "bucket_end_ms": end_ms, "value": ",".join(texts)}
        for t, texts in dumps.items()
    ]


class PlayedMembers:
    """Outputs of each message as the step was played (an ``ExpectedOutputs``).

    The played draws are not those of the topologies. Of the number of ways by which a member comes to a sink
    only an upper bound is known.

    Parameters
    ----------
    played : Played
    """

    def __init__(self, played: Played) -> None:
        self._first_id = played.first_id
        self._plan = played.run.network.layout.plan.query_plan
        self._members = _members(played)

    @property
    def sinks(self) -> tuple[str, ...]:
        """The components that write to the output topic."""
        return self._plan.sinks

    def members(self, ids: IntArray) -> AtLeastAtMost:
        """Return how many members of each message were made and not left out by a filter."""
        found = self._members[ids - self._first_id]
        return AtLeastAtMost(found, found)

    def copies(self, sink: str, ids: IntArray, child: IntArray) -> AtLeastAtMost:
        """Return how often a member may come to a sink: by every way, to every task."""
        del ids
        ways = tuples_per_message(self._plan, {}, dict.fromkeys(self._plan.spouts, 1.0))[sink]
        return AtLeastAtMost(np.zeros(child.shape, dtype=np.int64), np.full(child.shape, round(ways)))


def _members(played: Played) -> IntArray:
    """Return how many members each message has at the ends of its ways, by its number in the step."""
    run, every = played.run, np.arange(played.run.visits.size)
    parents = run.visits["parent"]
    made_none = np.ones(every.size, dtype=np.bool_)
    made_none[parents[parents >= 0]] = False
    made_none &= ~(played.of_kind(COUNT_WINDOW, TIME_WINDOW) & np.isfinite(run.visits["emitted"]))
    left_out = played.at(every, played.filters) & np.isfinite(run.visits["served"])
    paths = run.paths_to(np.flatnonzero(made_none & ~left_out))
    roots = run.visits["root"][paths.visits[paths.first[:-1]]]
    named = np.unique(np.stack([roots, played.names(paths)], axis=1), axis=0)
    found = np.zeros(played.offsets_ns.size, dtype=np.int64)
    found[run.messages["given"]] = np.bincount(named[:, 0], minlength=run.messages.size)
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
