"""Forecasts of the traffic of a run, a trace or a submitted topology, and of shares of keys; alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from harness.commands.common import FilePath, SeasonLength, err, finish, json_option, relative
from harness.commands.key_shares import tell_key_shares
from harness.commands.submitting import folder_option
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.forecasts.alerting import SubjectForecast
    from harness.forecasts.histories import SubjectHistory

ALERT_STATUS = 5


@click.command()
@click.argument("source", metavar="[SOURCE]", type=click.Path(path_type=Path, exists=True), required=False)
@click.option("--topology", metavar="NAME", help="A topology that harness submit left, in place of SOURCE.")
@folder_option
@click.option(
    "--source-hours",
    type=click.FloatRange(0, 24 * 365, min_open=True),
    metavar="H",
    help="Of a topology's history (default: 24, or three of the longest season).",
)
@click.option("--step", type=int, metavar="N", help="Step of a run (default: the last one).")
@click.option(
    "--model", "models", multiple=True, metavar="NAME", help="Forecaster (repeatable; default: fourier-ar)."
)
@click.option(
    "--horizon-s", "horizons_s", multiple=True, type=float, help="How far ahead (repeatable; default: 60)."
)
@click.option(
    "--season-s",
    "season_s",
    multiple=True,
    type=SeasonLength,
    help="How long a day is (repeatable: a week, too; default: the run's or the topology's own).",
)
@click.option("--bucket-s", type=float, default=2.0, show_default=True, help="Length of a bucket.")
@click.option("--quantiles", default="0.05,0.5,0.95", show_default=True, help="Levels between 0 and 1.")
@click.option(
    "--component",
    "components",
    multiple=True,
    metavar="NAME",
    help="Not of a trace (repeatable; default: spouts).",
)
@click.option(
    "--by",
    type=click.Choice(["component", "task"]),
    default="component",
    show_default=True,
    help="Whole components only, or their tasks, too.",
)
@click.option(
    "--alert",
    "limits",
    multiple=True,
    metavar="[COMPONENT=]RATE",
    help="Tuples a second that go through at most: the exit status is 5 above (repeatable).",
)
@click.option(
    "--alert-probability", type=float, default=0.5, show_default=True, help="From which on that is said."
)
@click.option(
    "--keys",
    type=click.IntRange(1, 50),
    metavar="N",
    help="In place of rates: shares of the N most frequent keys in each part of a season.",
)
@click.option("--plot", type=FilePath, metavar="FILE", help="Figure with bands: .svg, .png or .pdf.")
@json_option
def forecast(  # noqa: PLR0913 (an argument an option)
    source: Path | None,
    topology: str | None,
    folder: Path,
    source_hours: float | None,
    step: int | None,
    models: tuple[str, ...],
    horizons_s: tuple[float, ...],
    season_s: tuple[float, ...],
    bucket_s: float,
    quantiles: str,
    components: tuple[str, ...],
    by: str,
    limits: tuple[str, ...],
    alert_probability: float,
    keys: int | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Forecast how many tuples a second will come: quantiles by component, task and stream.

    SOURCE is a run directory, of which one step is read, or a trace file: one send time in seconds a line,
    and perhaps a key after it. With --topology the InfluxDB of a submitted topology is read.

    \b
    harness forecast runs/quick/20260102T030405Z --by task
    harness forecast day.txt --season-s 120 --model fourier-ar --model seasonal-naive --plot day.svg
    harness forecast --topology words --horizon-s 60 --horizon-s 3600

    With --alert the exit status is 5 when, before the longest horizon, a rate will probably be above the
    limit. So it is where what came above the limit will still wait. Component, time and probability are
    printed. The first model decides.

    \b
    harness forecast day.txt --season-s 120 --horizon-s 60 --alert 250

    With --keys it tells how traffic divides over keys, with 90 % intervals for the next season: keys of a
    trace, key groups of a run.

    \b
    harness forecast day.txt --season-s 120 --keys 5
    """
    from harness.forecasts import DEFAULT, resolve_forecaster
    from harness.forecasts.alerting import find_alerts, forecast_subjects, limits_of, read_limits
    from harness.forecasts.seasons import known_seasons

    if keys is not None:
        beside = {
            "--topology": topology,
            "--model": models,
            "--horizon-s": horizons_s,
            "--alert": limits,
            "--plot": plot,
        }
        if wrong := [option for option, given in beside.items() if given]:
            raise UsageError(
                f"{wrong[0]} beside --keys", "shares of keys are told of a run or a trace, without rates"
            )
        tell_key_shares(_given(source), step, components, season_s, keys, as_json)
    names = models or (DEFAULT,)
    forecasters = {name: resolve_forecaster(name) for name in names}
    horizons = tuple(sorted(set(horizons_s))) or (60.0,)
    if horizons[0] <= 0:
        raise UsageError(f"--horizon-s {horizons[0]:g}", "give a number above 0")
    if not 0 < alert_probability < 1:
        raise UsageError(f"--alert-probability {alert_probability:g}", "give a number between 0 and 1")
    levels = _read_levels(quantiles)
    if plot:
        from harness.analysis.figures.forecast_figure import check_figure_path

        check_figure_path(plot)
    if topology is None:
        subjects, own = _read(_given(source), source_hours, step, components, bucket_s, season_s)
    elif source is not None or step is not None:
        raise UsageError(f"--topology {topology} beside SOURCE or --step", "give one of them")
    else:
        subjects, own = _read_submitted(topology, folder, source_hours, components, bucket_s, season_s)
    seasons = season_s or known_seasons(subjects[0].history, own)
    limit_of = read_limits(limits, sorted({s.component for s in subjects}))
    asked = [s for s in subjects if by == "task" or s.task is None]
    forecasts = forecast_subjects(asked, forecasters, horizons[-1], seasons, levels)
    alerts = list(find_alerts(forecasts, limits_of(asked, limit_of), names[0], alert_probability))
    _show(forecasts, horizons, levels)
    for length_s in own:
        if length_s not in seasons:
            click.echo(f"a season of {length_s:g} s is left out: the history does not show it twice")
    for alert in alerts:
        click.echo(f"alert: {alert.text}")
    result: dict[str, object] = {
        "source": str(topology or source),
        "bucket_s": subjects[0].history.bucket_s,
        "season_s": seasons,
        "levels": levels,
        "forecasts": [_as_json(one, horizons) for one in forecasts],
        "alerts": [vars(alert) for alert in alerts],
    }
    if plot:
        drawn = _plot(forecasts, limit_of, plot)
        left_out = f" ({drawn} of {len(asked)} subjects)" if drawn < len(asked) else ""
        click.echo(f"figure: {relative(plot)}{left_out}")
        result["plot"] = str(plot)
    finish(as_json, result, ALERT_STATUS if alerts else 0)


