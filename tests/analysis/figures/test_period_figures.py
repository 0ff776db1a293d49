"""Periods of steps that adapt as lines: numbers of a table as ``adaptation.parquet`` has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from harness.analysis.figures import period_figures, style
from harness.analysis.figures.period_figures import COLLOCATION, DISTANCE, INDEX, MIGRATIONS, PeriodLine
from harness.analysis.judge.results import Results
from harness.schemas import ADAPTATION

ROWS = [
    {"decision": "applied", "collocation_factor": 0.125, "load_distance_pct": 2.0, "groups_moved": 6},
    {"decision": "stays", "collocation_factor": 0.5, "load_distance_pct": 0.75},
    {"decision": "applied", "executors_moved": 4, "load_index_pct": 84.0},
    {"decision": "declined", "executors_moved": 9},
]
"""With what came to be known in some periods only."""


@pytest.fixture
def adapted(results: Results) -> Results:
    periods = pa.Table.from_pylist(ROWS, ADAPTATION).to_pandas()
    first, *others = results.run.steps
    return replace(results, run=replace(results.run, steps=(replace(first, adaptation=periods), *others)))


def axis_labels(figure: Figure) -> list[str]:
    return [ax.get_ylabel() for ax in figure.axes if ax.get_visible()]


def test_a_line_has_the_plan_in_force_and_what_was_moved(adapted: Results, results: Results) -> None:
    """Six groups, none, four executors; what was declined moved nothing."""
    assert not period_figures.has_periods(results)
    (line,) = period_figures.period_lines(adapted)
    assert line.name == "step 0: Storm's own"
    assert line.values[COLLOCATION].tolist()[:2] == [12.5, 50.0]
    assert line.values[DISTANCE].tolist()[:2] == [2.0, 0.75]
    assert line.values[INDEX][2] == 84.0
    assert line.values[MIGRATIONS].tolist() == [6, 0, 4, 0]
    assert np.isnan(line.values[COLLOCATION][2:]).all()


def test_a_quantity_that_nobody_knows_has_no_panel(adapted: Results) -> None:
    with style.styled(style.STYLES["paper"]):
        whole = period_figures.draw_of_run(adapted)
        few = period_figures.draw_periods([PeriodLine("a", {DISTANCE: np.array([3.0, 1.0])})], "Made.")
    assert axis_labels(whole) == list(period_figures.QUANTITIES)
    assert axis_labels(few) == [DISTANCE]
    assert few.get_supxlabel() == "Made."
