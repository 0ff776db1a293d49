"""Checks that any scheduler can be run through: a pure function that declines rather than guesses.

Each check takes a scheduler and a question and returns what is wrong in one line, or nothing. None of them
asks how good a plan is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from harness.errors import SchedulerDeclined
from harness.plans import PhysicalPlan, QueryPlan, TopologyConfiguration, WorkerNode
from harness.protocols import BudgetingScheduler, Observation, Proposal, Scheduler
from harness.schedulers.placement import unplaced_executors
from harness.schemas import Metric


@dataclass(frozen=True)
class SchedulingQuestion:
    """All that a scheduler is given; ``propose`` of ``harness.protocols.Scheduler`` says what each is."""

    query_plan: QueryPlan
    configuration: TopologyConfiguration
    nodes: tuple[WorkerNode, ...]
    source: Observation | None


@dataclass(frozen=True)
class SchedulerOutcome:
    """One check's result; ``problem`` is empty when the scheduler passed."""

    check: str
    problem: str


SchedulerCheck = Callable[[Scheduler, SchedulingQuestion], str]


def question_of(source: Observation) -> SchedulingQuestion:
    """Return the question of where to put the executors that run now, on the nodes that they run on."""
    plan = source.plan
    return SchedulingQuestion(plan.query_plan, plan.configuration(), plan.nodes, source)


def ask_scheduler(scheduler: Scheduler, question: SchedulingQuestion) -> Proposal:
    """Put a question to a scheduler."""
    q = question
    return scheduler.propose(q.query_plan, q.configuration, q.nodes, q.source)


@dataclass(frozen=True)
class Budget:
    """The rate to plan for, and what a scheduler that chooses the counts may use (``BudgetingScheduler``)."""

    rate_tps: float
    max_executors: int | None = None
    max_workers: int | None = None


def sound_proposal(
    scheduler: Scheduler, question: SchedulingQuestion, budget: Budget | None = None
) -> Proposal:
    """Return a scheduler's answer, where it is one that can be had.

    Parameters
    ----------
    scheduler : Scheduler
    question : SchedulingQuestion
    budget : Budget, optional
        Within which a scheduler may choose the counts. None: the counts are the question's.

    Raises
    ------
    SchedulerDeclined
        With its reason, or with what is wrong with its answer.
    """
    chooses = False
    if budget is not None and isinstance(scheduler, BudgetingScheduler):
        scheduler = scheduler.within(budget.rate_tps, budget.max_executors, budget.max_workers)
        chooses = True
    proposal = ask_scheduler(scheduler, question)
    try:
        fault = answer_faults(proposal, question, own_counts=chooses)
    except Exception as why:  # a user's scheduler may answer what cannot even be looked at
        fault = f"its answer cannot be read: {type(why).__name__}: {why}"
    if fault:
        raise SchedulerDeclined(f"it answered nonsense: {fault}")
    return proposal


def check_scheduler(scheduler: Scheduler, question: SchedulingQuestion) -> tuple[SchedulerOutcome, ...]:
    """Run a scheduler through every check; one in which it crashes has failed, with what was raised."""
    outcomes = []
    for name, check in SCHEDULER_CHECKS.items():
        try:
            problem = check(scheduler, question)
        except SchedulerDeclined as why:
            problem = f"declined a question that is in order: {why}"
        except Exception as error:  # a scheduler under test may raise anything
            problem = f"the scheduler failed with {type(error).__name__}: {error}"
        outcomes.append(SchedulerOutcome(name, problem))
    return tuple(outcomes)


def answer_faults(proposal: object, question: SchedulingQuestion, own_counts: bool = False) -> str:
    """Return what makes an answer useless: executors missing or twice, slots not free, another plan.

    Parameters
    ----------
    proposal : object
        Whatever was answered.
    question : SchedulingQuestion
    own_counts : bool
        Whether the scheduler may choose the counts: they are then the proposal's, not the question's.
    """
    return next(_faults(proposal, question, own_counts), "")


