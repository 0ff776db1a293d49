"""The heap of workers, as options for their JVMs have it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.topologies.bounds import StormValue

OPTIONS = ("topology.worker.childopts", "topology.worker.gc.childopts")
"""Storm gives a worker these after the cluster's own; of several heaps, a JVM takes the last."""
_MOST = re.compile(r"(?:-Xmx|-XX:MaxHeapSize=)(\d+)([kKmMgGtT]?)")
_MB = {"": 1 / (1 << 20), "k": 1 / 1024, "m": 1, "g": 1024, "t": 1 << 20}


def own_heap_mb(settings: Mapping[str, StormValue]) -> int | None:
    """Return the heap in MB that a topology's settings give its workers; None where they give none.

    Examples
    --------
    >>> own_heap_mb({"topology.worker.childopts": "-Xms64m -Xmx2g"}), own_heap_mb({})
    (2048, None)
    """
    found = None
    for key in OPTIONS:
        given = settings.get(key)
        words = given if isinstance(given, list) else str(given or "").split()
        for word in words:
            if matched := _MOST.fullmatch(str(word)):
                found = int(matched[1]) * _MB[matched[2].lower()]
    return None if found is None else round(found)
