"""Faults of a step: what its file asks for, and carrying them out at their second of the interval.

Jepsen's nemesis in small: a fault is planned, its real time is kept beside the measurement, and what was
measured under it says so. What makes a fault is behind ``FaultMaker``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, Self

from pydantic import ConfigDict, Field, model_validator

from harness.errors import HarnessError
from harness.plans import Frozen, NotNegative, PositiveFloat
from harness.runs import FaultMade
from harness.topologies.bounds import DelayMs, SkewS

Part = Literal["worker", "supervisor", "broker", "nimbus", "zookeeper", "generator", "receiver"]
"""Parts that may be stopped."""
OF_A_NODE: tuple[Part, ...] = ("worker", "supervisor")
"""Parts of which each worker node has its own."""
OF_THE_LOAD: tuple[Part, ...] = ("generator", "receiver")
"""Parts that are there only where the harness sends the messages."""
KEYS = ("kill", "stop", "slow-link", "fill-disk", "skew-clock")
"""A fault has one of them; all but a kill last for some time."""
JOIN_S = 60.0
"""Longest time that the end of faults may take: a killed process is looked for, a stopped one goes on."""

log = logging.getLogger(__name__)


class Fault(Frozen):
    """One fault: what happens, to what, and at which second of the interval.

    Attributes
    ----------
    at_s : float
        Seconds after the interval's start; it is over before ``measure.interval.least_s``.
    kill : str
        What is killed (SIGKILL): a worker, as a run ends with any other part of its cluster.
    stop : str
        What is stopped (SIGSTOP), and goes on after ``for_s``.
    slow_link : str
        Two nodes, ``NODE~NODE``, between which packets take longer for ``for_s``; on hosts of kind ``local``.
    delay_ms : float
        With ``slow-link``: what each packet takes longer, in either direction.
    fill_disk : str
        The node whose disk has no room left for ``for_s``; on hosts of kind ``local``, each of which has
        one of ``hosts.disk_mb`` in memory.
    skew_clock : str
        The node whose workers have another time of day for ``for_s``. Their monotonic clocks, and all other
        processes, keep theirs.
    by_s : int
        With ``skew-clock``: the seconds by which the time of day is ahead, behind where negative.
    for_s : float
        How long it lasts, if it is no kill.
    node : str
        The worker node of a worker or supervisor. Of several workers it is the one with the lowest port.

    Examples
    --------
    >>> Fault(at_s=20, stop="broker", for_s=10).what
    'stop broker'
    >>> Fault.model_validate({"at_s": 5, "slow-link": "a~b", "delay_ms": 20, "for_s": 10}).what
    'slow-link a~b by 20 ms'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    at_s: NotNegative
    kill: Literal["worker"] | None = None
    stop: Part | None = None
    slow_link: str | None = Field(default=None, alias="slow-link")
    delay_ms: DelayMs | None = None
    fill_disk: str | None = Field(default=None, alias="fill-disk")
    skew_clock: str | None = Field(default=None, alias="skew-clock")
    by_s: SkewS | None = None
    for_s: PositiveFloat | None = None
    node: str | None = None

    @property
    def part(self) -> Part | None:
        """Part of the cluster whose process is killed or stopped; None where it is no process."""
        return self.kill or self.stop

    @property
    def nodes(self) -> tuple[str, ...]:
        """The worker nodes that it names."""
        ends = self.slow_link.split("~") if self.slow_link else ()
        return (*ends, *filter(None, (self.fill_disk, self.skew_clock, self.node)))

    @property
    def what(self) -> str:
        """The fault in words."""
        if self.slow_link:
            return f"slow-link {self.slow_link} by {self.delay_ms:g} ms"
        if self.fill_disk:
            return f"fill-disk {self.fill_disk}"
        if self.skew_clock:
            return f"skew-clock {self.skew_clock} by {self.by_s:+d} s"
        return " ".join(filter(None, ("kill" if self.kill else "stop", self.part, self.node)))

    @property
    def until_s(self) -> float:
        """The second at which it is over."""
        return self.at_s + (self.for_s or 0.0)

    def meets(self, other: Fault) -> bool:
        """Return True if both would be in force on one thing at one time."""
        at_once = self.at_s < other.until_s and other.at_s < self.until_s
        return at_once and self._target == other._target

    @property
    def _target(self) -> tuple[str, Part | None, frozenset[str]]:
        return self._key, self.part, frozenset(self.nodes)

    @property
    def _key(self) -> str:
        return next(key for key, value in zip(KEYS, self._values, strict=True) if value)

    @property
    def _values(self) -> tuple[str | None, ...]:
        return self.kill, self.stop, self.slow_link, self.fill_disk, self.skew_clock

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        if sum(map(bool, self._values)) != 1:
            raise ValueError(f"give one of {', '.join(KEYS)}")
        if (self.kill is None) != (self.for_s is not None):
            raise ValueError("for_s says how long a fault lasts: all but kill have it")
        if (self.slow_link is None) != (self.delay_ms is None):
            raise ValueError("delay_ms says how slow a link is: it goes with slow-link, only there")
        if bool(self.skew_clock) != bool(self.by_s):
            raise ValueError("by_s says how far a clock is moved, not 0: it goes with skew-clock, only there")
        if (self.part in OF_A_NODE) != bool(self.node):
            raise ValueError(f"node: {', '.join(OF_A_NODE)} have one, nothing else has")
        if self.slow_link and not len(set(self.nodes)) == len(self.nodes) == 2:
            raise ValueError(f"slow-link: {self.slow_link!r} is not two nodes, as in node-1~node-2")
        return self


