"""Plans in a real Neo4j: the same answers as from the run directory, whatever is imported how often."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_runs import placed, write_run
from neo4j import GraphDatabase
from ports import free_port

from harness.analysis.plan_answers import RunPlans, answers, difference
from harness.backends.neo4j import store as neo4j_backend
from harness.backends.neo4j.plan_rows import GRAPH_VERSION, RanPlan, physical_plan_id, run_id
from harness.backends.neo4j.server import Neo4jServer
from harness.backends.neo4j.store import PlanGraph, set_first_password
from harness.cli import main
from harness.errors import ClusterError, UsageError
from harness.machine import sandbox, secret_files
from harness.machine.companions import RESTARTS
from harness.machine.servers import quiet
from harness.plans import Window
from harness.runs import Run
from harness.topologies import TOPOLOGIES

pytestmark = pytest.mark.system

ARCHIVED = sorted((Path(__file__).resolve().parents[2] / "reports" / "runs").glob("*/*/environment.json"))


@pytest.fixture(scope="module")
def password(neo4j_server: Neo4jServer) -> str:
    return secret_files.read(neo4j_server.password_file)


@pytest.fixture(scope="module")
def graph(neo4j_server: Neo4jServer, password: str) -> Iterator[PlanGraph]:
    with PlanGraph(neo4j_server.uri, password) as opened:
        yield opened


def made(folder: Path, topology: str) -> Run:
    """Three steps: few executors, many, and the same many on other workers."""
    tasks = dict.fromkeys(TOPOLOGIES[topology].components, 8)
    plan = TOPOLOGIES[topology].query_plan(tasks, Window(kind="count", length=10, slide=10), {})
    plans = [placed(plan, 2), placed(plan, 8, nodes=3), placed(plan, 8, nodes=3, first=1)]
    return write_run(folder, plans, topology)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp("runs")
    archived = [Run(path.parent) for path in ARCHIVED]
    return [*(made(folder, topology) for topology in TOPOLOGIES), *archived]


def everything(graph: PlanGraph) -> tuple[int, int, str]:
    """How many nodes and relationships there are, and a digest of all that is in them."""
    nodes = graph._read(
        "MATCH (n) RETURN labels(n) AS labels, properties(n) AS found, coalesce(n.id, n.name) AS id"
        " ORDER BY id"
    )
    relationships = graph._read(
        "MATCH (a)-[r]->(b) RETURN a.id AS source, type(r) AS kind, properties(r) AS found, b.id AS target"
        " ORDER BY source, kind, target, r.stream, r.model, r.measure"
    )
    text = json.dumps([nodes, relationships], sort_keys=True)
    return len(nodes), len(relationships), hashlib.sha256(text.encode()).hexdigest()


def test_the_answers_are_those_of_the_run_directory(graph: PlanGraph, runs: list[Run]) -> None:
    for run in runs:
        assert graph.add(run) == len(run.finished_steps)
        there, here = graph.plans(run), RunPlans(run)
        assert there.steps() == here.steps() == run.finished_steps
        for step in here.steps():
            assert answers(there, step, 20) == answers(here, step, 20)
            assert there.ends(step) == here.ends(step)
            assert sorted(there.connections(step)) == sorted(here.connections(step))
        for first, second in [*pairwise(here.steps()), (0, 0)]:
            assert difference(there, first, second) == difference(here, first, second)
        with pytest.raises(UsageError, match="there is no finished step 99"):
            answers(there, 99)


def test_importing_again_changes_nothing(graph: PlanGraph, runs: list[Run]) -> None:
    for run in runs:
        graph.add(run)
    before = everything(graph)
    for run in runs:
        assert graph.add(run) == 0
    assert everything(graph) == before


def test_equal_plans_are_one(graph: PlanGraph, tmp_path: Path) -> None:
    # the last step of a made run ends with the plan that the first one began with
    run = made(tmp_path, "windowed")
    graph.add(run)
    (row,) = graph._read(
        "MATCH (:Run {id: $run})-[:STEP]->(s) MATCH (s)-[:STARTED_WITH|ENDED_WITH]->(p)"
        " RETURN count(DISTINCT p) AS plans, count(DISTINCT s) AS steps",
        run=run_id(run),
    )
    assert (row["steps"], row["plans"]) == (3, 3)
    # an archived run may have another number of tasks, and so another query plan
    (row,) = graph._read(
        "MATCH (:Topology {id: 'windowed'})<-[:OF]-(q:QueryPlan)-[:HAS]->(c {name: 'spout', tasks: 8})"
        " RETURN count(q) AS query_plans"
    )
    assert row["query_plans"] == 1


def test_a_plan_is_there_whole_or_not_at_all(
    graph: PlanGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path / "other", "join-split")
    before = everything(graph)
    written = neo4j_backend.step_statements

    def fails_at_the_end(run: Run, step: int) -> Iterator[tuple[str, Any]]:
        yield from written(run, step)
        yield "UNWIND $rows AS row RETURN 1 / row.zero", [{"zero": 0}]

    monkeypatch.setattr(neo4j_backend, "step_statements", fails_at_the_end)
    with pytest.raises(ClusterError, match=r"cannot write the plans of step 0: .*/ by zero"):
        graph.add(run)
    assert everything(graph) == before


def test_plans_that_ran_come_back_with_their_times(graph: PlanGraph, tmp_path: Path) -> None:
    """One of them twice; of another cluster, or another query plan of that name, nothing comes."""
    run = made(tmp_path, "windowed")
    plans = [run.plan(step).start for step in (0, 1, 0)]
    ran = [RanPlan(1_000 + n, "applied", plan) for n, plan in enumerate(plans)]
    other = made(tmp_path, "join-split").plan(0).start
    for one in (*ran, RanPlan(1_009, "applied", other)):
        assert graph.add_ran(one, "kept-here", "one:6627")
        assert not graph.add_ran(one, "kept-here", "one:6627")
    found = graph.ran("kept-here", "one:6627", plans[0].query_plan)

    def named(plans: Iterable[RanPlan]) -> list[tuple[int, str, str]]:
        return [(one.at_epoch_ms, one.seen, physical_plan_id(one.plan)) for one in plans]

    assert named(found) == named(ran)
    assert graph.ran("kept-here", "another:6627", plans[0].query_plan) == ()


def test_two_runs_of_one_name_are_not_mixed(graph: PlanGraph, tmp_path: Path) -> None:
    run = made(tmp_path, "multiplier")
    graph.add(run)
    environment = run.path / "environment.json"
    environment.write_text(environment.read_text().replace('"commit": "c"', '"commit": "d"'))
    with pytest.raises(UsageError, match=f"has another run that is called {run_id(run)}"):
        graph.add(Run(run.path))


def test_a_graph_of_another_version_is_left_alone(
    neo4j_server: Neo4jServer,
    graph: PlanGraph,
    password: str,
    runs: list[Run],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del graph  # it has made the database a graph of plans
    monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
    monkeypatch.setenv("NEO4J_PASSWORD_FILE", str(neo4j_server.password_file))

    def set_version(version: int) -> None:
        with GraphDatabase.driver(neo4j_server.uri, auth=("neo4j", password)) as driver:
            driver.execute_query("MATCH (g:PlanGraph) SET g.version = $version", version=version)

    set_version(GRAPH_VERSION + 1)
    try:
        with pytest.raises(UsageError) as refused:
            PlanGraph(neo4j_server.uri, password)
        asked = CliRunner().invoke(main, ["plans", str(runs[0].path), "--from", "neo4j"])
    finally:
        set_version(GRAPH_VERSION)
    assert asked.exit_code == 2
    assert f"error: {refused.value}" in asked.stderr
    assert str(refused.value) == (
        f"neo4j at {neo4j_server.uri}: its plans are of schema version {GRAPH_VERSION + 1}, this harness"
        f" reads and writes {GRAPH_VERSION}: use the harness that wrote them, or another database"
    )


def test_a_wrong_password_is_one_line_without_it(neo4j_server: Neo4jServer) -> None:
    with pytest.raises(UsageError, match="refuses the user or the password") as refused:
        PlanGraph(neo4j_server.uri, "wrong-s3cret")
    assert "\n" not in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_server_that_is_not_there_is_one_line() -> None:
    with pytest.raises(ClusterError, match=r"neo4j at bolt://127.0.0.1:1: cannot connect: ") as gone:
        PlanGraph("bolt://127.0.0.1:1", "any")
    assert "\n" not in str(gone.value)


def test_the_command_answers_the_same_from_both(
    neo4j_server: Neo4jServer, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
    monkeypatch.setenv("NEO4J_PASSWORD_FILE", str(neo4j_server.password_file))
    run = runs[0]
    said = {}
    for source in ("auto", "run"):
        arguments = ["plans", str(run.path), "--from", source, "--difference", "0", "1", "--json"]
        done = CliRunner().invoke(main, [*arguments, "--step", "0", "--step", "2", "--list-paths", "3"])
        assert done.exit_code == 0, done.output
        said[source] = json.loads(done.stdout.splitlines()[-1])
    assert said["auto"].pop("from") == "neo4j"
    assert said["run"].pop("from") == "run directory"
    assert said["auto"] == said["run"]
    assert [s["step"] for s in said["run"]["steps"]] == [0, 2]


def test_killed_it_is_started_again_with_all_its_plans(neo4j_home: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    server = Neo4jServer(neo4j_home, tmp_path / "data", set_first_password, free_port())
    server.start(logs, quiet)
    try:
        password = secret_files.read(server.password_file)
        assert server.password_file.stat().st_mode & 0o777 == 0o600
        other = Neo4jServer(neo4j_home, tmp_path / "data", set_first_password, free_port())
        with pytest.raises(UsageError, match="another neo4j has its data there"):
            other.start(logs, quiet)
        run = made(tmp_path, "fields-to-fields")
        with PlanGraph(server.uri, password) as graph:
            graph.add(run)
            before = everything(graph)
        os.kill(server.pid, signal.SIGKILL)
        assert server._process is not None
        server._process._process.wait()
        server.check()
        server._process.wait_ready(server.answers, 120)
        with PlanGraph(server.uri, password) as graph:
            assert everything(graph) == before
            assert graph.add(run) == 0
        # one that dies again and again is not started for ever
        server._restarts = RESTARTS
        os.kill(server.pid, signal.SIGKILL)
        server._process._process.wait()
        with pytest.raises(ClusterError, match="neo4j stopped with signal SIGKILL"):
            server.check()
    finally:
        server.stop()
    said = "".join(
        p.read_text(errors="replace") for p in (*logs.iterdir(), *(tmp_path / "data/logs").iterdir())
    )
    assert password not in said
    assert password not in (tmp_path / "data/conf/neo4j.conf").read_text()


def test_this_machines_own_is_started_for_the_question(neo4j_home: Path, tmp_path: Path) -> None:
    run = made(tmp_path, "all-in-one")
    environment = {k: v for k, v in os.environ.items() if k != sandbox.MARK and not k.startswith("NEO4J_")}
    environment["XDG_DATA_HOME"] = str(tmp_path / "data")
    said: dict[str, Any] = {}
    for source in ("neo4j", "run"):
        command = ["plans", str(run.path), "--from", source, "--difference", "0", "1", "--json"]
        asked = subprocess.run(
            [sys.executable, "-m", "harness", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert asked.returncode == 0, asked.stderr
        said[source] = json.loads(asked.stdout.splitlines()[-1])
        assert said[source].pop("from") == {"neo4j": "neo4j", "run": "run directory"}[source]
    assert said["neo4j"] == said["run"]
    password = tmp_path / "data" / "storm-harness" / "neo4j" / "password"
    assert password.stat().st_mode & 0o777 == 0o600
