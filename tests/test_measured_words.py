"""Measures, metrics and fields have one place (``harness.schemas``): no other module spells their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from harness.schemas import MEASURES, Clock, Metric, MetricField, Reporter

ROOT = Path(__file__).resolve().parent.parent
WORDS = {*MEASURES, *map(str, Metric), *map(str, MetricField), *map(str, Clock)}
_OTHERS = [m for m in Metric if m.reporter is not Reporter.REWRITING]
ORDINARY = {
    *map(str, {*Metric} - {*_OTHERS}),
    *map(str, {*MetricField} - {f for m in _OTHERS for f in m.fields}),
}
"""Words of the rewriting layer, which nearly every module uses for something else: batch, tuples, full.

The second test holds for them.
"""
OTHERWISE: tuple[tuple[str, tuple[str, ...], frozenset[str]], ...] = (
    (
        "fields of the simulator's records",
        ("harness/models/simulator/", "harness/app/simulated/", "harness/models/composite/played.py"),
        frozenset({"count", "cpu", "worker", "received", "emitted", "acked", "held"}),
    ),
    ("a field of the solver's records", ("harness/models/solver/",), frozenset({"worker"})),
    ("a field of a dataset's rows", ("harness/topologies/dataset_rows.py",), frozenset({"count"})),
    (
        "a column of tables, or an executor's attribute",
        (
            *(
                "harness/analysis/spark/",
                *("harness/experiments/records.py", "harness/analysis/judge/bucket_tiling.py"),
                "harness/experiments/step_faults.py",
                *("harness/models/contract/layout.py", "harness/models/baselines/caladrius.py"),
                *("harness/schedulers/loads.py", "harness/schedulers/conformance.py"),
                "harness/schedulers/resource_loads.py",
                *("harness/service/live_topology.py", "harness/app/archiving.py"),
            ),
            *("harness/models/composite/source/evidence.py", "harness/backends/", "bench/scale.py"),
            "bench/scale_sql.py",
        ),
        frozenset({"worker"}),
    ),
    (
        "a kind of window, which counts or lasts",
        (
            *("harness/plans.py", "harness/experiments/feasibility.py", "harness/experiments/preflight.py"),
            *("harness/models/composite/plan/flows.py", "harness/models/composite/source/fan_out.py"),
            *("harness/models/composite/source/hop_times.py", "harness/models/solver/structure.py"),
            *("harness/models/thesis/windows.py", "harness/service/building.py"),
        ),
        frozenset({"count"}),
    ),
    (
        "the number of rows in pandas, an option's name, and the field of InfluxDB's probe",
        (
            *("harness/analysis/judge/accuracy.py", "harness/backends/influxdb/store.py"),
            *("bench/scale.py", "bench/without_hops.py"),
        ),
        frozenset({"count"}),
    ),
    (
        "a kind of service time: computing or waiting",
        (
            "harness/topologies/component_settings.py",
            "harness/service/building.py",
            *("bench/instrumentation.py", "bench/layer.py"),
        ),
        frozenset({"cpu"}),
    ),
    (
        "the machine's processor, and the kernel's controller of it",
        (
            *("harness/machine/", "harness/analysis/judge/evaluation.py", "scripts/results.py"),
            *("harness/analysis/judge/rescoring.py", "harness/analysis/report/sections.py"),
            *("harness/service/run_index.py", "harness/app/measured_with.py"),
            "harness/app/message_costs.py",
        ),
        frozenset({"cpu"}),
    ),
    (
        "a kind of latency (harness.runs.Latency)",
        (
            *("harness/runs/records.py", "harness/experiments/watching.py"),
            "harness/analysis/judge/checks.py",
            *("harness/experiments/step_traffic.py", "harness/app/submitted/applying.py"),
            *("harness/analysis/judge/summary.py", "harness/analysis/report/sections.py"),
            "scripts/jars_table.py",
        ),
        frozenset({"ack", "service"}),
    ),
    ("a resource of a worker node", ("harness/protocols.py",), frozenset({"cpu"})),
    ("an outcome of a test", ("scripts/reliability.py",), frozenset({"failed"})),
    (
        "a column of adaptation.parquet",
        ("harness/experiments/adapted_periods.py", "harness/analysis/report/adaptations.py"),
        frozenset({"lost"}),
    ),
    ("a column of a page's table", ("harness/analysis/report/paper_tables.py",), frozenset({"service"})),
    (
        "how a job, or loading the model, ended",
        ("harness/service/job_types.py", "harness/service/jobs.py", "harness/service/model_loading.py"),
        frozenset({"failed"}),
    ),
    (
        "how an attempt to apply a plan ended",
        (
            *("harness/app/submitted/attempting.py", "harness/app/submitted/folder.py"),
            "harness/commands/submitting.py",
        ),
        frozenset({"failed"}),
    ),
    ("settings of Kafka's clients", ("harness/storm/submission.py",), frozenset({"consumer"})),
    ("the folder of the service's pages", ("harness/service/pages.py",), frozenset({"service"})),
    (
        "a part of a latency, or of its error",
        (
            *("harness/analysis/spark/stages.py", "harness/analysis/judge/ablation.py"),
            "harness/analysis/figures/parameter_figures.py",
        ),
        frozenset({"service"}),
    ),
    (
        "a key of an experiment's or a topology's file",
        (
            *("harness/storm/submission.py", "harness/service/building.py"),
            *("bench/instrumentation.py", "bench/played_forecasts.py"),
            *("bench/batch_grid.py", "bench/layer.py"),
        ),
        frozenset({"service"}),
    ),
    ("a component of a chain", ("harness/topologies/reference_chain.py",), frozenset({"ack"})),
    (
        "acker executors in a drawing; a comparison's column",
        ("harness/analysis/figures/plan_drawing.py", "bench/against_simulator.py"),
        frozenset({"ack"}),
    ),
    (
        "a column of sums that the analysis makes itself",
        ("harness/analysis/spark/", "harness/analysis/figures/stage_figures.py"),
        frozenset({"sum_ns"}),
    ),
    (
        "fates of messages in the ledger, and the checks of them",
        (
            *("harness/experiments/ledger.py", "harness/analysis/judge/checks.py", "scripts/jars_table.py"),
            *("harness/experiments/watching.py", "harness/experiments/step_progress.py"),
        ),
        frozenset({"received", "failed", "lost", "acked", "tracked"}),
    ),
    (
        "the outcome of a task, a server's start or a command",
        ("harness/backends/hosts/", "harness/backends/local/daemon.py", "harness/commands/"),
        frozenset({"failed"}),
    ),
    ("a name in a query's text", ("bench/scale.py",), frozenset({"members"})),
    (
        "an attribute of Observation and Interval, and its key in their files",
        (
            *("harness/app/conformance.py", "harness/analysis/judge/resampling.py"),
            *("harness/models/contract/conformance.py", "scripts/example.py"),
        ),
        frozenset({"complete_latency_ms"}),
    ),
)
"""Words that say something else in some modules: the meaning there, the modules (or folders), the words."""
ROOMS = ("harness", "scripts", "bench", "examples", "infra")
"""All Python but tests, which spell names so that a changed one is seen."""
COLUMNS = {"measure", "measurement", "field"}
COMPARING = {"isin", "equal", "is_in", "eq", "ne"}


def sources() -> list[Path]:
    paths = [p for room in ROOMS for p in sorted((ROOT / room).rglob("*.py"))]
    return [p for p in paths if not p.is_relative_to(ROOT / "harness" / "schemas")]


@cache
def tree_of(path: Path) -> ast.Module:
    """Return a source's syntax tree; read once, as three tests ask for each."""
    return ast.parse(path.read_text(encoding="utf-8"))


