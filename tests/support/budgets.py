"""How many examples a property test tries: all in the deep circle, a fifth of them in the quick one."""

from __future__ import annotations

import os

DEEP = os.environ.get("HARNESS_TESTS", "deep") == "deep"


def budget(examples: int) -> int:
    """Return the number of examples that a property test may try."""
    return examples if DEEP else max(5, examples // 5)
