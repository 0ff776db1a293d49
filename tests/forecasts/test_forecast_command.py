"""``harness forecast`` on archived runs and on traces, its alert, and wrong input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from forecast_command import ask, last_line
from made_traffic import seasonal_trace, send_times_s
from matplotlib.image import imread

from harness.analysis.figures.forecast_figure import ForecastPanel, draw_forecasts
from harness.app.forecasting import read_subjects
from harness.errors import UsageError
from harness.forecasts import FORECASTERS
from harness.forecasts.alerting import find_alerts, forecast_subjects, limits_of, read_limits
from harness.forecasts.histories import SubjectHistory, histories_of_metrics, history_of_trace
from harness.forecasts.seasonal_naive import seasonal_naive
from harness.protocols import RateHistory
from harness.runs import Run

RUN = next((Path(__file__).resolve().parents[2] / "reports" / "runs" / "loaded-ramp").glob("*"))
RATES = ["component", "task", "stream", "bucket_end_ms", "value"]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write four days of two minutes, a message a line."""
    path = tmp_path_factory.mktemp("trace") / "day.txt"
    times = send_times_s(seasonal_trace(seed=1, days=4, mean_tps=50.0), seed=1)
    path.write_text("".join(f"{t:.9f}\n" for t in times))
    return path


def rows_of(*rows: tuple[str, int, str, int, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=RATES).assign(measurement="emitted")


def test_counts_of_tasks_that_report_at_moments_of_their_own_meet_in_common_buckets() -> None:
    """Task 1 ends buckets at 2, 4, 6, 8 s with 2, 4, 8, 8 tuples; task 2 at 3, 5, 7, 9 s with 6 each.

    Both are known from 3 to 8 s: buckets of 2 s end at 8 and 6 s, the first begins at 4. Task 2 emits 3 a
    second throughout.
    """
    metrics = rows_of(
        *(("spout", 1, "default", 1000 * t, n) for t, n in ((2, 2), (4, 4), (6, 8), (8, 8))),
        *(("spout", 2, "default", 1000 * t, 6) for t in (3, 5, 7, 9)),
    )
    whole, first, second = histories_of_metrics(metrics, ["spout"], 0, 1e9, 2.0)
    assert [(s.component, s.task, s.stream) for s in (whole, first, second)] == [
        ("spout", None, "default"),
        ("spout", 1, "default"),
        ("spout", 2, "default"),
    ]
    assert first.history.rate_tps == pytest.approx([4, 4])
    assert second.history.rate_tps == pytest.approx([3, 3])
    assert whole.history.rate_tps == pytest.approx([7, 7])
    assert whole.history.time_s == pytest.approx([6, 8])


def test_a_stream_that_is_silent_in_a_bucket_has_none_there() -> None:
    """The stream late has no row at 4 s, where its task reported: 0 from 2 to 4, then 5 a second to 6."""
    metrics = rows_of(
        *(("spout", 1, "default", 1000 * t, 2) for t in (2, 4, 6)), ("spout", 1, "late", 6000, 10)
    )
    by_stream = {(s.stream, s.task): s for s in histories_of_metrics(metrics, ["spout"], 0, 1e9, 2.0)}
    assert by_stream["late", 1].history.rate_tps == pytest.approx([0, 5])
    assert by_stream["default", None].history.rate_tps == pytest.approx([1, 1])


def test_the_rates_of_an_archived_run_are_those_that_it_was_sent() -> None:
    """Each step of loaded-ramp offers a rate; its spouts emit that rate in the measured interval, to 3 %.

    The last steps saturate, and are left out.
    """
    run = Run(RUN)
    for step in run.finished_steps:
        if run.quality(step).saturated:
            continue
        interval = run.interval(step)
        whole, *tasks = read_subjects(RUN, step, (), 2.0)
        inside = whole.history.time_s * 1000 > interval.start_epoch_ms + 2000
        assert whole.history.rate_tps[inside].mean() == pytest.approx(interval.rate_tps, rel=0.03)
        assert whole.history.time_s[-1] * 1000 <= interval.end_epoch_ms
        assert np.sum([t.history.rate_tps for t in tasks], axis=0) == pytest.approx(whole.history.rate_tps)


def test_forecast_of_a_run_by_task_and_component() -> None:
    done = ask(
        RUN, "--step", 0, "--by", "task", "--horizon-s", 10, "--horizon-s", 4, "--quantiles", "0.1,0.9"
    )
    assert done.exit_code == 0, done.output
    answer = last_line(done)
    assert answer["levels"] == [0.1, 0.9]
    spout = Run(RUN).plan(0).start.query_plan.component("spout")
    assert [f["task"] is None for f in answer["forecasts"]] == [True] + [False] * spout.tasks
    rate_tps = Run(RUN).interval(0).rate_tps
    for at in answer["forecasts"][0]["horizons"]:
        assert at["ahead_s"] in (4, 10)
        assert at["rate_tps"] == pytest.approx([rate_tps] * 2, rel=0.15)
    done = ask(RUN, "--step", 0, "--component", "bolt-a", "--component", "spout", "--model", "stats-summary")
    assert [f["component"] for f in last_line(done)["forecasts"]] == ["bolt-a", "spout"]


def test_forecast_of_a_trace_by_several_models(day: Path) -> None:
    """60 s before its end the day's rate is 50 (1 + 0.5 - 0.3 cos 0.4) at noon, 61 tuples a second."""
    typed = (day, "--season-s", 120, "--horizon-s", 62, "--model", "fourier-ar", "--model", "stats-summary")
    done = ask(*typed, "--model", "mstl", "--quantiles", "0.5")
    assert done.exit_code == 0, done.output
    by_model = {f["model"]: f for f in last_line(done)["forecasts"]}
    noon_tps = 50 * (1 + 0.5 - 0.3 * np.cos(2 * 2 * np.pi * 0.5 - 0.4))
    assert by_model["fourier-ar"]["horizons"][0]["rate_tps"][0] == pytest.approx(noon_tps, rel=0.1)
    assert by_model["stats-summary"]["horizons"][0]["rate_tps"][0] == pytest.approx(55, rel=0.1)
    mstl = by_model["mstl"]
    assert (
        mstl["status"] == "ok"
        or mstl["reason"] == "statsforecast is missing: install the extra forecast-rivals"
    )
    if mstl["status"] == "declined":
        assert "mstl: declined: statsforecast is missing: install the extra forecast-rivals" in done.stdout


def test_an_alert_ends_with_status_5_and_prints_component_time_and_probability(day: Path) -> None:
    """The morning's peak is 50 x 1.4 or so: 60 is passed, 120 is not."""
    done = ask(day, "--season-s", 120, "--horizon-s", 118, "--alert", 60)
    assert done.exit_code == 5, done.output
    (alert,) = last_line(done)["alerts"]
    assert (alert["component"], alert["limit_tps"]) == ("trace", 60)
    assert 20 < alert["ahead_s"] < 45
    assert 0.5 <= alert["probability"] < 0.99
    said = f"alert: trace (default) above 60 tuples/s in {alert['ahead_s']:g} s with probability"
    assert any(line.startswith(said) for line in done.stdout.splitlines())
    for calm in (
        ("--alert", "trace=120"),
        ("--alert", 60, "--horizon-s", 10),
        ("--alert", 60, "--alert", "trace=120"),
    ):
        quiet = ask(day, "--season-s", 120, *calm)
        assert (quiet.exit_code, last_line(quiet)["alerts"]) == (0, [])


def test_an_alert_goes_by_the_first_model_and_is_not_silent_where_that_declined() -> None:
    subject = SubjectHistory("spout", None, "default", RateHistory(np.full(40, 9.0), 1.0))
    models = {name: FORECASTERS[name] for name in ("seasonal-naive", "stats-summary")}
    forecasts = forecast_subjects([subject], models, 5.0, (), (0.5,))
    with pytest.raises(
        UsageError, match="no alert can be given for spout: seasonal-naive: there is no season"
    ):
        list(find_alerts(forecasts, limits_of([subject], {"spout": 5.0}), "seasonal-naive", 0.5))
    (alert,) = find_alerts(forecasts, limits_of([subject], {"spout": 5.0}), "stats-summary", 0.5)
    assert (alert.model, alert.ahead_s, alert.probability) == ("stats-summary", 1.0, 0.99)
    assert not list(find_alerts(forecasts, limits_of([subject], {"other": 5.0}), "stats-summary", 0.5))


def test_an_alert_says_that_what_came_above_the_limit_still_waits(tmp_path: Path) -> None:
    """2 a second for 40 s, 12 for the last 4: at 4 a second 32 wait, and 2 s after that 28 do."""
    calm, burst = np.arange(0, 40, 0.5), np.arange(40, 44, 1 / 12)
    trace = tmp_path / "burst.txt"
    trace.write_text("".join(f"{at:.3f}\n" for at in (*calm, *burst, 44.0)))
    done = ask(trace, "--model", "stats-summary", "--horizon-s", 20, "--alert", 4)
    assert done.exit_code == 5, done.output
    (alert,) = last_line(done)["alerts"]
    assert (alert["rule"], alert["ahead_s"], alert["probability"]) == ("backlog", 2, 0.5)
    said = "alert: trace (default) still works off what came above 4 tuples/s in 2 s with probability 0.50"
    assert any(line.startswith(said) for line in done.stdout.splitlines())
    quiet = ask(trace, "--model", "stats-summary", "--horizon-s", 20, "--alert", 12)
    assert (quiet.exit_code, last_line(quiet)["alerts"]) == (0, [])


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_figure_is_written_whole(day: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"day.{ending}"
    done = ask(day, "--season-s", 120, "--horizon-s", 60, "--alert", 200, "--plot", path)
    assert done.exit_code == 0, done.output
    assert last_line(done)["plot"] == str(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[ending]
    assert path.read_bytes().startswith(start)
    if ending == "png":
        assert imread(path).shape[1] > 500


def test_the_figure_has_the_band_and_the_limit_and_leaves_declined_models_out() -> None:
    past = RateHistory(np.arange(40.0) % 8 + 1, 1.0)
    made = seasonal_naive(past, 8.0, (8.0,), (0.05, 0.5, 0.95))
    declined = seasonal_naive(past, 8.0, (), (0.05, 0.5, 0.95))
    panel = ForecastPanel("spout", past, [("a", made), ("b", declined)], limit_tps=7.0)
    figure = draw_forecasts([panel] * 13)
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert len(shown) == 12
    _, labels = shown[0].get_legend_handles_labels()
    assert labels == ["measured", "a (90 % band)", "limit"]
    median = shown[0].get_lines()[1]
    assert list(np.asarray(median.get_ydata())) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert list(np.asarray(median.get_xdata())) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            ("--season-s", 400),
            "no forecast: fourier-ar: the history of 478 s is too short for a season of 400 s",
        ),
        (("--model", "profet"), "unknown forecaster 'profet': use one of fourier-ar, seasonal-naive"),
        (("--model", "seasonal-naive"), "no forecast: seasonal-naive: there is no season to look back by"),
        (("--quantiles", "a,b"), "--quantiles a,b: not numbers"),
        (("--quantiles", "0.9,0.1"), "quantiles 0.9, 0.1: give rising levels between 0 and 1"),
        (("--horizon-s", 0), "--horizon-s 0: give a number above 0"),
        (("--horizon-s", "inf"), "horizon of inf s: give one of 1 to"),
        (("--bucket-s", 0), "buckets of 0.0 s"),
        (("--bucket-s", 1000), "no history: the trace is shorter than a bucket of 1000 s"),
        (("--alert", "much"), "--alert much: 'much' is no rate"),
        (("--alert", "bolt=5"), "--alert bolt=5: bolt is not forecast: components: trace"),
        (("--alert", 5, "--alert-probability", 1), "--alert-probability 1: give a number between 0 and 1"),
        (("--step", 1), "a trace has no step and no component"),
        (("--plot", "x.gif"), "x.gif: no kind of figure: end it with one of .svg, .png, .pdf"),
        (("--plot", "no-such-folder/x.png"), "its folder does not exist"),
    ],
)
def test_wrong_input_ends_in_one_line_and_status_2(day: Path, typed: tuple[object, ...], said: str) -> None:
    done = ask(day, *typed)
    assert done.exit_code == 2, done.output
    assert said in last_line(done)["error"]
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--step", 99), "step 99 is not finished: finished: 0, 1"),
        (
            ("--component", "bolt-z"),
            "no history: bolt-z emitted nothing: components that did: bolt-a, bolt-b, spout",
        ),
        (("--component", "sender"), "no history: sender emitted nothing"),
        (("--bucket-s", 0.5), "buckets of 0.5 s are shorter than those measured (2 s)"),
        (("--bucket-s", 5000), "no history: the step is shorter than a bucket of 5000 s"),
    ],
)
def test_wrong_questions_about_a_run_end_in_one_line(typed: tuple[object, ...], said: str) -> None:
    done = ask(RUN, *typed)
    assert done.exit_code == 2, done.output
    assert said in last_line(done)["error"]


def test_a_run_without_a_finished_step_has_no_history(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "made", {"experiment.yaml": "name: made\n"}, {})
    done = ask(run.path)
    assert done.exit_code == 2
    assert "no history: no step is finished: measure it: harness run --resume" in last_line(done)["error"]


def test_limits_by_component_count_before_the_common_one() -> None:
    assert read_limits(["a=1", "7"], ["a", "b"]) == {"a": 1.0, "b": 7.0}
    assert read_limits([], ["a"]) == {}


def test_the_last_bucket_of_a_trace_is_not_whole_and_left_out() -> None:
    offsets = np.array([0, 1, 2, 3_000_000_000], dtype=np.int64)
    assert history_of_trace(offsets, 1.0).history.rate_tps.tolist() == [3, 0, 0]
