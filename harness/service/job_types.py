"""Jobs: requests for them, and the state of each; the types that OpenAPI is made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

JobState = Literal["running", "done", "failed", "interrupted"]
"""Interrupted: its process ended with the service, or was told to; it can be started again."""
Address = Annotated[
    str, Field(pattern=r"^[^/]+/[^/]+$", max_length=400, description="EXPERIMENT/START of a run.")
]
Rate = Annotated[
    float, Field(gt=0, allow_inf_nan=False, description="Messages a second; the step's by default.")
]


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


class ScheduleAsked(JobRequest):
    """Let schedulers place the executors of a measured step."""

    kind: Literal["schedule"]
    run: Address
    step: int | None = None
    schedulers: tuple[str, ...] = Field((), description="All by default.")
    rate_tps: Rate | None = None


class TuneAsked(JobRequest):
    """Let tuners propose executors and batch sizes for a measured step."""

    kind: Literal["tune"]
    run: Address
    step: int | None = None
    tuners: tuple[str, ...] = Field((), description="All by default.")
    rate_tps: Rate | None = None


JobAsked = Annotated[RunAsked | ScheduleAsked | TuneAsked, Field(discriminator="kind")]


class JobInfo(BaseModel):
    """A job as it stands.

    Attributes
    ----------
    id : str
    asked : RunAsked, ScheduleAsked or TuneAsked
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
        The command's machine-readable answer.
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
