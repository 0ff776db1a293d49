"""What can be said of an experiment before it starts: mistakes that Storm would refuse, and warnings."""

from __future__ import annotations

from collections.abc import Sequence

from harness.experiments.config import Experiment
from harness.experiments.feasibility import (
    WINDOW_FATE,
    FeasibilityFinding,
    check_load_aware,
    check_precision,
    check_rarest_window,
    check_window,
    windowed_cv,
)
from harness.experiments.schedule import Trace
from harness.topologies.jar import JarTopology
from harness.topologies.test_topology import Topology

TRACE_RATE_TOLERANCE = 0.01
"""Share by which a trace's own rate may differ from the rate that the experiment names."""
SERVICE_CV = 1.0
"""Coefficient of variation assumed of a latency without windows: at most that of an exponential one."""


def findings(experiment: Experiment) -> list[FeasibilityFinding]:
    """Return what is wrong or risky about an experiment, errors first."""
    if not isinstance(experiment.topology, Topology):
        return _of_a_jar(experiment, experiment.topology)
    found = [*_trace(experiment), *_windows(experiment), *_precision(experiment)]
    return sorted(found, key=lambda f: f.severity != "error")


def _of_a_jar(experiment: Experiment, topology: JarTopology) -> list[FeasibilityFinding]:
    """Say what is known to spoil the measurement of anybody's topology; nothing before it was captured."""
    found = []
    settings = experiment.storm_settings()
    if settings.get("topology.debug") is True:
        message = "the workers write every tuple to their logs: put topology.debug: false there"
        found.append(FeasibilityFinding("warning", "topology.storm", message))
    captured = topology.captured
    if (
        captured
        and experiment.ackers
        and topology.topics is None
        and settings.get("topology.max.spout.pending") is None
    ):
        message = (
            "topology.max.spout.pending has no limit: a spout that emits as fast as it can fills the queues"
            " without end, and its latency has no mean"
        )
        found.append(FeasibilityFinding("warning", "topology.storm", message))
    if captured and not experiment.ackers and topology.topics is None:
        message = "no ackers: there is no latency to measure, only rates, routing and service times"
        found.append(FeasibilityFinding("warning", "topology.ackers", message))
    for name, reason in (captured.unwrapped if captured else {}).items():
        found.append(
            FeasibilityFinding(
                "warning", "topology.jar", f"component {name} is not instrumented: it {reason}"
            )
        )
    if topology.topics is not None:
        found += _trace(experiment)
    return sorted(found, key=lambda f: f.severity != "error")


def _trace(experiment: Experiment) -> list[FeasibilityFinding]:
    """Compare a trace, which has a rate and a length of its own, with what is said of it."""
    workload, measure = experiment.input, experiment.measure
    if workload.trace is None:
        return []
    trace, found = Trace.read(workload.trace), []
    for rate_tps in sorted(set(_rates(experiment))):
        if abs(trace.rate_tps / rate_tps - 1) > TRACE_RATE_TOLERANCE:
            message = f"{workload.trace} has {trace.rate_tps:.6g} messages a second, not {rate_tps:g}"
            found.append(FeasibilityFinding("error", "workload.rate_tps", message))
    lasts_s, most_s = trace.offsets_ns[-1] / 1e9, measure.burn_in.most_s + measure.interval.most_s
    if lasts_s < most_s:
        message = f"{workload.trace} ends after {lasts_s:.3g} s, and a step may take {most_s:g} s"
        found.append(FeasibilityFinding("warning", "workload.trace", message))
    return found


def _windows(experiment: Experiment) -> list[FeasibilityFinding]:
    topology, found = _own(experiment), []
    if topology.window is None:
        return []
    window = topology.window
    found += check_window(
        window.kind, window.length, window.slide, topology.max_spout_pending, topology.message_timeout_s
    )
    plan = topology.query_plan()
    for component in plan.components:
        if component.window is None:
            continue
        executors = {
            f"steps.plan.{i}": experiment.configuration(spec).executors[component.name]
            for i, spec in enumerate(experiment.steps.plan)
        }
        for stream in plan.inputs(component.name):
            found += check_load_aware(topology.load_aware, stream.grouping, component.tasks, executors)
        if window.kind == "count":
            shares = _shares(experiment, component.name, component.tasks)
            found += check_rarest_window(
                window.length,
                min(_rates(experiment)) * _tuples_per_message(experiment),
                min(shares),
                topology.message_timeout_s,
                experiment.measure.interval.most_s,
            )
    return found


def _precision(experiment: Experiment) -> list[FeasibilityFinding]:
    interval = experiment.measure.interval
    windowed = [c for c in _own(experiment).query_plan().components if c.window is not None]
    cv, fate = SERVICE_CV, _tuples_per_message(experiment)
    if windowed:
        cv = windowed_cv(_shares(experiment, windowed[0].name, windowed[0].tasks))
        fate = WINDOW_FATE
    return check_precision(
        min(_rates(experiment)) * _tuples_per_message(experiment),
        interval.most_s,
        interval.precision_pct,
        cv,
        interval.looks,
        fate,
    )


def _own(experiment: Experiment) -> Topology:
    assert isinstance(experiment.topology, Topology)  # others are not looked at so closely
    return experiment.topology


def _rates(experiment: Experiment) -> list[float]:
    return [spec.rate_tps or experiment.input.rate_tps for spec in experiment.steps.plan]


def _tuples_per_message(experiment: Experiment) -> float:
    """Tuples of one message that reach the end, or the window: its children and, in a join, itself."""
    multiplier = _own(experiment).multiplier
    joined = 1.0 if "join" in experiment.topology.roles.values() else 0.0
    return (multiplier.mean if multiplier else 1.0) + joined


def _shares(experiment: Experiment, component: str, tasks: int) -> Sequence[float]:
    """Relative rates of the windows: one a key with fields grouping, else one a task."""
    streams = experiment.topology.query_plan().inputs(component)
    if any(s.grouping in ("fields", "partial-key") for s in streams):
        total = sum(experiment.input.keys.values())
        return [weight / total for weight in experiment.input.keys.values()]
    return [1.0 / tasks] * tasks
