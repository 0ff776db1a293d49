"""Time on the network between worker processes.

Thesis 4.11. Within a worker process nothing; between worker processes of one node nothing beyond the send
thread's delay (serialisation is left out, 4.11.1); between nodes half of the median round trip.
The harness measures no round trips: nodes on one host pass tuples over its loopback, which is taken as 0.
"""

from __future__ import annotations

import numpy as np

from harness.errors import ModelDeclined
from harness.models.layout import FloatArray
from harness.plans import PhysicalPlan


def network_ms(plan: PhysicalPlan) -> FloatArray:
    """Return the one-way network latency between worker processes.

    Returns
    -------
    array (workers, workers)
        In the order of ``plan.workers``.

    Raises
    ------
    ModelDeclined
        When workers are on different hosts: no round trip between them was measured.
    """
    hosts = {plan.node_names[w.node].host for w in plan.workers}
    if len(hosts) > 1:
        raise ModelDeclined(f"no round-trip times between hosts were measured ({', '.join(sorted(hosts))})")
    return np.zeros((len(plan.workers), len(plan.workers)))
