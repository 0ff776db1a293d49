"""The steps of an experiment as its file asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from harness.experiments.forecast_settings import ForecastSettings
from harness.experiments.placement_file import count_executors, read_placement
from harness.experiments.step_faults import Fault
from harness.experiments.workload_settings import RateChanges, RateTps, Seed
from harness.machine.named_paths import file_at
from harness.machine.server_config import MOST_NODES
from harness.plans import BatchSize, Frozen, PositiveFloat
from harness.topologies.bounds import AskedExecutors, Count, Executors

NodeCount = Annotated[int, Field(ge=1, le=MOST_NODES)]
"""A number of worker nodes, none of which has the ports of another server."""
MOST_STEPS = 1000
"""Most steps of a plan, and most repeats of it."""
PLUG_IN_TAGS = ("plug-in-by-name", "plug-in-with-parameters")
"""Stand in the places of errors."""


def _kind_of_plug_in(given: object) -> str:
    return PLUG_IN_TAGS[isinstance(given, Mapping)]


AskedPlugIn = Annotated[
    Annotated[str, Tag(PLUG_IN_TAGS[0])] | Annotated[Mapping[str, object], Tag(PLUG_IN_TAGS[1])],
    Discriminator(_kind_of_plug_in),
]
"""A scheduler's or tuner's name, or a mapping with it and its parameters."""


def plug_in_name(asked: AskedPlugIn | None, unnamed: str) -> str:
    """Return the name that a file gives of a scheduler or tuner; empty where it asks for none.

    Examples
    --------
    >>> plug_in_name({"name": "even"}, "a scheduler"), plug_in_name(None, "a scheduler")
    ('even', '')
    """
    return str(asked.get("name", unnamed)) if isinstance(asked, Mapping) else asked or ""


class ScaleSpec(Frozen):
    """Loads by which worker nodes come and go.

    Attributes
    ----------
    out_pct : float
        Nodes come where the proposed plan would load one by more, in percent of its bottleneck resource.
    in_pct : float
        A node is marked for removal where the mean is lower.
    link_bytes_s : float
        Bytes a second that a node may send. Without it bytes sent are never the bottleneck.
    """

    out_pct: Annotated[float, Field(gt=0, le=1000)] = 80.0
    in_pct: Annotated[float, Field(ge=0, le=1000)] = 50.0
    link_bytes_s: PositiveFloat | None = None

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.in_pct >= self.out_pct:
            raise ValueError(f"in_pct {self.in_pct:g} must be below out_pct {self.out_pct:g}")
        return self


class AdaptSpec(ForecastSettings):
    """A scheduler or tuner that is asked again and again while a step is measured.

    Attributes
    ----------
    scheduler : str or mapping
        Its name, or ``{name, PARAMETER: VALUE}`` (docs/schedulers.md).
    tuner : str or mapping
        In place of a scheduler: proposes numbers of executors and workers, which Storm's own scheduler
        places, and sizes of batches, for streams that ``batching`` names; a name, or
        ``{name, PARAMETER: VALUE}`` (docs/tuning.md).
    moves : {'executors', 'key-groups'}
        Units that a scheduler moves: executors; with ``balance``, ``albic``, ``flux`` and ``cola`` also key
        groups of ``keyed`` components (docs/key-groups.md).
    period_s : float
        Seconds from one question to the next.
    settle_s : float
        After a plan that restarted workers, seconds that are not shown to who is asked: the workers are
        cold, and catch up with what gathered.
    improvement_pct : float
        Where a scheduler keeps the numbers, the plan in force stays unless traffic between nodes falls by
        more than this, or the load distance by as many points. ``model-guided`` judges gains itself.
    target_p95_ms : float
        The report counts the seconds whose messages have a 95th percentile above it. It decides nothing.
    nodes : list
        ``[least, most]`` worker nodes: they come and go while messages flow, on a local cluster. The cluster
        begins with its own ``nodes``. One that is added is like the last of these.
    scale : mapping
        Loads by which they do.
    """

    scheduler: AskedPlugIn | None = None
    tuner: AskedPlugIn | None = None
    moves: Literal["executors", "key-groups"] = "executors"
    period_s: Annotated[float, Field(ge=5, le=3600)] = 30.0
    settle_s: Annotated[float, Field(ge=0, le=3600)] = 15.0
    improvement_pct: Annotated[float, Field(ge=0, lt=100)] = 0.0
    target_p95_ms: PositiveFloat | None = None
    nodes: tuple[NodeCount, NodeCount] | None = None
    """None where they stay."""
    scale: ScaleSpec | None = None
    """None for its defaults."""

    @property
    def scaling(self) -> ScaleSpec:
        """Loads by which nodes come and go."""
        return self.scale or ScaleSpec()

    @property
    def by(self) -> str:
        """Name of the scheduler or tuner."""
        return plug_in_name(self.scheduler, "a scheduler") or plug_in_name(self.tuner, "a tuner")

    @model_validator(mode="after")
    def _asks_one(self) -> Self:
        if (self.scheduler is None) == (self.tuner is None):
            raise ValueError("give either scheduler or tuner")
        return self

    @model_validator(mode="after")
    def _plans_ahead(self) -> Self:
        if self.horizon_s is not None and self.horizon_s < self.period_s:
            ends = f"ends before the next question, after period_s {self.period_s:g}"
            raise ValueError(f"horizon_s {self.horizon_s:g} {ends}: give a longer one")
        if self.forecast is not None and self.bucket_s > self.period_s:
            longer = f"bucket_s {self.bucket_s:g} is longer than period_s {self.period_s:g}"
            raise ValueError(f"{longer}: a period would tell nothing new")
        return self

    @model_validator(mode="after")
    def _moves_groups(self) -> Self:
        if self.moves == "key-groups" and (self.scheduler is None or self.nodes is not None):
            raise ValueError("moves: key-groups needs a scheduler, and no nodes beside it")
        return self

    @model_validator(mode="after")
    def _scales(self) -> Self:
        if self.nodes is None:
            if self.scale is not None:
                raise ValueError("scale: give nodes: [least, most] beside it, or no node comes or goes")
            return self
        if self.tuner is not None:
            raise ValueError("nodes and tuner: give a scheduler, which places executors on the nodes")
        if self.nodes[0] > self.nodes[1]:
            raise ValueError(f"nodes: the least, {self.nodes[0]}, is above the most, {self.nodes[1]}")
        return self


class StepSpec(Frozen):
    """One configuration as the file asks for it; what is left out comes from the experiment.

    Attributes
    ----------
    executors : int, mapping or 'tasks'
        Executors: one number for all components, a mapping by component, or ``tasks``: as many of each as it
        has tasks.
    workers : int
        Workers; all slots by default.
    rate_tps : float
        Messages a second; the workload's by default.
    changes : list of RateChange
        The rate changes inside the step; the workload's by default, ``[]`` for none.
    fresh : bool
        The topology is submitted anew instead of rebalanced.
    scheduler : str or mapping
        Places the executors: a name, or ``{name, PARAMETER: VALUE}`` (docs/schedulers.md); Storm's
        own by default.
    source : int
        With ``scheduler`` or ``tuner``: an earlier position in ``steps.plan``, whose measurement is read.
    placement : Path
        In place of ``executors``, ``workers`` and ``scheduler``: a file beside the experiment's with
        the worker's label of each executor's label. The run keeps a copy.
    faults : list of Fault
        Faults that are made while the step is measured (docs/reliability.md). It is measured once.
    judge : bool
        Models are judged by the step, though it has faults.
    tuner : str or mapping
        In place of ``executors`` and ``workers``: proposes them and batch sizes for the step's rate from the
        step that ``from`` names; a name, or ``{name, PARAMETER: VALUE}`` (docs/tuning.md).
    adapt : mapping
        The plan changes while the step is measured: ``{scheduler, moves, period_s, improvement_pct, nodes,
        scale}`` or ``{tuner, period_s}``, each with ``{forecast, horizon_s}`` where it plans for a rate. Such
        a step is as long as ``measure.interval.most_s``, and no source for models.
    batching : mapping
        What travels in batches in this step, as ``topology.batching`` says it; by default that. Where it is
        not the step's before, the topology is submitted anew.
    relief : list of str
        Which of ``topology.helping`` and ``topology.backpressure`` are in force: ``[]`` for neither; both
        by default.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    executors: Executors | None = None
    """None where a placement says it."""
    workers: Count | None = None
    rate_tps: RateTps | None = None
    changes: RateChanges | None = None
    """None for the workload's."""
    fresh: bool = False
    scheduler: AskedPlugIn | None = None
    """Its name, or a mapping with the key ``name`` and parameters; None for Storm's own."""
    source: Annotated[int, Field(ge=0, le=MOST_STEPS)] | None = Field(default=None, alias="from")
    """Position in ``steps.plan`` of the step whose observation the scheduler or tuner reads."""
    placement: Path | None = None
    faults: tuple[Fault, ...] = ()
    judge: bool = False
    tuner: AskedPlugIn | None = None
    """Who says executors and batch sizes: its name, or a mapping with the key ``name`` and parameters."""
    adapt: AdaptSpec | None = None
    """None where the plan stays."""
    batching: Mapping[str, BatchSize] | None = None
    """None for the topology's own."""
    relief: tuple[Literal["helping", "backpressure"], ...] | None = None
    """None for all that the topology has."""

    @cached_property
    def placed(self) -> Mapping[str, str]:
        """The worker's label of each executor's label, as the placement's file has them; else none."""
        return {} if self.placement is None else read_placement(self.placement)

    @property
    def asks(self) -> bool:
        """True where a scheduler or tuner says the plan, before the step or in it."""
        return any(asked is not None for asked in (self.scheduler, self.tuner, self.adapt))

    @property
    def placed_by(self) -> str:
        """Name of what places the executors; empty for Storm's own scheduler."""
        if self.placement is not None:
            return "placement"
        return plug_in_name(self.scheduler, "a scheduler")

    @property
    def tuned_by(self) -> str:
        """Name of the tuner that says executors and batch sizes; empty where the file says them."""
        return plug_in_name(self.tuner, "a tuner")

    @property
    def counts(self) -> AskedExecutors:
        """The executors that are asked for: one number for all, by component, or as many as tasks."""
        return count_executors(self.placed) if self.executors is None else self.executors

    @model_validator(mode="after")
    def _adapts_alone(self) -> Self:
        if self.adapt is None:
            return self
        others = {
            "faults": self.faults or None,
            "tuner": self.tuner,
            "placement": self.placement,
            "scheduler": self.scheduler,
        }
        if named := next((key for key, value in others.items() if value is not None), ""):
            raise ValueError(
                f"adapt and {named}: give one of them, as Storm's own scheduler begins such a step"
            )
        return self

    @model_validator(mode="after")
    def _placed_one_way(self) -> Self:
        if self.tuner is not None:
            return self._tuned()
        if self.placement is None:
            if self.executors is None:
                raise ValueError("the key 'executors' is missing (only a placement or a tuner goes without)")
            if self.source is not None and self.scheduler is None:
                raise ValueError(
                    "from: only a scheduler or tuner reads another step: name it with 'scheduler' or 'tuner'"
                )
            return self
        if self.scheduler is not None:
            raise ValueError("placement and scheduler: give one of them, as both place every executor")
        if self.source is not None:
            raise ValueError("from: a placement reads no other step, only a scheduler does")
        if self.executors is not None or self.workers is not None:
            raise ValueError("placement: leave out executors and workers, which follow from it")
        if file_at(self.placement) is None:
            raise ValueError(f"placement: there is no file {self.placement}")
        if not self.counts:
            raise ValueError(f"placement: {self.placement} names no executor of the topology")
        return self

    def _tuned(self) -> Self:
        """Require of a tuner's step that nothing else says what it proposes."""
        if self.source is None:
            raise ValueError("tuner: it reads a measured step: add from: the position of an earlier step")
        said = {
            "executors": self.executors,
            "workers": self.workers,
            "placement": self.placement,
            "batching": self.batching,
        }
        if named := next((key for key, value in said.items() if value is not None), ""):
            raise ValueError(f"tuner and {named}: give one of them, as the tuner proposes it")
        return self


class Steps(Frozen):
    """The configurations and the order in which they are measured.

    Attributes
    ----------
    plan : list
        The configurations that are measured.
    order : {'listed', 'shuffled'}
        Order of each round. ``shuffled`` keeps a step that another reads before it.
    seed : int
        Of the shuffled order.
    repeats : int
        Rounds: repeats are whole rounds of all steps.
    """

    plan: Annotated[tuple[StepSpec, ...], Field(min_length=1, max_length=MOST_STEPS)]
    order: Literal["listed", "shuffled"] = "listed"
    seed: Seed = 1
    repeats: Annotated[int, Field(ge=1, le=MOST_STEPS)] = 1
