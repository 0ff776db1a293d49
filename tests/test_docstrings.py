"""Examples in docstrings do what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def modules() -> list[str]:
    """Return the modules that have examples."""
    paths = [p for p in sorted((ROOT / "harness").rglob("*.py")) if ">>> " in p.read_text(encoding="utf-8")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.deep
@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # some open an archived run
    assert doctest.testmod(import_module(name)).failed == 0
