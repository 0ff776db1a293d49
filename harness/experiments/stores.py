"""The keys of an experiment that name servers beside the cluster's own: for metrics, and for plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harness.plans import Frozen

ADDRESS = r"^https?://[^\s/@?#]+(/[^\s?#]*)?$"
"""Address of a server, without a name and a password in it."""


class MetricStore(Frozen):
    """Where the metrics of a run arrive, before they are in its run directory.

    Attributes
    ----------
    store : {'embedded', 'influxdb'}
        Where metrics arrive before they are in the run directory: in memory, or in an InfluxDB
        (docs/metric-store.md).
    data : Path
        With ``influxdb`` on a cluster of this machine: folder of its data, beside the experiment's
        file; the user's data folder by default.
    retention_days : int
        The same server's: how long it keeps points, 400 days by default, 0 for ever. Fixed when the
        folder is made.
    url : str
        With ``influxdb``: address of a server that is there already, ``http://HOST:PORT``. It gets each
        finished step; its token is in ``INFLUXDB_TOKEN``, or in the file that ``INFLUXDB_TOKEN_FILE`` names.
    org, bucket : str
        The same server's organisation, and the bucket that steps go to.
    """

    store: Literal["embedded", "influxdb"] = "embedded"
    data: Path | None = None
    retention_days: Annotated[int, Field(ge=0, le=36_500)] | None = None
    url: Annotated[str, Field(pattern=ADDRESS)] | None = None
    org: str | None = None
    bucket: str | None = None

    @property
    def given(self) -> bool:
        """True where finished steps go to an InfluxDB that is there already."""
        return self.url is not None

    @property
    def of_the_cluster(self) -> bool:
        """True where the cluster has an InfluxDB that metrics arrive in."""
        return self.store == "influxdb" and not self.given

    @model_validator(mode="after")
    def _only_of_a_server(self) -> Self:
        _only_with_a_server(self, "embedded", ("data", "retention_days", "url"))
        for key in ("data", "retention_days"):
            if self.given and getattr(self, key) is not None:
                raise ValueError(f"the key {key!r} has no meaning with url: that server keeps its own data")
        if len({value is None for value in (self.url, self.org, self.bucket)}) == 2:
            raise ValueError("url, org and bucket go together: give all of them, or none")
        return self


class PlanStore(Frozen):
    """Where the plans of a run are kept, beside its run directory.

    Attributes
    ----------
    store : {'none', 'neo4j'}
        ``neo4j`` gets the plans of every finished step: one that is started with the cluster, or a
        provisioned one's (docs/plan-graph.md).
    data : Path
        With ``neo4j``: folder of its data, beside the experiment's file; the user's data folder by
        default.
    """

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
