"""Results of stages as later ones read them."""

from __future__ import annotations

from typing import NamedTuple

from harness.models.contract.layout import FloatArray
from harness.models.solver.rates import Rates
from harness.models.solver.records import Flat
from harness.models.solver.service import ServiceMoments


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
    """

    arrivals: FloatArray
    ports: FloatArray
    law: FloatArray


class Stages(NamedTuple):
    """Results of the stages that the propagation of times needs; the stage ``flow`` itself fills the last."""

    net: Flat
    rates: Rates
    service: ServiceMoments
    flow: Flow
