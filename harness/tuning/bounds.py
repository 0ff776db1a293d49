"""Bounds that Storm and TCP/IP put to executors and batches."""

from __future__ import annotations

from fractions import Fraction
from math import floor

from harness.errors import UsageError
from harness.protocols import TuningDecision

MOST_BATCH_BYTES = 65_536
"""B_max of Aeolus: as much as one packet of TCP/IP holds."""
TRANSPORT_BYTES = 2_000_000_000
"""Bytes of one tuple that Storm 2.8.3 can serialise (the buffer's end in ``KryoTupleSerializer``).

``MessageBatch`` and ``MessageDecoder`` know no smaller limit: ``storm.messaging.netty.transfer.batch.size``
(262,144 bytes) says when gathered messages are handed on, and a larger message travels alone.
"""


def batch_bound(tuple_bytes: Fraction, most_bytes: int = MOST_BATCH_BYTES) -> int:
    """Return B_max: how many tuples of that size a message of so many bytes holds, at least 1.

    Examples
    --------
    >>> batch_bound(Fraction(200))
    327
    """
    return max(floor(most_bytes / tuple_bytes), 1) if tuple_bytes > 0 else most_bytes


def batch_warning(component: str, size: int, tuple_bytes: Fraction) -> str:
    """Return a warning where a batch is larger than one packet of TCP/IP; empty where it is not.

    Raises
    ------
    UsageError
        When Storm's transport cannot take the batch.
    """
    size_bytes = size * tuple_bytes
    tuples = f"{size} tuples of {float(tuple_bytes):g} bytes"
    said = f"{component}: a batch of {tuples} has {float(size_bytes):,.0f} bytes"
    if size_bytes > TRANSPORT_BYTES:
        most = floor(TRANSPORT_BYTES / tuple_bytes)
        raise UsageError(
            f"{said}, and Storm serialises at most {TRANSPORT_BYTES:,}", f"use at most {most} tuples"
        )
    if size_bytes > MOST_BATCH_BYTES:
        return f"{said}, more than the {MOST_BATCH_BYTES:,} of one TCP/IP packet: little more is gained"
    return ""


def bounded_by_tasks(
    component: str, executors: int, tasks: int | None
) -> tuple[int, tuple[TuningDecision, ...]]:
    """Return as many executors as a component's tasks allow, and the record of it where they are fewer.

    Parameters
    ----------
    tasks : int, optional
        None where tasks do not bound executors.
    """
    if tasks is None or executors <= tasks:
        return executors, ()
    why = f"{executors} executors are wanted, and a component has no more executors than tasks."
    values = {"dop": executors, "tasks": tasks}
    decision = TuningDecision(
        node=component, formula="dop <= tasks (Storm)", values=values, result=tasks, why=why
    )
    return tasks, (decision,)


def bound_reason(decisions: tuple[TuningDecision, ...]) -> str:
    """Name the components that would need more tasks; empty where none would."""
    bound = dict.fromkeys(d.node for d in decisions if "tasks" in d.values)
    return f"fewer executors than wanted, for want of tasks: {', '.join(bound)}" if bound else ""
