"""Checks that any model can be run through: a pure function that declines rather than guesses.

Each check takes a model and a case (an observation and a question about it) and returns what is wrong in one
line, or nothing. None of them asks how good the answers are.

A source may be spoilt: a missing metric, a count that is negative or no number, an executor that nothing was
seen of, components in a cycle. A model that needs the spoilt part must decline with a reason. A model that
does not need that part gives the very numbers that it gave before. Any other number is a guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from harness.errors import ModelDeclined
from harness.models.contract.answers import MEASURES, subjects
from harness.models.contract.layout import component_paths
from harness.models.contract.observe import io_label
from harness.plans import PhysicalPlan, QueryPlan, Stream
from harness.protocols import Estimate, Model, Observation, Prediction, Settings
from harness.schemas import LATENCIES, Measure, Metric, MetricField

STATUSES = ("ok", "saturated", "declined")
SHARES = (Measure.ROUTING,)
"""Measures that lie between 0 and 1."""
MAGNITUDE: Mapping[str, float] = {
    Measure.SERVICE: 30.0,
    Measure.ARRIVALS: 3.0,
    **dict.fromkeys(LATENCIES, 300.0),
}
"""A number for the source's own plan that is further from the measured one than this factor has another unit:
the next one is a thousand away. A latency may be lower where it leaves out windows, hundreds of services
long, but it is not much below the longest service."""
STRETCH = 2
"""Time is stretched by this; 2, so that a stretched histogram has bins that a wrapper could have made."""
SCALES: Mapping[str, tuple[float, float]] = {
    Measure.ARRIVALS: (1 / STRETCH, 1 / STRETCH),
    Measure.THROUGHPUT: (1 / STRETCH, 1 / STRETCH),
    Measure.SUSTAINABLE: (1 / STRETCH, 1.0),
    Measure.SERVICE: (1.0, STRETCH),
    Measure.ROUTING: (1.0, 1.0),
    Measure.IO_RATIO: (1.0, 1.0),
    **dict.fromkeys(LATENCIES, (1.0, STRETCH)),
}
"""By how much a measure may grow when time is stretched."""
SLACK = 0.05

Key = tuple[str, str, str]
"""Measure, statistic, subject."""


@dataclass(frozen=True)
class Case:
    """A question with its observation.

    Attributes
    ----------
    source : Observation
        Unspoilt.
    proposed : PhysicalPlan
        Another plan of the same query plan.
    settings : Settings
        Of the proposed step.
    rate_tps : float
        Messages a second in the proposed step.
    """

    source: Observation
    proposed: PhysicalPlan
    settings: Settings
    rate_tps: float


Check = Callable[[Model, Case], str]


@dataclass(frozen=True)
class ConformanceOutcome:
    """One check's result; ``problem`` is empty when the model passed."""

    check: str
    problem: str


def conform(model: Model, case: Case) -> tuple[ConformanceOutcome, ...]:
    """Run a model through every check.

    A check in which the model crashes has failed, with what the model raised.
    """
    found = []
    for name, check in CHECKS.items():
        try:
            problem = check(model, case)
        except Exception as error:  # a model under test may raise anything
            problem = f"the model failed with {type(error).__name__}: {error}"
        found.append(ConformanceOutcome(name, problem))
    return tuple(found)


def ask(model: Model, case: Case) -> dict[Key, Estimate]:
    """Return a model's estimates; a refusal of everything by ``ModelDeclined`` is an empty answer."""
    try:
        prediction = model(case.source, case.proposed, case.settings, case.rate_tps)
    except ModelDeclined:
        return {}
    return {(e.measure, e.statistic, e.subject): e for e in prediction.estimates}


def _numbers(answer: Mapping[Key, Estimate]) -> dict[Key, float]:
    return {k: e.value for k, e in answer.items() if e.status == "ok" and e.value is not None}


def _name(key: Key) -> str:
    measure, statistic, subject = key
    return f"{statistic} {measure}" + (f" of {subject}" if subject else "")


