"""Shares of keys by phase of a season, shown as tables and as the machine-readable line of ``forecast``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Never

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.commands.common import err, finish
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.forecasts.key_shares import KeyShares


def tell_key_shares(
    source: Path,
    step: int | None,
    components: Sequence[str],
    season_s: Sequence[float],
    most: int,
    as_json: bool,
) -> Never:
    """Show the shares of the most frequent keys in each phase of each season, and end the command.

    Raises
    ------
    UsageError
        When no keys were recorded, no season is known, or none was recorded whole.
    """
    from harness.app.forecasting import read_key_counts, seasons_of
    from harness.forecasts.key_shares import forecast_key_shares

    counts = read_key_counts(source, step, components)
    seasons = season_s or seasons_of(source)
    if not seasons:
        raise UsageError(f"no shares of keys: no season of {source} is known", "give --season-s")
    shares = [forecast_key_shares(of, length_s, most) for of in counts for length_s in seasons]
    if all(one.status == "declined" for one in shares):
        raise UsageError(f"no shares of keys: {shares[0].component}: {shares[0].reason}")
    for one in shares:
        _show(one)
    finish(as_json, {"source": str(source), "key_shares": [_as_json(one) for one in shares]})


def _show(one: KeyShares) -> None:
    if one.status == "declined":
        click.echo(f"{one.component}, season of {one.season_s:g} s: declined: {one.reason}")
        return
    table = Table(
        title=f"shares of the keys of {one.component} in a season of {one.season_s:g} s, with 90 % intervals"
        f" for the next one ({one.seasons} recorded)"
    )
    table.add_column("s of the season")
    for key in (*one.keys, "all others"):
        table.add_column(Text(key), justify="right")  # anybody's text
    phase_s = one.season_s / len(one.tuples)
    for phase, (shares, lows, highs) in enumerate(zip(one.share, one.low, one.high, strict=True)):
        cells = (
            "-" if math.isnan(share) else f"{share:.3f} ({low:.3f} to {high:.3f})"
            for share, low, high in zip(shares, lows, highs, strict=True)
        )
        table.add_row(f"{phase * phase_s:g} to {(phase + 1) * phase_s:g}", *cells)
    Console(width=max(28 * (len(one.keys) + 2), err.width)).print(table)


def _as_json(one: KeyShares) -> dict[str, object]:
    named = {"component": one.component, "season_s": one.season_s, "status": one.status}
    if one.status == "declined":
        return {**named, "reason": one.reason}
    phase_s = one.season_s / len(one.tuples)
    phases = [
        {
            "from_s": phase * phase_s,
            "to_s": (phase + 1) * phase_s,
            "tuples": float(one.tuples[phase]),
            "shares": _by_key(one, phase),
        }
        for phase in range(len(one.tuples))
    ]
    return {**named, "seasons": one.seasons, "phases": phases}


def _by_key(one: KeyShares, phase: int) -> list[dict[str, str | float | None]]:
    """Return shares by key, the key None of all others; nothing of a phase without tuples."""
    if not one.tuples[phase]:
        return []
    columns = zip((*one.keys, None), one.share[phase], one.low[phase], one.high[phase], strict=True)
    return [
        {"key": key, "share": float(share), "low": float(low), "high": float(high)}
        for key, share, low, high in columns
    ]
