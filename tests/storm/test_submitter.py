"""The submitter's answer is found whatever a topology's main says before and after it."""

from __future__ import annotations

import pytest

from harness.storm.submitter import answer

LINE = '{"topology": "t", "wrapped": [], "unwrapped": {}, "description": {}}'


@pytest.mark.parametrize(
    "said", [LINE, f"12\n{LINE}\n", f"{LINE}\nKilling...\nKilled Topology\n", f'{LINE}\n{{"a": 1}}']
)
def test_it_is_found_among_what_main_says(said: str) -> None:
    found = answer(said)
    assert found is not None
    assert found["topology"] == "t"


@pytest.mark.parametrize("said", ["", "3\nnull\n[]", LINE[:-1]])
def test_without_one_there_is_none(said: str) -> None:
    assert answer(said) is None
