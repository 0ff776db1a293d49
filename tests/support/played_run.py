"""Plays what a run directory asks for on the simulator, in a process that may be killed at any time.

python played_run.py RUN: says ``ready`` when it begins.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.app.simulated.campaign import carry_out
from harness.experiments.loading import load
from harness.runs import Run

if __name__ == "__main__":
    run = Run(Path(sys.argv[1]))
    experiment = load(run.path / "experiment.yaml")
    print("ready", flush=True)
    carry_out(experiment, run, lambda _: None)
