"""Metrics through a real InfluxDB, of lines made here: the same rows as through the embedded store.

The lines are posted to both. The server is refused, killed, filled and started again between.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest
from influx_rows import EXPERIMENT, FAR_MS, SINCE_MS, bucket_of, frame, store_of
from left_running import STEP, archived, live, summed_emits
from ports import free_port

from harness.app.campaigning import environment
from harness.app.stores import Stores, local_influxdb
from harness.backends.influxdb import api as influxdb_api
from harness.backends.influxdb.lines import encode_rows
from harness.backends.influxdb.server import InfluxServer
from harness.backends.influxdb.store import CHUNK_MS, Event, InfluxBucket, InfluxStore
from harness.backends.metrics.rows import MetricRows
from harness.errors import ClusterError, HarnessError, UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import files
from harness.machine import secret_files
from harness.machine.server_config import LOOPBACK
from harness.machine.servers import quiet
from harness.runs import Run
from harness.schemas import Metric

pytestmark = pytest.mark.system


def post(server: InfluxServer, lines: str) -> int:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    headers = {"Authorization": f"Token {secret_files.read(server.token_file)}"}
    connection.request("POST", server.write_url.removeprefix(server.url), lines.encode(), headers)
    status = connection.getresponse().status
    connection.close()
    return status


def lines(topology: str, seed: int) -> list[str]:
    """Lines as consumers write them: all kinds of tags and fields, over several chunks of time."""
    rng = np.random.default_rng(seed)
    made = []
    for bucket in range(12):
        for task in range(1, 7):
            ms = SINCE_MS + 1 + bucket * 2_300 + task
            tags = f"topology={topology},component=bolt\\ {task % 3},task={task},host=127.0.0.2,port=6700"
            counts = rng.integers(0, 2**53, 3)
            made += [
                f"transferred,stream=default,peer={task + 20},{tags} count={counts[0]}i {ms}000000",
                f"interarrival,{tags} count={counts[1]}i,sumsq_ns2={rng.random() * 1e18!r} {ms}000000",
                f"service_hist,peer=wall,{tags} 1048576={counts[2]}i,2097152=3i {ms}000000",
                f"received,stream=s\\,1,peer=a,{tags} count={2**63 - 1 - bucket}i {ms}000000",
                f'held,{tags} members="{f"{task}/0,{bucket}/1" if task < 6 else ""}" {ms}000000',
            ]
            if task == 1:
                made.append(f'ack,{tags} acked=7i,failed_ids="[\\"{{topic-0}}\\"]" {ms}000000')
    return made


def test_rows_and_texts_are_those_of_the_embedded_store(influx_server: InfluxServer) -> None:
    embedded = MetricRows()
    made = lines("both", 1)
    # a third of it twice, and one point with another value the second time
    again = [*made[::3], made[0].replace("count=", "count=1")]
    for batch in (made, again):
        assert embedded.add("\n".join(batch), 1) == []
        assert post(influx_server, "\n".join(batch)) == 204
    assert post(influx_server, "\n".join(lines("other", 2))) == 204
    first, last = SINCE_MS, SINCE_MS + 12 * 2_300 + 10
    assert last - first > 2 * CHUNK_MS
    with store_of(influx_server, "both") as store:
        everything = store.rows(first, last)
        pd.testing.assert_frame_equal(frame(everything), frame(embedded.rows(first, last)), check_exact=True)
        assert everything.num_rows == 12 * (6 * 6 + 1)
        # spans that begin and end at a bucket, in the middle of a chunk, with nothing in them
        for since, until in [
            (first + 2, first + 2_304),
            (first + 7, last - 3),
            (last, last + 9),
            (last, first),
        ]:
            found, expected = store.rows(since, until), embedded.rows(since, until)
            pd.testing.assert_frame_equal(frame(found), frame(expected), check_exact=True)
        for measurement in ("held", "ack"):
            for since in (first, first + 5_000):
                found_texts = sorted(store.texts(measurement, since), key=str)
                assert found_texts == sorted(embedded.texts(measurement, since), key=str)
        assert store.texts("service", first) == []


def test_emitted_tuples_are_summed_over_longer_buckets(influx_server: InfluxServer) -> None:
    """Of an archived step, whose tasks report at moments of their own."""
    table, spouts = live().table, archived().plan(STEP).start.query_plan.spouts
    last_ms = pc.max(table["bucket_end_ms"]).as_py()
    until_ms = last_ms - last_ms % 5_000
    since_ms = until_ms - 40_000
    rows = table.filter(pc.equal(table["measurement"], Metric.EMITTED))
    written = [  # as consumers write them: a field has one type in a bucket
        re.sub(r"count=(\d+)\.0 (\d+)$", r"count=\1i \g<2>000000", line.decode())
        for line in encode_rows(rows, "summed")
    ]
    assert post(influx_server, "\n".join(written)) == 204
    with store_of(influx_server, "summed") as store:
        found = store.emitted(spouts, since_ms, until_ms, 5_000)
    expected = summed_emits(table, spouts, since_ms, until_ms, 5_000)
    assert found.num_rows >= 8
    pd.testing.assert_frame_equal(frame(found), frame(expected))


def test_another_night_adds_no_series(influx_server: InfluxServer) -> None:
    """The tags are bounded by the topology and the cluster: not the run's name, no path, no time."""

    def series() -> int:
        query = f"""
            import "influxdata/influxdb"
            influxdb.cardinality(bucket: "{influxdb_api.BUCKET}", start: 2020-01-01T00:00:00Z)
            """
        with store_of(influx_server, "nights") as store:
            return int(store._query.query(query)[0].records[0].get_value())

    night = lines("nights", 3)
    assert post(influx_server, "\n".join(night)) == 204
    before = series()
    day_ns = 86_400 * 10**9
    for nights in (1, 30):
        later = [
            f"{line.rsplit(' ', 1)[0]} {int(line.rsplit(' ', 1)[1]) + nights * day_ns}" for line in night
        ]
        assert post(influx_server, "\n".join(later)) == 204
    assert series() == before


