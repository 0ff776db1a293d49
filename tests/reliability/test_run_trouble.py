"""``harness run`` when something dies or is full: it stops with what it has, says so, and can be resumed.

One run meets a killed Kafka, a killed Nimbus, a worker that cannot start (another program has its port)
and a full disk, each in its second step, each after the last was resumed; then it is resumed to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from troubled import Ended, error_of, stopped_with_what_it_had, troubled

from harness.machine.servers import ServerHomes

pytestmark = pytest.mark.system

TROUBLES = ("kafka", "nimbus", "worker", "disk", "none")


@pytest.fixture(scope="module")
def ended(server_homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    return troubled(tmp_path_factory.mktemp("troubled"), *TROUBLES)


@pytest.mark.parametrize("trouble", ["kafka", "nimbus", "worker", "disk"])
def test_the_run_stops_with_what_it_has_and_says_how_to_go_on(ended: dict[str, Ended], trouble: str) -> None:
    stopped_with_what_it_had(ended[trouble], ended["kafka"]["first"])


@pytest.mark.parametrize(
    ("trouble", "error", "log"),
    [
        ("kafka", "error: kafka stopped with signal SIGKILL", "kafka.log"),
        ("nimbus", "error: nimbus stopped with signal SIGKILL", "nimbus.log"),
        ("worker", "error: the worker on node-1:670", "worker.log"),
    ],
)
def test_the_one_line_names_what_died_and_its_log(
    ended: dict[str, Ended], trouble: str, error: str, log: str, figure: Callable[[str], None]
) -> None:
    found = ended[trouble]
    line = error_of(found["said"])
    assert line.startswith(error)
    named = found["logs"]
    assert [Path(path).name for path in named] == [log]
    assert named[0] in line
    # below it, the log's last lines
    said = found["said"].splitlines()
    assert said[said.index(line) + 1].startswith("    ")
    figure(line.removeprefix("error: ").partition(": ")[0])


def test_a_worker_that_cannot_start_is_explained(ended: dict[str, Ended]) -> None:
    assert "died at its start" in error_of(ended["worker"]["said"])
    assert "Address already in use" in error_of(ended["worker"]["said"])


def test_a_full_disk_is_named(ended: dict[str, Ended], figure: Callable[[str], None]) -> None:
    line = error_of(ended["disk"]["said"])
    assert line.startswith("error: step 1 cannot be written to ")
    assert line.endswith("/steps: No space left on device")
    figure(f"{line.partition(' to ')[0].removeprefix('error: ')}: {line.rpartition(': ')[2]}")


def test_the_resumed_run_is_completed(ended: dict[str, Ended]) -> None:
    found = ended["none"]
    # So short an interval proves nothing; that it is judged is what matters here.
    assert found["status"] in (0, 3, 4), found["said"]
    assert found["steps"] == ["00", "01"]
    assert found["first"] == ended["kafka"]["first"]
    assert found["left"] == []
    assert "report: " in found["said"]
