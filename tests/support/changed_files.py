"""An experiment's file with changes in its text: what is read of it, and the line that a mistake gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import load

Change = tuple[str, str]
"""What stands once in the text, and what takes its place."""


def read_changed(path: Path, text: str, *changes: Change) -> Experiment:
    """Write a text with changes, and read it."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text)
    return load(path)


def line_of_mistake(path: Path, text: str, change: Change) -> str:
    """Return the one line that a change gets which is a mistake."""
    with pytest.raises(UsageError) as caught:
        read_changed(path, text, change)
    said = str(caught.value)
    assert "\n" not in said
    return said
