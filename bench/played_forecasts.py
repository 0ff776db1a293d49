"""Forecasts judged on traffic that was played on the cluster, and back-pressure foreseen or not (D.5).

    python bench/played_forecasts.py seasonal                 # ten days of two minutes: 25 minutes
    python bench/played_forecasts.py steep
    python bench/played_forecasts.py bursty
    python bench/played_forecasts.py seasonal --run RUN       # of a run that there is
    python bench/played_forecasts.py seasonal --simulated --days 6    # a trial without a cluster

One step plays a made trace of tests/support/made_traffic.py, and spouts pause as Heron's do. The metrics of
the first four days say where the topology bends (model caladrius). From then on forecasters see what was sent
until each origin. Two rules say from a forecast whether there will be back-pressure at a horizon:

    rate      the rate is above the bend with probability 0.5 or more (Caladrius's)
    backlog   or messages still wait then, if the median rate comes and as many go through as the bend says
              (harness.forecasts.foreseeing)

There was back-pressure in a bucket when spouts paused for a tenth of it or more. Tables are Markdown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from carried_out import carry_out_experiment
from forecast_scores import RollingOrigin, judge_forecaster, roll_origins, score_horizons
from made_traffic import Day, bursty_trace, seasonal_trace

import harness
from harness.forecasts import FORECASTERS
from harness.forecasts.answers import LEVELS
from harness.forecasts.foreseeing import RateLimit, exceeding_probability, waiting_ahead
from harness.forecasts.prophet import prophet_with_trend
from harness.models.baselines.caladrius import first_bend, rate_lines
from harness.models.contract.answers import observe_for
from harness.protocols import Forecaster, Observation, RateHistory
from harness.schemas import Metric, MetricField
from harness.service.questions import measured_emits_tps

Floats = npt.NDArray[np.float64]
DAY_S, BUCKET_S = 120.0, 2.0
MEAN_TPS = {"seasonal": 45.0, "steep": 36.0, "bursty": 36.0}
"""One executor of bolt-a serves about 54 messages a second: days cross that, and bursts do."""
QUEUE = {"seasonal": 64, "steep": 64, "bursty": 256}
"""Tuples in an executor's queue. In one that is full for long, metric ticks find no room."""
HORIZONS_S = (10.0, 30.0, 60.0)
RESTART_S = 10.0
"""About the time of a restart."""
FIRST_DAYS, EVERY_S = 4, 6.0
PAUSED_SHARE = 0.1
RIVALS: dict[str, Forecaster] = {**FORECASTERS, "prophet-trend": prophet_with_trend}


def trace_of(kind: str, days: int, seed: int) -> RateHistory:
    """Return the traffic to be played."""
    if kind in ("seasonal", "steep"):
        day = Day(DAY_S, steep=kind == "steep")
        return seasonal_trace(seed, days, day, mean_tps=MEAN_TPS[kind], bucket_s=BUCKET_S)
    return bursty_trace(seed, days * DAY_S, mean_tps=MEAN_TPS[kind], bucket_s=BUCKET_S)


def experiment_of(kind: str, trace: RateHistory) -> Mapping[str, object]:
    """Return the experiment that plays a trace, as its file has it."""
    rates = np.maximum(trace.rate_tps, 0.01)  # a rate is above 0
    length_s = len(rates) * BUCKET_S
    changes = [{"at_s": i * BUCKET_S, "rate_tps": float(rate)} for i, rate in enumerate(rates)]
    executors = {"spout": 1, "bolt-a": 1, "bolt-b": 1, "sender": 1}
    return {
        "name": f"played-{kind}",
        "topology": {
            "name": "fields-to-fields",
            "load_aware": False,
            "tasks": 1,
            "ackers": 1,
            "service": {"bolt-a": {"kind": "wait", "distribution": "constant", "mean_ms": 18}},
            "waiting": {"strategy": "progressive", "level1_count": 1, "level2_count": 1, "sleep_ms": 2},
            "backpressure": {"kind": "heron", "high_pct": 50, "low_pct": 10},
            "storm": {"topology.executor.receive.buffer.size": QUEUE[kind]},
        },
        "workload": {"rate_tps": MEAN_TPS[kind], "arrivals": "poisson", "seed": 34, "changes": changes},
        "cluster": {"kind": "local", "nodes": 2, "slots_per_node": 1},
        "measure": {
            "burn_in": {"least_s": 20, "most_s": 30},
            "interval": {"precision_pct": 20, "least_s": length_s, "most_s": length_s, "looks": 1},
        },
        "steps": {"plan": [{"executors": executors, "workers": 2}]},
        "models": ["no-change"],
    }


