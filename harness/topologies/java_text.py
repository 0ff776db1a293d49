"""Java's hash of a text, by which the test topologies name draws and Storm groups by fields."""

from __future__ import annotations

JAVA_INT = 2**32
"""As many numbers has Java's int."""


def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``.

    Examples
    --------
    >>> string_hash("A"), string_hash("storm")
    (65, 109770985)
    """
    value = 0
    for unit in text:
        value = (31 * value + ord(unit)) % JAVA_INT
    return value - JAVA_INT if value >= JAVA_INT // 2 else value