def constants(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield a tree's texts that are no docstrings, nor comments written as texts."""
    said = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node


def exempt(module: str, word: str) -> bool:
    return any(module.startswith(places) and word in words for _, places, words in OTHERWISE)


@pytest.mark.parametrize("path", sources(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_measured_word_is_spelt_outside_schemas(path: Path) -> None:
    module = path.relative_to(ROOT).as_posix()
    spelt = [(n.lineno, n.value) for n in constants(tree_of(path)) if n.value in WORDS - ORDINARY]
    assert [(line, word) for line, word in spelt if not exempt(module, str(word))] == []


NAMED = "|".join(m for m in MEASURES if "_" in m)
"""Measures whose names are no words of any text: all but utilisation."""
WITHIN = re.compile(rf"(?<![\w.])(?:(?:{'|'.join(Metric)})\.(?:{'|'.join(MetricField)})|{NAMED})(?!\w|\.\w)")
"""A measure, or a metric with its field, in a longer text."""


@pytest.mark.parametrize(
    "path",
    [p for p in sources() if p.parts[len(ROOT.parts)] == "harness"],
    ids=lambda p: p.relative_to(ROOT).as_posix(),
)
def test_no_text_of_the_harness_spells_one_within(path: Path) -> None:
    spelt = [(n.lineno, n.value) for n in constants(tree_of(path)) if WITHIN.search(str(n.value))]
    module = path.relative_to(ROOT).as_posix()
    assert [(line, word) for line, word in spelt if not exempt(module, str(word))] == []


@pytest.mark.parametrize("path", sources(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_table_is_filtered_by_a_spelt_word(path: Path) -> None:
    """Without exceptions: where these columns are compared, a word means what is measured."""
    for node in ast.walk(tree_of(path)):
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Compare) or (isinstance(method, ast.Attribute) and method.attr in COMPARING):
            texts = {str(n.value) for n in constants(node)}
            assert not (texts & COLUMNS and texts & WORDS), ast.unparse(node)


def test_every_exception_is_needed() -> None:
    spelt = {
        (path.relative_to(ROOT).as_posix(), str(n.value))
        for path in sources()
        for n in constants(tree_of(path))
        if n.value in WORDS - ORDINARY
    }
    for reason, places, words in OTHERWISE:
        for place in places:
            assert {w for m, w in spelt if m.startswith(place)} & words, f"{reason}: {place}"
        assert words <= {w for m, w in spelt if m.startswith(places)}, reason