@dataclass(frozen=True, eq=False)
class PlayedTraffic:
    """A played step in buckets.

    Attributes
    ----------
    sent : RateHistory
        Messages a second that were sent.
    waiting : ndarray, shape (buckets,)
        Messages that were sent and no spout had emitted, at each bucket's end.
    pressed : ndarray of bool, shape (buckets,)
        Whether there was back-pressure.
    bend_tps : float
    """

    sent: RateHistory
    waiting: Floats
    pressed: npt.NDArray[np.bool_]
    bend_tps: float


def read_played(path: Path) -> PlayedTraffic:
    """Read a run of ``experiment_of``."""
    run = harness.load_run(path)
    interval = run.run.interval(0)
    bend_tps, component = bend_of(run.observation(0), interval.start_epoch_ms + FIRST_DAYS * DAY_S * 1e3)
    buckets = int((interval.end_ns - interval.start_ns) / 1e9 / BUCKET_S)
    ends_s = BUCKET_S * np.arange(1, buckets + 1)
    rows = run.latency(0).drop_duplicates("message_id")
    sent_s, entered_s = (
        (rows[name].to_numpy() - interval.start_ns) / 1e9 for name in ("sent_ns", "entered_ns")
    )
    counts, _ = np.histogram(sent_s, np.concatenate([[0.0], ends_s]))
    waiting = np.searchsorted(np.sort(sent_s), ends_s) - np.searchsorted(np.sort(entered_s), ends_s)
    pressed = paused_share(run.metrics(0), interval.start_epoch_ms, ends_s) >= PAUSED_SHARE
    click.echo(
        f"bend: {bend_tps:.1f} messages/s at {component}; back-pressure in {pressed.mean():.0%} of buckets"
    )
    return PlayedTraffic(RateHistory(counts / BUCKET_S, BUCKET_S), waiting.astype(float), pressed, bend_tps)


def bend_of(source: Observation, until_epoch_ms: float) -> tuple[float, str]:
    """Return the input rate at which a topology bends, by what was measured until then, and the component."""
    known = source.metrics[source.metrics["bucket_end_ms"] <= until_epoch_ms]
    seen = replace(source, metrics=known)
    measured, layout = observe_for(seen, seen.plan, seen.rate_tps)
    through_tps = measured_emits_tps(seen)  # one stream: what the spouts emitted, paused or not
    return first_bend(rate_lines(measured, layout, through_tps))


def paused_share(metrics: pd.DataFrame, start_epoch_ms: float, ends_s: Floats) -> Floats:
    """Return the share of each bucket in which spouts paused; reported buckets are taken as evenly paused."""
    rows = metrics[metrics["measurement"] == Metric.PAUSED]
    sums = rows.pivot_table("value", "bucket_end_ms", "field", aggfunc="sum", observed=True).sort_index()
    at_s = (sums.index.to_numpy(dtype=float) - start_epoch_ms) / 1e3
    edges_s = np.concatenate([[0.0], ends_s])
    paused, watched = (
        np.diff(np.interp(edges_s, at_s, np.cumsum(sums[name].to_numpy(dtype=float))))
        for name in (MetricField.PAUSED_NS, MetricField.WATCHED_NS)
    )
    return np.divide(paused, watched, out=np.zeros_like(paused), where=watched > 0)