def answers_at_all(model: Model, case: Case) -> str:
    """Ask for at least one number where the observation is in order."""
    try:
        prediction = model(case.source, case.proposed, case.settings, case.rate_tps)
    except ModelDeclined as why:
        return f"declined an observation that is in order: {why}"
    if not isinstance(prediction, Prediction):
        return f"returned a {type(prediction).__name__}, not a Prediction"
    if not any(e.status == "ok" for e in prediction.estimates):
        reasons = sorted({e.reason for e in prediction.estimates})
        return f"gave no number at all: {'; '.join(reasons[:2]) or 'no estimate'}"
    return ""


def deterministic(model: Model, case: Case) -> str:
    """Ask twice, the second time after another question: the answers are the same."""
    first = ask(model, case)
    other = replace(case, proposed=case.source.plan, rate_tps=case.source.rate_tps)
    elsewhere = ask(model, other)
    for before, again in ((first, ask(model, case)), (elsewhere, ask(model, other))):
        for key in before.keys() | again.keys():
            if repr(before.get(key)) != repr(again.get(key)):  # NaN equals itself here
                return f"asked twice, two answers: {_name(key)}"
    return ""


def pure(model: Model, case: Case) -> str:
    """Look whether what the model was given is afterwards as it was."""
    source = case.source
    frames = {"metrics": source.metrics.copy(deep=True), "latency": source.latency.copy(deep=True)}
    mappings = {
        "settings.storm": (case.settings.storm, repr(dict(case.settings.storm))),
        "complete_latency_ms": (source.complete_latency_ms, repr(dict(source.complete_latency_ms))),
        "the source's settings.storm": (source.settings.storm, repr(dict(source.settings.storm))),
    }
    plans = [p.model_dump_json() for p in (source.plan, case.proposed)]
    ask(model, case)
    for name, before in frames.items():
        now: pd.DataFrame = getattr(source, name)
        if list(now.columns) != list(before.columns) or not now.index.equals(before.index):
            return f"changed the columns or rows of {name}"
        for column in before.columns:
            if not _same(now, before, column):
                return f"changed the column {column} of {name}"
    for name, (mapping, text) in mappings.items():
        if repr(dict(mapping)) != text:
            return f"changed {name}"
    if plans != [p.model_dump_json() for p in (source.plan, case.proposed)]:
        return "changed a plan"
    return ""


def _same(now: pd.DataFrame, before: pd.DataFrame, column: str) -> bool:
    if column == "hops":
        return all(repr(a) == repr(b) for a, b in zip(now[column], before[column], strict=True))
    return repr(now[column].dtype) == repr(before[column].dtype) and now[column].equals(before[column])


def order_of_rows(model: Model, case: Case) -> str:
    """Shuffle the observation's rows: their order means nothing."""
    rng = np.random.default_rng(1)
    shuffled = {
        name: frame.iloc[rng.permutation(len(frame))]
        for name, frame in (("metrics", case.source.metrics), ("latency", case.source.latency))
    }
    turned = replace(case, source=replace(case.source, **shuffled))  # type: ignore[arg-type]
    return _differ(_numbers(ask(model, case)), _numbers(ask(model, turned)), "with rows in another order")


def _differ(expected: Mapping[Key, float], found: Mapping[Key, float], when: str) -> str:
    for key, value in expected.items():
        if key not in found:
            return f"{_name(key)} is gone {when}"
        if not math.isclose(value, found[key], rel_tol=1e-6, abs_tol=1e-12):
            return f"{_name(key)} is {found[key]:g} instead of {value:g} {when}"
    return ""


def well_formed(model: Model, case: Case) -> str:
    """Look at statuses, reasons, numbers and intervals: are they such as the matrices can show."""
    prediction = model(case.source, case.proposed, case.settings, case.rate_tps)
    seen: set[Key] = set()
    for e in prediction.estimates:
        key = (e.measure, e.statistic, e.subject)
        if key in seen:
            return f"{_name(key)} is answered twice"
        seen.add(key)
        if problem := _ill_formed(e):
            return f"{_name(key)}: {problem}"
    return ""


def _ill_formed(e: Estimate) -> str:
    if e.status not in STATUSES:
        return f"status {e.status!r} is none of {', '.join(STATUSES)}"
    return _ill_formed_number(e) if e.status == "ok" else _ill_formed_gap(e)


