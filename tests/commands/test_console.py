"""What stays on the screen of a run: lines outside a terminal, in one those not overwritten."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from harness.commands.console import ProgressDisplay
from harness.experiments.contracts import Progress


@pytest.mark.parametrize("terminal", [False, True])
def test_a_step_that_is_measured_again_says_why_and_the_line_stays(terminal: bool) -> None:
    screen = StringIO()
    with ProgressDisplay(Console(file=screen, force_terminal=terminal, width=120)) as show:
        show(Progress(1, 5, "measure", "spec-1/2x6@50", 49.0, 151.3, 185.0))
        show(Progress(1, 5, "again", "spec-1/2x6@50", detail="interval: drift of 14 %"))
        show(Progress(1, 5, "rebalance", "spec-1/2x6@50"))
        show(Progress(1, 5, "done", "spec-1/2x6@50", detail="mean 12.00 ms; measured again; before: drift"))
    said = screen.getvalue()
    assert said.count("step 2/5 spec-1/2x6@50 is measured again: interval: drift of 14 %\n") == 1
    assert said.count("step 2/5 spec-1/2x6@50 done: mean 12.00 ms; measured again; before: drift\n") == 1
    assert ("step 2/5 spec-1/2x6@50 measure, 49/s, 151.3 ms, about 3 min 05 s left\n" in said) != terminal


def test_the_words_of_a_scheduler_that_failed_are_text_whatever_they_are() -> None:
    screen = StringIO()
    words = "ValueError: no slot in [/rack-1] for [bolt-a, bolt-b]"
    with ProgressDisplay(Console(file=screen, width=120)) as show:
        show(Progress(1, 5, "declined", "spec-1/2x6@50", detail=words))
    assert words in screen.getvalue()
