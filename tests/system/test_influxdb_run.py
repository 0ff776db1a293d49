"""An experiment on the real cluster whose metrics go to InfluxDB: they are those of the embedded store.

They pass a relay that hands on to the embedded store what InfluxDB took. InfluxDB is killed in the middle of
a step, and every third request that it took is sent once more, as its answer got lost.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import dashboard
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from influx_rows import EXPERIMENT, FAR_MS, KEYS, frame, store_of
from influxdb_client import InfluxDBClient
from relay import Relay

from harness.app.campaigning import environment, jars
from harness.app.store_sender import StoreSender, given_store, require_given
from harness.app.stores import Recorder, events_of, influx_store
from harness.backends.influxdb import api as influxdb_api
from harness.backends.influxdb.server import InfluxServer
from harness.backends.kafka.client import Topics
from harness.backends.local.cluster import LocalCluster
from harness.errors import ClusterError, UsageError
from harness.experiments import records
from harness.experiments.campaign import Campaign, OutsideWorld
from harness.experiments.config import Experiment
from harness.experiments.contracts import Progress, TopicNames
from harness.experiments.loading import files
from harness.experiments.stores import MetricStore
from harness.machine import secret_files
from harness.runs import Run
from harness.storm.deployment import StormDeployment, submitter_of
from harness.storm.submission import MetricsAddress
from harness.workload.load import KafkaLoad
from harness.workload.wire import OwnWire

pytestmark = pytest.mark.system


class Kill:
    """Kills InfluxDB when the first step is measured, and starts it again once metrics wait for it."""

    def __init__(self, server: InfluxServer, relay: Relay) -> None:
        self.server = server
        self.relay = relay
        self.killed = False
        self.waited = 0

    def __call__(self, now: Progress) -> None:
        if now.phase == "measure" and not self.killed:
            self.killed = True
            os.kill(self.server.pid, signal.SIGKILL)
        if self.killed and (self.relay.away or now.phase == "drain"):
            self.waited = max(self.server.batches.waiting(FAR_MS), self.waited)
            self.server.check()


class Measured(NamedTuple):
    run: Run
    relay: Relay
    kill: Kill
    logs: Path


@pytest.fixture(scope="module")
def measured(
    cluster: LocalCluster, influx_server: InfluxServer, tmp_path_factory: pytest.TempPathFactory
) -> Measured:
    experiment = Experiment.model_validate(EXPERIMENT)
    folder = tmp_path_factory.mktemp("both")
    name = experiment.name
    run = Run.create(folder, name, files(experiment), environment())
    with Topics(cluster.bootstrap) as topics:
        topics.create(f"{name}-in")
        topics.create(f"{name}-out")
    with (
        Relay(influx_server) as relay,
        influx_store(influx_server, name) as store,
        KafkaLoad(
            cluster.bootstrap,
            {f"{name}-in": 1},
            f"{name}-out",
            OwnWire("x" * 64),
            group=name,
        ) as load,
    ):
        kill = Kill(influx_server, relay)
        target = MetricsAddress(
            relay.url, token_file=str(influx_server.token_file), spool=str(influx_server.spool)
        )
        topics = TopicNames.of(name, experiment.topology.entrances)
        submitter = submitter_of(experiment, name, cluster.broker, topics, jars(), folder / "submission")
        deployment = StormDeployment(experiment, cluster, submitter, target, jars(), folder / "submission")
        recorder = Recorder(run, kill, {"influxdb": lambda step: store.write_events(events_of(run, step))})
        Campaign(experiment, run, OutsideWorld(deployment, load, store), recorder).carry_out()
        recorder.finish()
        cluster.nimbus.kill(name)
    return Measured(run, relay, kill, cluster.logs)


def test_influxdb_was_away_and_metrics_waited_on_disk(measured: Measured) -> None:
    assert measured.kill.killed
    assert measured.kill.waited > 0
    assert measured.relay.away > 0
    assert measured.relay.unanswered > 0
    assert measured.kill.server.batches.waiting(measured.run.interval(1).end_epoch_ms) == 0


def test_the_runs_metrics_are_those_of_the_embedded_store_row_by_row(measured: Measured) -> None:
    for step in (0, 1):
        table = pq.read_table(measured.run.step_path(step) / "metrics.parquet")
        # later buckets may have been on their way when the step was written, as with the embedded store
        until_ms = measured.run.interval(step).end_epoch_ms
        table = table.filter(pc.less_equal(table["bucket_end_ms"], until_ms))
        assert table.num_rows > 500
        embedded = measured.relay.store.rows(pc.min(table["bucket_end_ms"]).as_py() - 1, until_ms)
        expected = records.metrics(embedded, measured.run.plan(step).start.nodes)
        pd.testing.assert_frame_equal(frame(table), frame(expected), check_exact=True)


def test_the_whole_databases_are_equal(measured: Measured, influx_server: InfluxServer) -> None:
    first, last = (measured.run.interval(step) for step in (0, 1))
    since_ms, until_ms = first.start_epoch_ms - 600_000, last.end_epoch_ms

    def held(texts: list[Mapping[str, object]]) -> list[Mapping[str, object]]:
        return sorted((t for t in texts if int(str(t["bucket_end_ms"])) <= until_ms), key=str)

    embedded = measured.relay.store
    with store_of(influx_server, "both-stores") as store:
        found = store.rows(since_ms, until_ms)
        assert held(store.texts("held", since_ms)) == held(embedded.texts("held", since_ms)) != []
    pd.testing.assert_frame_equal(frame(found), frame(embedded.rows(since_ms, until_ms)), check_exact=True)
    assert not (found.to_pandas()["measurement"] == "consumer").any()  # no line was dropped
    for step in (0, 1):
        assert measured.run.quality(step).ledger.balanced


def test_steps_are_events_in_the_same_database(measured: Measured, influx_server: InfluxServer) -> None:
    intervals = [measured.run.interval(step) for step in (0, 1)]
    with store_of(influx_server, "both-stores") as store:
        found = store.events(intervals[0].start_epoch_ms - 600_000, intervals[1].end_epoch_ms)
    assert [(e.kind, e.step) for e in found] == [
        (kind, step) for step in (0, 1) for kind in (("submit", "rebalance")[step], "start", "stop")
    ]
    for event in found:
        interval = intervals[event.step]
        times = {"start": interval.start_epoch_ms, "stop": interval.end_epoch_ms}
        assert event.at_ms == times.get(event.kind, event.at_ms)
        assert event.at_ms <= interval.end_epoch_ms
        assert event.configuration == interval.configuration


def span(run: Run) -> tuple[int, int]:
    """Return a span that holds a run's metrics and events."""
    return run.interval(0).start_epoch_ms - 600_000, run.interval(1).end_epoch_ms + 60_000


