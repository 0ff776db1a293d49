"""Arrival rates of a proposed plan's executors: the spouts' emission carried downstream.

Thesis 4.8. Works through the components in downstream order, which visits each once its inputs are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.io_ratios import Coefficients
from harness.models.contract.layout import FloatArray, Layout, Output, outputs
from harness.models.contract.observe import Measured
from harness.plans import Stream


@dataclass(frozen=True)
class ArrivalFlows:
    """Predicted rates, in tuples a second.

    Attributes
    ----------
    layout : Layout
        The proposed plan.
    connections : mapping of Stream to array (source's executors, target's executors)
        Tuples sent on every logical connection.
    outputs : mapping of Output to array (component's executors)
        Emits on every output stream, before copies.
    """

    layout: Layout
    connections: Mapping[Stream, FloatArray]
    outputs: Mapping[Output, FloatArray]

    def arrivals(self, component: str) -> FloatArray:
        """Return the arrival rate at each executor of a component, over all inputs."""
        streams = self.layout.plan.query_plan.inputs(component)
        return np.asarray(np.stack([self.connections[s].sum(axis=0) for s in streams]).sum(axis=0))


def spout_emission(measured: Measured, proposed: Layout, scale: float) -> Mapping[Output, FloatArray]:
    """Predict each spout executor's emits a second on each stream (4.3).

    The thesis is given every spout executor's emission in the proposed step. Here a model knows the proposed
    input rate only, so each spout task is expected to emit what it emitted in the source step, scaled.

    Parameters
    ----------
    scale : float
        Proposed over source input rate.

    Returns
    -------
    mapping of Output to array (component's executors)
    """
    plan = proposed.plan.query_plan
    return {
        output: proposed.membership[name] @ (measured.emitted(output) / measured.seconds[name]) * scale
        for name in plan.spouts
        for output in outputs(plan, name)
    }


def propagate(
    layout: Layout,
    emission: Mapping[Output, FloatArray],
    routing: Mapping[Stream, FloatArray],
    copies: Mapping[Stream, float],
    coefficients: Coefficients,
) -> ArrivalFlows:
    """Carry the spouts' emission through the plan (4.8.1).

    Parameters
    ----------
    layout : Layout
        The proposed plan.
    emission : mapping of Output to array (component's executors)
        Emits of the spouts' executors.
    routing : mapping of Stream to array (source's executors, target's executors)
        Stream routing probabilities; a row of NaN is allowed where the executor emits nothing.
    copies : mapping of Stream to float
        Tuples that one emit sends.
    coefficients : mapping
        I/O coefficients of the components with inputs.

    Raises
    ------
    ModelDeclined
        When coefficients give a negative rate, or an executor emits on a stream of unknown routing.
    """
    plan = layout.plan.query_plan
    connections: dict[Stream, FloatArray] = {}
    emitted: dict[Output, FloatArray] = {}
    for name in layout.order:
        arrived = {s: connections[s].sum(axis=0) for s in plan.inputs(name)}
        for output in outputs(plan, name):
            emitted[output] = (
                sum((coefficients[output][s] * a for s, a in arrived.items()), np.zeros(1))  # eq. 4.8, 4.9
                if arrived
                else emission[output]
            )
            _require_rates(emitted[output], layout, output)
        for stream in plan.outputs(name):
            rate = emitted[Output(name, stream.stream)] * copies[stream]
            unknown = np.isnan(routing[stream]).any(axis=1)
            if (unknown & (rate > 0)).any():
                executor = layout.executors[layout.of[name]][int(np.argmax(unknown & (rate > 0)))]
                raise ModelDeclined(f"no routing known for {executor.label} on stream {stream.label}")
            connections[stream] = rate[:, None] * np.nan_to_num(routing[stream])
    return ArrivalFlows(layout, connections, emitted)


def _require_rates(rate: FloatArray, layout: Layout, output: Output) -> None:
    wrong = ~(rate >= 0)
    if wrong.any():
        executor = layout.executors[layout.of[output.component]][int(np.argmax(wrong))]
        raise ModelDeclined(
            f"least squares give {executor.label} an output rate of {rate[wrong][0]:.3g} on {output.stream}"
        )
