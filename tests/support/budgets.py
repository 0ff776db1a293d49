"""Which circle of tests this is, and how many examples a property test tries in it.

``HARNESS_TESTS`` names the circle: ``quick`` (``make test``), ``rest`` (what ``quick`` left out, for
``make test-deep`` after it), or ``all``, the default.
"""

from __future__ import annotations

import os

import pytest

CIRCLE = os.environ.get("HARNESS_TESTS", "all")
DEEP = CIRCLE != "quick"


def budget(examples: int) -> int:
    """Return the number of examples that a property test may try: a fifth of them in the quick circle."""
    return examples if DEEP else max(5, examples // 5)


def belongs(item: pytest.Item) -> bool:
    """Whether a test is run in this circle: those marked ``deep`` and examples left out wait for the rest."""
    deep = item.get_closest_marker("deep") is not None
    if CIRCLE == "quick":
        return not deep
    return CIRCLE == "all" or deep or hasattr(getattr(item, "function", None), "hypothesis")