def _ill_formed_gap(e: Estimate) -> str:
    if e.value is not None:
        return f"is {e.status} and has the value {e.value:g}"
    return "" if e.reason.strip() else f"is {e.status} without a reason"


def _ill_formed_number(e: Estimate) -> str:
    if e.value is None:
        return "is ok and has no value"
    if not all(v is None or math.isfinite(v) for v in (e.value, e.low, e.high)):
        return f"{e.value} ({e.low} to {e.high}) is not finite"
    if not 0 <= e.value <= (1 + 1e-9 if e.measure in SHARES else math.inf):
        return f"is {e.value:g}"
    if (e.low is None) != (e.high is None):
        return "has one end of an interval"
    if e.low is not None and e.high is not None and not e.low <= e.value <= e.high:
        return f"{e.value:g} lies outside its interval, {e.low:g} to {e.high:g}"
    return ""


def every_subject(model: Model, case: Case) -> str:
    """Require a measure that is answered for one subject for all of them, or a reason; and for no others."""
    prediction = model(case.source, case.proposed, case.settings, case.rate_tps)
    known = _subjects_of(case.proposed)
    for measure in MEASURES:
        found = {e.subject for e in prediction.estimates if e.measure == measure and e.statistic == "mean"}
        if not found:
            continue
        missing = [s for s in subjects(case.proposed, measure) if s not in found]
        if missing:
            return f"{measure}: neither answered nor declined for {missing[0]!r} ({len(missing)} are missing)"
        strange = sorted(found - known)
        if strange:
            return f"{measure}: there is no {strange[0]!r} in the proposed plan"
    return ""


def _subjects_of(plan: PhysicalPlan) -> set[str]:
    names = {""} | {c.name for c in plan.query_plan.components} | {e.label for e in plan.executors}
    streams = {s.stream for s in plan.query_plan.streams}
    connections = set(subjects(plan, Measure.ROUTING))
    places = {w.label for w in plan.workers} | {n.name for n in plan.nodes}
    paths = {"/".join(path) for path in component_paths(plan.query_plan)}
    return names | connections | places | paths | {io_label(name, s) for name in names for s in streams}


def magnitude(model: Model, case: Case) -> str:
    """Compare answers for the source's own plan with what was measured there: have they the same unit."""
    source = case.source
    own = replace(case, proposed=source.plan, settings=source.settings, rate_tps=source.rate_tps)
    measured = _measured(source)
    longest_ms = max((v for (name, _, _), v in measured.items() if name == Measure.SERVICE), default=0.0)
    for key, value in _numbers(ask(model, own)).items():
        factor, actual = MAGNITUDE.get(key[0]), measured.get(key)
        if factor is None or actual is None or not actual > 0 or not value > 0:
            continue
        least = min(actual / factor, longest_ms / 3) if key[0] in LATENCIES else actual / factor
        if not least <= value <= factor * actual:
            return f"{_name(key)} is {value:g} for the source's own plan, where {actual:g} was measured"
    return ""


def _measured(source: Observation) -> dict[Key, float]:
    """Means of the latencies, and of components' services and arrivals, as plainly as possible."""
    found: dict[Key, float] = {}
    if len(source.latency):
        found[LATENCIES[0], "mean", ""] = float(source.latency["ground_truth_ms"].mean())
    complete = list(source.complete_latency_ms.values())
    if complete:
        found[LATENCIES[1], "mean", ""] = float(np.mean(complete))
    sums = source.metrics.groupby(["measurement", "component", "field"], observed=True)["value"].sum()
    acked = sum(
        sums.get((Metric.ACK, spout, MetricField.COUNT), 0.0) for spout in source.plan.query_plan.spouts
    )
    if acked > 0:
        ack_ns = sum(
            sums.get((Metric.ACK, spout, MetricField.SUM_NS), 0.0) for spout in source.plan.query_plan.spouts
        )
        found[LATENCIES[2], "mean", ""] = ack_ns / acked / 1e6
    for component in source.plan.query_plan.components:
        name = component.name
        served = sums.get((Metric.SERVICE, name, MetricField.COUNT), 0.0)
        if served > 0:
            wall_ns = sums.get((Metric.SERVICE, name, MetricField.WALL_SUM_NS), math.nan)
            found[Measure.SERVICE, "mean", name] = wall_ns / served / 1e6
        received = sums.get((Metric.RECEIVED, name, MetricField.COUNT), 0.0)
        if received > 0:
            found[Measure.ARRIVALS, "mean", name] = received / source.interval_s
    return found


