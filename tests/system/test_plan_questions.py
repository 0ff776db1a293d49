"""Evaluated predictions in a real Neo4j, and the questions of docs/plan-graph.md asked there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evaluated import GROUND_TRUTH, row
from made_runs import placed, write_run

from harness.analysis.plan_answers import RunPlans, difference
from harness.backends.neo4j.plan_rows import run_id
from harness.backends.neo4j.server import Neo4jServer
from harness.backends.neo4j.store import PlanGraph
from harness.errors import UsageError
from harness.machine import secret_files
from harness.plans import Window
from harness.runs import Run
from harness.schemas import ERRORS
from harness.topologies import TOPOLOGIES

pytestmark = pytest.mark.system

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plan-graph.md"
QUESTIONS = re.findall(r"```\n(MATCH .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
ROWS = (  # measured as 10 ms with a noise of 0.5 ms, unless a row says else
    row("composite", 0, 1, 15.0),
    row("composite", 1, 2, 8.0),
    row("composite", 1, 0, 10.4),
    row("composite", 2, 1, None),
    row("composite", 1, 1, 30.0),
    row("composite", 0, 1, 30.0, subject="sink"),
    row("composite", 0, 1, 30.0, statistic="p95"),
    row("composite", 0, 1, 30.0, protocol="thesis"),
    row("composite", 0, 1, 90.0, actual=100.0, measure="throughput_tps", error_over_noise=None),
    row("no-change", 0, 1, 30.0),
)
IN_MS = {"model": "composite", "measure": GROUND_TRUTH, "measured_ms": 10.0}
COMPOSITE: Mapping[tuple[int, int, str], Mapping[str, object]] = {
    (0, 1, GROUND_TRUTH): {**IN_MS, "predicted_ms": 15.0, "error_pct": 50.0, "error_over_noise": 10.0},
    (1, 2, GROUND_TRUTH): {**IN_MS, "predicted_ms": 8.0, "error_pct": -20.0, "error_over_noise": 4.0},
    (1, 0, GROUND_TRUTH): {**IN_MS, "predicted_ms": 10.4, "error_pct": 4.0, "error_over_noise": 0.8},
    (0, 1, "throughput_tps"): {
        "model": "composite",
        "measure": "throughput_tps",
        "predicted_tps": 90.0,
        "measured_tps": 100.0,
        "error_pct": -10.0,
    },
}
"""What is written of the rows above of that model: judged means of the whole topology, of another step."""


@pytest.fixture(scope="module")
def graph(neo4j_server: Neo4jServer) -> Iterator[PlanGraph]:
    with PlanGraph(neo4j_server.uri, secret_files.read(neo4j_server.password_file)) as opened:
        yield opened


def evaluated(folder: Path, name: str, rows: Iterable[dict[str, object]] = ROWS) -> Run:
    """Three steps: few executors, many, and the same many on other workers; judged so."""
    tasks = dict.fromkeys(TOPOLOGIES["windowed"].components, 8)
    plan = TOPOLOGIES["windowed"].query_plan(tasks, Window(kind="count", length=10, slide=10), {})
    plans = [placed(plan, 2), placed(plan, 8, nodes=3), placed(plan, 8, nodes=3, first=1)]
    run = write_run(folder, plans, name)
    judge(run, rows)
    return run


def judge(run: Run, rows: Iterable[dict[str, object]]) -> None:
    """Write what ``harness report`` keeps of a run's predictions."""
    pq.write_table(pa.Table.from_pylist([*rows], ERRORS), run.path / "errors.parquet")


def predicted(graph: PlanGraph, run: Run, model: str) -> dict[tuple[int, int, str], dict[str, object]]:
    """Return what a graph says of a run's predictions, by their steps and measure."""
    rows = graph._read(
        "MATCH (:Run {id: $run})-[:STEP]->(s)-[e:PREDICTED {model: $model}]->(t)"
        " RETURN s.step AS source, t.step AS proposed, properties(e) AS said",
        run=run_id(run),
        model=model,
    )
    found = {(r["source"], r["proposed"], r["said"]["measure"]): dict(r["said"]) for r in rows}
    assert len(found) == len(rows)
    return found