def foreseen(played: PlayedTraffic, forecaster: Forecaster, season_s: tuple[float, ...]) -> pd.DataFrame:
    """Return a row an origin and horizon: what each rule foresaw, and what came."""
    rows = []
    origins = RollingOrigin(FIRST_DAYS * DAY_S, EVERY_S)
    for known in roll_origins(played.sent, origins, max(HORIZONS_S)):
        past = RateHistory(played.sent.rate_tps[:known], BUCKET_S)
        forecast = forecaster(past, max(HORIZONS_S), season_s, LEVELS)
        if forecast.status != "ok":
            continue
        chances = exceeding_probability(forecast, played.bend_tps)
        limit = RateLimit(played.bend_tps, played.waiting[known - 1])
        left = waiting_ahead(forecast, limit, BUCKET_S)
        for horizon_s in HORIZONS_S:
            ahead = round(horizon_s / BUCKET_S) - 1
            by_rate = bool(chances[ahead] >= 0.5)
            rows.append(
                {
                    "horizon_s": horizon_s,
                    "pressed": bool(played.pressed[known + ahead]),
                    "rate": by_rate,
                    "backlog": by_rate or bool(left[ahead] > 0),
                }
            )
    return pd.DataFrame(rows)


def decisions(rows: pd.DataFrame, rule: str, horizon_s: float) -> str:
    """Return hits, misses, false alarms and quiet buckets, with the shares of hits and of false alarms."""
    of_horizon = rows[rows["horizon_s"] == horizon_s]
    pressed, said = of_horizon["pressed"], of_horizon[rule]
    hits, misses, false = (int(n.sum()) for n in (pressed & said, pressed & ~said, ~pressed & said))
    shares = [f"{100 * a / b:.0f} %" if b else "-" for a, b in ((hits, hits + misses), (false, hits + false))]
    return f"{hits} / {misses} / {false} / {len(of_horizon) - hits - misses - false} ({', '.join(shares)})"


def show(path: Path, names: tuple[str, ...], season_s: tuple[float, ...]) -> None:
    """Print a run's tables."""
    run = harness.load_run(path)
    click.echo(f"{path.parent.name}/{path.name}, {run.verdict}")
    played = read_played(path)
    head = " | ".join(f"{h:g} s" for h in HORIZONS_S)
    click.echo(
        "\npinball loss (messages/s) by horizon; share within the 90 % interval (%)\n\n"
        f"| forecaster | {head} | {head} | origins |"
    )
    click.echo("| --- |" + " ---: |" * (2 * len(HORIZONS_S) + 1))
    told = {}
    for name in names:
        origins = RollingOrigin(FIRST_DAYS * DAY_S, EVERY_S)
        judged = judge_forecaster(RIVALS[name], played.sent, HORIZONS_S, season_s, origins)
        if declined := max(judged["declined"]):
            click.echo(f"{name}: declined: {declined}", err=True)
            continue
        scores = score_horizons(judged)
        cells = [f"{s.pinball_tps:.2f}" for s in scores] + [f"{s.covered_pct:.0f}" for s in scores]
        click.echo(f"| {name} | {' | '.join(cells)} | {scores[0].origins} |")
        told[name] = foreseen(played, RIVALS[name], season_s)
    for rule in ("rate", "backlog"):
        click.echo(
            f"\nrule {rule}: hits / misses / false alarms / quiet (hits, false alarms)\n\n"
            f"| forecaster | {head} |"
        )
        click.echo("| --- |" + " --- |" * len(HORIZONS_S))
        for name, rows in told.items():
            click.echo(f"| {name} | {' | '.join(decisions(rows, rule, h) for h in HORIZONS_S)} |")


@click.command()
@click.argument("kind", type=click.Choice(list(MEAN_TPS)))
@click.option("--days", default=10, show_default=True, type=click.IntRange(FIRST_DAYS + 1, 16))
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--model", "models", multiple=True, type=click.Choice(list(RIVALS)), help="Only this one (repeatable)."
)
@click.option("--run", "measured", type=click.Path(path_type=Path, exists=True), help="A run of before.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--simulated", is_flag=True, help="Played by the simulator, not measured.")
def main(
    kind: str,
    days: int,
    seed: int,
    models: tuple[str, ...],
    measured: Path | None,
    runs: Path,
    simulated: bool,
) -> None:
    """Play a trace, and judge forecasters on it."""
    if measured is None:
        runs.mkdir(parents=True, exist_ok=True)
        source = runs / f"played-{kind}.yaml"
        source.write_text(json.dumps(experiment_of(kind, trace_of(kind, days, seed))))
        measured = carry_out_experiment(str(source), runs, simulated=simulated)
    show(measured, models or tuple(RIVALS), (DAY_S,))


if __name__ == "__main__":
    main()
