"""Aeolus and DS2 as tuners: a measured step in, a proposal with its records out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from harness.models.contract.message_costs import SHIPPED_TIMES, MessageTimes
from harness.plans import FLUSH_MS, Positive, PositiveFloat
from harness.tuning.aeolus import Optimizer
from harness.tuning.bounds import MOST_BATCH_BYTES, TRANSPORT_BYTES, batch_warning, bound_reason
from harness.tuning.dataflow import DataflowNode, MessageCost, rational
from harness.tuning.ds2 import scale
from harness.tuning.measured import StepReading
from harness.tuning.reading_tuner import ReadingTuner, TunedDataflow


class AeolusTuner(ReadingTuner):
    """Batch sizes and executors that maximise throughput (``harness.tuning.aeolus``).

    Attributes
    ----------
    message : MessageTimes
        n and s; by default the shipped ones, and every record says so.
    flush_ms : int
        After which a batch leaves that is not full.
    most_batch_bytes : int
        B_max in bytes. More than one packet of TCP/IP brings a warning.
    tuple_bytes : mapping of str to float
        Size of a tuple by component or ``component:stream``, instead of what was measured.
    """

    name = "aeolus"

    message: MessageTimes = SHIPPED_TIMES
    flush_ms: Positive = FLUSH_MS
    most_batch_bytes: Annotated[int, Field(ge=1, le=TRANSPORT_BYTES)] = MOST_BATCH_BYTES
    tuple_bytes: Mapping[str, PositiveFloat] = {}

    @property
    def reading(self) -> StepReading:
        """The way in which it reads a step, tuples' sizes included."""
        return StepReading(self.clock, self.ppt_ms, self.tuple_bytes)

    def tune(self, nodes: tuple[DataflowNode, ...]) -> TunedDataflow:
        """Run algorithm 1."""
        optimizer = Optimizer(
            MessageCost.of(self.message), rational(self.flush_ms) / 1000, self.most_batch_bytes
        )
        tuned = optimizer.tune(nodes)
        batching = tuned.batching(self.flush_ms)
        by_name = {node.name: node for node in nodes}
        warnings = [batch_warning(c, b.size, by_name[c].largest_tuple_bytes) for c, b in batching.items()]
        reasons = [bound_reason(tuned.decisions), *warnings, *self._assumed(nodes)]
        executors = {name: node.executors for name, node in tuned.nodes.items()}
        return TunedDataflow(executors, tuned.decisions, "; ".join(filter(None, reasons)), batching)

    def _assumed(self, nodes: tuple[DataflowNode, ...]) -> list[str]:
        """Name what was put in without a measurement."""
        ppt = [node.name for node in nodes if node.ppt_origin.startswith("not measured")]
        sizes = [n.name for n in nodes for s in n.links if s.bytes_origin.startswith("not measured")]
        assumed = [
            "n, s" if self.message.origin.startswith("not measured") else "",
            f"ppt of {', '.join(ppt)}" if ppt else "",
            f"tuple bytes of {', '.join(dict.fromkeys(sizes))}" if sizes else "",
        ]
        named = "; ".join(filter(None, assumed))
        return [f"assumed, not measured: {named}"] if named else []


class DS2Tuner(ReadingTuner):
    """Executors from true rates in one pass (``harness.tuning.ds2``).

    Attributes
    ----------
    utilisation : float
        Share of time that an executor is to be busy; DS2 itself has 1.
    """

    name = "ds2"

    utilisation: Annotated[float, Field(gt=0, le=1)] = 1.0

    def tune(self, nodes: tuple[DataflowNode, ...]) -> TunedDataflow:
        """Scale the components in one pass."""
        scaled = scale(nodes, rational(self.utilisation))
        return TunedDataflow(scaled.executors, scaled.decisions, bound_reason(scaled.decisions))
