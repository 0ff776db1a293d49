"""A measured step as the numbers that tuners put into their equations.

Counts are those of the wrappers' buckets in the measured interval. Processing time is the mean time of one
execute, its emits included. So it includes sending as far as the executor's own thread sends, and Aeolus
counts that part twice. Nothing times a spout's ``nextTuple``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from harness.errors import ModelDeclined, UsageError
from harness.models.contract.answers import require_rate
from harness.models.contract.layout import FloatArray, outputs
from harness.models.contract.message_costs import ASSUMED_BYTES, serialised
from harness.models.contract.observe import Measured, Rows, observe
from harness.plans import Stream
from harness.protocols import Observation
from harness.schemas import Clock, Metric, MetricField
from harness.tuning.dataflow import DataflowLink, DataflowNode, rational


@dataclass(frozen=True)
class StepReading:
    """A way to read a step: by which clock, and with which of the user's values in place of measurements.

    Attributes
    ----------
    clock : {"wall", "cpu"}
        Clock by which processing takes its time: the wall's counts waiting and pauses, the thread's does not.
    ppt_ms : mapping of str to float
        By component, instead of what was measured.
    tuple_bytes : mapping of str to float
        By component or ``component:stream``, instead of what was measured.
    """

    clock: Clock = Clock.WALL
    ppt_ms: Mapping[str, float] = field(default_factory=dict)
    tuple_bytes: Mapping[str, float] = field(default_factory=dict)

    def nodes(self, source: Observation, rate_tps: float) -> tuple[DataflowNode, ...]:
        """Return the step's dataflow at an input rate, producers first.

        Raises
        ------
        ModelDeclined
            When components form a cycle, a metric is missing, or nothing arrived at a component.
        UsageError
            When something is said of a component or stream that the topology lacks.
        """
        require_rate(rate_tps, "proposed")
        measured = observe(source)
        layout = measured.layout
        names = list(layout.order)
        streams = [f"{c}:{o.stream}" for c in names for o in outputs(layout.plan.query_plan, c)]
        _require_known("ppt_ms", self.ppt_ms, names)
        _require_known("tuple_bytes", self.tuple_bytes, [*names, *streams])
        arriving = arrivals(measured)
        offered = rational(rate_tps) / sum(arriving[name] for name in layout.plan.query_plan.spouts)
        rows, sizes = Rows(source, layout), tuple_sizes(source)
        found = []
        for name in names:
            ppt_s, ppt_origin = self._processing(rows, layout.plan.query_plan.spouts, name)
            found.append(
                DataflowNode(
                    name,
                    ppt_s,
                    tuple(
                        self._link(measured, stream, arriving[name], sizes)
                        for stream in layout.plan.query_plan.outputs(name)
                    ),
                    executors=len(layout.plan.of(name)),
                    tasks=int(layout.tasks[name].size),
                    rate_tps=arriving[name] * offered
                    if name in layout.plan.query_plan.spouts
                    else Fraction(0),
                    ppt_origin=ppt_origin,
                )
            )
        return tuple(found)

    def _processing(self, rows: Rows, spouts: Iterable[str], name: str) -> tuple[Fraction, str]:
        """Return the mean time of one execute in seconds, and where it comes from."""
        if name in self.ppt_ms:
            return rational(self.ppt_ms[name]) / 1000, "given by ppt_ms"
        if name in spouts:
            return Fraction(0), "not measured: a spout's nextTuple is not timed, 0 is assumed"
        total, number = (
            (MetricField.CPU_SUM_NS, MetricField.CPU_COUNT)
            if self.clock == Clock.CPU
            else (MetricField.WALL_SUM_NS, MetricField.COUNT)
        )
        times, counts = (rows.of(Metric.SERVICE, name, field=f)["value"] for f in (total, number))
        if not counts.sum() > 0:
            raise ModelDeclined(f"metric service.{total} of {name} is missing from the source step")
        clock = {Clock.WALL: "by the wall clock", Clock.CPU: "by the thread's CPU clock"}[self.clock]
        mean_s = rational(float(times.sum() / counts.sum())) / 10**9
        return mean_s, f"measured: mean of one execute {clock}"

    def _link(
        self, measured: Measured, stream: Stream, processed: Fraction, sizes: Mapping[str, Fraction]
    ) -> DataflowLink:
        sent = measured.transferred[stream]
        tuple_bytes, origin = self._size(f"{stream.source}:{stream.stream}", stream.source, sizes)
        return DataflowLink(
            stream.target,
            _count(sent) / processed,
            tuple_bytes,
            shares(sent.sum(axis=0)),
            origin,
        )

    def _size(self, stream: str, component: str, sizes: Mapping[str, Fraction]) -> tuple[Fraction, str]:
        given = self.tuple_bytes.get(stream, self.tuple_bytes.get(component))
        if given is not None:
            return rational(given), "given by tuple_bytes"
        if stream in sizes:
            return sizes[stream], "measured: as serialised in batches"
        return Fraction(ASSUMED_BYTES), f"not measured: {ASSUMED_BYTES} bytes are assumed, see tuple_bytes"


def arrivals(measured: Measured) -> dict[str, Fraction]:
    """Return the tuples that each component processed; those of a spout are its emits.

    A spout with several output streams counts by the busiest one.

    Raises
    ------
    ModelDeclined
        When a component processed nothing.
    """
    plan = measured.layout.plan.query_plan
    found = {}
    for name in measured.layout.order:
        if plan.inputs(name):
            counts = [_count(measured.arrivals(name))]
        else:
            counts = [_count(measured.emitted(output)) for output in outputs(plan, name)]
        found[name] = max(counts, default=Fraction(0))
        if not found[name]:
            raise ModelDeclined(f"nothing arrived at {name} in the source step: its costs are unknown")
    return found


def shares(received: FloatArray) -> tuple[Fraction, ...]:
    """Return each receiving task's share; the layer that batches has a buffer for each of them.

    Examples
    --------
    >>> shares(np.array([6.0, 0.0, 2.0]))
    (Fraction(3, 4), Fraction(0, 1), Fraction(1, 4))
    """
    total = _count(received)
    if not total:
        return (Fraction(1),)
    return tuple(Fraction(round(count)) / total for count in received.tolist())


def tuple_sizes(source: Observation) -> dict[str, Fraction]:
    """Return the mean bytes of a tuple by ``component:stream``, as the rewriting layer counted them.

    Only streams whose tuples travelled in batches between workers have a size.
    """
    return {
        stream: rational(size) / rational(tuples)
        for stream, (size, tuples) in serialised(source.metrics).items()
    }


def _count(values: FloatArray) -> Fraction:
    return Fraction(sum(round(v) for v in np.ravel(values).tolist()))


def _require_known(parameter: str, given: Iterable[str], known: list[str]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"{parameter} names {name!r}", f"known are {', '.join(known)}")
