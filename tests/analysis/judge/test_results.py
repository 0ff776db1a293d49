"""How a step's configuration is said in titles and tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.analysis.judge.results import executors
from harness.analysis.spark.inputs import RunRecord, StepRecord


def with_counts(step: StepRecord, **counts: int) -> StepRecord:
    """The step with so many executors of each component."""
    start = step.plan.start
    one = {c.name: start.of(c.name)[0] for c in start.query_plan.components}
    many = tuple(one[name] for name, count in counts.items() for _ in range(count))
    return replace(
        step, plan=step.plan.model_copy(update={"start": start.model_copy(update={"executors": many})})
    )


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((2, 2, 2, 2), "2 each"),
        ((2, 4, 2, 2), "2 each but bolt-a 4"),
        ((2, 2, 4, 4), "2 spout, 2 bolt-a, 4 bolt-b, 4 sender"),
        ((1, 4, 4, 4), "4 each but spout 1"),
    ],
)
def test_the_usual_number_and_what_differs(run: RunRecord, counts: tuple[int, ...], words: str) -> None:
    names = ("spout", "bolt-a", "bolt-b", "sender")
    assert executors(with_counts(run.steps[0], **dict(zip(names, counts, strict=True)))) == words
