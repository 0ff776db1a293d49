"""Gain by helping bolts, simulated."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import RunPath, finish, json_option, relative
from harness.errors import UsageError


@click.command()
@click.option(
    "--bolts",
    type=(click.IntRange(1, 50), click.IntRange(1, 50)),
    metavar="M N",
    multiple=True,
    default=((2, 1), (4, 1), (4, 2)),
    show_default=True,
    help="M bolts help N behind them; a panel each time.",
)
@click.option(
    "--marks",
    type=(click.FloatRange(0.05, 100), click.FloatRange(0.0, 100)),
    metavar="A B",
    default=(1.0, 0.2),
    show_default=True,
    help="High and low mark of a queue, by the 100 tuples that a bolt serves in a T0.",
)
@click.option(
    "--out", type=RunPath, default=Path("figures"), show_default=True, help="Where the figure goes."
)
@json_option
def helping_gain(
    bolts: tuple[tuple[int, int], ...], marks: tuple[float, float], out: Path, as_json: bool
) -> None:
    """Repeat section 3 of Leron by simulation: gain by helping over the messages under way, as a figure.

    About a minute.

    \b
    harness helping-gain --out reports/figures
    harness helping-gain --bolts 3 2 --marks 2 0.5
    """
    from harness.analysis.figures.helping_gain import publish
    from harness.models.simulator.helping_gain import HelpedStage

    high, low = marks
    if low >= high:
        raise UsageError(f"--marks {high:g} {low:g}: the low mark must be below the high one")
    for helpers, helped in bolts:
        if helpers <= helped:
            raise UsageError(f"--bolts {helpers} {helped}: more have to help than are helped")
    rows = publish([HelpedStage(*pair, high, low) for pair in bolts], out)
    best = rows.loc[rows.groupby(["helpers", "helped", "mechanism"])["gain"].idxmax()]
    shown = ["helpers", "helped", "mechanism", "under_way", "gain", "published_gain", "most_gain"]
    click.echo(best[shown].to_string(index=False, float_format="%.3g"))
    click.echo(f"figure and all points in {relative(out)}")
    finish(as_json, {"out": str(out), "best": best[shown].to_dict("records")})
