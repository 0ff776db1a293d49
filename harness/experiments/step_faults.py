"""Faults of a step: what its file asks for, and carrying them out at their second of the interval.

Jepsen's nemesis in small: a fault is planned, its real time is kept beside the measurement, and what was
measured under it says so. What makes a fault is behind ``FaultMaker``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, Protocol, Self

from pydantic import model_validator

from harness.errors import HarnessError
from harness.plans import Frozen, NotNegative, PositiveFloat
from harness.runs import FaultMade

Part = Literal["worker", "supervisor", "broker", "nimbus", "zookeeper", "generator", "receiver"]
"""What may be stopped."""
OF_A_NODE: tuple[Part, ...] = ("worker", "supervisor")
"""Parts of which each worker node has its own."""
OF_THE_LOAD: tuple[Part, ...] = ("generator", "receiver")
"""Parts that are there only where the harness sends the messages."""
JOIN_S = 60.0
"""How long the end of faults may take: a killed process is looked for, a stopped one goes on."""

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
    for_s : float
        How long it is stopped.
    node : str
        The worker node of a worker or supervisor. Of several workers it is the one with the lowest port.

    Examples
    --------
    >>> Fault(at_s=20, stop="broker", for_s=10).what
    'stop broker'
    """

    at_s: NotNegative
    kill: Literal["worker"] | None = None
    stop: Part | None = None
    for_s: PositiveFloat | None = None
    node: str | None = None

    @property
    def part(self) -> Part:
        """Part of the cluster that the fault happens to."""
        part = self.kill or self.stop
        assert part is not None  # checked when it was made
        return part

    @property
    def what(self) -> str:
        """The fault in words."""
        return " ".join(filter(None, ("kill" if self.kill else "stop", self.part, self.node)))

    @property
    def until_s(self) -> float:
        """The second at which it is over."""
        return self.at_s + (self.for_s or 0.0)

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        if (self.kill is None) == (self.stop is None):
            raise ValueError("give one of kill and stop")
        if (self.stop is None) != (self.for_s is None):
            raise ValueError("for_s says how long something is stopped: it goes with stop, only there")
        if (self.part in OF_A_NODE) != bool(self.node):
            raise ValueError(f"node: {', '.join(OF_A_NODE)} have one, nothing else has")
        return self


def check_faults(
    faults: Sequence[Fault], where: str, *, nodes: Sequence[str], least_s: float, sends: bool
) -> None:
    """Raise ValueError for the first fault that cannot be.

    Parameters
    ----------
    faults : sequence of Fault
        A step's.
    where : str
        Its key.
    nodes : sequence of str
        Names of the cluster's worker nodes.
    least_s : float
        The interval may end then.
    sends : bool
        Whether the harness sends the messages.
    """
    for i, fault in enumerate(faults):
        key = f"{where}.faults.{i}"
        if fault.node and fault.node not in nodes:
            raise ValueError(f"{key}.node: there is no node {fault.node!r} in {', '.join(nodes)}")
        if fault.until_s > least_s:
            raise ValueError(
                f"{key}.at_s: it is over at {fault.until_s:g} s, and the interval may end at {least_s:g} s"
                " (measure.interval.least_s)"
            )
        if fault.part in OF_THE_LOAD and not sends:
            raise ValueError(f"{key}.stop: the topology makes its own messages: there is no {fault.part}")


class FaultMaker(Protocol):
    """Maker of faults on a cluster."""

    def make(self, fault: Fault) -> tuple[str, Callable[[], None]]:
        """Make one; return what was done to which process, and what ends it.

        Raises
        ------
        ClusterError
            When there is no such process.
        """


class NoFaults:
    """Makes none: of a cluster that has no faults (a ``FaultMaker``)."""

    def make(self, fault: Fault) -> tuple[str, Callable[[], None]]:
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
            made = FaultMade(what=fault.what, asked_s=fault.at_s, problem="the interval was over before")
        else:
            made = self._make(fault)
        log.warning("fault: %s", made)
        self._made.append(made)

    def _make(self, fault: Fault) -> FaultMade:
        at_ns = time.monotonic_ns()
        asked = FaultMade(what=fault.what, asked_s=fault.at_s)
        try:
            done, undo = self._maker.make(fault)
        except HarnessError as error:
            return asked.model_copy(update={"problem": str(error)})
        if fault.for_s is None:
            return asked.model_copy(update={"at_ns": at_ns, "done": done})
        try:
            self._over.wait(fault.for_s)
        finally:
            with suppress(ProcessLookupError):
                undo()
        return asked.model_copy(update={"at_ns": at_ns, "until_ns": time.monotonic_ns(), "done": done})
