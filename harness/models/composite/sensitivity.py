"""Share of an answer that is made of times that had to be measured: costs of tuples, hops and sleeps.

The time that a window takes to fill follows from rates, which are known well; the cost of a tuple on a host
of another load is not. So a prediction is as uncertain as the share of it that grows with costs. That share
is found by solving the network once more with all costs ``BY`` times as long.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.network import Atoms, Hops, Network, Service

BY = 1.05
"""Little, so that a plan that is nearly full is not full by it."""


def dearer(network: Network, by: float = BY) -> Network:
    """Return a network whose tuples cost more and whose threads sleep longer; rates and windows are the same.

    Flush intervals stay, too: like windows they are set.

    Parameters
    ----------
    network : Network
    by : float
        Factor on times.
    """

    def longer(times: Atoms) -> Atoms:
        return Atoms(times.values_ms * by, times.probabilities)

    hops = network.hops
    return replace(
        network,
        service={i: Service(longer(s.cpu_ms), longer(s.wait_ms)) for i, s in network.service.items()},
        hops=Hops(
            longer(hops.within_worker_ms),
            longer(hops.between_workers_ms),
            longer(hops.between_nodes_ms),
            {pair: longer(ms) for pair, ms in hops.between_pairs_ms.items()},
        ),
        idle_ms=network.idle_ms * by,
        row_ms={stream: ms * by for stream, ms in network.row_ms.items()},
        poll_ms={spout: ms * by for spout, ms in network.poll_ms.items()},
        send_ms={sink: longer(ms) for sink, ms in network.send_ms.items()},
        acker_service_ms=longer(network.acker_service_ms),
    )


def share_of_costs(value: FloatArray, dearer: FloatArray) -> FloatArray:
    """Return which share of values grows, or shrinks, with costs: the elasticity, 1 at most.

    Parameters
    ----------
    value, dearer : array (n)
        Of a network, and of the dearer one; where there is no number, or none that is positive, the share is
        1.

    Examples
    --------
    A time that is all cost, one that is none, a time that is half cost, and a highest rate:

    >>> share_of_costs(np.ones(4), np.array([1.05, 1.0, 1.025, 1 / 1.05])).round(2).tolist()
    [1.0, 0.0, 0.51, 1.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.abs(np.log(dearer / value)) / np.log(BY)
    return np.asarray(np.where(np.isfinite(share), np.minimum(share, 1.0), 1.0))