def units(model: Model, case: Case) -> str:
    """Slow the world down to half: rates are half, services twice, and latencies not more than twice.

    Latencies, capacities and services may hold constants (a flush interval, a sleep, an overhead) that do
    not slow down.
    """
    slow = replace(case, source=stretched(case.source), rate_tps=case.rate_tps / STRETCH)
    expected, found = _numbers(ask(model, case)), _numbers(ask(model, slow))
    for key, value in expected.items():
        if key not in found or value == 0 or key[0] not in SCALES:
            continue
        ratio, (low, high) = found[key] / value, SCALES[key[0]]
        if not low * (1 - SLACK) <= ratio <= high * (1 + SLACK):
            wanted = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            return f"{_name(key)} is {ratio:.3g} times as large where time runs half as fast, not {wanted}"
    return ""


def stretched(source: Observation) -> Observation:
    """Return the observation of a world in which everything takes twice as long."""
    metrics = source.metrics.copy()
    first = metrics["bucket_end_ms"].min()
    metrics["bucket_end_ms"] = first + STRETCH * (metrics["bucket_end_ms"] - first)
    field = metrics["field"].astype(str)
    squares, linear = field.str.endswith("_ns2"), field.str.endswith(("_ns", "_ms"))
    power = squares.astype(int) * 2 + linear.astype(int)
    metrics["value"] = metrics["value"] * np.power(float(STRETCH), power)
    bins = metrics["measurement"].astype(str).isin([Metric.SERVICE_HIST, Metric.ACK_HIST])
    field[bins] = (field[bins].astype(np.int64) * STRETCH).astype(str)
    metrics["field"] = pd.Categorical(field)
    latency = source.latency.copy()
    origin = int(latency["entered_ns"].min()) if len(latency) else 0
    for name in latency.columns:
        if name.endswith("_ns"):
            latency[name] = origin + STRETCH * (latency[name] - origin)
        elif name.endswith("_ms"):
            latency[name] = latency[name] * STRETCH
        elif name == "hops":
            slow = [_stretched_hops(hops, origin) for hops in latency[name]]
            latency[name] = pd.Series(slow, index=latency.index, dtype=object)
    return replace(
        source,
        rate_tps=source.rate_tps / STRETCH,
        interval_s=source.interval_s * STRETCH,
        metrics=metrics,
        latency=latency,
        complete_latency_ms={k: v * STRETCH for k, v in source.complete_latency_ms.items()},
    )


def _stretched_hops(hops: Iterable[Mapping[str, int]], origin: int) -> list[dict[str, int]]:
    return [{k: v if k == "task" else origin + STRETCH * (v - origin) for k, v in h.items()} for h in hops]


def foreign_plan(model: Model, case: Case) -> str:
    """Ask about a plan of another query plan, and one that lacks executors: neither has an answer."""
    query_plan = case.proposed.query_plan
    last = query_plan.components[-1].name
    renamed = _renamed(query_plan, last)
    executors = tuple(
        e.model_copy(update={"component": f"other-{last}"}) if e.component == last else e
        for e in case.proposed.executors
    )
    nodes = case.proposed.nodes
    foreign = PhysicalPlan(query_plan=renamed, nodes=nodes, executors=executors)
    others = tuple(e for e in case.proposed.executors if e.component != last)
    lacking = PhysicalPlan(query_plan=query_plan, nodes=nodes, executors=others)
    for what, plan in (("another query plan", foreign), (f"no executor of {last}", lacking)):
        answered = _numbers(ask(model, replace(case, proposed=plan)))
        if answered:
            key, value = next(iter(answered.items()))
            return f"answered for a plan with {what}: {_name(key)} is {value:g}"
    return ""


def _renamed(query_plan: QueryPlan, name: str) -> QueryPlan:
    components = tuple(
        c.model_copy(update={"name": f"other-{name}"}) if c.name == name else c for c in query_plan.components
    )
    streams = tuple(
        s.model_copy(update={"target": f"other-{name}"}) if s.target == name else s
        for s in query_plan.streams
    )
    return QueryPlan(name=query_plan.name, components=components, streams=streams)


