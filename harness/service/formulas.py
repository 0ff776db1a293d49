"""Tuners' formulas, written as text, as MathML; with a decision's numbers in the place of its symbols."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from markupsafe import Markup

from harness.protocols import Scalar

UNITS = {
    "_ns_per_byte": "ns/B",
    "_bytes": "B",
    "_tps": "/s",
    "_ms": "ms",
    "_us": "µs",
    "_pct": "%",
    "_s": "s",
}
"""Units of values, by the end of their names."""
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([A-Za-z][A-Za-z_0-9]*)|(<=|>=|[=<>+*/(),-]))")
_RELATIONS = {"=": "=", "<": "&lt;", ">": "&gt;", "<=": "&le;", ">=": "&ge;"}
_FUNCTIONS = frozenset({"max", "min", "ceil", "floor"})
_SOURCE = re.compile(r"\s*\((?:eq\.|lines?) [^)]*\)\s*$")


def source_of(formula: str) -> str:
    """Return the equation or line that a formula names at its end; empty without one.

    Examples
    --------
    >>> source_of("min dop > ppt r_i (eq. 2)")
    'eq. 2'
    """
    found = _SOURCE.search(formula)
    return found[0].strip().strip("()") if found else ""


def mathml(formula: str, values: Mapping[str, Scalar] | None = None) -> Markup:
    """Return a formula as MathML.

    Products are written one beside the other and bind more tightly than a fraction's bar. What is no formula
    stays text.

    Parameters
    ----------
    formula : str
    values : mapping, optional
        What stands for the symbols, by their names with or without a unit at the end.

    Examples
    --------
    >>> "<mn>2</mn><mtext> µs</mtext>" in mathml("a >= f n / b", {"n_us": 2.0})
    True
    >>> print(mathml("b >= 1"))
    <math display="block"><mrow><mi>b</mi><mo>&ge;</mo><mn>1</mn></mrow></math>
    """
    text = _SOURCE.sub("", formula)
    try:
        inner = _Parser(_tokens(text), _symbols(values or {})).whole()
    except ValueError:
        inner = f"<mtext>{escape(text)}</mtext>"
    return Markup(f'<math display="block"><mrow>{inner}</mrow></math>')


def shown(value: Scalar) -> str:
    """Return a value as a reader wants it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else str(value)


def _symbols(values: Mapping[str, Scalar]) -> dict[str, str]:
    found = {}
    for name, value in values.items():
        if name.endswith("_from") or isinstance(value, str) or value is None:
            continue
        end = next((unit for unit in UNITS if name.endswith(unit)), "")
        unit = f"<mtext> {UNITS[end]}</mtext>" if end else ""
        found[name.removesuffix(end)] = f"<mrow><mn>{escape(shown(value))}</mn>{unit}</mrow>"
    return found


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(text[at:])
        tokens.append(found[0].strip())
        at = found.end()
    return tokens


_NUMBER = ("<mn>", "<mrow><mn>")
"""Beginnings of a number, without and with a unit."""


class _Parser:
    """A formula's tokens, read once from left to right."""

    def __init__(self, tokens: list[str], symbols: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._symbols = symbols

    def whole(self) -> str:
        parts = [self._sum()]
        while self._next in _RELATIONS:
            parts += [f"<mo>{_RELATIONS[self._take()]}</mo>", self._sum()]
        if self._next:
            raise ValueError(self._next)
        return "".join(parts)

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, wanted: str = "") -> str:
        token = self._next
        if not token or (wanted and token != wanted):
            raise ValueError(token)
        self._at += 1
        return token

    def _sum(self) -> str:
        parts = [self._fraction()]
        while self._next in ("+", "-"):
            sign = "+" if self._take() == "+" else "&minus;"
            parts += [f"<mo>{sign}</mo>", self._fraction()]
        return "".join(parts)

    def _fraction(self) -> str:
        value = self._product()
        while self._next == "/":
            self._take()
            value = f"<mfrac><mrow>{value}</mrow><mrow>{self._product()}</mrow></mfrac>"
        return value

    def _product(self) -> str:
        parts = [self._factor()]
        while self._next and (self._next in {"(", "*"} or self._next[0].isalnum()):
            if self._next == "*":
                self._take()
            factor = self._factor()
            # Beside each other two numbers would read as one.
            numbers = parts[-1].startswith(_NUMBER) and factor.startswith(_NUMBER)
            parts += ["<mo>⋅</mo>" if numbers else '<mspace width="0.3em"/>', factor]
        return "".join(parts)

    def _factor(self) -> str:
        token = self._take()
        if token == "(":
            inner = self._sum()
            self._take(")")
            return f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>"
        if token in _FUNCTIONS and self._next == "(":
            return self._function(token)
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if not token[0].isalpha():
            raise ValueError(token)
        return self._symbols.get(token) or _name(token)

    def _function(self, name: str) -> str:
        self._take("(")
        arguments = [self._sum()]
        while self._next == ",":
            self._take()
            arguments.append(self._sum())
        self._take(")")
        inner = "<mo>,</mo>".join(arguments)
        if name in ("ceil", "floor"):
            left, right = ("&lceil;", "&rceil;") if name == "ceil" else ("&lfloor;", "&rfloor;")
            return f"<mrow><mo>{left}</mo>{inner}<mo>{right}</mo></mrow>"
        return f"<mrow><mi>{name}</mi><mo>(</mo>{inner}<mo>)</mo></mrow>"


def _name(token: str) -> str:
    base, _, below = token.partition("_")
    return f"<msub><mi>{base}</mi><mi>{below}</mi></msub>" if below else f"<mi>{base}</mi>"
