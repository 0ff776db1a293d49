"""A topology that was submitted to stay, answered for from its metrics in InfluxDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from harness.app.submitted.folder import SubmittedTopology
from harness.app.submitted.live_rows import LiveMetrics, LiveRows
from harness.app.submitted.observing import RowSpan, mean_ack_ms
from harness.app.submitted.plan_file import differences, labels
from harness.app.submitted.spout_history import read_history
from harness.errors import UsageError
from harness.experiments import records
from harness.forecasts.histories import SubjectHistory
from harness.plans import PhysicalPlan
from harness.protocols import Observation
from harness.service.answers import ProposalAsked
from harness.service.live_topology import moved_elsewhere, observe_of
from harness.service.nearest_plan import predict_nearest
from harness.service.proposals import predict_left
from harness.service.questions import computing
from harness.service.run_index import UnknownName

if TYPE_CHECKING:
    from harness.app.submitted.asked_cluster import AskedCluster


class LeftTopology:
    """A submitted topology (``harness.service.asked.AskedTopology``).

    Parameters
    ----------
    topology : SubmittedTopology
    metrics : LiveMetrics
        Where its rows are read.
    cluster : AskedCluster, optional
        Its cluster, asked for the plan in force; without, that is the kept plan.
    """

    def __init__(
        self, topology: SubmittedTopology, metrics: LiveMetrics, cluster: AskedCluster | None
    ) -> None:
        self._topology = topology
        self._metrics = metrics
        self._cluster = cluster

    @property
    def named(self) -> Mapping[str, str | int]:
        """The folder's name."""
        return {"submitted": self._topology.name}

    def observe(self) -> Observation:
        """Return the last minutes of the plan in force.

        Raises
        ------
        UnknownName
            When its cluster does not run it any more.
        UsageError
            When spouts emitted nothing, or somebody changed the plan and no cluster is asked for it.
        ClusterError
            When InfluxDB or Nimbus is away.
        """
        rows, running = self._in_force()
        with computing:
            return observe_of(self._topology, rows, running=running)

    def measured_mean_ms(self, source: Observation) -> float | None:
        """Return the mean time from emit to ack."""
        return mean_ack_ms(pa.Table.from_pandas(source.metrics[["measurement", "field", "value"]]))

    @property
    def season_s(self) -> Sequence[float]:
        """Those that it was submitted with."""
        return self._topology.facts.season_s

    def histories(
        self, source_hours: float, bucket_s: float, season_s: Sequence[float]
    ) -> Sequence[SubjectHistory]:
        """Return what spouts emitted since the topology is up, at most so many hours."""
        return read_history(self._topology, self._metrics, (), source_hours, bucket_s, season_s)

    def predict(self, asked: ProposalAsked) -> dict[str, object]:
        """Predict another plan from the last minutes of the one in force, a placement from the nearest one.

        Where who asks says the plan in force, it is that one.
        """
        if asked.source is not None:
            return predict_left(self._topology, self._metrics.rows(self._topology), asked)
        rows, running = self._in_force()
        if asked.placement is None:
            return predict_left(self._topology, rows, asked, running)
        answer = predict_nearest(self._topology, self._metrics, rows, running, asked)
        return {**self.named, **answer}

    def _in_force(self) -> tuple[LiveRows, PhysicalPlan | None]:
        """Return the rows of the plan in force, and that plan where it is not the kept one."""
        topology, kept = self._topology, self._topology.plan.plan
        live = self._metrics.rows(topology)
        if self._cluster is not None and self._cluster.runs(topology):
            running = self._cluster.topologies()
            if topology.facts.topology not in running:
                raise UnknownName("running topology", topology.facts.topology, sorted(running))
            found = self._cluster.in_force(topology)
            if not differences(labels(kept), found.plan):
                return live, None
            later = live.table.filter(pc.greater(live.table["bucket_end_ms"], found.at_epoch_ms))
            if not later.num_rows:
                raise UsageError(
                    f"the plan in force of {topology.name} has not reported yet: its workers are new",
                    "ask again in some seconds",
                )
            span = RowSpan(max(live.span.since_ms, found.at_epoch_ms), live.span.until_ms)
            return LiveRows(later, span), found.plan
        rows = records.metrics(live.table, kept.nodes)
        if rows.num_rows and moved_elsewhere(kept, rows, int(pc.max(rows["bucket_end_ms"]).as_py())):
            raise UsageError(
                f"executors of {topology.name} are not where the kept plan has them: somebody changed it",
                f"start harness serve with --cluster, whose nimbus is at {topology.facts.cluster.nimbus}",
            )
        return live, None
