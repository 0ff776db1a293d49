"""What joins the stores to runs and questions: keys of the experiment, events, steps offered again."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import EPOCH_MS, PLAN, placed, write_run
from ports import free_port

from harness.app.store_sender import require_given
from harness.app.stores import Recorder, events_of, given_graph
from harness.errors import ClusterError, UsageError
from harness.experiments.contracts import Phase, Progress
from harness.experiments.loading import find, load
from harness.experiments.stores import MetricStore
from harness.runs import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return write_run(tmp_path, [placed(PLAN, n) for n in (1, 2)])


def test_no_server_is_the_default_and_has_no_keys() -> None:
    quick = load("quick")
    assert (quick.metrics.store, quick.plans.store) == ("embedded", "none")
    for key in ("metrics.data=x", "metrics.retention_days=3", "plans.data=x"):
        with pytest.raises(UsageError, match="has no meaning with store"):
            load("quick", [key])


def test_data_lie_beside_the_experiments_file(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    stores = "\nplans: {store: neo4j, data: here}\nmetrics: {store: influxdb, data: there}\n"
    file.write_text(find("quick").read_text() + stores)
    loaded = load(file, ["metrics.retention_days=0"])
    assert loaded.plans.data == tmp_path / "here"
    assert loaded.metrics.data == tmp_path / "there"
    assert loaded.metrics.retention_days == 0


def test_events_have_the_times_of_the_interval(run: Run) -> None:
    # made_runs: asked for at 1 s of the clock, measured from 5 s to 9 s
    assert [(e.kind, e.at_ms) for e in events_of(run, 0)] == [
        ("submit", EPOCH_MS - 4_000),
        ("start", EPOCH_MS),
        ("stop", EPOCH_MS + 4_000),
    ]
    assert events_of(run, 1)[0].kind == "rebalance"
    assert {e.run for e in events_of(run, 1)} == {f"made/{run.path.name}"}


def progress(step: int, phase: Phase) -> Progress:
    return Progress(step, 2, phase, "label")


def test_a_step_that_a_store_does_not_take_is_offered_again_at_the_end(run: Run) -> None:
    seen: list[Progress] = []
    offered: list[int] = []
    away = True

    def take(step: int) -> None:
        offered.append(step)
        if away and step == 1:
            raise ClusterError("the store is away")

    recorder = Recorder(run, seen.append, {"store": take})
    for step in (0, 1):
        recorder(progress(step, "measure"))
        recorder(progress(step, "done"))
    assert offered == [0, 1]
    assert len(seen) == 4
    with pytest.raises(ClusterError, match="the store is away"):
        recorder.finish()
    away = False
    recorder.finish()
    assert offered == [0, 1, 1, 1]


def test_what_an_earlier_attempt_measured_is_offered_at_the_end(run: Run) -> None:
    offered: list[int] = []
    recorder = Recorder(run, lambda _: None, {"store": offered.append})
    recorder(progress(1, "done"))
    recorder.finish()
    assert sorted(offered) == [0, 1]


def test_a_graph_without_a_password_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEO4J_URI", "NEO4J_PASSWORD", "NEO4J_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert given_graph() is None
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:7687")
    with pytest.raises(UsageError, match="set NEO4J_PASSWORD or NEO4J_PASSWORD_FILE"):
        given_graph()


def test_an_influxdb_that_does_not_answer_ends_the_command_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFLUXDB_TOKEN", "any")
    metrics = MetricStore(store="influxdb", url=f"http://127.0.0.1:{free_port()}", org="o", bucket="b")
    with pytest.raises(UsageError, match="takes no points for o/b: Connection refused") as refused:
        require_given(metrics, "quick")
    assert len(str(refused.value).splitlines()) == 1
    monkeypatch.delenv("INFLUXDB_TOKEN")
    with pytest.raises(UsageError, match="no token for it: set INFLUXDB_TOKEN"):
        require_given(metrics, "quick")
