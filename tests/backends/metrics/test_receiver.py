"""The metrics store over real HTTP: what it takes, and what it refuses of those who have no token."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import stat
import threading
import tracemalloc
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pyarrow as pa
import pytest
from influxdb_client import InfluxDBClient, Point, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS

from harness.backends.local.cluster import LocalCluster
from harness.backends.metrics import receiver as receiver_module
from harness.backends.metrics.receiver import MOST_BYTES, MetricsReceiver
from harness.errors import ClusterError
from harness.experiments.clusters import Local
from harness.machine.servers import ServerHomes

LINE = (
    "transferred,topology=t,component=bolt-a,task=20,host=127.0.0.2,port=6700,stream=default,peer=41"
    " count=37i 1700000000000000000"
)
HELD = 'held,topology=t,component=window,task=5,host=h,port=1 members="1/0,2/0,3/0" 1000000000000000000'
"""Tells the ledger that a window holds messages, which then are not lost."""


@pytest.fixture
def receiver() -> Iterator[MetricsReceiver]:
    with MetricsReceiver("127.0.0.1", 0) as r:
        yield r


def post(
    receiver: MetricsReceiver, body: bytes, path: str = "", token: str | None = None, **headers: str
) -> tuple[int, str]:
    url = f"http://127.0.0.1:{receiver.port}{path}" if path else receiver.url
    headers["Authorization"] = f"Token {receiver.token}" if token is None else token
    request = urllib.request.Request(url, body, {k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as e:
        return e.code, e.read().decode()


def test_lines_arrive_plain_and_compressed(receiver: MetricsReceiver) -> None:
    assert post(receiver, LINE.encode()) == (204, "")
    other = LINE.replace("task=20", "task=21").encode()
    assert post(receiver, gzip.compress(other), Content_Encoding="gzip")[0] == 204
    assert receiver.store.rows(0, 2 * 10**12)["task"].to_pylist() == [20, 21]


def test_influxdb_client_can_write_to_it(receiver: MetricsReceiver) -> None:
    client = InfluxDBClient(
        f"http://127.0.0.1:{receiver.port}", token=receiver.token, org="harness", enable_gzip=True
    )
    with client, client.write_api(write_options=SYNCHRONOUS) as api:
        points = [
            Point("service").tag("topology", "t").tag("component", "a b").tag("task", str(i)).tag("host", "h")
            .tag("port", "1").field("count", i).time(1_700_000_000_000 + i, WritePrecision.MS)
            for i in range(500)
        ]  # fmt: skip
        api.write("harness", record=points, write_precision=WritePrecision.MS)
    table = receiver.store.rows(0, 2 * 10**12)
    assert sorted(table["value"].to_pylist()) == list(range(500))
    assert pa.compute.unique(table["component"]).to_pylist() == ["a b"]


def test_malformed_lines_are_answered_with_400_and_the_reason(receiver: MetricsReceiver) -> None:
    status, text = post(receiver, f"{LINE}\nbad\nworse".encode())
    assert status == 400
    assert "line 2: " in text
    assert "(and 1 more)" in text
    assert (receiver.store.malformed, receiver.store.lines) == (2, 1)


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/api/v2/write?precision=h", 400, "precision 'h'"),
        ("/write", 404, "nothing is at /write"),
    ],
)
def test_wrong_requests(receiver: MetricsReceiver, path: str, status: int, says: str) -> None:
    found, text = post(receiver, LINE.encode(), path)
    assert (found, says in text) == (status, True)


def test_a_body_that_is_not_what_it_says_is_refused(receiver: MetricsReceiver) -> None:
    assert post(receiver, b"\x1f\x8b junk", Content_Encoding="gzip")[0] == 400
    assert post(receiver, b"\xff\xfe")[0] == 400


def test_it_says_that_it_is_healthy(receiver: MetricsReceiver) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{receiver.port}/health", timeout=30) as answer:
        assert b'"pass"' in answer.read()


def test_a_taken_port_is_one_clear_line(receiver: MetricsReceiver) -> None:
    with pytest.raises(ClusterError, match=f"cannot listen on 127.0.0.1:{receiver.port}"):
        MetricsReceiver("127.0.0.1", receiver.port)


# ---- those who have no token, and those who send too much ----


@pytest.mark.parametrize("token", ["", "Token ", "Token wrong", "Bearer", "Token é"])
@pytest.mark.parametrize("body", [HELD.encode(), b"x" * 3_000_000])
def test_without_the_token_nothing_is_taken(receiver: MetricsReceiver, token: str, body: bytes) -> None:
    host = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=30)
    try:
        host.request("POST", receiver.url, body, {"Authorization": token.encode()})
        answer = host.getresponse()
        assert answer.status == 401
        assert json.loads(answer.read())["message"] == "the request does not show this run's token"
    except (ConnectionError, BrokenPipeError):
        assert len(body) > 1 << 20  # it hangs up on those who go on sending
    finally:
        host.close()
    assert receiver.store.texts("held", 0) == []
    assert receiver.store.lines == receiver.store.malformed == 0
    assert post(receiver, HELD.encode())[0] == 204
    assert len(receiver.store.texts("held", 0)) == 1


def test_each_receiver_has_a_token_of_its_own() -> None:
    tokens = set()
    for _ in range(3):
        with MetricsReceiver("127.0.0.1", 0) as made:
            assert made.token_file == ""
            tokens.add(made.token)
    assert len(tokens) == 3
    assert all(len(token) >= 43 for token in tokens)  # 32 bytes, base 64


def test_a_cluster_of_this_machine_hands_it_out_in_a_file_of_its_owner_s(tmp_path: Path) -> None:
    cluster = LocalCluster(ServerHomes(tmp_path / "none"), tmp_path, Local(nodes=1, slots_per_node=1))
    with MetricsReceiver("127.0.0.1", 0, cluster.hand_out) as made:
        file = Path(made.token_file)
        assert file.read_text() == f"{made.token}\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("members", [1, 3])
def test_what_is_too_large_unpacked_is_refused_before_it_is(receiver: MetricsReceiver, members: int) -> None:
    """300 kB of blanks packed are 300 MB."""
    bomb = b"".join(gzip.compress(b"\n" * (300_000_000 // members), 9) for _ in range(members))
    assert len(bomb) < 400_000
    tracemalloc.start()
    try:
        status, text = post(receiver, bomb, Content_Encoding="gzip")
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (status, f"more than {MOST_BYTES} bytes when unpacked" in text) == (413, True)
    assert peak_bytes < 3 * MOST_BYTES + (10 << 20)
    assert post(receiver, LINE.encode())[0] == 204


def test_gzip_of_several_members_and_one_cut_short(receiver: MetricsReceiver) -> None:
    parts = [LINE.replace("task=20", f"task={task}").encode() + b"\n" for task in (1, 2)]
    packed = b"".join(map(gzip.compress, parts))
    assert post(receiver, packed, Content_Encoding="gzip") == (204, "")
    assert receiver.store.rows(0, 2 * 10**12)["task"].to_pylist() == [1, 2]
    status, text = post(receiver, packed[:-4], Content_Encoding="gzip")
    assert (status, "it ends early" in text) == (400, True)


@pytest.mark.parametrize(
    ("length", "status"), [(str(MOST_BYTES + 1), 413), ("9" * 5000, 413), ("x", 411), ("-1", 411), ("²", 411)]
)
def test_a_length_that_cannot_be_is_refused_unread(
    receiver: MetricsReceiver, length: str, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=30) as plain:
        head = f"POST /api/v2/write HTTP/1.1\r\nAuthorization: Token {receiver.token}\r\n"
        plain.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode("latin-1"))
        assert plain.recv(100).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_poisoned_line_is_named_and_the_rest_of_its_batch_taken(receiver: MetricsReceiver) -> None:
    """A consumer drops what is refused with 400, and goes on with its next batch."""
    poison = LINE.replace("task=20", "task=99999999999")
    lines = [LINE, poison, "\udcff\udcfe garbage", LINE.replace("task=20", "task=21")]
    status, text = post(receiver, "\n".join(lines).encode(errors="surrogateescape"))
    assert status == 400
    assert "line 2: task 99999999999 is none of Storm's" in json.loads(text)["message"]
    assert "(and 1 more)" in text
    assert receiver.store.rows(0, 2 * 10**12)["task"].to_pylist() == [20, 21]
    assert post(receiver, LINE.replace("task=20", "task=22").encode())[0] == 204


def test_connections_are_limited_and_one_more_is_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receiver_module, "MOST_CONNECTIONS", 3)
    with MetricsReceiver("127.0.0.1", 0) as small:
        held = [http.client.HTTPConnection("127.0.0.1", small.port, timeout=30) for _ in range(3)]
        for connection in held:
            connection.request("GET", "/health")
            assert connection.getresponse().read()
        with socket.create_connection(("127.0.0.1", small.port), timeout=30) as fourth:
            assert fourth.recv(100).startswith(b"HTTP/1.1 503 ")
        threads = [t for t in threading.enumerate() if "process_request_thread" in t.name]
        assert len(threads) <= 3
        for connection in held:
            connection.close()
