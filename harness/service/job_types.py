"""Jobs: requests for them, and the state of each; the types that OpenAPI is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

JobState = Literal["queued", "running", "done", "failed", "interrupted"]
"""Queued: its run waits until the machine measures no other. Interrupted: its process ended with the service,
or when somebody stopped it; it can be started again."""
Address = Annotated[
    str, Field(pattern=r"^[^/]+/[^/]+$", max_length=400, description="EXPERIMENT/START of a run.")
]
Rate = Annotated[
    float, Field(gt=0, allow_inf_nan=False, description="Messages a second; the step's by default.")
]
Proposing = Literal["tune", "schedule"]
"""Commands that propose plans."""


class JobRequest(BaseModel):
    """Common rule of all jobs' requests: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RunAsked(JobRequest):
    """Measure an experiment, or play it where its cluster is the simulator, and judge the models on it."""

    kind: Literal["run"]
    experiment: str | None = Field(None, description="A shipped experiment's name.")
    file: str | None = Field(None, max_length=200_000, description="Or an experiment file's text.")
    simulated: bool = Field(False, description="On the simulator, whatever the file says.")

    @model_validator(mode="after")
    def _one_of_two(self) -> RunAsked:
        if (self.experiment is None) == (self.file is None):
            raise ValueError("give either the name of an experiment or the text of a file")
        return self


class ProposeAsked(JobRequest):
    """Let tuners and schedulers propose other plans for a measured step.

    ``tune`` asks tuners, ``schedule`` schedulers, and ``propose`` both: all, or those that are named.
    """

    kind: Literal["propose", "tune", "schedule"]
    run: Address
    step: int | None = None
    tuners: tuple[str, ...] = Field((), description="All by default, unless schedulers are named.")
    schedulers: tuple[str, ...] = Field((), description="All by default, unless tuners are named.")
    rate_tps: Rate | None = None

    @property
    def commands(self) -> Mapping[Proposing, tuple[str, ...]]:
        """The commands that are asked, each with the names that it is asked for; all where it has none.

        Examples
        --------
        >>> ProposeAsked(kind="propose", run="quick/20260102T030405Z", tuners=("ds2",)).commands
        {'tune': ('ds2',)}
        >>> ProposeAsked(kind="propose", run="quick/20260102T030405Z").commands
        {'tune': (), 'schedule': ()}
        """
        named: dict[Proposing, tuple[str, ...]] = {"tune": self.tuners, "schedule": self.schedulers}
        if self.kind != "propose":
            return {self.kind: named[self.kind]}
        return {command: names for command, names in named.items() if names or not any(named.values())}

    @model_validator(mode="after")
    def _of_its_kind(self) -> ProposeAsked:
        if self.kind == "tune" and self.schedulers:
            raise ValueError("kind tune asks no schedulers: write kind propose")
        if self.kind == "schedule" and self.tuners:
            raise ValueError("kind schedule asks no tuners: write kind propose")
        return self


JobAsked = Annotated[RunAsked | ProposeAsked, Field(discriminator="kind")]


class JobInfo(BaseModel):
    """A job as it stands.

    Attributes
    ----------
    id : str
    asked : RunAsked or ProposeAsked
    state : JobState
    attempts : int
        How often it was started.
    started, ended : str
        UTC; empty where it did not end by itself.
    exit_status : int, optional
        Of the command that did it.
    run : str
        EXPERIMENT/START of the run that it measures; empty before there is one.
    result : mapping, optional
        The command's machine-readable answer; of several commands, one answer with all their proposals.
    """

    id: str
    asked: JobAsked
    state: JobState
    attempts: int
    started: str
    ended: str = ""
    exit_status: int | None = None
    run: str = ""
    result: dict[str, object] | None = None

    @property
    def ongoing(self) -> bool:
        """True while its process is there, which may wait."""
        return self.state in ("queued", "running")
