"""A simulated run that goes on at the pace of its own clock, so that there is something live to see."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.experiments.contracts import Progress
from harness.experiments.loading import dump, load
from harness.machine.environment import describe
from harness.machine.servers import STORM_VERSION
from harness.runs import Run

EXPERIMENT = "quick"
SETTINGS = (
    "cluster.kind=simulator",
    "measure.burn_in.least_s=10",
    "measure.burn_in.most_s=20",
    "measure.interval.least_s=40",
    "measure.interval.most_s=40",
)
MOST_WAIT_S = 2.0
"""Longer pauses of the virtual clock, between steps, are cut."""
ENDING_S = 5.0


class PacedEvents:
    """A watcher that lets each event last until the virtual clock reaches the next, for one parent's life."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._last_ms: int | None = None

    def __call__(self, now: Progress) -> None:
        """Wait as long as passed on the virtual clock since the event before."""
        if os.getppid() != self._parent:
            raise KeyboardInterrupt("the service has ended")
        last_ms, self._last_ms = self._last_ms, now.epoch_ms
        if last_ms is not None and now.epoch_ms is not None:
            time.sleep(min(max(now.epoch_ms - last_ms, 0) / 1000, MOST_WAIT_S))


def play(folder: Path) -> None:
    """Play the demonstration's experiment into a folder, judge models on it and write its report."""
    from harness.analysis.analyse import analyse  # noqa: PLC0415 (starts Spark)
    from harness.analysis.judge.predicting import predict  # noqa: PLC0415
    from harness.app.simulated.campaign import carry_out  # noqa: PLC0415 (compiles)

    experiment = load(EXPERIMENT, SETTINGS)
    environment = describe(experiment.cluster.kind, {"storm": STORM_VERSION})
    run = Run.create(folder, experiment.name, {"experiment.yaml": dump(experiment)}, environment)
    with run.exclusively():
        carry_out(experiment, run, lambda _: None, PacedEvents())
        predict(run, ("composite", "no-change"))
        analyse(run.path)


@contextmanager
def demonstration(folder: Path) -> Iterator[None]:
    """Play in a process of its own during the block; it ends with the block, or with this process."""
    command = [sys.executable, "-m", __name__, str(folder)]
    with (folder / "demonstration.log").open("wb") as log:
        playing = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        playing.terminate()
        try:
            playing.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            playing.kill()
            playing.wait()


if __name__ == "__main__":
    try:
        play(Path(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(1)
