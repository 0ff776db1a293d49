"""The traffic of ``adapt-foreseen``: its files are those of the script, and one is the other's past."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

from harness.experiments.loading import load
from harness.experiments.schedule import Trace

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "foreseen_days.py"


def test_the_files_are_those_of_the_script() -> None:
    made = runpy.run_path(str(SCRIPT))["days"]()
    assert {path: path.read_text(encoding="utf-8") for path in made} == made


def test_the_earlier_traffic_ends_where_the_interval_begins() -> None:
    """The burn-in is the last 20 s of it, message by message; nothing of the interval is in it."""
    experiment = load("adapt-foreseen")
    (history,) = experiment.histories.values()
    assert experiment.trace is not None
    earlier, played = (Trace.read(path).offsets_ns / 1e9 for path in (history, experiment.trace))
    burn_in_s = experiment.measure.burn_in.most_s
    assert experiment.measure.burn_in.least_s == burn_in_s
    burnt_in = played[played < burn_in_s]
    assert len(burnt_in) > 100
    assert np.abs((earlier[-len(burnt_in) :] - earlier[-1]) - (burnt_in - burnt_in[-1])).max() < 1e-6
    assert burn_in_s - burnt_in[-1] < 0.5
