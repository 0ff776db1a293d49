"""The topology of an experiment where it is one of the harness's own: which, and all that its jar is told."""

from __future__ import annotations

from collections.abc import Mapping
from math import erf, sqrt
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harness.plans import Frozen, Grouping, NotNegative, Positive, PositiveFloat, QueryPlan, Role, Window
from harness.topologies import TOPOLOGIES, query_plan
from harness.topologies.batching import BatchSize, require_batched
from harness.topologies.jar import StormValue

MANAGED = {
    "topology.disable.loadaware.messaging": "topology.load_aware",
    "topology.acker.executors": "topology.ackers",
    "topology.max.spout.pending": "topology.max_spout_pending",
    "topology.message.timeout.secs": "topology.message_timeout_s",
    "topology.worker.max.heap.size.mb": "cluster.worker_heap_mb",
    "topology.workers": "workers of a step",
    "topology.stats.sample.rate": "none: every tuple is counted",
    "topology.bolt.wait": "topology.waiting",
    "topology.spout.wait": "topology.waiting",
}
"""Storm settings that have a key of their own, or none: by the start of their name."""

WAIT_STRATEGIES = {
    "progressive": "org.apache.storm.policy.WaitStrategyProgressive",
    "park": "org.apache.storm.policy.WaitStrategyPark",
}


LEAST_FITTING = 0.01
"""Chance, for one draw of a multiplier, to lie within its bounds: all others are drawn again, by the harness
and by the topology."""


class ServiceTime(Frozen):
    """Work that a bolt spends on each tuple: CPU time burnt, or time waited."""

    kind: Literal["cpu", "wait"]
    distribution: Literal["constant", "exponential", "lognormal", "uniform"]
    mean_ms: PositiveFloat
    cv: PositiveFloat | None = None

    @model_validator(mode="after")
    def _cv_where_it_is_used(self) -> Self:
        if (self.distribution == "lognormal") != (self.cv is not None):
            raise ValueError("cv (standard deviation over mean) goes with distribution lognormal, only there")
        return self


class Multiplier(Frozen):
    """Number of tuples for each input: a normal draw, rounded and kept within min and max."""

    min: Positive
    max: Positive
    mean: PositiveFloat
    sd: NotNegative

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.min <= self.mean <= self.max:
            raise ValueError(f"mean {self.mean} must lie between min {self.min} and max {self.max}")
        if self.sd and self._fitting() < LEAST_FITTING:
            raise ValueError(
                f"sd {self.sd:g} puts less than {100 * LEAST_FITTING:g} % of the draws"
                f" between min {self.min} and max {self.max}"
            )
        return self

    def _fitting(self) -> float:
        """Return the chance that a draw, rounded, lies within the bounds."""
        low, high = ((edge - self.mean) / (self.sd * sqrt(2)) for edge in (self.min - 0.5, self.max + 0.5))
        return (erf(high) - erf(low)) / 2


class Spout(Frozen):
    """How storm-kafka-client's spout reads; each setting is explained in docs/experiments.md."""

    poll_timeout_ms: Annotated[int, Field(ge=0)] = 1
    commit_period_ms: Positive = 1000
    guarantee: Literal["no-guarantee", "at-least-once", "at-most-once"] = "no-guarantee"
    consumer: Mapping[str, str] = {"fetch.max.wait.ms": "500", "max.poll.records": "500"}


class WaitStrategy(Frozen):
    """What an idle executor does: spin, then park, then sleep. Its sleep is part of every hop."""

    strategy: Literal["progressive", "park"] = "progressive"
    level1_count: Annotated[int, Field(ge=0)] = 1
    level2_count: Annotated[int, Field(ge=0)] = 1
    sleep_ms: Positive = 1

    def storm(self) -> dict[str, StormValue]:
        """Return the Storm settings of spouts and bolts."""
        out: dict[str, StormValue] = {}
        for kind in ("spout", "bolt"):
            prefix = f"topology.{kind}.wait"
            out[f"{prefix}.strategy"] = WAIT_STRATEGIES[self.strategy]
            if self.strategy == "park":
                out[f"{prefix}.park.microsec"] = self.sleep_ms * 1000
            else:
                out[f"{prefix}.progressive.level1.count"] = self.level1_count
                out[f"{prefix}.progressive.level2.count"] = self.level2_count
                out[f"{prefix}.progressive.level3.sleep.millis"] = self.sleep_ms
        return out


CONSUMERS_OURS = frozenset(
    {"bootstrap.servers", "group.id", "enable.auto.commit", "key.deserializer", "value.deserializer"}
)
PRODUCERS_OURS = frozenset({"bootstrap.servers", "key.serializer", "value.serializer"})
CODECS = ("none", "gzip")


