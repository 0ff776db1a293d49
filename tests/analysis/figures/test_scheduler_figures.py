"""Schedulers over time: panels, lines, and times at which a plan changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib.patches import Rectangle

from harness.analysis.figures import scheduler_figures, style
from harness.analysis.judge.results import Results
from harness.plans import AskedPlacement
from harness.schemas import ADAPTATION

S = 1_000_000_000


@pytest.fixture
def placed(results: Results) -> Results:
    """The two steps of 4 executors: the second is placed by a scheduler, and another plan is asked for."""
    *others, first, second = results.run.steps
    placement = AskedPlacement(by="by-test", workers={})
    start_ns = second.interval.start_ns
    row = {"period": 0, "asked_ns": start_ns + 10 * S, "in_force_ns": start_ns + 14 * S}
    periods = pa.Table.from_pylist([row], ADAPTATION).to_pandas()
    plan = second.plan.model_copy(update={"placement": placement})
    second = replace(second, plan=plan, adaptation=periods)
    points = pd.DataFrame({"step": [2, 2, 3, 3], "time_s": [1.0, 5.0, 1.0, 5.0]})
    return replace(
        results,
        run=replace(results.run, steps=(*others, first, second)),
        latency_points=points.assign(latency_ms=[8.0, 9.0, 6.0, 5.0]),
        traffic_points=points.assign(between_nodes_tps=[208.0, 206.0, 206.0, 0.0]),
    )


def test_runs_whose_steps_are_placed_alike_have_no_such_figures(results: Results) -> None:
    assert not scheduler_figures.has_latency_points(results)
    assert not scheduler_figures.has_traffic_points(results)


def test_each_scheduler_has_its_points_and_a_change_is_shaded(placed: Results) -> None:
    assert scheduler_figures.has_latency_points(placed)
    for draw, values in (
        (scheduler_figures.latency_by_scheduler, [[8.0, 9.0], [6.0, 5.0]]),
        (scheduler_figures.traffic_by_scheduler, [[208.0, 206.0], [206.0, 0.0]]),
    ):
        with style.styled(style.STYLES["paper"]):
            figure = draw(placed)
        (ax,) = figure.axes
        assert [list(line.get_ydata()) for line in ax.get_lines()] == values
        assert [t.get_text() for t in figure.legends[0].get_texts()] == ["Storm's own", "by-test, adapting"]
        (span,) = (p for p in ax.patches if isinstance(p, Rectangle))
        assert (span.get_x(), span.get_width()) == (10.0, 4.0)


def test_a_traffic_of_zero_is_seen(placed: Results) -> None:
    with style.styled(style.STYLES["paper"]):
        (ax,) = scheduler_figures.traffic_by_scheduler(placed).axes
    assert ax.get_ylim()[0] < 0


def test_no_line_is_drawn_over_missing_points(placed: Results) -> None:
    """A point every 4 s, and none at 9 s: the line stops before it."""
    more = pd.DataFrame({"step": [2], "time_s": [13.0], "between_nodes_tps": [200.0]})
    data = replace(placed, traffic_points=pd.concat([placed.traffic_points, more]))
    with style.styled(style.STYLES["paper"]):
        (ax,) = scheduler_figures.traffic_by_scheduler(data).axes
    first, *_ = ax.get_lines()
    assert list(first.get_xdata()) == [1.0, 5.0, 11.0, 13.0]
    assert np.isnan(np.asarray(first.get_ydata(), dtype=float)).tolist() == [False, False, True, False]
