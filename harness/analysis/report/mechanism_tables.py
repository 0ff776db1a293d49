"""Tables of what the composite model's mechanisms are worth, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.judge.pricing import BOTH, PRICED, MechanismPrice, lines_of
from harness.models.composite.mechanisms import MECHANISMS

BEGIN, END = "<!-- prices -->", "<!-- end of prices -->"
"""Marks between which a page has the tables."""
TITLES = dict(zip(PRICED, ("Ground-truth latency", "Service time", "CPU by worker"), strict=True))
"""Of the tables, by measure."""
NOWHERE = "–"


def prices_page(prices: Sequence[MechanismPrice]) -> str:
    """Return all tables: what each mechanism is and costs, then each priced measure by set."""
    names = list(dict.fromkeys(p.mechanism for p in prices))
    parts = [mechanism_table(names, prices)]
    for measure, title in TITLES.items():
        mine = [p for p in prices if p.measure == measure and p.experiments]
        parts.append(f"**{title}, mean**\n\n{price_table(mine)}")
    return "\n".join(parts)


def mechanism_table(names: Sequence[str], prices: Sequence[MechanismPrice]) -> str:
    """Return a row a mechanism: what is predicted without it, lines of code, and its price by measure."""
    head = ["mechanism", "without it", "lines", *(f"{title.lower()}, points" for title in TITLES.values())]
    points = {(p.mechanism, p.measure): p.points for p in prices if p.part == BOTH}
    rows = [
        [f"`{n}`", MECHANISMS[n].says, str(lines_of(n)), *(_points(points.get((n, m))) for m in TITLES)]
        for n in names
    ]
    return _table(head, rows)


def price_table(prices: Sequence[MechanismPrice]) -> str:
    """Return a row a price, each figure with and without the mechanism."""
    head = ["mechanism", "set", "experiments", "predictions", "median, %", "p95, %", "within 90 % interval, %"]
    rows = [
        [f"`{p.mechanism}`", p.part, str(len(p.experiments)), str(p.pairs),
         *(_change(pair) for pair in (p.median_pct, p.p95_pct, p.covered_pct))]
        for p in prices
    ]  # fmt: skip
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _points(value: float | None) -> str:
    return NOWHERE if value is None else f"{value:+.2f}"


def _change(with_and_without: tuple[float, float] | None) -> str:
    return NOWHERE if with_and_without is None else "{:.1f} → {:.1f}".format(*with_and_without)
