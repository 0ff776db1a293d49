"""Figures of what batches bring: throughput over batch size, and the gain over user code in the sender.

    harness measure-messages --rounds 6
    harness measure-messages --batches 1,100 --sizes 8,100 --work-us 0,10,30,100,300,1000 --rounds 3
    python bench/batching_figures.py RUN WORKED_RUN --out reports/figures

Points are geometric means of a stream's phases with 95 % intervals (Student's, of logarithms). Lines are
equation 3 of Aeolus with what the first run's fit found. Both runs come out as tables, too, in Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    return ratio(stream, None)


def ratio(above: MeasuredStream, below: MeasuredStream | None) -> Estimate:
    """Return the ratio of two streams' geometric means, by Welch's interval of logarithms."""
    logs = [np.log(s.throughputs_tps) for s in (above, below) if s is not None]
    centre = float(logs[0].mean() - (logs[1].mean() if below else 0.0))
    parts = [each.var(ddof=1) / each.size for each in logs]
    free = sum(parts) ** 2 / sum(p**2 / (each.size - 1) for p, each in zip(parts, logs, strict=True))
    reach = float(stats.t.ppf(0.975, free) * np.sqrt(sum(parts)))
    return Estimate(*(float(np.exp(centre + side * reach)) for side in (0, -1, 1)))


def gains(streams: Sequence[MeasuredStream]) -> dict[tuple[int, int], Estimate]:
    """Return how many times as many tuples the largest batches bring, by payload and user code."""
    largest = max(s.batch for s in streams)
    by = {(s.batch, s.payload_bytes, s.work_us): s for s in streams}
    return {
        (payload, work_us): ratio(by[largest, payload, work_us], s)
        for (batch, payload, work_us), s in by.items()
        if batch == 1
    }


def draw_throughput(axis: Axes, streams: Sequence[MeasuredStream], fit: FittedMessageCost) -> None:
    """Draw throughput over batch size, a line for each payload."""
    for place, payload in enumerate(sorted({s.payload_bytes for s in streams})):
        mine = sorted(s for s in streams if s.payload_bytes == payload)
        look, batches = style.look(place), np.array([s.batch for s in mine])
        means = [mean_of(s) for s in mine]
        ends = np.abs(np.array([[m.value - m.low, m.high - m.value] for m in means]).T)
        axis.errorbar(
            batches, [m.value for m in means], ends, fmt=look.marker, color=look.colour, capsize=2,
            label=f"{payload} bytes",
        )  # fmt: skip
        fine = np.geomspace(batches[0], batches[-1], 100)
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
        at = [work for work, _ in mine]
        ends = np.abs(np.array([[g.value - g.low, g.high - g.value] for _, g in mine]).T)
        axis.errorbar(
            at, [g.value for _, g in mine], ends, fmt=look.marker, color=look.colour, capsize=2,
            label=f"{payload} bytes",
        )  # fmt: skip
        fine = np.concatenate((np.linspace(0, LINEAR_US, 20), np.geomspace(LINEAR_US, at[-1], 100)))
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


def draw(plain: Sequence[MeasuredStream], worked: Sequence[MeasuredStream]) -> Figure:
    """Draw both panels, with the lines of the first run's fit."""
    fit = fit_streams(plain)
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
    out.mkdir(parents=True, exist_ok=True)
    with style.styled(style.STYLES["web"]):
        style.save(draw(plain, worked), out, NAME)
    fit = fit_streams(plain)
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
