"""Tables and numbers of Markdown pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def number(value: float | None, unit: str = "") -> str:
    """Return a number with its unit: two digits without one, one below a hundred.

    Examples
    --------
    >>> number(3.14159, "%"), number(123.4, "%"), number(1.0314), number(None)
    ('3.1 %', '123 %', '1.03', '-')
    """
    if value is None:
        return "-"
    digits = 2 if unit == "" else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}" + (f" {unit}" if unit else "")


def percent(value_pct: float | None) -> str:
    """Return a percentage without its sign."""
    return number(value_pct, "%").removesuffix(" %")