def asked(server: InfluxServer, query: str) -> list[Mapping[str, object]]:
    with InfluxDBClient(server.url, token=server.token(), org=influxdb_api.ORG) as client:
        return [record.values for table in client.query_api().query(query) for record in table.records]


@pytest.mark.parametrize("title", dashboard.panels())
def test_every_panel_of_the_dashboard_has_rows(
    measured: Measured, influx_server: InfluxServer, title: str
) -> None:
    query = dashboard.panels()[title]
    rows = asked(
        influx_server, dashboard.filled(query, influxdb_api.BUCKET, "both-stores", *span(measured.run))
    )
    assert rows
    assert all(float(str(row["_value"])) >= 0 for row in rows)
    assert any(float(str(row["_value"])) > 0 for row in rows)


def test_the_dashboards_annotations_are_the_runs_events(
    measured: Measured, influx_server: InfluxServer
) -> None:
    since_ms, until_ms = span(measured.run)
    query = dashboard.filled(dashboard.annotations(), influxdb_api.BUCKET, "both-stores", since_ms, until_ms)
    shown = [(row["title"], row["text"], row["tags"]) for row in asked(influx_server, query)]
    with store_of(influx_server, "both-stores") as store:
        events = store.events(since_ms, until_ms)
    assert shown == [(e.kind, f"step {e.step}: {e.configuration}", e.run) for e in events]
    assert len(shown) == 6
    listed = asked(influx_server, dashboard.topologies().replace("${bucket}", influxdb_api.BUCKET))
    assert "both-stores" in {row["_value"] for row in listed}


def test_a_bucket_that_is_there_gets_each_step_whole(
    measured: Measured, influx_server: InfluxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFLUXDB_TOKEN", influx_server.token())
    metrics = MetricStore(store="influxdb", url=influx_server.url, org=influxdb_api.ORG, bucket="ours")
    with pytest.raises(UsageError, match=r"takes no points for harness/ours: .*not found"):
        require_given(metrics, "both-stores")
    with InfluxDBClient(influx_server.url, token=influx_server.token(), org=influxdb_api.ORG) as client:
        made = client.buckets_api().create_bucket(bucket_name="ours")
        require_given(metrics, "both-stores")
        sender = StoreSender.start(metrics, "both-stores")
        for step in (0, 1, 1):  # what is sent twice is there once
            sender.send(measured.run, step)
        with given_store(metrics, "both-stores") as store:
            found, events = store.rows(*span(measured.run)), store.events(*span(measured.run))
        client.buckets_api().delete_bucket(made)
        with pytest.raises(ClusterError, match="not found"):
            sender.send(measured.run, 1)
    tables = [pq.read_table(measured.run.step_path(step) / "metrics.parquet") for step in (0, 1)]
    whole = pa.concat_tables(tables).unify_dictionaries()
    pd.testing.assert_frame_equal(frame(found), frame(whole).drop_duplicates(KEYS), check_exact=True)
    assert events == [e for step in (0, 1) for e in events_of(measured.run, step)]


def test_the_token_is_in_no_file_of_the_run_or_the_servers(measured: Measured) -> None:
    token = secret_files.read(measured.kill.server.token_file).encode()
    for folder in (measured.logs, measured.run.path.parent.parent):
        files = [p for p in folder.rglob("*") if p.is_file()]
        assert files
        assert [p for p in files if token in p.read_bytes()] == []
