"""CPU that a tuple takes more because others used the caches since its executor last worked.

An executor that begins to work is cold: the first of the tuples that it finds together pays, the others come
to warm caches (``starts``). It pays the less the more happens in its worker, which shares code with it, and
the more the more CPU its work takes. Fitted to pairs of the tuning set's steps (docs/model.md, 'CPU').
"""

from __future__ import annotations

import numpy as np

from harness.models.contract.layout import FloatArray

COLD_MS = 0.25
"""CPU that coldness adds to a start with a millisecond of CPU a tuple, in a worker where nothing else happens
for a long time."""
SIZE = 0.24
"""Power of a tuple's CPU that it grows with."""
WORKER_MS = 3.2
"""Between tuples of the worker this far apart, half of it is left."""


def cold_ms(cpu_ms: float, starts_tps: FloatArray, own_tps: FloatArray, worker_tps: FloatArray) -> float:
    """Return the CPU that coldness adds to a tuple of one component, over all its executors.

    Parameters
    ----------
    cpu_ms : float
        Of one of its tuples, in the source.
    starts_tps : array (executors)
        How often in a second each begins to work.
    own_tps, worker_tps : array (executors)
        Tuples a second that come to the executor, and to all of its worker.

    Examples
    --------
    >>> cold_ms(1.0, np.array([8.0]), np.array([8.0]), np.array([0.0]))
    0.25
    >>> cold_ms(1.0, np.array([4.0]), np.array([8.0]), np.array([312.5]))  # every other tuple; half is left
    0.0625
    """
    each = COLD_MS * cpu_ms**SIZE / (1.0 + worker_tps * WORKER_MS / 1000)
    begun = np.minimum(starts_tps, own_tps)
    return float(begun @ each / own_tps.sum()) if own_tps.sum() > 0 else float(each.mean())
