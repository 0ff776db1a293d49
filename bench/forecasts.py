"""Forecasters side by side on made traces: pinball loss, coverage, and whether a limit was foreseen.

    python bench/forecasts.py
    python bench/forecasts.py --seeds 2 --model fourier-ar --model seasonal-naive

Every forecaster sees the same origins of the same traces (tests/support/made_traffic.py), all of the past up
to each, and the length of a day. ``prophet-trend`` is Prophet with its default trend, as Caladrius uses it.
The limits are multiples of the traces' mean rate. Tables are Markdown; mstl and prophet need the extra
``forecast-rivals``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from forecast_scores import HorizonScore, RollingOrigin, judge_forecaster, score_horizons
from made_traffic import Day, bursty_trace, seasonal_trace

from harness.forecasts import FORECASTERS
from harness.forecasts.prophet import prophet_with_trend
from harness.protocols import Forecaster, RateForecast, RateHistory

DAY_S = 120.0
DAYS = 14
ORIGINS = RollingOrigin(first_s=4 * DAY_S, every_s=22.0)
"""Eleven buckets of 2 s, while a day has 60: the origins lie at all times of the day."""
HORIZONS_S = (10.0, 30.0, 60.0, 120.0)
MEAN_TPS = 200.0
LIMITS = (1.0, 1.25)
RIVALS: dict[str, Forecaster] = {**FORECASTERS, "prophet-trend": prophet_with_trend}
TRACES: dict[str, Callable[[int], RateHistory]] = {
    "seasonal": lambda seed: seasonal_trace(seed, DAYS, Day(DAY_S), mean_tps=MEAN_TPS),
    "steep": lambda seed: seasonal_trace(seed, DAYS, Day(DAY_S, steep=True), mean_tps=MEAN_TPS),
    "bursty": lambda seed: bursty_trace(seed, length_s=DAYS * DAY_S, mean_tps=MEAN_TPS),
}


class RememberedForecaster:
    """A forecaster that is asked once for each history of a trace, and how much CPU time its answers took."""

    def __init__(self, forecaster: Forecaster) -> None:
        self.forecaster = forecaster
        self.answers: dict[tuple[int, float, float], RateForecast] = {}
        self.took_s = 0.0

    def __call__(
        self, history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
    ) -> RateForecast:
        """Forecast, or repeat what was forecast before."""
        key = (len(history.rate_tps), float(history.rate_tps.sum()), horizon_s)
        if key not in self.answers:
            begun_s = sum(os.times()[:4])  # prophet's fits are processes of their own
            self.answers[key] = self.forecaster(history, horizon_s, season_s, levels)
            self.took_s += sum(os.times()[:4]) - begun_s
        return self.answers[key]


def judge(model: str, kind: str, seeds: int) -> tuple[dict[float, list[HorizonScore]], float, str]:
    """Return scores by limit, CPU seconds a forecast, and why the forecaster declined, if so."""
    forecaster = RememberedForecaster(RIVALS[model])
    by_limit: dict[float, list[pd.DataFrame]] = {limit: [] for limit in LIMITS}
    for seed in range(1, seeds + 1):
        trace = TRACES[kind](seed)
        for limit, judged in by_limit.items():
            judged.append(
                judge_forecaster(forecaster, trace, HORIZONS_S, (DAY_S,), ORIGINS, limit * MEAN_TPS)
            )
    declined = max(pd.concat(by_limit[LIMITS[0]])["declined"])
    scores = {limit: score_horizons(pd.concat(judged)) for limit, judged in by_limit.items()}
    return scores, forecaster.took_s / len(forecaster.answers), declined


@click.command()
@click.option("--model", "models", multiple=True, type=click.Choice(list(RIVALS)), help="Only this one.")
@click.option("--trace", "kinds", multiple=True, type=click.Choice(list(TRACES)), help="Only this kind.")
@click.option("--seeds", default=4, show_default=True, help="Traces of each kind.")
def main(models: tuple[str, ...], kinds: tuple[str, ...], seeds: int) -> None:
    """Print a table a kind of trace and measure."""
    names = models or tuple(RIVALS)
    for kind in kinds or tuple(TRACES):
        results = {}
        for name in names:
            scores, seconds, declined = judge(name, kind, seeds)
            if declined:
                click.echo(f"{name}: declined: {declined}")
            else:
                results[name] = (scores, seconds)
        head = " | ".join(f"{h:g} s" for h in HORIZONS_S)
        click.echo(f"\n{kind}: mean pinball loss (tuples/s) by horizon; share within the 90 % interval (%)\n")
        click.echo(f"| forecaster | {head} | {head} | origins | CPU a forecast |")
        click.echo("| --- |" + " ---: |" * (2 * len(HORIZONS_S) + 2))
        for name, (scores, seconds) in results.items():
            first = scores[LIMITS[0]]
            cells = [f"{s.pinball_tps:.2f}" for s in first] + [f"{s.covered_pct:.0f}" for s in first]
            click.echo(f"| {name} | {' | '.join(cells)} | {first[0].origins} | {seconds * 1000:.0f} ms |")
        for limit in LIMITS:
            title = f"{kind}, limit {limit * MEAN_TPS:g} tuples/s: hits / misses / false alarms / quiet"
            click.echo(f"\n{title} (hits %, false alarms %)\n\n| forecaster | {head} |")
            click.echo("| --- |" + " --- |" * len(HORIZONS_S))
            for name, (scores, _) in results.items():
                click.echo(f"| {name} | {' | '.join(decision(s) for s in scores[limit])} |")


def decision(score: HorizonScore) -> str:
    """Return one score's decisions as they stand in a table."""
    counts = f"{score.hits} / {score.misses} / {score.false_alarms} / {score.quiet}"
    shares = ["-" if np.isnan(share) else f"{share:.0f}" for share in (score.hit_pct, score.false_alarm_pct)]
    return f"{counts} ({', '.join(shares)})"


if __name__ == "__main__":
    main()
