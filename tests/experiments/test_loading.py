"""Experiment files: what is accepted, and the one line that each mistake gets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import dump, expand_steps, files, load, shipped_folders
from harness.experiments.preflight import findings

GOOD = """\
name: quick
topology:
  name: fields-to-fields
  load_aware: false
workload: {rate_tps: 100}
cluster: {nodes: 1, slots_per_node: 2}
steps:
  plan:
    - executors: 1
    - executors: 2
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


PROVISIONED = str(Path(__file__).resolve().parent.parent.parent / "configs/clusters/namespaces-3.yaml")
WITHOUT = PROVISIONED.replace("-3", "-4")


def test_a_provisioned_cluster_gives_its_name_and_shape(good: Path) -> None:
    good.write_text(GOOD.replace("{nodes: 1, slots_per_node: 2}", PROVISIONED))
    cluster = load(good).cluster
    assert (cluster.kind, cluster.name) == ("remote", "namespaces-3")
    assert cluster.file == PROVISIONED
    assert (cluster.nodes, cluster.slots_per_node, cluster.worker_heap_mb) == (2, 2, 256)
    again = good.with_name("again.yaml")
    again.write_text(dump(load(good)))
    assert load(again) == load(good)


@pytest.mark.parametrize(
    ("cluster", "more", "complaint"),
    [
        ("nowhere.yaml", "", "good.yaml:6: cluster: there is no file nowhere.yaml"),
        ("{kind: remote}", "", "give the file of a provisioned cluster"),
        (WITHOUT, "plans: {store: neo4j}\n", "plans.store: neo4j: no host of the cluster namespaces-4 has"),
        (
            WITHOUT,
            "metrics: {store: influxdb}\n",
            "metrics.store: influxdb: no host of the cluster namespaces-4",
        ),
    ],
)
def test_a_provisioned_cluster_that_cannot_be(good: Path, cluster: str, more: str, complaint: str) -> None:
    good.write_text(GOOD.replace("{nodes: 1, slots_per_node: 2}", cluster) + more)
    with pytest.raises(UsageError) as raised:
        load(good)
    assert complaint in str(raised.value)


def all_shipped() -> list[Path]:
    return sorted(shipped_folders()[0].rglob("*.yaml"))