def declines(model: Model, case: Case) -> str:
    """Spoil the question: it is declined with a reason or answered as before, with no other number."""
    expected = _numbers(ask(model, case))
    for what, spoilt in _spoilt(case):
        try:
            found = ask(model, spoilt)
        except Exception as error:
            return f"{what}: failed with {type(error).__name__}: {error}"
        for key, e in found.items():
            if problem := _ill_formed(e):
                return f"{what}: {_name(key)}: {problem}"
        for key, value in _numbers(found).items():
            if key in expected and not math.isclose(value, expected[key], rel_tol=1e-9):
                return f"{what}: a guess, {_name(key)} is {value:g} where it was {expected[key]:g}"
    return ""


def _spoilt(case: Case) -> Iterator[tuple[str, Case]]:
    """Yield the case with one thing wrong at a time, and what that is."""
    source = case.source
    metrics, latency = source.metrics, source.latency

    def with_metrics(frame: pd.DataFrame) -> Case:
        return replace(case, source=replace(source, metrics=frame))

    def with_latency(frame: pd.DataFrame) -> Case:
        return replace(case, source=replace(source, latency=frame))

    bolts = [c.name for c in source.plan.query_plan.components if source.plan.query_plan.inputs(c.name)]
    kinds, component = metrics["measurement"].astype(str), metrics["component"].astype(str)
    yield "no metrics at all", with_metrics(metrics.iloc[:0])
    for kind in (Metric.RECEIVED, Metric.EMITTED, Metric.TRANSFERRED, Metric.SERVICE):
        yield f"no metric {kind}", with_metrics(metrics[kinds != kind])
    unreceived = (kinds == Metric.RECEIVED) & (component == bolts[-1])
    yield f"no received of {bolts[-1]}", with_metrics(metrics[~unreceived])
    executor = source.plan.of(bolts[0])[-1]
    unseen = metrics["task"].between(executor.first_task, executor.last_task)
    yield f"nothing seen of {executor.label}", with_metrics(metrics[~unseen])
    for value in (math.nan, -3.0, math.inf):
        for kind in (Metric.RECEIVED, Metric.EMITTED, Metric.TRANSFERRED, Metric.SERVICE):
            changed = metrics.copy()
            changed.loc[changed.index[kinds == kind][0], "value"] = value
            yield f"a count of {value:g} in {kind}", with_metrics(changed)
    yield "no latencies", with_latency(latency.iloc[:0])
    for value in (math.nan, -5.0):
        changed = latency.copy()
        changed.loc[changed.index[0], "ground_truth_ms"] = value
        yield f"a ground truth of {value:g}", with_latency(changed)
    yield "no complete latency", replace(case, source=replace(source, complete_latency_ms={}))
    yield "an interval of 0 s", replace(case, source=replace(source, interval_s=0.0))
    for rate in (0.0, -1.0, math.nan, math.inf):
        yield f"a proposed rate of {rate:g}", replace(case, rate_tps=rate)
        yield f"a source rate of {rate:g}", replace(case, source=replace(source, rate_tps=rate))
    looped = [_looped(p) for p in (source.plan, case.proposed)]
    yield "components in a cycle", replace(case, source=replace(source, plan=looped[0]), proposed=looped[1])


def _looped(plan: PhysicalPlan) -> PhysicalPlan:
    query_plan = plan.query_plan
    bolts = [c.name for c in query_plan.components if query_plan.inputs(c.name)]
    back = Stream(source=bolts[-1], target=bolts[0], grouping="shuffle", stream="back")
    cyclic = query_plan.model_copy(update={"streams": (*query_plan.streams, back)})
    return PhysicalPlan(query_plan=cyclic, nodes=plan.nodes, executors=plan.executors)


CHECKS: Mapping[str, Check] = {
    "answers": answers_at_all,
    "deterministic": deterministic,
    "pure": pure,
    "order-of-rows": order_of_rows,
    "well-formed": well_formed,
    "every-subject": every_subject,
    "magnitude": magnitude,
    "units": units,
    "foreign-plan": foreign_plan,
    "declines": declines,
}
