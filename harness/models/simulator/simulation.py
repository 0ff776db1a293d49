"""Playing a network and reading the outcome: latencies of every message and member, use of every executor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray, IntArray
from harness.models.network import Network
from harness.models.simulator.building import Parts, build
from harness.models.simulator.kinds import NONE, Records, World
from harness.models.simulator.lineage import Paths, paths, paths_to
from harness.models.simulator.loads import loads
from harness.models.simulator.messages import Messages, generate
from harness.models.simulator.playing import play

LEAST_TAIL_S = 1.0
"""Messages go on for at least this long after the interval."""


@dataclass(frozen=True)
class Latencies:
    """Ground truth of the members that reached sinks; one entry each, in no particular order.

    Attributes
    ----------
    message : array of int
        Position among the run's messages.
    sink : array of int
        Position of the sink in the layout's order.
    entered_ms, left_ms : array
        The spout's emit, and the sink's send.
    """

    message: IntArray
    sink: IntArray
    entered_ms: FloatArray
    left_ms: FloatArray

    @property
    def ground_truth_ms(self) -> FloatArray:
        """From the spout's emit to the sink's send."""
        return self.left_ms - self.entered_ms


@dataclass(frozen=True)
class Use:
    """Use of each executor in the interval; arrays by position in the layout.

    Attributes
    ----------
    served : array of int
        Tuples (messages, at spouts and ackers) that were taken up.
    utilisation : array
        Share of the time that it was busy.
    cpu_cores : array
        CPU time over the interval's length.
    wait_ms : array
        Mean time from the queue to the start of service; NaN where nothing was served.
    service_ms : array
        Mean time from there to the end of service, waiting for cores included.
    """

    served: IntArray
    utilisation: FloatArray
    cpu_cores: FloatArray
    wait_ms: FloatArray
    service_ms: FloatArray


@dataclass(frozen=True)
class SimulatedRun:
    """A network that was played.

    Messages belong to the interval by the time at which they were due, tuples by the start of their
    service. Times are milliseconds since the start of the simulation.

    Attributes
    ----------
    network : Network
    interval_ms : tuple of float
        Start and end of the interval.
    """

    network: Network
    interval_ms: tuple[float, float]
    world: World
    parts: Parts

    @property
    def messages(self) -> Records:
        """All messages (``kinds.ROOT``)."""
        return self.world.roots

    @property
    def visits(self) -> Records:
        """All tuples at tasks (``kinds.VISIT``)."""
        return self.world.visits

    @cached_property
    def help_inputs(self) -> dict[int, str]:
        """Helped components by the ``input`` of tuples that their helpers served."""
        inputs = self.parts.relief.watched["input"].tolist()
        return {i: name for i, name in zip(inputs, self.network.marks, strict=True) if i != NONE}

    def component_of(self, visits: IntArray) -> IntArray:
        """Return whose code served tuples: a helper's task has the helped component's, too."""
        world = self.world
        found = np.asarray(world.tasks["component"][world.visits["task"][visits]], dtype=np.int64)
        for number, name in self.help_inputs.items():
            found[world.visits["input"][visits] == number] = self.network.layout.order.index(name)
        return found

    @cached_property
    def in_interval(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which messages belong to the interval."""
        due = self.world.roots["due"]
        return np.asarray((due >= self.interval_ms[0]) & (due < self.interval_ms[1]))

    @cached_property
    def paths(self) -> Paths:
        """The hops of every member that reached a sink, of messages outside the interval too."""
        return paths(self.world)

    def paths_to(self, visits: IntArray) -> Paths:
        """Return the hops of every member of the tuples of some visits, wherever they are."""
        return paths_to(self.world, visits)

    @cached_property
    def all_latencies(self) -> Latencies:
        """Ground truth of every path of ``paths``, in its order."""
        visits, (first, steps) = self.world.visits, self.paths
        begins, ends = steps[first[:-1]], steps[first[1:] - 1]
        return Latencies(
            message=visits["root"][begins].astype(np.int64),
            sink=self.world.tasks["component"][visits["task"][ends]].astype(np.int64),
            entered_ms=visits["emitted"][begins],
            left_ms=visits["emitted"][ends],
        )

    @cached_property
    def latencies(self) -> Latencies:
        """Ground truth of the interval's members."""
        every = self.all_latencies
        mine = self.in_interval[every.message]
        return Latencies(every.message[mine], every.sink[mine], every.entered_ms[mine], every.left_ms[mine])

    @property
    def complete_latency_ms(self) -> FloatArray:
        """Storm's complete latency of the interval's messages, at the acker; NaN of those not complete."""
        mine = self.world.roots[self.in_interval]
        return np.asarray(mine["last"] - mine["first"])

    @property
    def ack_latency_ms(self) -> FloatArray:
        """From the emit to the ack at the spout, of the interval's messages; NaN of those not acked."""
        mine = self.world.roots[self.in_interval]
        return np.asarray(mine["acked"] - mine["entered"])

    @property
    def unfinished(self) -> int:
        """The interval's messages whose tree is not complete: windows hold tuples of theirs at the end."""
        return int(np.isnan(self.complete_latency_ms).sum()) if self.network.acks else 0

    @cached_property
    def use(self) -> Use:
        """Use of each executor in the interval."""
        world, (start, end) = self.world, self.interval_ms
        many = world.executors.size
        served, waited, worked = np.zeros(many), np.zeros(many), np.zeros(many)
        owners = world.tasks["executor"][world.visits["task"]]
        for items, owner in ((world.visits, owners), (world.messages, world.messages["acker"])):
            inside = (items["received"] >= start) & (items["received"] < end)
            mine, who = items[inside], owner[inside]
            served += np.bincount(who, minlength=many)
            waited += np.bincount(who, mine["received"] - mine["queued"], many)
            worked += np.bincount(who, mine["served"] - mine["received"], many)
        with np.errstate(invalid="ignore"):
            wait_ms, service_ms = waited / served, worked / served
        length = end - start
        return Use(
            served=served.astype(np.int64),
            utilisation=world.executors["busy"] / length,
            cpu_cores=world.executors["cpu"] / length,
            wait_ms=wait_ms,
            service_ms=service_ms,
        )

    @property
    def visits_played(self) -> int:
        """Services in all: of tuples, and of messages at spouts and ackers."""
        return self.world.visits.size + self.world.messages.size


