"""Leron's topology on the simulator cluster, from its file to metrics: who served, how long spouts paused.

Each bolt's own 0.15 ms come on top of the services of the file (``networks.WORK``); expected figures are the
fluid limits in that file's comment with those.
"""

from __future__ import annotations

import pandas as pd
import pyarrow.parquet as pq
import pytest

from harness.app.simulated.campaign import carry_out
from harness.app.simulated.networks import WORK
from harness.experiments.loading import dump, load
from harness.machine.environment import describe
from harness.runs import Run
from harness.schemas import Metric, MetricField

COMPUTE_TPS, EXCLAM_TPS = (1000 / (ms + WORK.mean_ms) for ms in (8.790, 6.822))
STEPS = (
    "cluster={kind: simulator, nodes: 2}",
    "measure.burn_in={least_s: 60, most_s: 60}",
    "measure.interval={precision_pct: 100, least_s: 30, most_s: 30, looks: 1}",
    "steps.plan=[{executors: &leron {word: 1, compute: 2, exclam1: 1, exclam2: 1}, workers: 1, relief: []},"
    " {executors: *leron, workers: 1, relief: [backpressure]}, {executors: *leron, workers: 1}]",
)


@pytest.fixture(scope="module")
def leron(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Steps without relief, with pauses, and with help."""
    experiment = load("helping", STEPS)
    run = Run.create(
        tmp_path_factory.mktemp("leron"),
        "helping",
        {"experiment.yaml": dump(experiment)},
        describe("simulator", {"storm": "2.8.3"}),
    )
    carry_out(experiment, run, lambda _: None)
    return run


def rows(run: Run, step: int, metric: Metric, field: MetricField) -> pd.DataFrame:
    """Rows of whole buckets of the interval."""
    table = pq.read_table(run.step_path(step) / "metrics.parquet").to_pandas()
    interval = run.interval(step)
    ends = table["bucket_end_ms"]
    inside = (ends > interval.start_epoch_ms + 100) & (ends <= interval.end_epoch_ms + 100)
    return table[inside & (table["measurement"] == metric) & (table["field"] == field)]


def total(run: Run, step: int, metric: Metric, field: MetricField, component: str) -> float:
    found = rows(run, step, metric, field)
    return float(found.loc[found["component"] == component, "value"].sum())


def passed(run: Run, step: int) -> pd.Series:
    paths = pq.read_table(run.step_path(step) / "latency.parquet")["path"].to_pandas().astype(str)
    return paths.str.replace(r":\d+", "", regex=True)


@pytest.mark.parametrize(("step", "expected_tps"), [(0, EXCLAM_TPS), (1, EXCLAM_TPS), (2, 0.0)])
def test_as_much_comes_out_as_the_fluid_limit_says(leron: Run, step: int, expected_tps: float) -> None:
    ratio = 1 - 0.9**3
    expected_tps = expected_tps or 2 / (1 / COMPUTE_TPS + ratio / EXCLAM_TPS)
    out = total(leron, step, Metric.RECEIVED, MetricField.COUNT, "exclam2") / 30
    assert out == pytest.approx(expected_tps, rel=0.02)


def test_spouts_pause_without_help_only(leron: Run) -> None:
    """For 1 - mu_e / (m mu_c) of the time, but for one pause: the interval has no whole number of them."""
    watched, pause = 30e9, (540 - 102.4) / EXCLAM_TPS / 30
    fluid = 1 - EXCLAM_TPS / (2 * COMPUTE_TPS)
    for step, least, most in ((1, fluid - pause, fluid + pause), (2, 0.0, 0.0)):
        assert total(leron, step, Metric.PAUSED, MetricField.WATCHED_NS, "word") == watched
        share = total(leron, step, Metric.PAUSED, MetricField.PAUSED_NS, "word") / watched
        assert least <= share <= most
    pressed = total(leron, 1, Metric.PRESSURE, MetricField.PRESSED_NS, "exclam1")
    paused = total(leron, 1, Metric.PAUSED, MetricField.PAUSED_NS, "word")
    assert pressed == pytest.approx(paused, rel=1e-9)
    fills = rows(leron, 1, Metric.PRESSURE, MetricField.FILL_MOST_PCT)
    assert 50 <= fills.loc[fills["component"] == "exclam1", "value"].max() <= 100 * 540 / 1024
    assert rows(leron, 0, Metric.PRESSURE, MetricField.FILL_PCT).empty


def test_helpers_serve_their_share_and_metrics_tell_who_served(leron: Run) -> None:
    """Executed by exclam1, and served in its place: all that compute emitted, but for what is under way."""
    offered, served = (
        total(leron, 2, Metric.HELP, field, "compute") for field in (MetricField.OFFERED, MetricField.TUPLES)
    )
    emitted = total(leron, 2, Metric.EMITTED, MetricField.COUNT, "compute")
    transferred = total(leron, 2, Metric.TRANSFERRED, MetricField.COUNT, "compute")
    assert offered == emitted == pytest.approx(transferred + served, abs=2)
    assert served / offered == pytest.approx(1 - 0.9**3, abs=0.001)
    told = rows(leron, 2, Metric.HELP, MetricField.RATIO)
    assert told["value"].to_numpy() == pytest.approx(1 - 0.9**3)
    assert (told["peer"] == "exclam1").all()
    own = total(leron, 2, Metric.SERVICE, MetricField.COUNT, "exclam1")
    assert own + served == pytest.approx(offered, abs=100), "what was in its queue at the low mark"
    for name, alone_tps in (("compute", COMPUTE_TPS), ("exclam1", EXCLAM_TPS)):
        took = total(leron, 2, Metric.SERVICE, MetricField.WALL_SUM_NS, name)
        count = total(leron, 2, Metric.SERVICE, MetricField.COUNT, name)
        assert took / count / 1e9 == pytest.approx(1 / alone_tps, rel=0.02), "help is in no service time"


def test_every_message_comes_out_once_whoever_served_it(leron: Run) -> None:
    assert leron.plan(2).relief.parts == ("helping", "backpressure")
    for step in leron.finished_steps:
        ledger = leron.quality(step).ledger
        assert ledger.complete, ledger
        assert ledger.received == ledger.sent > 0
    assert set(passed(leron, 1)) == {"word/compute/exclam1/exclam2"}
    assert set(passed(leron, 2)) == {"word/compute/exclam1/exclam2", "word/compute/compute/exclam2"}
