"""Files of a topology that was submitted to stay, read by pages without asking its cluster.

- ``experiment.yaml``: cluster, query plan, store of metrics
- ``submitted.json``: Storm's names and settings, seasons of the traffic
- ``plans/``: each plan that was seen in force
- ``applied/``: a record of each plan that was applied
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import ValidationError

from harness.errors import UsageError
from harness.experiments.clusters import Running
from harness.experiments.config import Experiment
from harness.experiments.loading import files, load
from harness.machine.whole_files import folder_atomically, write_atomically
from harness.plans import Frozen, PhysicalPlan, PositiveFloat, TopologyConfiguration
from harness.protocols import Settings
from harness.topologies.bounds import StormValue

SUBMITTED = "submitted.json"
PLANS, APPLIED = "plans", "applied"
DEFAULT_FOLDER = Path("submitted")

T = TypeVar("T", bound=Frozen)

Seen = Literal["submitted", "found", "applied", "taken back"]
"""Ways in which a plan came into force; ``found`` says that somebody else changed it."""

Outcome = Literal["kept", "taken back", "interrupted", "failed"]
"""Ends of an attempt to apply a plan."""


class SubmittedFacts(Frozen):
    """Facts that were known once a topology was up.

    Attributes
    ----------
    topology : str
        Storm's name.
    at_epoch_ms : int
        When it was up.
    cluster : Running
        With the nodes that it had then.
    storm_version : str
        The cluster's.
    settings : mapping
        Storm's settings in force, as Nimbus has them.
    unwrapped : mapping
        Components that report nothing, and why.
    season_s : tuple of float
        Lengths of the traffic's seasons, as who submitted it says.
    """

    topology: str
    at_epoch_ms: int
    cluster: Running
    storm_version: str
    settings: Mapping[str, StormValue]
    unwrapped: Mapping[str, str] = {}
    season_s: tuple[PositiveFloat, ...] = ()


class KeptPlan(Frozen):
    """A plan that was seen in force."""

    at_epoch_ms: int
    seen: Seen
    plan: PhysicalPlan


class TrackRecord(Frozen):
    """An attempt to apply a plan: predicted, measured, and how it ended.

    Attributes
    ----------
    at_epoch_ms : int
        When it was asked of the cluster.
    asked : TopologyConfiguration
    placed : bool
        Whether it said the worker of each executor.
    model : str
    rate_tps : float
        Messages a second for which it was predicted.
    before_ms : float, optional
        Mean emit-to-ack latency before, in ms.
    predicted_ms, low_ms, high_ms : float
        The predicted mean, and the ends of its 90 % interval.
    measured_ms, half_width_ms : float, optional
        The measured mean and half of its 95 % interval; None where nothing was measured.
    outcome : {'kept', 'taken back', 'interrupted', 'failed'}
        ``interrupted`` where the command was told to end, which asks for the plan before again; ``failed``
        where the plan did not come into force, or the plan before did not come back.
    reason : str
    """

    at_epoch_ms: int
    asked: TopologyConfiguration
    placed: bool
    model: str
    rate_tps: float
    before_ms: float | None
    predicted_ms: float
    low_ms: float
    high_ms: float
    measured_ms: float | None
    half_width_ms: float | None
    outcome: Outcome
    reason: str


class SubmittedTopology:
    """A submitted topology's folder.

    Parameters
    ----------
    path : Path

    Raises
    ------
    UsageError
        By every property, when a file is missing or is not what it should be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, experiment: Experiment, facts: SubmittedFacts, plan: PhysicalPlan) -> Self:
        """Write the folder of a topology that is up, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with folder_atomically(path) as folder:
            for name, text in files(experiment).items():
                (folder / name).write_text(text, encoding="utf-8")
            (folder / SUBMITTED).write_text(facts.model_dump_json(indent=1))
            made = cls(folder)
            made.keep_plan(KeptPlan(at_epoch_ms=facts.at_epoch_ms, seen="submitted", plan=plan))
        return cls(path)

    @property
    def name(self) -> str:
        """The name of its folder, by which its metrics go."""
        return self.path.name

    @property
    def experiment(self) -> Experiment:
        """Cluster, topology and stores."""
        return load(self.path / "experiment.yaml")

    @property
    def facts(self) -> SubmittedFacts:
        """The facts that were known once it was up."""
        return _read(SubmittedFacts, self.path / SUBMITTED)

    @property
    def plans(self) -> tuple[KeptPlan, ...]:
        """The plans that were seen in force, oldest first."""
        return tuple(_read(KeptPlan, file) for file in sorted((self.path / PLANS).glob("*.json")))

    @property
    def plan(self) -> KeptPlan:
        """The plan that was seen last."""
        newest = max((self.path / PLANS).glob("*.json"), default=None)
        if newest is None:
            raise UsageError(f"{self.path}: no plan was kept", "submit the topology anew")
        return _read(KeptPlan, newest)

    @property
    def applied(self) -> tuple[TrackRecord, ...]:
        """The records of plans that were applied, oldest first."""
        return tuple(_read(TrackRecord, file) for file in sorted((self.path / APPLIED).glob("*.json")))

    def keep_plan(self, kept: KeptPlan) -> None:
        """Keep a plan that is in force."""
        _add(self.path / PLANS, kept.at_epoch_ms, kept)

    def keep_record(self, record: TrackRecord) -> Path:
        """Keep the record of an applied plan; return its file."""
        return _add(self.path / APPLIED, record.at_epoch_ms, record)

    def settings(self) -> Settings:
        """Return the deployment's settings, as a model sees them."""
        facts = self.facts
        return Settings(
            storm=facts.settings,
            version=facts.storm_version,
            batching=self.experiment.topology.batching,
        )


def known(folder: Path) -> dict[str, SubmittedTopology]:
    """Return the submitted topologies below a folder by name; those that are not whole are left out."""
    if not folder.is_dir():
        return {}
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    return {path.name: SubmittedTopology(path) for path in paths if (path / SUBMITTED).is_file()}


def named(there: Mapping[str, SubmittedTopology], name: str) -> SubmittedTopology | None:
    """Return the submitted topology of a name, or of Storm's name, which damaged folders do not say."""
    if name in there:
        return there[name]
    for topology in there.values():
        with suppress(UsageError):
            if topology.facts.topology == name:
                return topology
    return None


def find(folder: Path, name: str) -> SubmittedTopology:
    """Return the submitted topology of a name, which may be Storm's.

    Raises
    ------
    UsageError
        When there is no such one; the names that there are.
    """
    there = known(folder)
    if (found := named(there, name)) is not None:
        return found
    names = ", ".join(there) or "none"
    raise UsageError(f"{folder}: no topology {name!r} was submitted", f"known are {names}")


def now_ms() -> int:
    """Return the time of day in ms."""
    return time.time_ns() // 1_000_000


def _add(folder: Path, at_epoch_ms: int, value: Frozen) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{at_epoch_ms:015d}.json"  # in the order of time
    write_atomically(file, value.model_dump_json(indent=1))
    return file


def _read(kind: type[T], file: Path) -> T:
    try:
        return kind.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        line = str(error).splitlines()[0]
        raise UsageError(f"{file}: cannot be used: {line}", "submit the topology anew") from None
