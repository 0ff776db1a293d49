"""A step's checks: the counts of its samples, which they get beside its small files, and their outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from harness.analysis.judge.agreement import Agreement
from harness.analysis.spark.distribution import BATCHES, MISSING, NEGATIVE, NOT_A_NUMBER
from harness.analysis.spark.inputs import StepRecord
from harness.protocols import Verdict

AGREED = Agreement()


@dataclass(frozen=True)
class Samples:
    """Numbers of rows of one step's interval by kind of latency, and the tasks that did not report all."""

    values: int = 0
    missing: int = 0
    not_a_number: int = 0
    negative: int = 0
    outside: int = 0
    silent_tasks: tuple[int, ...] = ()
    untiled: tuple[str, ...] = ()
    agreement: Agreement = AGREED

    @classmethod
    def of(
        cls,
        histogram: pd.DataFrame,
        step: int,
        silent_tasks: tuple[int, ...] = (),
        untiled: tuple[str, ...] = (),
        agreement: Agreement = AGREED,
    ) -> Samples:
        """Count from the latency histogram.

        The ``silent_tasks`` have no metric bucket in the interval. Tasks with missing, doubled or squeezed
        buckets are named in ``untiled``, and ``agreement`` is that of the step's files with each other.
        """
        mine = histogram[histogram["step"] == step]

        def rows(of: pd.Series[bool]) -> int:
            return int(mine.loc[of, "n"].sum())

        return cls(
            values=rows(mine["bin"] >= NEGATIVE),
            missing=rows(mine["bin"] == MISSING),
            not_a_number=rows(mine["bin"] == NOT_A_NUMBER),
            negative=rows(mine["bin"] == NEGATIVE),
            outside=rows(~mine["batch"].between(0, BATCHES - 1)),
            silent_tasks=silent_tasks,
            untiled=untiled,
            agreement=agreement,
        )


Outcome = tuple[Verdict, str]
StepCheck = Callable[[StepRecord, Samples], Outcome]