def _given(source: Path | None) -> Path:
    if source is None:
        raise UsageError("nothing to forecast", "give a run directory or a trace file, or --topology NAME")
    return source


def _read(
    source: Path,
    source_hours: float | None,
    step: int | None,
    components: tuple[str, ...],
    bucket_s: float,
    season_s: tuple[float, ...],
) -> tuple[list[SubjectHistory], tuple[float, ...]]:
    """Return the histories of a run or a trace, and its own seasons where none are asked for."""
    from harness.app.forecasting import read_subjects, seasons_of

    if source_hours is not None:
        raise UsageError("--source-hours without --topology", "a run's step and a trace are read whole")
    subjects = read_subjects(source, step, components, bucket_s)
    return subjects, () if season_s else seasons_of(source)


def _read_submitted(
    name: str,
    folder: Path,
    source_hours: float | None,
    components: tuple[str, ...],
    bucket_s: float,
    season_s: tuple[float, ...],
) -> tuple[list[SubjectHistory], tuple[float, ...]]:
    """Return the same of a submitted topology."""
    from harness.app.submitted.folder import find
    from harness.app.submitted.live_rows import LiveMetrics
    from harness.app.submitted.spout_history import hours_needed, read_history

    topology = find(folder, name)
    seasons = season_s or topology.facts.season_s
    hours = hours_needed(seasons) if source_hours is None else source_hours
    subjects = read_history(topology, LiveMetrics(), components, hours, bucket_s, seasons)
    return subjects, () if season_s else seasons


def _read_levels(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"--quantiles {text}: not numbers", "give levels with commas: 0.05,0.5,0.95"
        ) from None


def _show(forecasts: Sequence[SubjectForecast], horizons_s: Sequence[float], levels: Sequence[float]) -> None:
    table = Table(title="tuples a second, quantiles")
    for column in ("component", "task", "stream", "model"):
        table.add_column(column)
    for column in ("in s", *(f"{level:g}" for level in levels)):
        table.add_column(column, justify="right")
    for one in forecasts:
        subject = one.subject
        task = "all" if subject.task is None else str(subject.task)
        for horizon_s in horizons_s if one.fine.status == "ok" else ():
            quantiles = (f"{rate:.1f}" for rate in one.at(horizon_s))
            table.add_row(subject.component, task, subject.stream, one.model, f"{horizon_s:g}", *quantiles)
    Console(width=max(110, err.width)).print(table)
    reasons = {f"{one.model}: declined: {one.fine.reason}": None for one in forecasts if one.fine.reason}
    for reason in reasons:
        click.echo(reason)


def _as_json(one: SubjectForecast, horizons_s: Sequence[float]) -> dict[str, object]:
    subject = one.subject
    named = {
        "component": subject.component,
        "task": subject.task,
        "stream": subject.stream,
        "model": one.model,
    }
    if one.fine.status == "declined":
        return {**named, "status": "declined", "reason": one.fine.reason}
    rates = [{"ahead_s": horizon_s, "rate_tps": one.at(horizon_s)} for horizon_s in horizons_s]
    return {**named, "status": "ok", "horizons": rates}


def _plot(forecasts: Sequence[SubjectForecast], limit_of: Mapping[str, float], path: Path) -> int:
    from harness.analysis.figures.forecast_figure import ForecastPanel, write_forecasts

    by_subject: dict[int, list[SubjectForecast]] = {}
    for one in forecasts:
        by_subject.setdefault(id(one.subject), []).append(one)
    panels = []
    for of_subject in by_subject.values():
        subject = of_subject[0].subject
        task = "" if subject.task is None else f" task {subject.task}"
        models = [(one.model, one.asked) for one in of_subject]
        limit = limit_of.get(subject.component) if subject.task is None else None
        title = f"{subject.component}{task} ({subject.stream})"
        panels.append(ForecastPanel(title, subject.history, models, limit))
    return write_forecasts(panels, path)