def check_faults(
    faults: Sequence[Fault],
    where: str,
    *,
    nodes: Sequence[str],
    least_s: float,
    sends: bool,
    refuses: Callable[[Fault], str],
) -> None:
    """Raise ValueError for the first fault that cannot be.

    Parameters
    ----------
    faults : sequence of Fault
        A step's.
    where : str
        Its key.
    nodes : sequence of str
        Names of the cluster's worker nodes; empty where nobody can say.
    least_s : float
        The interval may end then.
    sends : bool
        Whether the harness sends the messages.
    refuses : callable
        Says why the cluster cannot have a fault; nothing where it can.
    """
    for i, fault in enumerate(faults):
        key = f"{where}.faults.{i}"
        if why := refuses(fault):
            raise ValueError(f"{key}: {why}")
        for node in fault.nodes:
            if nodes and node not in nodes:
                raise ValueError(f"{key}: there is no node {node!r} in {', '.join(nodes)}")
        if fault.until_s > least_s:
            raise ValueError(
                f"{key}.at_s: it is over at {fault.until_s:g} s, and the interval may end at {least_s:g} s"
                " (measure.interval.least_s)"
            )
        if fault.part in OF_THE_LOAD and not sends:
            raise ValueError(f"{key}.stop: the topology makes its own messages: there is no {fault.part}")
        for before in faults[:i]:
            if fault.meets(before):
                raise ValueError(f"{key}.at_s: {before.what} lasts until {before.until_s:g} s")


class FaultMaker(Protocol):
    """Maker of faults on a cluster."""

    def made(self, fault: Fault) -> AbstractContextManager[str]:
        """Make one for a block, and give what was done to what. A kill is not undone at the block's end.

        Raises
        ------
        HarnessError
            When there is no such process, or no such fault here.
        """


class NoFaults:
    """Makes none: of a cluster that has no faults (a ``FaultMaker``)."""

    def made(self, fault: Fault) -> AbstractContextManager[str]:
        """Refuse."""
        raise HarnessError(f"{fault.what}: this cluster has no faults")


class StepFaults:
    """The faults of one step, made in a thread of their own while its interval is measured.

    Parameters
    ----------
    faults : sequence of Fault
    maker : FaultMaker
    """

    def __init__(self, faults: Sequence[Fault], maker: FaultMaker) -> None:
        self._faults = sorted(faults, key=lambda f: f.at_s)
        self._maker = maker
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._made: list[FaultMade] = []

    def begin(self, start_ns: int) -> None:
        """Begin with the interval, which began at a time of the monotonic clock."""
        for fault in self._faults:
            thread = threading.Thread(target=self._carry_out, args=(fault, start_ns), daemon=True)
            self._threads.append(thread)
            thread.start()

    def end(self) -> tuple[FaultMade, ...]:
        """End what still goes on, and return what was done and when, by time."""
        self._over.set()
        for thread in self._threads:
            thread.join(JOIN_S)
        return tuple(sorted(self._made, key=lambda made: made.asked_s))

    def _carry_out(self, fault: Fault, start_ns: int) -> None:
        if self._over.wait(max(start_ns / 1e9 + fault.at_s - time.monotonic(), 0.0)):
            made = _made(fault, problem="the interval was over before")
        else:
            made = self._make(fault)
        log.warning("fault: %s", made)
        self._made.append(made)

    def _make(self, fault: Fault) -> FaultMade:
        done, at_ns = "", None
        try:
            with self._maker.made(fault) as done:
                at_ns = time.monotonic_ns()
                if self._over.is_set():
                    return _made(fault, done, at_ns, problem="the interval was over by then")
                self._over.wait(fault.for_s or 0.0)
            return _made(fault, done, at_ns, None if fault.for_s is None else time.monotonic_ns())
        except (HarnessError, OSError) as error:
            return _made(fault, done, at_ns, problem=str(error))


def _made(
    fault: Fault, done: str = "", at_ns: int | None = None, until_ns: int | None = None, problem: str = ""
) -> FaultMade:
    """Return the record of a fault: by default of one that was not made."""
    return FaultMade(
        what=fault.what, asked_s=fault.at_s, done=done, at_ns=at_ns, until_ns=until_ns, problem=problem
    )