def simulate(
    network: Network,
    duration_s: float,
    warm_up_s: float,
    seed: int,
    *,
    tail_s: float | None = None,
) -> SimulatedRun:
    """Play a network.

    Parameters
    ----------
    network : Network
    duration_s : float
        Length of the interval that is counted.
    warm_up_s : float
        Time before it. Windows begin empty: give the slowest of them time to fill twice.
    seed : int
        The same network, times and seed give the same run.
    tail_s : float, optional
        For how long messages go on after the interval, so that its own are pushed out of their windows;
        by default what the slowest window takes twice, and a batch, but at most the interval's own length.

    Raises
    ------
    ModelDeclined
        When the network lacks something, or a time is not a number.
    """
    if not (np.isfinite(duration_s) and duration_s > 0 and np.isfinite(warm_up_s) and warm_up_s >= 0):
        raise ModelDeclined(f"cannot simulate {duration_s:g} s after a warm-up of {warm_up_s:g} s")
    if tail_s is None:
        build(network)  # names what is missing, before rates are worked out
        expected = loads(network)
        longest_s = 2 * expected.slowest_window_s() + expected.slowest_batches_s
        tail_s = max(LEAST_TAIL_S, min(longest_s, duration_s))
    interval = (1000 * warm_up_s, 1000 * (warm_up_s + duration_s))
    messages = generate(network, interval[1] + 1000 * tail_s, seed)
    return simulate_messages(network, messages, interval, seed)


def simulate_messages(
    network: Network,
    messages: Messages,
    interval_ms: tuple[float, float],
    seed: int,
) -> SimulatedRun:
    """Play a network with given messages; its own input rates only say how many to expect."""
    world, parts = play(network, messages, interval_ms, seed)
    return SimulatedRun(network, interval_ms, world, parts)