def test_events_are_read_back_and_not_doubled(influx_server: InfluxServer) -> None:
    made = [
        Event("submit", SINCE_MS + 1, "x/1", 0, "spec-0/1x4@50"),
        Event("start", SINCE_MS + 2, "x/1", 0, "spec-0/1x4@50"),
        Event("stop", SINCE_MS + 9, "x/1", 0, "spec-0/1x4@50"),
    ]
    with store_of(influx_server, "events") as store:
        for _ in range(2):
            store.write_events(made)
            assert store.events(SINCE_MS, SINCE_MS + 9) == made
        assert store.rows(SINCE_MS, SINCE_MS + 10).num_rows == 0  # events are no metrics


# -- trouble --------------------------------------------------------------------------------------


def test_a_wrong_token_is_refused_in_one_line_without_it(influx_server: InfluxServer) -> None:
    with InfluxStore(bucket_of(influx_server), "wrong-s3cret", "t") as store:
        event = Event("start", SINCE_MS, "x/1", 0, "c")
        for asked in (store.check, partial(store.rows, 0, 1), partial(store.write_events, [event])):
            with pytest.raises(UsageError) as refused:
                asked()
            said = str(refused.value)
            assert said.startswith(f"influxdb at {influx_server.url} refuses the token: unauthorized")
            assert "INFLUXDB_TOKEN" in said
            assert "\n" not in said
            assert "s3cret" not in said


