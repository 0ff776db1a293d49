"""The harness's own model: the proposed plan as a network of queues and delays, solved stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from harness.errors import ModelDeclined
from harness.models.composite import proposal
from harness.models.composite.anchoring import anchored
from harness.models.composite.mechanisms import ANCHORING, FITTED, without_estimates
from harness.models.composite.neighbourhood import Neighbourhood
from harness.models.composite.plan.network_builder import build_network, network_builder
from harness.models.composite.played import answered
from harness.models.composite.sensitivity import dearer
from harness.models.composite.solved_measures import CPU, Limit, predicted
from harness.models.composite.source_estimates import SourceEstimates
from harness.models.composite.uncertainty import Calibrations, Weighed, calibrations
from harness.models.contract.answers import (
    declined,
    require_no_relief,
)
from harness.models.contract.measured_answers import measured_answers
from harness.models.contract.message_costs import SHIPPED_TIMES, MessageTimes
from harness.models.network import Network
from harness.models.solver.solve import Solution
from harness.plans import PhysicalPlan
from harness.protocols import Observation, Prediction, Settings

NOTES = """\
The source observation is turned into what a tuple costs and meets (CPU demand and waiting apart, hops,
sleeps, fan-outs, keys), the proposed plan into a network of these (harness.models.composite.proposal), and
the network is solved (harness.models.solver): rates along the plan; contention for cores; variability by an
index that sees bursts; each executor a single server that sleeps when idle; windows and their acks by task;
distributions carried along the edges as characteristic functions. Nothing is cut. Between two nodes whose
round trips were probed a hop takes half of one on top; without probes the network takes no time of its own.
Complete latency: from the acker's receipt of a message's first word to that of its tree's last ack, a maximum
over all that was made of it. The statistics of the thesis's protocol are answered by the mean over rows that
begin and end on one worker node, up to the mean complete latency (mean_same_node) and, since no path is
listed, by the mean complete latency itself (p90_paths).
Intervals: what the source would have said in other intervals (its blocks weighted at random), and the model's
own error on the tuning set of reports/evaluation-split.yaml, by how much of a value what tuples cost makes.
A plan in which an executor, a spout or a host's cores would be overloaded is saturated: then there is no
latency, and throughput is what is sustainable. For a source without hop records (a jar's) what hops take is
assumed, and its latencies are anchored at the source's measured ones (harness.models.composite.anchoring)."""

COARSE = 64
"""Frequencies for what replicates spread: it is compared with the prediction at as many."""
_CLOSE = 0.005
"""Relative width to which the highest rate is searched for."""


@dataclass(frozen=True)
class Composite:
    """The model; ``prepare`` reads a source once, for predictions of one plan after another.

    Attributes
    ----------
    calibrations : mapping of (measure, statistic) to Calibration
        By default what is committed.
    message : MessageTimes
        What a message between workers costs; by default what is shipped.
    without : frozenset of str
        Mechanisms that are switched off (``mechanisms``).
    """

    calibrations: Calibrations = field(default_factory=calibrations)
    message: MessageTimes = SHIPPED_TIMES
    without: frozenset[str] = frozenset()

    def __call__(
        self, source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float
    ) -> Prediction:
        """Predict a proposed plan's performance.

        Parameters
        ----------
        source : Observation
            What was measured of the source plan.
        proposed : PhysicalPlan
            Of the same query plan.
        settings : Settings
            Of the proposed step.
        rate_tps : float
            Messages a second in the proposed step.

        Returns
        -------
        Prediction
            Every measure with its 90 % interval, or a named gap.
        """
        try:
            prepared = self.prepare(source)
        except ModelDeclined as why:
            return declined(proposed, why)
        return prepared.predict(proposed, settings, rate_tps)

    def prepare(self, source: Observation) -> Prepared:
        """Read a source.

        Raises
        ------
        ModelDeclined
            When it cannot be used.
        """
        require_no_relief(source.settings.relief, "source")
        found = proposal.examine(source, self.message)
        weighed = Weighed(found, self.without & FITTED)
        if found.hops is not None:
            return Prepared(weighed, self.calibrations, without=self.without)
        if source.hop_records:
            raise ModelDeclined("the source step has no hop records: no message of it reached a sink")
        anchors = source.steady and ANCHORING not in self.without
        measured = measured_answers(source, source.plan) if anchors else None
        return Prepared(weighed, self.calibrations, measured, self.without)


composite = Composite()
"""The model as it is registered."""


@dataclass(frozen=True)
class Prepared:
    """A source that was read.

    Attributes
    ----------
    weighed : Weighed
        The source's readings and estimates.
    calibrations : mapping of (measure, statistic) to Calibration
    measured : Prediction, optional
        The source's own latencies, at which predictions are anchored; None where hop records make that
        unnecessary, and where the source was not steady.
    without : frozenset of str
        Mechanisms that are switched off.
    """

    weighed: Weighed
    calibrations: Calibrations
    measured: Prediction | None = None
    without: frozenset[str] = frozenset()

    @property
    def source(self) -> proposal.Source:
        """Readings of the source, before anything is weighed."""
        return self.weighed.source

    @cached_property
    def estimates(self) -> SourceEstimates:
        """Estimates from the source, all of its blocks weighing alike."""
        return without_estimates(self.weighed.estimates, self.without)

    @cached_property
    def replicates(self) -> tuple[SourceEstimates, ...]:
        """Estimates as from the source measured in other intervals."""
        return tuple(without_estimates(r, self.without) for r in self.weighed.replicates)

    def solve(self, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Solution:
        """Return the proposed plan's solution, of which latencies can be asked one by one.

        Raises
        ------
        ModelDeclined
            When the plan does not fit.
        """
        return answered(build_network(self.estimates, proposed, settings, rate_tps))

    def around(self, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Neighbourhood:
        """Return the plans around a proposed one: those with one executor in another worker.

        Raises
        ------
        ModelDeclined
            When the plan does not fit.
        """
        return Neighbourhood(network_builder(self.estimates, proposed, settings, rate_tps))

    def predict(self, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
        """Return every measure of a proposed plan with its interval, or a named gap."""
        try:
            networks = self.networks(proposed, settings, rate_tps)
            own, others = answered(networks[0]), coarsely_answered(networks)
            limit = self._limit(own, settings, rate_tps)
            return self.anchor(predicted(own, others, rate_tps, self.calibrations, limit))
        except ModelDeclined as why:
            return declined(proposed, why)

    def cpu(self, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
        """Return the CPU of a proposed plan's workers and nodes alone, without intervals, or a named gap.

        No latency is worked out, so it is quick.
        """
        try:
            own = self.solve(proposed, settings, rate_tps)
            return predicted(own, [], rate_tps, self.calibrations, parts=CPU)
        except ModelDeclined as why:
            return declined(proposed, why)

    def networks(self, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> tuple[Network, ...]:
        """Return a proposed plan's network, and after it one for each replicate of the source.

        Raises
        ------
        ModelDeclined
            When the plan does not fit.
        """
        own = build_network(self.estimates, proposed, settings, rate_tps)
        return own, *(build_network(r, own.layout, settings, rate_tps) for r in self.replicates)

    def anchor(self, found: Prediction) -> Prediction:
        """Return a prediction whose latencies are anchored at the source's where no hop was recorded.

        Raises
        ------
        ModelDeclined
            When the source's own plan cannot be solved.
        """
        return found if self.measured is None else anchored(found, self._of_source, self.measured)

    @cached_property
    def _of_source(self) -> Prediction:
        """Prediction for the source itself."""
        evidence = self.source.evidence
        own = self.solve(evidence.plan, evidence.settings, evidence.rate_tps)
        return predicted(own, [], evidence.rate_tps, self.calibrations)

    def _limit(self, own: Solution, settings: Settings, rate_tps: float) -> Limit | None:
        """Return the rate that would overload the plan; what its hosts do besides grows with it."""
        layout, high = own.network.layout, own
        most = rate_tps * max(own.bottleneck.factor, 1.0)
        if not np.isfinite(most):
            return None
        least = 0.0 if own.overloaded else rate_tps
        while most - least > _CLOSE * most:
            middle = (least + most) / 2
            solution = answered(build_network(self.estimates, layout, settings, middle), COARSE)
            if solution.overloaded:
                most, high = middle, solution
            else:
                least = middle
        return Limit((least + most) / 2, high.bottleneck_name)


def coarsely_answered(networks: Sequence[Network]) -> list[Solution]:
    """Return the solutions that ``predicted`` makes intervals of: also of a dearer network.

    Raises
    ------
    ModelDeclined
        When a network is not in order.
    """
    own, *replicated = networks
    return [answered(network, COARSE) for network in (own, dearer(own), *replicated)]
