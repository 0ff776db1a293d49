"""CPU that a tuple takes more because others used the caches since its executor's last one.

Fitted over steps of the tuning set, components and plans apart (docs/model.md, 'CPU'): it falls with the rate
of the tuple's own executor, and less with that of all of its worker, which shares code with it.
"""

from __future__ import annotations

import numpy as np

from harness.models.layout import FloatArray

COLD_MS = 0.24
"""Of a tuple in a worker where nothing else happens for a long time."""
OWN_MS = 45.0
"""Between tuples of an executor this far apart, half of that is left."""
WORKER_MS = 3.2
"""The same of whatever comes to its worker."""


def cold_ms(own_tps: FloatArray, worker_tps: FloatArray) -> float:
    """Return the CPU that coldness adds to a tuple of one component, over all its executors.

    Parameters
    ----------
    own_tps, worker_tps : array (executors)
        Tuples a second that come to the executor, and to all of its worker.

    Examples
    --------
    >>> cold_ms(np.array([0.0]), np.array([0.0]))
    0.24
    >>> round(cold_ms(np.array([1000 / 45]), np.array([312.5])), 4)  # a third: 1 / (1 + 1 + 1)
    0.08
    """
    each = COLD_MS / (1.0 + own_tps * OWN_MS / 1000 + worker_tps * WORKER_MS / 1000)
    return float(np.average(each, weights=own_tps)) if own_tps.sum() > 0 else float(each.mean())
