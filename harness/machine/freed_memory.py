"""Memory that a long process frees goes back to the machine."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Options of glibc's ``mallopt`` (malloc.h)."""
OF_ITS_OWN_BYTES = 1 << 18
"""Blocks from this size on are mapped by themselves, and unmapped when they are freed."""
KEPT_BYTES = 1 << 20
"""So much free memory stays at the end of a heap."""
HEAPS = 2
"""Threads share so many."""


def return_freed_memory() -> bool:
    """Make the allocator give freed arrays back at once; to be called before threads begin.

    By default glibc raises its threshold for blocks of their own, up to 32 MiB, as such blocks are freed.
    From then on arrays share heaps with small objects that stay, and the process is as large as the worst
    moment of each thread's heap.

    Returns
    -------
    bool
        False where the C library has no such options: memory is then kept as that library likes.
    """
    options = {_ARENA_MAX: HEAPS, _MMAP_THRESHOLD: OF_ITS_OWN_BYTES, _TRIM_THRESHOLD: KEPT_BYTES}
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # no glibc
        return False
    set_to = [mallopt(option, value) for option, value in options.items()]
    return all(set_to)
