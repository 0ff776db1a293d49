"""The keys of an experiment that name servers beside the cluster's own: for metrics, and for plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harness.plans import Frozen


class MetricStore(Frozen):
    """Where the metrics of a run arrive, before they are in its run directory."""

    store: Literal["embedded", "influxdb"] = "embedded"
    data: Path | None = None
    retention_days: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _only_of_a_server(self) -> Self:
        _only_with_a_server(self, "embedded", ("data", "retention_days"))
        return self


class PlanStore(Frozen):
    """Where the plans of a run are kept, beside its run directory."""

    store: Literal["none", "neo4j"] = "none"
    data: Path | None = None

    @model_validator(mode="after")
    def _only_of_a_server(self) -> Self:
        _only_with_a_server(self, "none", ("data",))
        return self


def _only_with_a_server(store: MetricStore | PlanStore, without: str, keys: tuple[str, ...]) -> None:
    for key in keys:
        if store.store == without and getattr(store, key) is not None:
            raise ValueError(f"the key {key!r} has no meaning with store: {without}")