def _faults(proposal: object, question: SchedulingQuestion, own_counts: bool) -> Iterator[str]:
    if not isinstance(proposal, Proposal) or not isinstance(proposal.plan, PhysicalPlan):
        yield f"returned a {type(proposal).__name__}, not a Proposal with a plan"
        return
    plan = proposal.plan
    if plan.query_plan != question.query_plan:
        yield "the plan has another query plan than was asked for"
    labels = [e.label for e in plan.executors]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        yield f"executor {twice[0]} is placed twice"
    if not labels:
        yield "no executor is placed"
        return
    counts = plan.configuration() if own_counts else question.configuration
    try:
        executors = unplaced_executors(question.query_plan, counts, question.source)
    except SchedulerDeclined as why:
        yield f"its counts cannot be had: {why}"
        return
    wanted = {e.label for e in executors}
    if missing := sorted(wanted - set(labels)):
        yield f"executor {missing[0]} is not placed ({len(missing)} are missing)"
    if strange := sorted(set(labels) - wanted):
        yield f"executor {strange[0]} was not asked for"
    slots = {(n.name, port) for n in question.nodes for port in n.slots}
    for worker in plan.workers:
        if (worker.node, worker.port) not in slots:
            yield f"worker {worker.label} is in no slot that exists and is free"
    if {n.name: n for n in plan.nodes} != {n.name: n for n in question.nodes}:
        yield "the plan's worker nodes are not those of the question"
    notes = proposal.notes if isinstance(proposal.notes, tuple | list) else [None]
    if not all(isinstance(note, str) and note.strip() for note in notes):
        yield "a note is empty or no text"


def places_everything(scheduler: Scheduler, question: SchedulingQuestion) -> str:
    """Ask where everything is in order."""
    return answer_faults(ask_scheduler(scheduler, question), question)


def keeps_to_free_slots(scheduler: Scheduler, question: SchedulingQuestion) -> str:
    """Take the first slot of every node with several away: another topology uses it."""
    nodes = tuple(
        n.model_copy(update={"slots": n.slots[1:]}) if len(n.slots) > 1 else n for n in question.nodes
    )
    fewer = replace(question, nodes=nodes)
    try:
        return answer_faults(ask_scheduler(scheduler, fewer), fewer)
    except SchedulerDeclined as why:
        return "" if str(why).strip() else "declined without a reason"


def keeps_to_workers(scheduler: Scheduler, question: SchedulingQuestion) -> str:
    """Count the workers: more than were asked for only where a note says it."""
    for workers in (1, question.configuration.workers):
        asked = question.configuration.model_copy(update={"workers": workers})
        try:
            proposal = ask_scheduler(scheduler, replace(question, configuration=asked))
        except SchedulerDeclined as why:
            if not str(why).strip():
                return "declined without a reason"
            continue
        used = len(proposal.plan.workers)
        if used > workers and not any("worker" in note for note in proposal.notes):
            return f"uses {used} workers where {workers} are asked for, and no note says it"
    return ""


def answers_alike(scheduler: Scheduler, question: SchedulingQuestion) -> str:
    """Ask twice, the second time after another question: the answers are the same."""
    first = ask_scheduler(scheduler, question)
    other = question.configuration.model_copy(update={"workers": 1})
    with suppress(SchedulerDeclined):
        ask_scheduler(scheduler, replace(question, configuration=other))
    return "" if ask_scheduler(scheduler, question) == first else "asked twice, two answers"


def leaves_its_input(scheduler: Scheduler, question: SchedulingQuestion) -> str:
    """Look whether what the scheduler was given is afterwards as it was."""
    source = question.source
    if source is None:
        return ""
    before = source.metrics.copy(deep=True)
    plan = source.plan.model_dump_json()
    executors = dict(question.configuration.executors)
    ask_scheduler(scheduler, question)
    if not source.metrics.equals(before):
        return "changed the metrics"
    if source.plan.model_dump_json() != plan or dict(question.configuration.executors) != executors:
        return "changed the source's plan or the configuration"
    return ""


