"""Short turns on a core: who asks for them is let in sooner among threads that always have work.

Linux chooses the thread whose turn ends first (EEVDF). One that wakes for a tenth of a millisecond goes
before others that want milliseconds, without getting more time than its share. From Linux 6.12 on a thread
may say how long its turns are (sched(7), ``sched_setattr``). Older kernels and other systems do not listen.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

TURN_MS = 0.1
"""The shortest turn that the kernel allows."""
_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""Numbers of sched_setattr and sched_getattr, which the C library has not."""
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""``struct sched_attr``: size, policy, flags, nice, priority, runtime, deadline, period."""


def ask_for_short_turns(turn_ms: float = TURN_MS) -> bool:
    """Ask for short turns of this thread and those that it starts; return whether the kernel gives them.

    Parameters
    ----------
    turn_ms : float
        The length of a turn, from 0.1 to 100 ms.

    Examples
    --------
    >>> ask_for_short_turns()  # doctest: +SKIP
    True
    """
    turn_ns = round(turn_ms * 1e6)
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, niceness, 0, turn_ns, 0, 0)
    return _call(0, ctypes.create_string_buffer(attributes), 0) and turn_of_this_thread_ms() == turn_ms


def turn_of_this_thread_ms() -> float | None:
    """Return how long this thread's turns are; None where the kernel does not say."""
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if not _call(1, found, _ATTRIBUTES.size, 0):
        return None
    return float(_ATTRIBUTES.unpack(found.raw)[5]) / 1e6


def _call(which: int, attributes: ctypes.Array[ctypes.c_char], *more: int) -> bool:
    numbers = _CALLS.get(platform.machine())
    if sys.platform != "linux" or numbers is None:
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    return bool(call(numbers[which], 0, attributes, *(ctypes.c_uint(n) for n in more)) == 0)
