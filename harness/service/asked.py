"""A topology that questions are asked of, whoever knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from harness.service.answers import ProposalAsked

if TYPE_CHECKING:
    from harness.forecasts.histories import SubjectHistory
    from harness.protocols import Observation


class AskedTopology(Protocol):
    """Metrics of a topology, of a measured step or of the last minutes."""

    @property
    def named(self) -> Mapping[str, str | int]:
        """Keys by which an answer says where it comes from."""
        ...

    def observe(self) -> Observation:
        """Return the plan in force with its metrics."""
        ...

    def measured_mean_ms(self, source: Observation) -> float | None:
        """Return the measured mean latency; None without one."""
        ...

    @property
    def season_s(self) -> Sequence[float]:
        """Lengths of the seasons that its traffic is said to have."""
        ...

    def histories(
        self, source_hours: float, bucket_s: float, season_s: Sequence[float]
    ) -> Sequence[SubjectHistory]:
        """Return what each spout, and each task of it, emitted into each stream, in buckets fit for these."""
        ...

    def predict(self, asked: ProposalAsked) -> dict[str, object]:
        """Predict another plan, beside the one in force."""
        ...