def ignores_order(scheduler: Scheduler, question: SchedulingQuestion) -> str:
    """Shuffle rows, nodes, slots and the configuration's keys: their order means nothing."""
    rng = np.random.default_rng(1)
    expected = _placement(ask_scheduler(scheduler, question))
    nodes = tuple(n.model_copy(update={"slots": n.slots[::-1]}) for n in question.nodes[::-1])
    counts = dict(reversed(list(question.configuration.executors.items())))
    shuffled = replace(
        question, nodes=nodes, configuration=question.configuration.model_copy(update={"executors": counts})
    )
    if question.source is not None:
        metrics = question.source.metrics
        rows = metrics.iloc[rng.permutation(len(metrics))]
        running = question.source.plan
        turned = running.model_copy(update={"executors": running.executors[::-1], "nodes": nodes})
        shuffled = replace(shuffled, source=replace(question.source, metrics=rows, plan=turned))
    differing = expected.items() ^ _placement(ask_scheduler(scheduler, shuffled)).items()
    return f"another plan in another order: {min(differing)[0]} is elsewhere" if differing else ""


def _placement(proposal: Proposal) -> dict[str, str]:
    return {e.label: e.worker.label for e in proposal.plan.executors}


def declines_nonsense(scheduler: Scheduler, question: SchedulingQuestion) -> str:
    """Spoil the question: it is declined with a reason, or answered in full without what is missing."""
    for what, spoilt, impossible in _spoilt(question):
        try:
            proposal = ask_scheduler(scheduler, spoilt)
        except SchedulerDeclined as why:
            if not str(why).strip():
                return f"{what}: declined without a reason"
            continue
        except Exception as error:
            return f"{what}: failed with {type(error).__name__}: {error}"
        if impossible:
            return f"{what}: answered"
        if fault := answer_faults(proposal, spoilt):
            return f"{what}: {fault}"
    return ""


def _spoilt(question: SchedulingQuestion) -> Iterator[tuple[str, SchedulingQuestion, bool]]:
    """Yield the question with one thing wrong at a time, what that is, and whether no answer is possible."""
    full = tuple(n.model_copy(update={"slots": ()}) for n in question.nodes)
    yield "no slot is free", replace(question, nodes=full), True
    yield "no worker nodes", replace(question, nodes=()), True
    counts = dict(question.configuration.executors)
    lacking = {k: v for k, v in counts.items() if k != question.query_plan.components[0].name}
    for what, executors in (
        ("a component without executors", lacking),
        ("an unknown one", counts | {"?": 1}),
    ):
        asked = question.configuration.model_copy(update={"executors": executors})
        yield what, replace(question, configuration=asked), True
    if question.source is None:
        return
    source, metrics = question.source, question.source.metrics
    yield "no source", replace(question, source=None), False
    yield "no metrics", replace(question, source=replace(source, metrics=metrics.iloc[:0])), False
    kinds = metrics["measurement"].astype(str)
    for kind in (Metric.TRANSFERRED, Metric.SERVICE, Metric.WORKER):
        without = metrics[kinds != kind]
        yield f"no metric {kind}", replace(question, source=replace(source, metrics=without)), False
        for value in (math.nan, -3.0, math.inf):
            changed = metrics.copy()
            changed.loc[changed.index[kinds == kind], "value"] = value
            spoilt = replace(question, source=replace(source, metrics=changed))
            yield f"a count of {value:g} in {kind}", spoilt, False
    yield "an interval of 0 s", replace(question, source=replace(source, interval_s=0.0)), False


SCHEDULER_CHECKS: Mapping[str, SchedulerCheck] = {
    "every-executor-once": places_everything,
    "free-slots": keeps_to_free_slots,
    "workers": keeps_to_workers,
    "deterministic": answers_alike,
    "pure": leaves_its_input,
    "order-of-rows": ignores_order,
    "declines": declines_nonsense,
}