@pytest.mark.parametrize("path", all_shipped(), ids=lambda p: p.stem)
def test_every_shipped_experiment_loads_and_says_what_it_follows(path: Path) -> None:
    experiment = load(path)
    assert expand_steps(experiment)
    assert path.read_text().startswith("#")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["topology.groupings={spout->bolt-a: custom}"],
            "only the topology of a jar can have custom grouping",
        ),
        (["topology.producer.compression.type=snappy"], "compression.type snappy is not in the jar"),
        (["topology.spout.consumer.group.id=mine"], "spout.consumer: group.id is set by the harness"),
        (
            ["steps.plan=[{executors: 1, workers: 8}]", "topology.ackers=1", "cluster.slots_per_node=8"],
            "8 workers are more than all 6 executors",  # four components, an acker, a metrics consumer
        ),
    ],
)
def test_what_a_submission_would_refuse_is_refused_before_anything_starts(
    options: list[str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        load("quick", options)


def test_one_of_the_harnesss_topologies_needs_a_workload(good: Path) -> None:
    good.write_text(GOOD.replace("workload: {rate_tps: 100}\n", ""))
    with pytest.raises(UsageError, match="workload: the key is missing"):
        load(good)


def test_appendix_e_is_as_printed() -> None:
    """Nodes, workers, rates, multiplier and windows of appendix E (tables E.1 to E.5)."""
    printed = {  # nodes, workers, messages/s
        "f2f-1": (2, 4, 16),
        "f2f-2": (4, 8, 16),
        "multiplier-1": (2, 4, 16),
        "windowed-1": (2, 4, 16),
        "all-in-one-1": (3, 6, 50),
        "fish-1": (4, 8, 50),
        "fish-2": (4, 8, 50),
    }
    for name, (nodes, workers, rate) in printed.items():
        e = load(f"appendix-e/{name}")
        assert (e.cluster.nodes, e.slots, e.workload.rate_tps) == (nodes, workers, rate)
        assert e.measure.bucket_s == 2
        assert set(e.topology.task_counts().values()) == {16}
        assert [set(s.configuration.executors.values()) for s in expand_steps(e)] == [
            {1},
            {2},
            {4},
            {8},
            {16},
        ]
    assert load("appendix-e/fish-1").topology.window.length == 100
    assert load("appendix-e/fish-2").topology.window.kind == "time"
    assert load("appendix-e/fish-2").topology.window.length == 2000
    aio = load("appendix-e/all-in-one-1").topology
    assert (aio.multiplier.min, aio.multiplier.max, aio.multiplier.mean, aio.multiplier.sd) == (
        1,
        20,
        10,
        1.0,
    )
    assert aio.window.length == 10


def test_what_is_dumped_loads_to_the_same(good: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.yaml"
    again.write_text(dump(load(good)))
    assert load(again) == load(good)


def test_set_takes_storms_and_kafkas_own_names_with_their_dots(good: Path) -> None:
    given = ("topology.storm.topology.transfer.batch.size=100", "topology.producer.linger.ms='3'")
    found = load(good, given).topology
    assert found.storm["topology.transfer.batch.size"] == 100
    assert found.producer["linger.ms"] == "3"
    with pytest.raises(UsageError, match=r"topology\.workers is set by the harness"):
        load(good, ["topology.storm.topology.workers=3"])


def test_set_replaces_a_key_by_its_dotted_name(good: Path) -> None:
    e = load(good, ["workload.rate_tps=7", "steps.plan.1.executors=4", "measure.interval.most_s=99"])
    assert (e.workload.rate_tps, e.steps.plan[1].executors, e.measure.interval.most_s) == (7, 4, 99)


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("name: quick", "name: quick\ncolour: red"), 2, "unknown key 'colour'"),
        (
            ("  name: fields-to-fields", "  name: fields-to-fields\n  speed: 3"),
            4,
            "unknown key 'topology.speed'",
        ),
        (("rate_tps: 100", "rate_tps: fast"), 5, "valid number"),
        (("rate_tps: 100", "rate_tps: 0"), 5, "greater than or equal to 0.001"),
        (("rate_tps: 100", "rate_tps: -1"), 5, "greater than or equal to 0.001"),
        (("rate_tps: 100", "rate_tps: .inf"), 5, "finite number"),
        (("rate_tps: 100", "rate_tps: 100, keys: {}"), 5, "at least 1 item"),
        (("  load_aware: false\n", ""), 2, "'topology.load_aware' is missing"),
        (("fields-to-fields", "rings"), 2, "unknown topology 'rings'"),
        (("- executors: 2", "- executors: 17"), 10, "more than its 16 tasks"),
        (("- executors: 2", "- {executors: 2, workers: 3}"), 10, "more than the cluster's 2 slots"),
        (("- executors: 2", "- executors: {spout: 2}"), 10, "must name each of"),
        (
            ("load_aware: false", "load_aware: false\n  window: {kind: count, length: 3, slide: 3}"),
            2,
            "no use for",
        ),
        (("steps:", "measure: {burn_in: {least_s: 9, most_s: 3}}\nsteps:"), 7, "more than most_s"),
        (("steps:", "measure: {burn_in: {least_s: .inf, most_s: .inf}}\nsteps:"), 7, "finite number"),
        (("steps:", "measure: {bucket_s: 7}\nsteps:"), 7, "interval.least_s 30 must hold at least 5 buckets"),
        (("rate_tps: 100", "rate_tps: 100, payload_bytes: 1000001"), 5, "less than or equal to 1000000"),
        (("rate_tps: 100", "rate_tps: 100, arrivals: trace, trace: /no/such"), 5, "no file"),
        (("rate_tps: 100", "rate_tps: [100"), 5, "not readable as YAML"),
        (("rate_tps: 100", "rate_tps: 100, seed: -1"), 5, "greater than or equal to 0"),
        (
            ("load_aware: false", "load_aware: false\n  storm: {topology.acker.executors: 3}"),
            2,
            "topology.acker.executors is set by the harness; its key is topology.ackers",
        ),
        (
            ("load_aware: false", "load_aware: false\n  storm: {topology.bolt.wait.park.microsec: 3}"),
            2,
            "its key is topology.waiting",
        ),
    ],
)
def test_each_mistake_gets_one_line_with_file_and_line(
    tmp_path: Path, change: tuple[str, str], line: int, message: str
) -> None:
    path = tmp_path / "bad.yaml"
    assert change[0] in GOOD
    path.write_text(GOOD.replace(*change, 1))
    with pytest.raises(UsageError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}:{line}: "), text
    assert message in text
    assert "\n" not in text
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("rate", "expected KEY=VALUE"),
        ("steps.plan.7.executors=1", "not one of the list's 2 positions"),
        ("name.first=x", "no keys"),
        ("wurkload.rate_tps=1", "unknown key 'wurkload'"),
        ("workload.rate_tps=[1", "not readable as YAML"),
        ("cluster.nodes=21", "less than or equal to 20"),
    ],
)
def test_a_bad_option_is_named(good: Path, option: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(good, [option])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["workload.rate_tps=fast"],
            "--set workload.rate_tps=fast: workload.rate_tps: Input should be a valid",
        ),
        (["workload.rat=5"], "--set workload.rat=5: unknown key 'workload.rat'"),
        (["wurkload.rate_tps=1"], "--set wurkload.rate_tps=1: unknown key 'wurkload'"),
        (["cluster=my.yaml"], "--set cluster=my.yaml: cluster: there is no file my.yaml"),
        (["steps.plan.1.executors=17"], "--set steps.plan.1.executors=17: steps.plan.1: 17 executors"),
        # what breaks another key's value is named, not the line of that key
        (["workload.rate_tps=7", "topology.tasks=1"], "--set topology.tasks=1: steps.plan.1: 2 executors"),
        (["measure.burn_in={least_s: 9, most_s: 3}"], "--set measure.burn_in={least_s: 9, most_s: 3}: "),
        # of two that give one key the last is in force
        (["workload.rate_tps=1", "workload.rate_tps=0"], "--set workload.rate_tps=0: "),
        (["topology.storm.topology.workers=3"], "--set topology.storm.topology.workers=3: "),
    ],
)
def test_what_an_option_breaks_names_the_option(good: Path, options: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(good, options)
    assert str(caught.value).startswith(said)
    assert str(good) not in str(caught.value)


def test_what_the_file_has_wrong_names_its_line_whatever_the_options_are(good: Path) -> None:
    good.write_text(GOOD.replace("rate_tps: 100", "rate_tps: 0"))
    with pytest.raises(UsageError, match=r"good\.yaml:5: workload\.rate_tps"):
        load(good, ["steps.repeats=3"])
    assert load(good, ["workload.rate_tps=3"]).workload.rate_tps == 3


def test_a_trace_lies_beside_its_experiment(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (good.parent / "sends.txt").write_text("0\n0.01\n")
    good.write_text(GOOD.replace("rate_tps: 100", "rate_tps: 100, arrivals: trace, trace: sends.txt"))
    elsewhere = good.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert load(good).workload.trace == good.parent / "sends.txt"


def test_a_run_keeps_its_trace_and_can_be_read_elsewhere(good: Path, tmp_path: Path) -> None:
    trace = good.parent / "sends.txt"
    trace.write_text("0\n0.01\n")
    experiment = load(good, ["workload.arrivals=trace", f"workload.trace={trace}"])
    run = tmp_path / "moved"
    run.mkdir()
    for name, text in files(experiment).items():
        (run / name).write_text(text)
    trace.unlink()
    again = load(run / "experiment.yaml")
    assert again.workload.trace == run / "trace.txt"
    assert again.workload.trace.read_text() == "0\n0.01\n"
    assert again.topology == experiment.topology


def test_a_trace_must_have_the_rate_that_is_named(good: Path) -> None:
    """A trace of 2 messages in 0.02 s has 100 a second, and no step is so short."""
    trace = good.parent / "sends.txt"
    trace.write_text("0\n0.02\n")
    options = ["workload.arrivals=trace", f"workload.trace={trace}"]
    (short,) = (f for f in findings(load(good, options)) if f.key.startswith("workload"))
    assert (short.severity, short.key) == ("warning", "workload.trace")
    assert "ends after 0.02 s" in short.message
    wrong, _ = (f for f in findings(load(good, [*options, "workload.rate_tps=50"])) if "trace" in str(f))
    assert (wrong.severity, wrong.key) == ("error", "workload.rate_tps")
    assert "has 100 messages a second, not 50" in wrong.message


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match="no such experiment"):
        load("nowhere/none.yaml")


def test_repeats_are_whole_rounds_and_shuffling_is_by_seed(good: Path) -> None:
    def specs(e: Experiment) -> list[int]:
        return [s.spec for s in expand_steps(e)]

    listed = load(good, ["steps.repeats=3"])
    assert specs(listed) == [0, 1, 0, 1, 0, 1]
    shuffled = load(good, ["steps.repeats=8", "steps.order=shuffled"])
    assert specs(shuffled) == specs(shuffled)
    assert all(sorted(specs(shuffled)[i : i + 2]) == [0, 1] for i in range(0, 16, 2))
    assert specs(shuffled) != specs(load(good, ["steps.repeats=8"]))
    labels = {s.label for s in expand_steps(listed)}
    assert len(labels) == 2


@pytest.mark.parametrize(
    ("batching", "complaint"),
    [
        ("{sauce: 5}", "topology: batching: there is no component 'sauce'; there are spout, bolt-a, bolt-b"),
        (
            '{"spout:more": 5}',
            "batching: spout has no stream 'more' that anybody subscribes to; it has default",
        ),
        ("{sender: 5}", "batching: sender sends nothing that could be batched"),
        ("{spout: 0}", "topology.batching.spout.size: Input should be greater than or equal to 1 (it is 0)"),
        (
            "{spout: {size: 5, flush_ms: -1}}",
            "topology.batching.spout.flush_ms: Input should be greater than",
        ),
        ("{spout: {size: 5, flush: 1}}", "topology.batching.spout.flush"),
        (
            "{spout: {size: 5, flush_ms: 120000}}",
            "batching: spout waits for 120000 ms, and messages time out",
        ),
    ],
)
def test_batches_that_cannot_be_are_one_line(good: Path, batching: str, complaint: str) -> None:
    good.write_text(GOOD.replace("  load_aware: false\n", f"  load_aware: false\n  batching: {batching}\n"))
    with pytest.raises(UsageError) as error:
        load(good)
    assert complaint in error.value.message
    assert "\n" not in error.value.message


def test_a_number_of_batching_is_a_size(good: Path) -> None:
    batching = '{spout: 50, bolt-a: {size: 20, flush_ms: 7}, "bolt-b:default": 10}'
    good.write_text(GOOD.replace("  load_aware: false\n", f"  load_aware: false\n  batching: {batching}\n"))
    sizes = {key: (rule.size, rule.flush_ms) for key, rule in load(good).topology.batching.items()}
    assert sizes == {"spout": (50, 5), "bolt-a": (20, 7), "bolt-b:default": (10, 5)}
    again = good.with_name("again.yaml")
    again.write_text(dump(load(good)))
    assert load(again) == load(good)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"store": "influxdb", "url": "http://h:1"}, "url, org and bucket go together"),
        ({"store": "influxdb", "org": "o", "bucket": "b"}, "url, org and bucket go together"),
        ({"store": "embedded", "url": "http://h:1", "org": "o", "bucket": "b"}, "no meaning with store"),
        ({"store": "influxdb", "url": "h:1", "org": "o", "bucket": "b"}, "metrics.url"),
        ({"store": "influxdb", "url": "http://me:secret@h", "org": "o", "bucket": "b"}, "metrics.url"),
        (
            {"store": "influxdb", "url": "http://h", "org": "o", "bucket": "b", "retention_days": 1},
            "no meaning with url",
        ),
    ],
)
def test_an_influxdb_that_is_there_is_named_whole(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        load("quick", [f"metrics={json.dumps(given)}"])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("workload.changes=[{at_s: 9, rate_tps: 5}, {at_s: 9, rate_tps: 7}]", "at_s 9 does not come after 9"),
        ("workload.changes=[{at_s: 60, rate_tps: 5}]", "changes: at_s 60 is not in an interval of 60 s"),
        ("workload.changes=[{at_s: 9, rate_tps: 0}]", "workload.changes.0.rate_tps"),
        (
            "steps.plan=[{executors: 1, changes: [{at_s: 99, rate_tps: 5}]}]",
            "steps.plan.0.changes: at_s 99 is not in an interval of 60 s",
        ),
        (
            "steps.plan=[{executors: 1, changes: [{at_s: 9, rate_tps: 5}]},"
            " {executors: 1, scheduler: even, from: 0}]",
            "from: step 0 changes its rate, so nothing can be read of it",
        ),
    ],
)
def test_changes_of_the_rate_that_cannot_be_are_refused(good: Path, option: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(good, [option])


def test_a_precision_that_no_number_of_messages_reaches_is_refused(good: Path) -> None:
    with pytest.raises(UsageError, match=r"measure\.interval\.precision_pct"):
        load(good, ["measure.interval.precision_pct=1e-300"])


def test_a_trace_has_its_own_rate(good: Path) -> None:
    trace = good.with_name("trace.txt")
    trace.write_text("0\n1\n")
    changes = "[{at_s: 9, rate_tps: 5}]"
    workload = f"workload={{rate_tps: 2, arrivals: trace, trace: '{trace}'"
    for options in (
        [f"{workload}, changes: {changes}}}"],
        [f"{workload}}}", f"steps.plan.0.changes={changes}"],
    ):
        with pytest.raises(UsageError, match="a trace has its own rate"):
            load(good, options)


def test_a_step_s_changes_go_before_the_workload_s(good: Path) -> None:
    options = ["workload.changes=[{at_s: 9, rate_tps: 50}]", "steps.plan.1.changes=[]"]
    first, second = expand_steps(load(good, options))
    assert (first.rate, first.label) == ("100 messages/s, 50 from 9 s", "spec-0/1x2@100>50")
    assert (second.changes, second.label) == ((), "spec-1/2x2@100")
