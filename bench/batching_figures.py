"""Figures of what batches bring: throughput over batch size, and the gain over user code in the sender.

    harness measure-messages --rounds 6
    harness measure-messages --batches 1,100 --sizes 8,100 --work-us 0,10,30,100,300,1000 --rounds 3
    python bench/batching_figures.py RUN WORKED_RUN --out reports/figures

Points are geometric means of a stream's phases with 95 % intervals (Student's, of logarithms). Lines are
equation 3 of Aeolus with what the first run's fit found. Both runs come out as tables, too, in Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from harness.analysis.figures import style
from harness.app.message_costs import MeasuredStream, fit_streams, measured_streams
from harness.runs import Run
from harness.tuning.message_fit import FittedMessageCost

NAME = "batching-gain"
LINEAR_US = 10.0
"""Up to here the axis of user code is linear, as 0 has no logarithm."""


class Estimate(NamedTuple):
    """A ratio or throughput with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return it for a table."""
        return f"{self.value:,.3g} ({self.low:,.3g} to {self.high:,.3g})"


def mean_of(stream: MeasuredStream) -> Estimate:
    """Return the geometric mean of a stream's phases."""
    logs = np.log(stream.throughputs_tps)
    return _of_logs(logs.mean(), *stats.ttest_1samp(logs, 0.0).confidence_interval(0.95))


def ratio(above: MeasuredStream, below: MeasuredStream) -> Estimate:
    """Return the ratio of two streams' geometric means, by Welch's interval of logarithms."""
    logs, others = np.log(above.throughputs_tps), np.log(below.throughputs_tps)
    interval = stats.ttest_ind(logs, others, equal_var=False).confidence_interval(0.95)
    return _of_logs(logs.mean() - others.mean(), *interval)


def _of_logs(centre: float, low: float, high: float) -> Estimate:
    return Estimate(*np.exp((centre, low, high)).tolist())


def gains(streams: Sequence[MeasuredStream]) -> dict[tuple[int, int], Estimate]:
    """Return how many times as many tuples the largest batches bring, by payload and user code."""
    largest = max(s.batch for s in streams)
    by = {(s.batch, s.payload_bytes, s.work_us): s for s in streams}
    return {
        (payload, work_us): ratio(by[largest, payload, work_us], s)
        for (batch, payload, work_us), s in by.items()
        if batch == 1
    }


def draw_points(axis: Axes, found: Mapping[int, Estimate], look: style.Appearance, payload: int) -> None:
    """Draw estimates with their intervals."""
    ends = np.array([[e.value - e.low, e.high - e.value] for e in found.values()]).T
    values = [e.value for e in found.values()]
    label = f"{payload} bytes"
    axis.errorbar(list(found), values, ends, fmt=look.marker, color=look.colour, capsize=2, label=label)


def draw_throughput(axis: Axes, streams: Sequence[MeasuredStream], fit: FittedMessageCost) -> None:
    """Draw throughput over batch size, a line for each payload."""
    for place, payload in enumerate(sorted({s.payload_bytes for s in streams})):
        mine = sorted(s for s in streams if s.payload_bytes == payload)
        look = style.look(place)
        draw_points(axis, {s.batch: mean_of(s) for s in mine}, look, payload)
        fine = np.geomspace(mine[0].batch, mine[-1].batch, 100)
        fitted = [fit.throughput_tps(batch, mine[0].tuple_bytes) for batch in fine]
        axis.plot(fine, fitted, color=look.colour, linestyle=look.line)
    axis.set(xscale="log", yscale="log", xlabel="tuples in a message", ylabel="tuples/s")
    axis.legend(title="payload; lines: fitted")


def draw_gain(axis: Axes, streams: Sequence[MeasuredStream], fit: FittedMessageCost) -> None:
    """Draw the gain of the largest batches over user code."""
    largest = max(s.batch for s in streams)
    sizes = {s.payload_bytes: s.tuple_bytes for s in streams}
    found = gains(streams)
    for place, payload in enumerate(sorted(sizes)):
        look = style.look(place)
        mine = sorted((work, gain) for (size, work), gain in found.items() if size == payload)
        draw_points(axis, dict(mine), look, payload)
        fine = np.concatenate((np.linspace(0, LINEAR_US, 20), np.geomspace(LINEAR_US, mine[-1][0], 100)))
        lines = [fit.throughput_tps(largest, sizes[payload], w) / fit.throughput_tps(1, sizes[payload], w)
                 for w in fine]  # fmt: skip
        axis.plot(fine, lines, color=look.colour, linestyle=look.line)
    axis.axhline(1, color=style.INK, linewidth=0.6)
    axis.set_xscale("symlog", linthresh=LINEAR_US)
    axis.set_xlim(left=-1)
    axis.set(
        yscale="log",
        xlabel="user code in the sender, us a tuple",
        ylabel=f"gain, batches of {largest} / none",
    )
    axis.legend(title="payload; lines: fitted")


def draw(plain: Sequence[MeasuredStream], worked: Sequence[MeasuredStream], fit: FittedMessageCost) -> Figure:
    """Draw both panels, with the lines of the first run's fit."""
    figure, (left, right) = style.subplots(1, 2, style.PAGE_IN, 2.8)
    draw_throughput(left, plain, fit)
    draw_gain(right, worked, fit)
    return figure


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True))
@click.argument("worked_run", type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=click.Path(path_type=Path), default=Path("figures"), show_default=True)
def main(run: Path, worked_run: Path, out: Path) -> None:
    """Draw both runs, and print their tables."""
    plain, worked = (measured_streams(Run(path)) for path in (run, worked_run))
    fit = fit_streams(plain)
    out.mkdir(parents=True, exist_ok=True)
    with style.styled(style.STYLES["web"]):
        style.save(draw(plain, worked, fit), out, NAME)
    click.echo("| tuples | payload, bytes | tuples/s (95 %) | fitted |\n| --- | --- | --- | --- |")
    for s in plain:
        fitted = fit.throughput_tps(s.batch, s.tuple_bytes)
        click.echo(f"| {s.batch} | {s.payload_bytes} | {mean_of(s)} | {fitted:,.0f} |")
    click.echo(
        "\n| payload, bytes | user code, us | times as many (95 %) | fitted |\n| --- | --- | --- | --- |"
    )
    largest, sizes = max(s.batch for s in worked), {s.payload_bytes: s.tuple_bytes for s in worked}
    for (payload, work_us), gain in sorted(gains(worked).items()):
        both = [fit.throughput_tps(batch, sizes[payload], work_us) for batch in (largest, 1)]
        click.echo(f"| {payload} | {work_us} | {gain} | {both[0] / both[1]:.2f} |")
    plain_gain = {payload: gain for (payload, _), gain in gains(plain).items()}
    click.echo("\nwithout user code: " + "; ".join(f"{p} bytes {g}" for p, g in plain_gain.items()))


if __name__ == "__main__":
    main()
