"""Provenance of a campaign that begins now: its experiment, this machine, this code."""

from __future__ import annotations

from functools import cache

from harness.analysis.judge.code_digest import code_digest, files_of
from harness.experiments.config import Experiment
from harness.experiments.loading import files
from harness.experiments.provenance import Provenance, experiment_digests, kept_with
from harness.machine.environment import describe
from harness.runs import Run

MEASURING = (
    *("runs", "plans.py", "quality.py", "schemas", "machine", "topologies", "experiments", "schedulers"),
    *("storm", "backends", "workload", "app"),
)
"""Rooms whose code decides what a step is measured as."""
PLANNING = ("models", "tuning", "forecasts", "analysis/judge", "analysis/spark")
"""Rooms whose code decides what plan a step has, where a scheduler, tuner or forecast says it."""


def kept(run: Run, experiment: Experiment) -> Run:
    """Return the run so that each of its steps keeps what it is measured with.

    Raises
    ------
    UsageError
        When a finished step was measured with another experiment, jar, machine or code, which it names.
    """
    return kept_with(run, provenance(experiment))


def provenance(experiment: Experiment) -> Provenance:
    """Return experiment, machine and code as they are now."""
    machine = describe("", {})["machine"]
    planned = any(spec.asks for spec in experiment.steps.plan) or not experiment.cluster.measured
    return Provenance(
        experiment=experiment_digests(files(experiment)),
        machine={
            "cores": str(machine["cores"]),
            "cpu": str(machine["cpu"]),
            "memory": f"{machine['memory_bytes'] / 2**30:.0f} GiB",
        },
        code=code(planned=planned),
    )


@cache
def code(*, planned: bool) -> str:
    """Return a digest of the harness's code and jars, as far as they measure.

    Parameters
    ----------
    planned : bool
        Models decide, too: by a plan that is asked for, or by playing the steps.
    """
    deciding = PLANNING if planned else ()
    constants = files_of(deciding, ".json")
    return code_digest(files_of((*MEASURING, *deciding)), [*constants, *files_of(("assets/jars",), ".jar")])
