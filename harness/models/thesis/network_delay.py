"""Time on the network between worker processes.

Thesis 4.11. Within a worker process the time is 0. Between worker processes of one node the time is 0, too,
beyond the send thread's delay (serialisation is left out, 4.11.1). Between nodes the time is half of the
median round trip. Nodes of a local cluster pass tuples over the host's loopback, which nothing probes and
which is taken as 0.
"""

from __future__ import annotations

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray, node_pair
from harness.models.contract.observe import RoundTrips
from harness.plans import PhysicalPlan


def network_ms(plan: PhysicalPlan, probed: RoundTrips) -> FloatArray:
    """Return the one-way network latency between worker processes.

    Parameters
    ----------
    plan : PhysicalPlan
    probed : RoundTrips

    Returns
    -------
    array (workers, workers)
        In the order of ``plan.workers``.

    Raises
    ------
    ModelDeclined
        When workers are on different hosts and no round trip between them was measured.
    """
    nodes = [plan.node_names[w.node] for w in plan.workers]
    found = np.zeros((len(nodes), len(nodes)))
    if not probed and len({node.host for node in nodes}) == 1:
        return found
    for i, here in enumerate(nodes):
        for j, there in enumerate(nodes):
            seen = probed.get(node_pair(here.name, there.name)) if here.name != there.name else None
            if seen is not None:
                found[i, j] = np.median(seen) / 2
            elif here.host != there.host:
                hosts = ", ".join(sorted({here.host, there.host}))
                raise ModelDeclined(f"no round-trip times between hosts were measured ({hosts})")
    return found
