"""What is kept of a submitted topology, plans' files, and what a model says of one from its last metrics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from left_running import STEP, archived, left_running

from harness.app.submitted.cluster_named import read_cluster
from harness.app.submitted.folder import KeptPlan, TrackRecord, find, known
from harness.app.submitted.observing import RowSpan, look_ahead, mean_ack_ms
from harness.app.submitted.plan_file import AskedPlan, differences, labels, plan_text, read_plan
from harness.app.submitted.submitting import configuration_of, write_url
from harness.errors import UsageError
from harness.experiments.stores import MetricStore
from harness.plans import TopologyConfiguration
from harness.runs import read_table

SPEC = "{kind: running, nimbus: 'a:6627', kafka: 'b:9092'}"


class Rows:
    """A step's metrics as a store (``harness.experiments.contracts.Metrics``)."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def rows(self, since_ms: int, until_ms: int) -> pa.Table:
        end = self._table["bucket_end_ms"]
        return self._table.filter(pc.and_(pc.greater(end, since_ms), pc.less_equal(end, until_ms)))

    def texts(self, measurement: str, since_ms: int) -> list[Mapping[str, object]]:
        del measurement, since_ms
        return []

    def forget(self, until_ms: int) -> None:
        del until_ms


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_all_that_is_kept_comes_back(tmp_path: Path) -> None:
    made = left_running(tmp_path)
    first = made.plan
    later = KeptPlan(at_epoch_ms=first.at_epoch_ms + 9, seen="applied", plan=archived().plan(1).start)
    made.keep_plan(later)
    record = TrackRecord(
        at_epoch_ms=first.at_epoch_ms + 9,
        asked=TopologyConfiguration(executors={"b": 2}, workers=1),
        placed=False,
        model="composite",
        rate_tps=50,
        before_ms=9.0,
        predicted_ms=8.0,
        low_ms=7.0,
        high_ms=9.0,
        measured_ms=None,
        half_width_ms=None,
        outcome="taken back",
        reason="nothing came out",
    )
    made.keep_record(record)
    again = find(tmp_path, "words-of-storm")
    assert again.path == made.path == find(tmp_path, "words").path
    assert (again.plans, again.plan, again.applied) == ((first, later), later, (record,))
    assert again.settings().version == "2.8.3"
    assert list(known(tmp_path)) == ["words"]


def test_what_is_missing_or_broken_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no topology 'words' was submitted"):
        find(tmp_path, "words")
    made = left_running(tmp_path)
    (made.path / "submitted.json").write_text("{")
    with pytest.raises(UsageError, match=r"submitted\.json: cannot be used"):
        _ = made.facts


def test_a_cluster_is_named_by_a_mapping_or_a_file(tmp_path: Path) -> None:
    assert read_cluster(SPEC).kafka == "b:9092"
    assert read_cluster(str(written(tmp_path / "alone.yaml", SPEC))).nimbus == "a:6627"
    assert read_cluster(str(written(tmp_path / "key.yaml", f"cluster: {SPEC}"))).nimbus == "a:6627"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{kind: local}", "topologies are left on clusters that others run"),
        ("{kind: running, nimbus: here, kafka: 'b:1'}", "nimbus: String should match pattern"),
        ("{kind: running, nimbus: 'a:1', kafka: 'b:1', nodes: 2}", "nodes: leave it out"),
        ("{kind: [", "not readable as YAML"),
    ],
)
def test_another_cluster_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_cluster(text)


def test_lines_are_posted_to_the_bucket_that_is_named() -> None:
    store = MetricStore(store="influxdb", url="http://h:8086/", org="a b", bucket="c&d")
    assert write_url(store) == "http://h:8086/api/v2/write?org=a+b&bucket=c%26d&precision=ns"