def test_the_last_evaluation_is_in_the_graph(graph: PlanGraph, tmp_path: Path) -> None:
    run = evaluated(tmp_path, "judged-twice")
    for added in (3, 0):
        assert graph.add(run) == added
        found = predicted(graph, run, "composite")
        assert found.keys() == COMPOSITE.keys()
        for pair, said in found.items():
            assert said == pytest.approx(COMPOSITE[pair])
        assert predicted(graph, run, "no-change").keys() == {(0, 1, GROUND_TRUTH)}
    assert not graph.add_evaluation(run)
    judge(run, [row("composite", 2, 0, 12.0)])
    assert graph.add(run) == 0
    assert predicted(graph, run, "no-change") == {}
    assert predicted(graph, run, "composite").keys() == {(2, 0, GROUND_TRUTH)}
    judge(run, [])
    assert graph.add_evaluation(run)
    assert predicted(graph, run, "composite") == {}


def test_a_run_that_was_not_evaluated_has_none(graph: PlanGraph, tmp_path: Path) -> None:
    run = evaluated(tmp_path, "not-judged")
    (run.path / "errors.parquet").unlink()
    assert graph.add(run) == len(run.finished_steps)
    assert not graph.add_evaluation(run)
    assert predicted(graph, run, "composite") == {}


@pytest.mark.parametrize("cut", ["half", "column"])
def test_a_damaged_evaluation_is_named(graph: PlanGraph, tmp_path: Path, cut: str) -> None:
    run = evaluated(tmp_path, f"damaged-{cut}")
    path = run.path / "errors.parquet"
    if cut == "half":
        path.write_bytes(path.read_bytes()[:100])
    else:
        pq.write_table(pq.read_table(path).drop_columns(["relative_error"]), path)
    with pytest.raises(UsageError, match=r"errors\.parquet: damaged, or no Parquet file"):
        graph.add(run)
    assert predicted(graph, run, "composite") == {}


def moves(run: Run, source: int, proposed: int) -> dict[tuple[str, str], int]:
    """Return how many executors of each component moved where, and by how many it has more or fewer."""
    found = difference(RunPlans(run), source, proposed)
    changed: dict[tuple[str, str], int] = {}
    for name, (before, after) in found.executors.items():
        changed[name, "more executors" if after > before else "fewer executors"] = abs(after - before)
    for moved in found.moved:
        there, here = (label.rpartition(":")[0] for label in (moved.first, moved.second))
        place = "to another worker" if there == here else "to another node"
        component = moved.executor.partition("[")[0]
        changed[component, place] = changed.get((component, place), 0) + 1
    return changed


def test_the_questions_of_the_page_have_answers(graph: PlanGraph, tmp_path: Path) -> None:
    """What is moved between two steps is what the run directory says, too."""
    run = evaluated(tmp_path, "misjudged")
    graph.add(run)
    same_node, misjudged, by_move = (graph._read(question) for question in QUESTIONS)
    assert all(row["a.label"].startswith("spout[") for row in same_node)
    pairs = {(0, 1): 50.0, (1, 2): -20.0}
    assert [(r["source"], r["proposed"], r["error_pct"]) for r in misjudged] == [
        (f"{run_id(run)}/{s:02d}", f"{run_id(run)}/{t:02d}", error_pct) for (s, t), error_pct in pairs.items()
    ]
    of_pair = {pair: moves(run, *pair) for pair in [*pairs, (1, 0)]}
    for found, pair in zip(misjudged, pairs, strict=True):
        said = {f"{name}: {many} {what}" for (name, what), many in of_pair[pair].items()}
        assert len(found["moves"]) == len(said)
        assert set(found["moves"]) == said
    errors_pct = {**pairs, (1, 0): 4.0}
    expected = {
        move: [errors_pct[pair] for pair, found in of_pair.items() if move in found]
        for move in {move for found in of_pair.values() for move in found}
    }
    assert {(r["component"], r["what"]): r["pairs"] for r in by_move} == {
        move: len(errors) for move, errors in expected.items()
    }
    for found in by_move:
        errors = expected[found["component"], found["what"]]
        assert found["error_pct"] == pytest.approx(sum(map(abs, errors)) / len(errors), abs=0.05)
        assert found["bias_pct"] == pytest.approx(sum(errors) / len(errors), abs=0.05)
    assert [r["error_pct"] for r in by_move] == sorted((r["error_pct"] for r in by_move), reverse=True)