def test_a_token_that_is_given_is_kept_by_who_gives_it(
    influxd_program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    logs.mkdir()

    def server() -> InfluxServer:
        made = local_influxdb(data, 3)
        made.port = free_port()
        return made

    experiment = Experiment.model_validate(EXPERIMENT)
    run = Run.create(tmp_path, "any", files(experiment), environment())

    def begin(server: InfluxServer) -> None:
        """As a run begins."""
        server.start(logs, quiet)
        try:
            assert server.token_file.stat().st_mode & 0o777 == 0o600
            with Stores(server, None).measuring(experiment, run, lambda _: None, LOOPBACK, str):
                # what is older than the days that were asked for is not taken
                now_ms = time.time_ns() // 1_000_000
                assert post(server, f"held,topology=t n=1i {now_ms}000000") == 204
                assert post(server, f"held,topology=t n=1i {now_ms - 4 * 86_400_000}000000") == 422
        finally:
            server.stop()

    monkeypatch.setenv("INFLUXDB_TOKEN", "a-s3cret-of-ours")
    begin(server())
    for folder in (data, logs):  # the database alone has it
        files_ = [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".bolt"]
        assert [p for p in files_ if b"a-s3cret-of-ours" in p.read_bytes()] == []
    monkeypatch.setenv("INFLUXDB_TOKEN", "another-s3cret")
    with pytest.raises(UsageError, match=r"refuses the token: unauthorized access: INFLUXDB_TOKEN"):
        begin(server())
    file = tmp_path / "token"
    secret_files.replace(file, "a-s3cret-of-ours")
    monkeypatch.delenv("INFLUXDB_TOKEN")
    monkeypatch.setenv("INFLUXDB_TOKEN_FILE", str(file))
    begin(server())
    file.chmod(0o644)
    with pytest.raises(UsageError, match=f"chmod 600 {file}"):
        server()


def test_what_consumers_left_is_delivered_at_start_and_end(influxd_program: Path, tmp_path: Path) -> None:
    server = InfluxServer(influxd_program, tmp_path / "data", port=free_port())
    server.spool.mkdir(parents=True)
    made = lines("left", 5)
    halves = (made[::2], made[1::2])

    def leave(number: int, text: str) -> None:
        (server.spool / f"{SINCE_MS + number:013d}-7-42-{number:08d}.lines").write_text(text)

    leave(0, "\n".join(halves[0]))
    leave(1, "this is no line")
    (server.spool / f"{SINCE_MS:013d}-7-42-00000002.lines.partial").write_text("torn by a ki")
    server.start(tmp_path, quiet)
    assert server.batches.waiting(SINCE_MS + 9) == 0
    leave(3, "\n".join(halves[1]))
    assert [server.batches.waiting(SINCE_MS + n) for n in (2, 3)] == [0, 1]
    server.stop()
    server.start(tmp_path, quiet)
    try:
        with store_of(server, "left") as store:
            assert store.rows(SINCE_MS, SINCE_MS + 12 * 2_300 + 10).num_rows == 12 * (6 * 6 + 1)
        (refused,) = server.spool.iterdir()
        assert (refused.suffix, refused.read_text()) == (".refused", "this is no line")
    finally:
        server.stop()


def test_a_bucket_that_is_not_there_is_named(influx_server: InfluxServer) -> None:
    token = secret_files.read(influx_server.token_file)
    with (
        InfluxStore(bucket_of(influx_server)._replace(name="nowhere"), token, "t") as store,
        pytest.raises(UsageError, match="nowhere"),
    ):
        store.check()


def test_a_server_that_is_gone_is_waited_for_and_then_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with InfluxStore(InfluxBucket(url, "o", "b"), "s3cret", "t", patience_s=0.3) as store:
        for asked in (store.check, partial(store.rows, 0, 1), partial(store.texts, "held", 0)):
            with pytest.raises(ClusterError, match=f"influxdb at {url}.* refused") as gone:
                asked()
            assert "\n" not in str(gone.value)
            assert "s3cret" not in str(gone.value)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_database_is_named_and_keeps_all_once_it_has_room_and_is_started_again(
    influxd_program: Path, small_disk: Path, tmp_path: Path
) -> None:
    server = InfluxServer(influxd_program, small_disk / "influxdb", port=free_port())
    server.start(tmp_path, quiet)
    try:
        made = "\n".join(lines("full", 4))
        assert post(server, "\n".join(lines("full", 4)[:100])) == 204  # so that its log ends half written
        waits = small_disk / "waits"
        waits.write_text(made)
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as out:
            try:
                while True:
                    out.write(bytes(4096))
            except OSError:
                pass
        assert post(server, made) == 500  # for which consumers keep their lines
        (server.spool / f"{SINCE_MS:013d}-7-42-00000000.lines").hardlink_to(waits)
        with store_of(server, "full", patience_s=3600) as store:  # a full disk is not waited for
            store._spool = server.batches
            with pytest.raises(ClusterError) as full:
                store.rows(SINCE_MS, SINCE_MS + 1)
            said = str(full.value)
            assert said.startswith(f"influxdb at {server.url} does not take metrics: ")
            assert "\n" not in said
            assert "no space left on device" in said
            assert "(batches that wait: 1)" in said
        # a shard that could not be opened is not tried again before the next start
        server.stop()
        filler.unlink()
        server.start(tmp_path, quiet)
        with store_of(server, "full") as store:
            assert server.batches.waiting(FAR_MS) == 0
            assert store.rows(SINCE_MS, SINCE_MS + 12 * 2_300 + 10).num_rows == 12 * (6 * 6 + 1)
        # what it has taken is not gone when it dies
        os.kill(dead := server.pid, signal.SIGKILL)
        while server.pid == dead:
            server.check()
        server.wait()
        with store_of(server, "full") as store:
            assert store.rows(SINCE_MS, SINCE_MS + 12 * 2_300 + 10).num_rows == 12 * (6 * 6 + 1)
    finally:
        server.stop()


def test_a_run_without_the_server_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(HarnessError, match="InfluxDB is not installed: make servers"):
        Stores.here(Experiment.model_validate(EXPERIMENT))
