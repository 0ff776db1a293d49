"""The source's estimates, from which the network of any proposed plan is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.models.composite.source.demand import Demand
from harness.models.composite.source.fan_out import FanOut
from harness.models.composite.source.hop_times import HopTimes
from harness.models.composite.source.inputs import Inputs
from harness.models.composite.source.row_costs import RowCosts
from harness.models.composite.task_routing import Keyed
from harness.models.contract.layout import Layout


@dataclass(frozen=True)
class SourceEstimates:
    """Estimates from the source, ready for any proposed plan.

    Attributes
    ----------
    source : Layout
        The source's plan.
    keyed : mapping of Stream to array
        Routing that is known by observation only.
    inputs : Inputs
    fans : FanOut
    demand : mapping of component to Demand
    times : HopTimes
    beyond : float
        Stretch of computing over what the law says of the workers' CPU use.
    polling : float
        CPU of looking, polling and sending over what the constants of ``background`` say.
    cold_ms : mapping of component to float
        CPU of a tuple that goes with how cold the source's executors were.
    rows : RowCosts
        What messages and their bytes cost.
    notes : tuple of str
    without : frozenset of str
        Mechanisms that are switched off (``mechanisms``).
    """

    source: Layout
    keyed: Keyed
    inputs: Inputs
    fans: FanOut
    demand: Mapping[str, Demand]
    times: HopTimes
    beyond: float
    polling: float
    cold_ms: Mapping[str, float]
    rows: RowCosts
    notes: tuple[str, ...]
    without: frozenset[str] = frozenset()