def test_a_plan_is_read_as_it_is_written(tmp_path: Path) -> None:
    running = archived().plan(STEP).start
    asked = AskedPlan(executors={"bolt-a": 2}, workers=1, source=labels(running))
    assert read_plan(written(tmp_path / "plan.yaml", plan_text(asked))) == asked
    placed = AskedPlan(placement=labels(running))
    assert read_plan(written(tmp_path / "placed.yaml", plan_text(placed))) == placed
    bare = "".join(f'"{executor}": "{worker}"\n' for executor, worker in labels(running).items())
    assert read_plan(written(tmp_path / "bare.yaml", bare)) == placed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "holds no plan"),
        ("{from: {'a[1-1]': 'n:1'}}", "it asks for nothing"),
        ("{executors: {a: 0}}", r"executors\.a: Input should be greater than"),
        ("{workers: 1, placement: {'a[1-1]': 'n:1'}}", "placement says executors and workers by itself"),
        ("{exekutors: {a: 1}}", "unknown key 'exekutors'"),
    ],
)
def test_what_is_no_plan_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_plan(written(tmp_path / "plan.yaml", text))


def test_a_proposed_plan_has_the_counts_that_are_asked_and_keeps_the_others() -> None:
    running = archived().plan(STEP).start
    name = running.query_plan.components[1].name
    now = configuration_of(running)
    plan = AskedPlan(executors={name: now.executors[name] + 1}).proposed(running)
    assert configuration_of(plan).executors == {**now.executors, name: now.executors[name] + 1}
    assert len(plan.workers) == now.workers
    assert labels(AskedPlan(placement=labels(running)).proposed(running)) == labels(running)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (AskedPlan(executors={"nobody": 1}), "there is no component nobody"),
        (AskedPlan(executors={"bolt-a": 10_000}), "10000 executors of bolt-a are asked for"),
        (AskedPlan(workers=1_000), "1000 workers are more than"),
        (AskedPlan(placement={"bolt-a[1-1]": "nowhere:1"}), "bolt-a"),
    ],
)
def test_what_cannot_run_is_refused(asked: AskedPlan, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked.proposed(archived().plan(STEP).start)


def test_a_plan_that_is_another_one_is_told_by_its_executors() -> None:
    one, other = archived().plan(STEP).start, archived().plan(1).start
    assert differences(labels(one), one) == ""
    assert differences(labels(one), other)


def test_a_model_predicts_from_the_last_metrics(tmp_path: Path) -> None:
    """The mean before is that of the acks in the span; the interval holds the model's own mean."""
    run, topology = archived(), left_running(tmp_path)
    interval = run.interval(STEP)
    table = read_table(run.step_path(STEP) / "metrics.parquet")
    span = RowSpan(interval.start_epoch_ms, interval.end_epoch_ms)
    running, proposed = topology.plan.plan, run.plan(1).start
    seen = look_ahead(topology, Rows(table), running, proposed, span, "composite")
    acks = table.to_pandas().query(
        "measurement == 'ack' and @span.since_ms < bucket_end_ms <= @span.until_ms"
    )
    of = {field: acks.loc[acks["field"] == field, "value"].sum() for field in ("count", "sum_ns")}
    assert seen.before_ms == pytest.approx(of["sum_ns"] / of["count"] / 1e6)
    assert 0 < seen.low_ms <= seen.predicted_ms <= seen.high_ms
    assert seen.source.interval_s == pytest.approx((span.until_ms - span.since_ms) / 1e3)


def test_without_metrics_nothing_is_predicted(tmp_path: Path) -> None:
    topology = left_running(tmp_path)
    nothing = Rows(read_table(archived().step_path(STEP) / "metrics.parquet").slice(0, 0))
    plan = topology.plan.plan
    with pytest.raises(UsageError, match="spouts emitted nothing in the last 60 s"):
        look_ahead(topology, nothing, plan, plan, RowSpan(0, 60_000), "composite")
    assert mean_ack_ms(nothing.rows(0, 1)) is None
