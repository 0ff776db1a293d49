"""Every scheduler through the conformance checks, on a measured step and on plans drawn at random."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from harness.app.conformance import example
from harness.errors import SchedulerDeclined, UsageError
from harness.plans import Worker
from harness.protocols import Proposal
from harness.schedulers import SCHEDULERS, make_scheduler
from harness.schedulers.conformance import (
    SCHEDULER_CHECKS,
    check_scheduler,
    question_of,
)

QUESTION = question_of(example().source)


SLOW = {"albic", "balance", "model-guided"}
"""Schedulers that solve a program or predict many plans for each of some thirty questions."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.deep] * (n in SLOW)) for n in sorted(SCHEDULERS)]
)
def test_every_scheduler_conforms_on_a_measured_step(name: str) -> None:
    assert [o for o in check_scheduler(make_scheduler(name), QUESTION) if o.problem] == []


@dataclass(frozen=True)
class FaultyScheduler:
    """Storm's own with one thing made wrong."""

    fault: str

    def propose(self, query_plan, configuration, nodes, source=None):  # type: ignore[no-untyped-def]
        proposal = make_scheduler("even").propose(query_plan, configuration, nodes, source)
        executors = proposal.plan.executors
        if self.fault == "lost":
            executors = executors[1:]
        elif self.fault == "twice":
            executors = (*executors, executors[0])
        elif self.fault == "slot":
            executors = tuple(
                e.model_copy(update={"worker": Worker(node=e.worker.node, port=1)}) for e in executors
            )
        elif self.fault == "rows" and source is not None and len(source.metrics):
            at = int(source.metrics["task"].iloc[0]) % len(executors)
            executors = tuple(e.model_copy(update={"worker": executors[at].worker}) for e in executors)
        elif self.fault == "changes" and source is not None and len(source.metrics):
            source.metrics.iloc[0, source.metrics.columns.get_loc("value")] += 1.0
        elif self.fault == "raises":
            raise ZeroDivisionError("no")
        elif self.fault == "declines":
            raise SchedulerDeclined("not today")
        return Proposal(proposal.plan.model_copy(update={"executors": executors}), proposal.notes)


@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("lost", "every-executor-once", "is not placed"),
        ("twice", "every-executor-once", "is placed twice"),
        ("slot", "free-slots", "in no slot"),
        ("rows", "order-of-rows", "another order"),
        ("changes", "pure", "changed the metrics"),
        ("raises", "every-executor-once", "ZeroDivisionError"),
        ("declines", "every-executor-once", "declined a question that is in order: not today"),
    ],
)
def test_a_fault_is_named_by_its_check(fault: str, check: str, words: str) -> None:
    source = example().source
    source = replace(source, metrics=source.metrics.copy())
    outcomes = {o.check: o.problem for o in check_scheduler(FaultyScheduler(fault), question_of(source))}
    assert outcomes.keys() == SCHEDULER_CHECKS.keys()
    assert words in outcomes[check]


def test_a_scheduler_of_ones_own_is_found_by_its_place() -> None:
    scheduler = make_scheduler({"name": f"{__name__}:FaultyScheduler", "fault": "lost"})
    assert scheduler == FaultyScheduler("lost")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("evn", "unknown scheduler 'evn': use one of even"),
        ({"name": "even", "seed": 1}, "scheduler 'even' has no parameter 'seed': it takes none"),
        ({"name": "random", "seed": "x"}, "scheduler 'random': seed: Input should be a valid integer"),
        ({"seed": 1}, "a scheduler has no name"),
        ("harness.nothing:X", "cannot be loaded: ModuleNotFoundError"),
        ("harness.plans:ACKER", "is not callable"),
        ("builtins:dict", "has no method propose"),
    ],
)
def test_a_mistake_in_the_name_or_a_parameter_is_one_line(asked: object, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_scheduler(asked)  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
