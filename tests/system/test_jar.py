"""Anybody's jar on the real cluster: compiled here from a topology that knows nothing of the harness."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from campaigns import carry_out
from click.testing import CliRunner
from foreign_jars import compiled

from harness.analysis.analyse import analyse
from harness.analysis.judge.predicting import predict
from harness.app.jars import jars
from harness.backends.local.cluster import LocalCluster
from harness.cli import main
from harness.errors import ClusterError, UsageError
from harness.experiments.config import Experiment
from harness.machine.servers import ServerHomes
from harness.models import MODELS
from harness.runs import Run
from harness.storm import capturing
from harness.topologies.jar import CAPTURED_AS, JarTopology

pytestmark = pytest.mark.system


@pytest.fixture(scope="session")
def jar(server_homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("Foreign.java", server_homes, tmp_path_factory.mktemp("foreign"))


def settings(jar: Path, how: str = "plain", **topology: object) -> dict[str, object]:
    return {
        "name": f"foreign-{uuid.uuid4().hex[:8]}",
        "topology": {"jar": str(jar), "main": "Foreign", "args": ["{name}", how], "ackers": 1, **topology},
        "cluster": {"nodes": 2, "slots_per_node": 2},
        "measure": {
            "bucket_s": 1,
            "attempts": 1,
            "burn_in": {"least_s": 6, "most_s": 6, "drift_pct": 90},
            "interval": {"precision_pct": 100, "least_s": 8, "most_s": 8, "looks": 1},
        },
        "steps": {
            "plan": [{"executors": 1, "workers": 1}, {"executors": {"sum": 4, "twice": 2}, "workers": 2}]
        },
        "models": ["no-change", "linear", "jackson"],
    }


def known(jar: Path, homes: ServerHomes, how: str = "plain", **changes: object) -> Experiment:
    return capturing.known(Experiment.model_validate(settings(jar, how) | changes), homes, jars())


def refused(jar: Path, homes: ServerHomes, how: str = "plain", **topology: object) -> str:
    experiment = Experiment.model_validate(settings(jar, how, **topology))
    with pytest.raises(UsageError) as caught:
        capturing.known(experiment, homes, jars())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_main_submits_is_captured_without_a_cluster(jar: Path, server_homes: ServerHomes) -> None:
    """Components, numbers, streams and groupings of Foreign.java."""
    topology = known(jar, server_homes).topology
    assert isinstance(topology, JarTopology)
    assert topology.captured is not None
    plan = topology.query_plan()
    assert [(c.name, c.role, c.tasks) for c in plan.components] == [
        ("numbers", "spout", 2),
        ("sum", "other", 4),
        ("twice", "other", 4),
    ]
    assert {(s.source, s.target, s.grouping) for s in plan.streams} == {
        ("numbers", "twice", "shuffle"),
        ("twice", "sum", "fields"),
    }
    assert topology.captured.topology == CAPTURED_AS
    assert topology.captured.settings["topology.max.spout.pending"] == 1000
    assert topology.captured.unwrapped == {}


def test_executors_that_are_not_named_stay_as_the_jar_has_them(jar: Path, server_homes: ServerHomes) -> None:
    experiment = known(jar, server_homes)
    second = experiment.configuration(experiment.steps.plan[1])
    assert second.executors == {"numbers": 2, "sum": 4, "twice": 2}


def test_every_mistake_has_its_line(jar: Path, server_homes: ServerHomes, tmp_path: Path) -> None:
    text = tmp_path / "text.jar"
    text.write_text("not a jar")
    gone = tmp_path / "gone.jar"
    said = {
        "gone": refused(gone, server_homes),
        "text": refused(text, server_homes),
        "class": refused(jar, server_homes, main="no.such.Main"),
        "main": refused(jar, server_homes, main="Foreign$Sum"),
        "failing": refused(jar, server_homes, main="Foreign$Failing"),
        "never": refused(jar, server_homes, "never"),
        "twice": refused(jar, server_homes, "twice"),
        "tasks": refused(jar, server_homes, tasks={"sums": 3}),
        "many": refused(jar, server_homes, tasks={"sum": 3}),
        "batched": refused(jar, server_homes, batching={"sums": 5}),
        "unsent": refused(jar, server_homes, batching={"sum": 5}),
        "late": refused(jar, server_homes, batching={"twice": {"size": 5, "flush_ms": 30_000}}),
    }
    assert said["gone"] == f"topology.jar: there is no file {gone}"
    assert f"{text} is not a jar" in said["text"]
    assert said["class"] == f"no.such.Main of {jar.name}: no class no.such.Main in {jar}"
    assert said["main"].endswith("class Foreign$Sum has no public static void main(String[])")
    assert said["failing"].endswith("main failed: java.lang.IllegalStateException: no numbers today")
    assert said["never"].endswith("main submitted no topology; it said: nothing to do today")
    assert said["twice"].endswith(f"main submits more than one topology: {CAPTURED_AS} and {CAPTURED_AS}-2")
    assert "there is no component 'sums'; there are numbers, sum, twice" in said["tasks"]
    assert "4 executors of sum are more than its 3 tasks" in said["many"]
    assert said["batched"].endswith("there is no component sums; the topology has numbers, sum, twice")
    assert said["unsent"].endswith("topology.batching: nothing of sum can be batched: it has no streams")
    assert "twice waits for 30000 ms, and messages time out after 30 s" in said["late"]


def test_a_step_that_names_what_is_not_there_is_refused(jar: Path, server_homes: ServerHomes) -> None:
    with pytest.raises(UsageError, match=r"there is no component 'sums'; there are numbers, sum, twice"):
        known(jar, server_homes, steps={"plan": [{"executors": {"sums": 1}}]})


def test_a_main_that_goes_on_or_ends_the_program_has_submitted(jar: Path, server_homes: ServerHomes) -> None:
    for how in ("watch", "exit"):
        assert known(jar, server_homes, how).topology.query_plan().spouts == ("numbers",)


def test_another_jar_is_refused(jar: Path, server_homes: ServerHomes, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jar"
    copy.write_bytes(jar.read_bytes())
    begun = known(copy, server_homes)
    assert capturing.known(begun, server_homes, jars()) is begun
    copy.write_bytes(copy.read_bytes() + b"\0")
    with pytest.raises(UsageError, match="another jar than the run began with"):
        capturing.known(begun, server_homes, jars())


def test_a_name_in_use_is_one_line_and_its_owner_is_left_alone(
    jar: Path, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Main has a name of its own, and somebody's topology of that name runs: here, the first attempt's."""
    name = f"taken-{uuid.uuid4().hex[:8]}"
    asked = settings(jar, "plain", args=[name, "plain"])
    asked["steps"] = {"plan": [{"executors": 1, "workers": 1}]}

    def stop_at_once(progress: object) -> None:
        if getattr(progress, "phase", "") == "burn-in":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(asked, cluster, tmp_path / "first", stop_at_once)
    try:
        before = cluster.nimbus.topology(name)
        with pytest.raises(ClusterError, match=f"topology name {name} is in use") as refused:
            carry_out(asked, cluster, tmp_path / "second", lambda _: None)
        assert refused.value.exit_status == 1
        assert "\n" not in str(refused.value)
        after = cluster.nimbus.topology(name)
        assert (after.id, after.status) == (before.id, "ACTIVE")
    finally:
        cluster.nimbus.kill(name)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"main": "no.such.Main"}, "no class no.such.Main in"),
        ({"args": ["{name}", "never"]}, "main submitted no topology; it said: nothing to do today"),
        ({"args": ["{name}", "twice"]}, "main submits more than one topology"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_jar(
    jar: Path, server_homes: ServerHomes, tmp_path: Path, wrong: dict[str, Any], line: str
) -> None:
    del server_homes  # they are installed
    file = tmp_path / "wrong.yaml"
    file.write_text(json.dumps(settings(jar, **wrong)))
    checked = CliRunner().invoke(main, ["check", str(file)])
    assert checked.exit_code == 2
    (error,) = [said for said in checked.stderr.splitlines() if said.startswith("error: ")]
    assert line in error
    assert "Traceback" not in checked.output


def judged(run: Run) -> tuple[Mapping[str, object], Mapping[str, list[Mapping[str, object]]]]:
    predict(run, (*MODELS, "linear"))
    summary = analyse(run.path)
    verdict = json.loads((run.path / "verdict.json").read_text())
    by_check: dict[str, list[Mapping[str, object]]] = {}
    for check in verdict["checks"]:
        by_check.setdefault(check["check"], []).append(check)
    return summary, by_check


def test_a_jar_is_measured_and_judged_by_its_acks(jar: Path, cluster: LocalCluster, tmp_path: Path) -> None:
    """Two spout tasks of a number every 10 ms or more: at most 200 numbers a second, each with one fate."""
    run = carry_out(settings(jar), cluster, tmp_path, lambda _: None)
    summary, checks = judged(run)
    for step in run.finished_steps:
        quality, interval = run.quality(step), run.interval(step)
        assert quality.tracked is not None
        assert quality.tracked.balanced, str(quality.tracked)
        assert quality.tracked.failed == quality.tracked.unnamed == 0
        assert quality.tracked.acked > 0
        assert interval.latency == "ack"
        assert 0 < interval.rate_tps <= 200
        assert interval.mean_ms >= 1  # Sum alone takes that
        assert quality.ledger is None
        assert quality.plan_as_asked.ok
    trusted = [c for name in ("plan-as-asked", "tracked", "metrics", "all-steps") for c in checks[name]]
    assert all(c["status"] == "valid" for c in trusted), trusted
    for name in ("ledger", "generator", "receiver", "samples", "backlog"):
        assert all(str(c["detail"]).startswith("does not apply: ") for c in checks[name])
    assert {str(c["detail"]) for c in checks["measured-latency"]} == {
        "from the spout's emit to the ack (ack_latency_ms); there is no ground truth"
    }
    errors = summary["errors"]
    assert isinstance(errors, list)
    asked = {(e["model"], e["measure"]) for e in errors}
    assert {
        ("no-change", "ack_latency_ms"),
        ("linear", "arrival_rate_tps"),
        ("no-change", "io_ratio"),
    } <= asked
    assert "from the spout&#39;s emit to the ack" in (run.path / "report.html").read_text()


def test_batches_change_no_count(jar: Path, cluster: LocalCluster, tmp_path: Path) -> None:
    """As above, in batches between workers: numbers come one by one, and leave up to five together."""
    batching = {"numbers": {"size": 5, "flush_ms": 40}, "twice:default": {"size": 3, "flush_ms": 20}}
    run = carry_out(settings(jar, batching=batching), cluster, tmp_path, lambda _: None)
    for step in run.finished_steps:
        tracked = run.quality(step).tracked
        assert tracked is not None
        assert tracked.balanced, str(tracked)
        assert tracked.failed == 0 < tracked.acked
        metrics = pq.read_table(run.step_path(step) / "metrics.parquet").to_pandas()
        assert not metrics.stream.str.startswith("harness.").any()
        batches = metrics[metrics.measurement == "batch"].groupby(["component", "field"]).value.sum()
        sent = metrics[metrics.measurement == "transferred"].groupby("component").value.sum()
        for component, tasks, size in (("numbers", 2, 5), ("twice", 4, 3)):
            assert 0 < batches[component, "messages"] <= batches[component, "tuples"]
            # what waits at the interval's ends, for each of four tasks
            assert abs(batches[component, "tuples"] - sent[component]) <= tasks * 4 * (size - 1)
            assert batches[component, "capacity"] == size * batches[component, "messages"]
    assert sum(batches[:, "bytes_tuples"]) > 0, "the last step has two workers"


def test_without_acks_nothing_is_called_a_latency(jar: Path, cluster: LocalCluster, tmp_path: Path) -> None:
    asked = settings(jar, "untracked")
    asked["steps"] = {"plan": [{"executors": 1, "workers": 1}]}
    run = carry_out(asked, cluster, tmp_path, lambda _: None)
    _, checks = judged(run)
    assert run.interval(0).latency == "service"
    assert str(checks["measured-latency"][0]["detail"]).startswith("none: no spout tracks its messages")
    tracked = run.quality(0).tracked
    assert tracked is not None
    assert (tracked.emitted, tracked.acked) == (0, 0)
    assert tracked.unnamed > 0
