"""The counter of hard sentences: each rule on a sentence that breaks it and on one that does not."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_SPEC = importlib.util.spec_from_file_location("prose", ROOT / "scripts" / "prose.py")
assert _SPEC
assert _SPEC.loader
prose = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(prose)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("The run is valid. A " + "word " * 29 + "end.", ["more than 30 words"]),
        ("The run is valid. A " + "word " * 28 + "end.", []),
        ("One: two: three.", ["two colons"]),
        ("One: `a: b: c` and [two: x](http://y).", ["two colons"]),
        ("One: two. Three: four.", []),
        ("It says what is left of the step.", ["what ... of"]),
        ("It says what is left. Of the step nothing is.", []),
        ("The model is told the rate, and there is none.", ["is told", "there is none"]),
        ("| a cell: with: colons | what is of it |\n| --- | --- |", []),
        ("```\nwhat: a: of\n```", []),
        ("- One: two\n- Three: four", []),
    ],
)
def test_each_rule_is_counted(text: str, rules: list[str]) -> None:
    assert [fault.rule for fault in prose.faults(text)] == rules


def test_a_docstring_is_counted_to_its_sections_and_by_its_first_word(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    lines = ['"""What a module does."""', "", "", "def f():", '    """Do.', ""]
    lines += ["    Returns", "    -------", "    int", "        A: b: c.", '    """']
    file.write_text("\n".join(lines))
    texts = list(prose.docstrings(file))
    assert [bool(prose.FIRST_WORDS.match(text)) for text in texts] == [True, False]
    assert [list(prose.faults(text)) for text in texts] == [[], []]


def test_a_string_right_after_an_assignment_is_a_docstring(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    lines = ["A = 1", '"""Of a module."""', '"""No docstring."""', "class C:", "    a: int"]
    lines += ['    """Of a class."""', "    def f(self):", "        a = 1", '        """No docstring."""']
    file.write_text("\n".join(lines))
    assert list(prose.docstrings(file)) == ["Of a module.", "Of a class."]


def test_no_sentence_of_the_repository_is_hard_to_read() -> None:
    assert not [f"{path}: {fault.rule}: {fault.sentence}" for path, fault in prose.found()]


def test_what_is_kept_names_the_rules_that_there_are() -> None:
    kept = json.loads((ROOT / "reports" / "prose.json").read_text(encoding="utf-8"))
    known = {*prose.PHRASES, "more than 30 words", "two colons", "begins with What, Whether, How or Of"}
    assert {rule.partition(": ")[2] for rule in kept} <= known
