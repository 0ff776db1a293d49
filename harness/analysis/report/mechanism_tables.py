"""Tables of what the composite model's mechanisms are worth, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.judge.pricing import BOTH, PRICED, ErrorChange, MechanismPrice, lines_of
from harness.models.composite.mechanisms import MECHANISMS

NOTHING = "–"
"""Stands for what a mechanism does not change."""


def prices_page(prices: Sequence[MechanismPrice]) -> str:
    """Return both tables: mechanisms with their price, and the errors by set that it is of."""
    return f"{mechanism_table(prices)}\n{error_table(prices)}"


def cheapest(prices: Sequence[MechanismPrice]) -> str:
    """Return a sentence on the mechanism with the smallest price of those that act in what decides.

    Examples
    --------
    >>> from harness.analysis.judge.pricing import ErrorChange
    >>> change = ErrorChange(2, (5.0, 5.25), (9.0, 8.0), (90.0, 90.0))
    >>> cheapest([MechanismPrice("wake-ups", BOTH, ("quick",), {("service_time_ms", "mean"): change})])
    'The cheapest is `wake-ups`, at 0.250 points.'
    """
    priced = {p.mechanism: p.points for p in prices if p.part == BOTH and p.points is not None}
    name = min(priced, key=lambda mechanism: priced[mechanism])
    return f"The cheapest is `{name}`, at {priced[name]:.3f} points."


def mechanism_table(prices: Sequence[MechanismPrice]) -> str:
    """Return a row a mechanism: what is predicted without it, lines of code, and its price."""
    points = {p.mechanism: p.points for p in prices if p.part == BOTH}
    rows = [
        [f"`{name}`", MECHANISMS[name].says, str(lines_of(name)), _points(points.get(name))]
        for name in dict.fromkeys(p.mechanism for p in prices)
    ]
    return _table(["mechanism", "without it", "lines", "price, points"], rows)


def error_table(prices: Sequence[MechanismPrice]) -> str:
    """Return a row a mechanism and set: errors with and without it, of each kind that is priced."""
    head = ["mechanism", "set", "experiments", *PRICED.values()]
    rows = [
        [
            f"`{p.mechanism}`",
            p.part,
            str(len(p.experiments)),
            *(_cell(p.changes.get(kind)) for kind in PRICED),
        ]
        for p in prices
        if p.part != BOTH and p.experiments
    ]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _points(value: float | None) -> str:
    return NOTHING if value is None else f"{value:+.2f}"


def _cell(change: ErrorChange | None) -> str:
    """Return median, 95th percentile and coverage with and without, and of how many predictions."""
    if change is None:
        return NOTHING
    median, p95 = ("{:.1f} → {:.1f}".format(*pair) for pair in (change.median_pct, change.p95_pct))
    covered = "{:.0f} → {:.0f}".format(*change.covered_pct)
    return f"{median}; {p95}; {covered} ({change.pairs})"
