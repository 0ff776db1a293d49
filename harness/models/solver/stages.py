"""Results of stages as later ones read them."""

from __future__ import annotations

from typing import NamedTuple

from harness.models.contract.layout import FloatArray
from harness.models.solver.rates import Rates
from harness.models.solver.records import Flat
from harness.models.solver.service import ServiceMoments


class Holds(NamedTuple):
    """Waits for batches. Without batches all arrays of laws are empty.

    Attributes
    ----------
    link : array (links, numbers)
        From one executor to another of its worker, by stream (``first_link``).
    out : array (executors and ackers, numbers)
        For other workers, by sender.
    ack : array (executors and ackers, numbers)
        Of an ack to an acker of the sender's worker; of an acker's, to such a spout executor.
    gather : array (executors and ackers, numbers)
        Of what comes from other workers, by receiver.
    far_out, far_in : array (executors and ackers)
        Tuples and acks a ms to and from other workers.
    acks : array (executors)
        Acks a ms that each sends.
    """

    link: FloatArray
    out: FloatArray
    ack: FloatArray
    gather: FloatArray
    far_out: FloatArray
    far_in: FloatArray
    acks: FloatArray


class Flow(NamedTuple):
    """Flows through executors, and the waits there.

    Attributes
    ----------
    arrivals : array (executors, scales)
        Index of dispersion of what comes to its queue.
    ports : array (ports, scales)
        Of what it emits.
    law : array (executors and ackers, numbers)
        Waiting laws (``waiting``).
    holds : Holds
        Waits for batches.
    """

    arrivals: FloatArray
    ports: FloatArray
    law: FloatArray
    holds: Holds


class Stages(NamedTuple):
    """Results of the stages that the propagation of times needs; the stage ``flow`` itself fills the last."""

    net: Flat
    rates: Rates
    service: ServiceMoments
    flow: Flow
