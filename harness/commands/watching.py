"""Runs shown from outside, while they are measured and afterwards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.common import err, finish, json_option, stop_as_by_ctrl_c
from harness.commands.completing import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.experiments.progress import ProgressEvent

POLL_S = 0.5
SILENT_S = 5.0
"""After so long without an event it is asked whether anybody still measures."""


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
@json_option
def watch(run_path: Path, as_json: bool) -> None:
    """Show how far RUN is, from any terminal, until its measuring ends.

    It reads progress.jsonl and disturbs nobody; of a run that has ended it shows what happened, and ends.

    \b
    harness watch runs/quick/20260102T030405Z
    """
    from harness.commands.console import ProgressDisplay
    from harness.runs import Run

    stop_as_by_ctrl_c()
    run_ = Run(run_path)
    state = "killed"
    with ProgressDisplay(err) as display:
        for event in _events(run_path):
            if event.progress is not None:
                display(event.progress)
            if event.event == "end":
                state = event.detail
            elif event.event == "begin":
                state = "killed"
    said = "its measuring ended without a word" if state == "killed" else f"measuring {state}"
    click.echo(f"{said}; steps finished: {len(run_.finished_steps)}; verdict: {run_.verdict}")
    finish(as_json, {"run": str(run_path), "state": state, "verdict": run_.verdict})


def _events(run_path: Path) -> Iterator[ProgressEvent]:
    """Yield a run's events as they come, until the last of them is an end, or nobody measures."""
    from harness.experiments.progress import PROGRESS, ProgressReader, being_measured
    from harness.experiments.step_progress import recorded_progress
    from harness.runs import Run

    if not (run_path / PROGRESS).is_file() and not being_measured(run_path):
        yield from recorded_progress(Run(run_path))
        return
    reader, silent_since = ProgressReader(run_path), time.monotonic()
    ended, quiet = False, False
    while True:
        if events := reader.read():
            yield from events
            ended, silent_since = events[-1].event == "end", time.monotonic()
        elif ended or quiet:
            return
        else:
            quiet = time.monotonic() - silent_since > SILENT_S and not being_measured(run_path)
            time.sleep(POLL_S)
