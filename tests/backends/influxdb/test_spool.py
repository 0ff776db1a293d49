"""Batches that wait: counted by their names' times, delivered oldest first, kept where they are not taken."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.backends.influxdb.api import Answer
from harness.backends.influxdb.spool import BatchFolder, HostFolder, LocalFolder, MetricSpool
from harness.errors import ClusterError
from harness.machine.ssh import Login, Shell


class Here(Shell):
    """A shell of this machine, in the place of one over ssh: the same program, and the same pipes."""

    def __init__(self) -> None:
        super().__init__(Login("nobody", Path("key"), Path("known")), "here", "192.0.2.1")
        self._command = ["sh"]


@pytest.fixture(params=["local", "host"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BatchFolder]:
    shell = Here()
    host = HostFolder(shell, str(tmp_path), lambda: True)
    yield LocalFolder(tmp_path) if request.param == "local" else host
    shell.close()


def name(ms: int) -> str:
    return f"{ms:013d}-7-42-00000000.lines"


def test_batches_are_counted_by_the_times_in_their_names(folder: BatchFolder, tmp_path: Path) -> None:
    spool = MetricSpool([folder])
    assert spool.waiting(2**40) == 0
    for ms in (5, 7, 9):
        (tmp_path / name(ms)).write_text("x\n")
    (tmp_path / f"{name(1)}.partial").write_text("to")
    assert [spool.waiting(ms) for ms in (4, 5, 8, 9)] == [0, 1, 2, 3]
    spool.tidy()
    assert sorted(p.name for p in tmp_path.iterdir()) == [name(5), name(7), name(9)]


def test_batches_are_delivered_oldest_first(folder: BatchFolder, tmp_path: Path) -> None:
    lines = {9: b"c\n", 5: 'a "\\$x"\xe9\n'.encode(), 7: b"b\n" * 5_000}
    for ms, text in lines.items():
        (tmp_path / name(ms)).write_bytes(text)
    taken: list[bytes] = []

    def post(text: bytes) -> Answer:
        taken.append(text)
        return Answer(204, {})

    MetricSpool([folder]).deliver(post)
    assert taken == [lines[5], lines[7], lines[9]]
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_taken_stays_and_what_is_refused_is_set_aside(
    folder: BatchFolder, tmp_path: Path
) -> None:
    for ms, text in {5: "bad", 6: "good", 7: "good", 8: "good"}.items():
        (tmp_path / name(ms)).write_text(text)
    answers = [Answer(400, {"message": "no line"}), Answer(204, {}), Answer(503, {"message": "busy"})]
    MetricSpool([folder]).deliver(lambda _: answers.pop(0))
    refused = name(5).replace(".lines", ".refused")
    assert sorted(p.name for p in tmp_path.iterdir()) == [refused, name(7), name(8)]


def test_what_a_consumer_was_faster_with_is_passed_over(folder: BatchFolder, tmp_path: Path) -> None:
    (tmp_path / name(5)).write_text("a")
    (tmp_path / name(6)).write_text("b")

    def post(text: bytes) -> Answer:
        (tmp_path / name(6)).unlink()
        assert text == b"a"
        return Answer(204, {})

    MetricSpool([folder]).deliver(post)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_away_leaves_everything(folder: BatchFolder, tmp_path: Path) -> None:
    (tmp_path / name(5)).write_text("a")

    def post(_: bytes) -> Answer:
        raise ConnectionRefusedError

    MetricSpool([folder]).deliver(post)
    assert [p.name for p in tmp_path.iterdir()] == [name(5)]


def test_a_host_that_is_gone_has_none_and_one_that_only_hung_up_is_asked_again(tmp_path: Path) -> None:
    shell, alive = Here(), True
    folder = HostFolder(shell, str(tmp_path), lambda: alive)
    (tmp_path / name(5)).write_text("a")
    spool = MetricSpool([folder])
    try:
        assert spool.waiting(5) == 1
        process = shell._process
        assert isinstance(process, subprocess.Popen)
        process.kill()
        process.wait()
        assert spool.waiting(5) == 1
        shell._command = ["false"]
        shell.close()
        with pytest.raises(ClusterError, match="here does not answer"):
            spool.waiting(5)
        alive = False
        assert spool.waiting(5) == 0
    finally:
        shell.close()


def test_a_folder_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    shell = Here()
    try:
        with pytest.raises(ClusterError, match=r"here: cd .*none.* status"):
            MetricSpool([HostFolder(shell, str(tmp_path / "none"), lambda: True)]).waiting(1)
    finally:
        shell.close()
