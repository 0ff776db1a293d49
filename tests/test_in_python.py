"""What docs/in-python.md shows is carried out, and the notebook of examples/ runs to its end."""

from __future__ import annotations

import doctest
import re
import runpy
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from synthetic_run import FakeRun, FakeStep, build

import harness
from harness.schemas import LATENCY, METRICS

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "examples" / "errors_of_a_run.py"


def test_the_documents_examples_do_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "in-python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 4
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "in-python.md", None, 0)
    said: list[str] = []
    assert doctest.DocTestRunner().run(examples, out=said.append).failed == 0, "".join(said)


def test_the_document_names_all_that_the_package_offers() -> None:
    text = (ROOT / "docs" / "in-python.md").read_text(encoding="utf-8")
    offered = [n for n in vars(harness.OpenedRun) if not n.startswith("_")]
    left_out = {"name", "path", "settings", "run", "one_step"}
    assert [n for n in offered if n not in left_out and f"run.{n}" not in text] == []
    assert [n for n in harness.__all__ if n not in ("OpenedRun", "__version__") and n not in text] == []


def test_the_notebook_runs_and_names_the_error() -> None:
    """The archived run's means moved by more than half between steps (reports/runs/loaded-workers)."""
    app = runpy.run_path(str(NOTEBOOK))["app"]
    _, defined = app.run()
    assert defined["run"].name == "loaded-workers"
    assert (defined["received_tps"] > 0).all()
    assert defined["beside"]["error_pct"][0] == pytest.approx(0, abs=0.01)
    assert defined["worst"] > 20


def test_files_say_what_their_columns_mean(tmp_path: Path) -> None:
    run = build(tmp_path / "run", FakeRun(steps=[FakeStep(1, seconds=4, burn_in_s=2)]))
    for name, schema in (("latency", LATENCY), ("metrics", METRICS)):
        written = pq.read_schema(run / "steps" / "00" / f"{name}.parquet")
        for field in schema:
            assert written.field(field.name).metadata[b"meaning"] == field.metadata[b"meaning"]
            suffix = field.name.rpartition("_")[2]
            if suffix in ("ns", "ms"):
                assert written.field(field.name).metadata[b"unit"] == suffix.encode()
