"""Executors and batch sizes of a step as a tuner proposes them from an earlier one."""

from __future__ import annotations

from collections.abc import Mapping

from harness.analysis.judge.predicting import observation
from harness.app.message_costs import measured_parameters
from harness.errors import StepDeclined, UsageError
from harness.experiments.config import Experiment, Step
from harness.experiments.contracts import AskedStep
from harness.experiments.step_settings import AskedPlugIn, StepSpec
from harness.plans import TopologyConfiguration
from harness.protocols import Tuner, TuningProposal
from harness.runs import Run, StepTuning
from harness.topologies.batching import require_batched
from harness.topologies.jar import MESSAGE_TIMEOUT
from harness.tuning import make_tuner
from harness.tuning.side_by_side import TuningTable


def tuner_of(asked: AskedPlugIn | None, measured: Mapping[str, Mapping[str, object]] | None = None) -> Tuner:
    """Return the tuner that a step names, with its parameters.

    Parameters
    ----------
    asked : str or mapping
        As the file has it.
    measured : mapping of str to mapping, optional
        Parameters that were measured, by tuner; what the step says goes before them.

    Raises
    ------
    UsageError
        When it has no name, is not known, or a parameter is not one of its own.
    """
    parameters = dict(asked) if not isinstance(asked, str) and asked else {"name": asked}
    name = parameters.pop("name", None)
    if not isinstance(name, str) or not name:
        raise UsageError("tuner: it has no name", "give its name, or a mapping with the key name")
    return make_tuner(name, {**(measured or {}).get(name, {}), **parameters})


def ask_tuner(experiment: Experiment, run: Run, step: Step, spec: StepSpec, source: int) -> AskedStep:
    """Return what a tuner proposes for a step, from the measured step that it reads.

    Raises
    ------
    StepDeclined
        When the tuner declines, fails, or proposes what the topology or cluster cannot have.
    """
    seen = observation(run, experiment, source)
    rate_tps = step.rate_tps or seen.rate_tps
    try:
        answer = TuningTable(seen, rate_tps).propose(
            spec.tuned_by, tuner_of(spec.tuner, measured_parameters(run, seen.settings))
        )
    except UsageError as why:
        raise StepDeclined(f"tuner {spec.tuned_by}: {why}") from why
    proposal, configuration = answer.proposal, answer.proposal.configuration
    if configuration is None or proposal.status == "declined":
        raise StepDeclined(f"tuner {spec.tuned_by} has no proposal: {proposal.reason}")
    if fault := proposal_fault(experiment, proposal, configuration):
        raise StepDeclined(f"tuner {spec.tuned_by} proposed what cannot be had: {fault}")
    tuning = StepTuning(step=source, rate_tps=rate_tps, proposals=(answer.as_json(),))
    return AskedStep(configuration, batching=proposal.batching, relief=step.relief, tuning=tuning)


def proposal_fault(
    experiment: Experiment, proposal: TuningProposal, configuration: TopologyConfiguration
) -> str:
    """Say what an experiment's topology or cluster cannot have of a proposal; empty where it can have all."""
    tasks = experiment.topology.task_counts()
    executors = configuration.executors
    if set(executors) != set(tasks):
        return f"executors must name each of {', '.join(tasks)}"
    for name, count in executors.items():
        if count > tasks[name]:
            return f"{count} executors of {name} are more than its {tasks[name]} tasks"
    if configuration.workers > experiment.slots:
        return f"{configuration.workers} workers are more than the cluster's {experiment.slots} slots"
    try:
        timeout_s = experiment.storm_settings()[MESSAGE_TIMEOUT]
        assert isinstance(timeout_s, int | float)  # Storm has a default
        require_batched(proposal.batching, experiment.topology.query_plan(), timeout_s)
        experiment.cluster.check_topology(
            experiment.topology.model_copy(update={"batching": proposal.batching})
        )
    except ValueError as why:
        return str(why)
    return ""