class Topology(Frozen):
    """Which topology, and everything about it that a rebalance does not change."""

    name: str
    load_aware: bool
    tasks: Positive | Mapping[str, Positive] = 16
    ackers: Positive | None = None
    metrics_consumers: Positive = 1
    groupings: Mapping[str, Grouping] = {}
    window: Window | None = None
    multiplier: Multiplier | None = None
    routing: Literal["one-per-window", "parity"] | None = None
    service: Mapping[str, ServiceTime] = {}
    spout: Spout = Spout()
    producer: Mapping[str, str] = {"linger.ms": "0", "acks": "1"}
    waiting: WaitStrategy = WaitStrategy()
    max_spout_pending: Positive = 5000
    message_timeout_s: Positive = 120
    batching: Mapping[str, BatchSize] = {}
    storm: Mapping[str, StormValue] = {}

    @property
    def roles(self) -> Mapping[str, Role]:
        """Components of the topology and their roles."""
        roles: Mapping[str, Role] = TOPOLOGIES[self.name].COMPONENTS
        return roles

    def task_counts(self) -> dict[str, int]:
        """Return the number of tasks of every component."""
        if isinstance(self.tasks, int):
            return dict.fromkeys(self.roles, self.tasks)
        return dict(self.tasks)

    def query_plan(self) -> QueryPlan:
        """Return the query plan with this experiment's tasks, window and groupings."""
        return query_plan(self.name, self.task_counts(), self.window, self.groupings)

    def executors(self, asked: int | Mapping[str, int]) -> dict[str, int]:
        """Return the executors of every component."""
        return dict.fromkeys(self.roles, asked) if isinstance(asked, int) else dict(asked)

    @property
    def own_settings(self) -> Mapping[str, StormValue]:
        """Storm settings that the experiment does not ask for: none."""
        return {}

    @property
    def others(self) -> Mapping[str, int]:
        """Executors of components beside the query plan, ackers and metrics: none."""
        return {}

    def overrides(self) -> dict[str, StormValue]:
        """Return the Storm settings that the experiment asks for."""
        return {
            **self.waiting.storm(),
            "topology.disable.loadaware.messaging": not self.load_aware,
            "topology.max.spout.pending": self.max_spout_pending,
            "topology.message.timeout.secs": self.message_timeout_s,
            **self.storm,
        }

    @model_validator(mode="after")
    def _accepted_by_the_jar(self) -> Self:
        for key, given, ours in (
            ("spout.consumer", self.spout.consumer, CONSUMERS_OURS),
            ("producer", self.producer, PRODUCERS_OURS),
        ):
            if taken := sorted(set(given) & ours):
                raise ValueError(f"{key}: {taken[0]} is set by the harness")
        if (codec := self.producer.get("compression.type", "none")) not in CODECS:
            raise ValueError(
                f"producer: compression.type {codec} is not in the jar, only {', '.join(CODECS)} are"
            )
        for edge, grouping in self.groupings.items():
            if grouping in ("direct", "custom"):
                raise ValueError(
                    f"groupings: {edge}: only the topology of a jar can have {grouping} grouping"
                )
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.name not in TOPOLOGIES:
            raise ValueError(f"unknown topology {self.name!r}: choose one of {', '.join(TOPOLOGIES)}")
        roles = self.roles
        for role, key in (("multiplier", "multiplier"), ("join", "routing")):
            if (role in roles.values()) != (getattr(self, key) is not None):
                needed = "needs" if role in roles.values() else "has no use for"
                raise ValueError(f"topology {self.name} {needed} the key {key!r}")
        windows = {"window", "join"} & set(roles.values())
        if bool(windows) != (self.window is not None):
            raise ValueError(
                f"topology {self.name} {'needs' if windows else 'has no use for'} the key 'window'"
            )
        if not isinstance(self.tasks, int) and set(self.tasks) != set(roles):
            raise ValueError(f"tasks must name each of {', '.join(roles)}")
        for name in self.service:
            if roles.get(name, "spout") == "spout":
                raise ValueError(f"service: there is no bolt {name!r} in {self.name} ({', '.join(roles)})")
        for setting in self.storm:
            for start, key in MANAGED.items():
                if setting.startswith(start):
                    raise ValueError(f"storm: {setting} is set by the harness; its key is {key}")
        edges = [f"{s.source}->{s.target}" for s in TOPOLOGIES[self.name].STREAMS]
        for edge in self.groupings:
            if edge not in edges:
                raise ValueError(f"groupings: there is no stream {edge!r}; streams are {', '.join(edges)}")
        require_batched(self.batching, self.query_plan(), self.message_timeout_s)
        return self
