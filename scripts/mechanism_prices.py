"""Writes the tables of docs/mechanisms.md from the archived runs.

    python scripts/mechanism_prices.py

Run it after a mechanism of the composite model, or an archived run, has come or gone.
"""

from __future__ import annotations

from pathlib import Path

import click
from marks import replaced

from harness.analysis.judge.evaluation import find_runs, read_split
from harness.analysis.judge.pricing import price
from harness.analysis.report.mechanism_tables import cheapest, prices_page
from harness.models.composite.mechanisms import MECHANISMS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "mechanisms.md"


def main() -> None:
    """Price every mechanism and replace what is between the page's two marks."""
    split = read_split(ROOT / "reports" / "evaluation-split.yaml")
    paths = find_runs([ROOT / "reports" / "runs"])
    prices = price(paths, split, MECHANISMS, lambda line: click.echo(line, err=True))
    newest = max(path.name for path in paths)
    said = f"Of {len(paths)} archived runs, the newest from {newest}. {cheapest(prices)}"
    tables = f"{said}\n\n{prices_page(prices)}"
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "prices", tables), encoding="utf-8")


if __name__ == "__main__":
    main()
