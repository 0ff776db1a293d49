"""Findings about an experiment before it starts: mistakes that Storm would refuse, and warnings."""

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
from harness.experiments.steady import LEAST_BUCKETS
from harness.experiments.watching import REPORT_LAG_S, REPORTED_S
from harness.plans import Window
from harness.topologies.ways import tuples_per_message

TRACE_RATE_TOLERANCE = 0.01
"""Share by which a trace's own rate may differ from the rate that the experiment names."""
SERVICE_CV = 1.0
"""Coefficient of variation assumed of a latency without windows: at most that of an exponential one."""


def findings(experiment: Experiment) -> list[FeasibilityFinding]:
    """Return what is wrong or risky about an experiment, errors first."""
    traffic = experiment.topology.traffic()
    if traffic.hop_records:
        found = [*_trace(experiment), *_windows(experiment), *_precision(experiment)]
    else:  # of anybody's topology is known what spoils its measurement; before it was captured, little
        own = [] if traffic.sent else _own_messages(experiment)
        found = [*_debug(experiment), *own, *_unwrapped(experiment)]
        found += _trace(experiment) if traffic.sent else []
    found += [*_heap(experiment), *_burn_in(experiment)]
    return sorted(found, key=lambda f: f.severity != "error")


def _heap(experiment: Experiment) -> list[FeasibilityFinding]:
    """Say which heap is in force where a topology's settings give its workers another than was asked."""
    in_force, asked = experiment.worker_heap_mb, experiment.cluster.worker_heap_mb
    if in_force == asked:
        return []
    message = (
        f"the topology's own settings give each worker {in_force} MB, not these {asked} MB: that is in force,"
        " and room is counted by it; topology.storm can replace topology.worker.childopts"
    )
    return [FeasibilityFinding("warning", "cluster.worker_heap_mb", message)]


def _debug(experiment: Experiment) -> list[FeasibilityFinding]:
    if experiment.storm_settings().get("topology.debug") is not True:
        return []
    message = "the workers write every tuple to their logs: put topology.debug: false there"
    return [FeasibilityFinding("warning", "topology.storm", message)]


def _own_messages(experiment: Experiment) -> list[FeasibilityFinding]:
    """Say how spouts that make their messages may leave nothing to measure."""
    if not experiment.topology.known or experiment.ackers:
        return []
    message = "no ackers: there is no latency to measure, only rates, routing and service times"
    return [FeasibilityFinding("warning", "topology.ackers", message)]


def _burn_in(experiment: Experiment) -> list[FeasibilityFinding]:
    """Say how long a burn-in has to be able to last to be judged."""
    lag_s = REPORT_LAG_S
    if not experiment.topology.traffic().sent:  # reports come by whole buckets
        lag_s = experiment.measure.bucket_s + REPORTED_S
    least_s, most_s = LEAST_BUCKETS + lag_s, experiment.measure.burn_in.most_s
    if most_s >= least_s:
        return []
    message = (
        f"{most_s:g} s are too short to judge whether a step is steady, so that every step is invalid:"
        f" {least_s:g} s at least, of which results of the last {lag_s:g} s are still on their way"
    )
    return [FeasibilityFinding("warning", "measure.burn_in.most_s", message)]


def _unwrapped(experiment: Experiment) -> list[FeasibilityFinding]:
    return [
        FeasibilityFinding("warning", "topology.jar", f"component {name} is not instrumented: it {reason}")
        for name, reason in experiment.topology.unwrapped.items()
    ]


def _trace(experiment: Experiment) -> list[FeasibilityFinding]:
    """Compare a trace, which has a rate and a length of its own, with the experiment's settings."""
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
    topology, found = experiment.topology.own(), list[FeasibilityFinding]()
    plan, checked = topology.query_plan(), set[Window]()
    for component in plan.components:
        window = component.window
        if window is None:
            continue
        if window not in checked:
            checked.add(window)
            found += check_window(
                window.kind,
                window.length,
                window.slide,
                topology.max_spout_pending,
                topology.message_timeout_s,
                key="topology.window"
                if window == topology.window
                else f"topology.components.{component.name}",
            )
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
                min(_rates(experiment)) * _tuples_per_message(experiment, component.name),
                min(shares),
                topology.message_timeout_s,
                experiment.measure.interval.most_s,
            )
    return found


def _precision(experiment: Experiment) -> list[FeasibilityFinding]:
    interval = experiment.measure.interval
    plan = experiment.topology.own().query_plan()
    windowed = [c for c in plan.components if c.window is not None]
    fewest = min(_tuples_per_message(experiment, sink) for sink in plan.sinks)
    cv, fate = SERVICE_CV, fewest
    if windowed:
        cv = windowed_cv(_shares(experiment, windowed[0].name, windowed[0].tasks))
        fate = WINDOW_FATE
    return check_precision(
        min(_rates(experiment)) * fewest,
        interval.most_s,
        interval.precision_pct,
        cv,
        interval.looks,
        fate,
    )


def _rates(experiment: Experiment) -> list[float]:
    """Return each rate at which messages are sent."""
    plan = experiment.steps.plan
    first = [rate_tps for spec in plan if (rate_tps := experiment.rate_tps(spec)) is not None]
    return first + [change.rate_tps for spec in plan for change in experiment.changes(spec)]


def _tuples_per_message(experiment: Experiment, component: str) -> float:
    """Return how many members of a message come to a component on average, by all ways."""
    topology, turns = experiment.topology.own(), experiment.shares
    shares = {name: share / sum(turns.values()) for name, share in turns.items()}
    return tuples_per_message(topology.query_plan(), topology.ratios, shares)[component]


def _shares(experiment: Experiment, component: str, tasks: int) -> Sequence[float]:
    """Relative rates of the windows: one a key with fields grouping, else one a task."""
    streams = experiment.topology.query_plan().inputs(component)
    if any(s.grouping in ("fields", "partial-key") for s in streams):
        total = sum(experiment.input.keys.values())
        return [weight / total for weight in experiment.input.keys.values()]
    return [1.0 / tasks] * tasks
