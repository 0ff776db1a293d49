"""The documents that can be checked: the command reference and the tables of the run directory."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Command, Group

from harness.cli import main
from harness.models.contract.conformance import CHECKS
from harness.schemas import ADAPTATION, LATENCY, MEASURES, METRICS, Metric, MetricField

ROOT = Path(__file__).resolve().parent.parent


def test_the_command_reference_is_what_help_says() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "command_reference.py"))["reference"]()
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == made, "run make docs"


def commands(group: Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Command]]:
    """Yield all commands by their words, those of groups included."""
    for name, command in group.commands.items():
        yield (*words, name), command
        if isinstance(command, Group):
            yield from commands(command, (*words, name))


def test_options_in_the_documents_are_those_of_their_commands() -> None:
    """In each line that names a command, and only up to what a pipe, a comment or a quotation ends."""
    known = {
        words: {o for p in c.params for o in (*p.opts, *p.secondary_opts)} for words, c in commands(main)
    }
    asked = 0
    for path in (
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("infra/**/*.md"),
        ROOT / "reports" / "headlines.md",
    ):
        for line in path.read_text(encoding="utf-8").splitlines():
            for said in re.findall(r"(?<![\w./-])harness ([a-z][^`|#;]*)", line):
                words = tuple(w for w in said.split() if re.fullmatch(r"[a-z-]+", w) and w[0] != "-")
                found = next((known[words[:n]] for n in (2, 1) if words[:n] in known), None)
                for option in re.findall(r"(?<!\S)--[a-z][a-z-]+", said) if found is not None else ():
                    asked += 1
                    assert option in found or option == "--help", f"{path.name}: {line}"
    assert asked > 50


def test_lists_of_measures_and_metrics_are_made_from_their_types() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "measured_words.py"))
    text = (ROOT / "docs" / "run-directory.md").read_text(encoding="utf-8")
    assert text == made["page"](text), "run make docs"
    assert [name for name in (*MEASURES, *Metric, *MetricField) if f"| {name} |" not in text] == []
    listed = (ROOT / "storm-topologies" / "metrics.json").read_text(encoding="utf-8")
    assert listed == made["listing"](), "run make docs"


def test_results_and_readmes_rows_are_those_of_the_archived_runs() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "results.py"))
    for page, text in (("reports/results.md", made["page"]()), ("README.md", made["readme"]())):
        assert (ROOT / page).read_text(encoding="utf-8") == text, "run scripts/results.py"


def test_readme_says_for_whom_in_three_short_sentences_then_commands_rows_and_picture() -> None:
    """The first screen, in the order in which a newcomer reads."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sentences = runpy.run_path(str(ROOT / "scripts" / "prose.py"))["sentences"]
    first = list(sentences(text.split("\n\n")[2]))
    assert len(first) == 3
    assert max(len(s.split()) for s in first) <= 25
    marks = ["\nmake run ", "\nmake test ", "<!-- accuracy -->", "![", "## Before it starts"]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text[: places[-1]])
    assert (ROOT / picture).is_file()
    rows = text[places[2] : places[3]].split("<!-- end of accuracy -->")[0]
    assert re.findall(r"^\| ([a-z-]+) \| [0-9.]+ %", rows, flags=re.MULTILINE) == [
        "composite",
        "storm-tracer",
        "jackson",
        "no-change",
    ]


def test_the_changelog_has_versions_with_dates_newest_first() -> None:
    """The first version has at most 30 lines."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased, *released = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert unreleased == "Unreleased"
    dates = [re.fullmatch(r"\d+\.\d+\.\d+ \((\d{4}-\d\d-\d\d)\)", version) for version in released]
    assert all(dates)
    days = [date[1] for date in dates if date]
    assert days == sorted(days, reverse=True)
    assert len(text[text.index("\n## 0.1.0 ") :].strip().splitlines()) <= 30


def test_the_architecture_names_every_module_once() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "module_index.py"))["index"]()
    assert made in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), "run make docs"


def test_every_column_of_a_steps_tables_is_described() -> None:
    text = (ROOT / "docs" / "run-directory.md").read_text(encoding="utf-8")
    described = text.split("## latency.parquet")[1].split("## ")[0]
    for name in LATENCY.names:
        assert name in described, name
    for name in METRICS.names:
        assert name in text, name
    adapted = text.split("## adaptation.parquet")[1].split("## ")[0]
    assert [name for name in ADAPTATION.names if f"`{name}`" not in adapted] == []


def test_the_model_in_the_document_is_one_and_conforms() -> None:
    text = (ROOT / "docs" / "write-a-model.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 2
    namespace: dict[str, Any] = {}
    for block in blocks:
        exec(block, namespace)
    function = blocks[0].split("def ")[1]
    assert len([line for line in function.splitlines() if line.strip()]) <= 10 + 1  # its docstring
    namespace["test_load_scaled_conforms"]()
    for check in CHECKS:
        assert f"| {check} |" in text, check


@pytest.mark.parametrize("page", ["trouble.md", "reliability.md", "trust.md"])
def test_every_trouble_has_a_test_that_is_there(page: str) -> None:
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    heads = ("| trouble", "| case", "| fault |", "| question", "| input |", "| ---")
    rows = [line for line in lines if line.startswith("| ") and not line.startswith(heads)]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`([^`]+\.(?:py|java))::(\w+)`", row)
        assert named, row
        for file, name in named:
            text = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"(?:^def|\bvoid) {name}\(", text, flags=re.MULTILINE), f"{file}::{name}"


def test_no_path_of_a_machine_is_in_the_documents() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        assert not re.search(r"/(root|work)/", path.read_text(encoding="utf-8")), path.name
