"""``harness run`` on the real cluster when a part of it is killed inside the interval of the second step.

One run meets a killed ZooKeeper, supervisor, generator and receiver, each after the last was resumed. Then it
is killed itself, with the receiver of metrics that is in its own process, and resumed to its end. Kafka,
Nimbus and a worker are in tests/reliability/test_run_trouble.py.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from troubled import Ended, error_of, stopped_with_what_it_had, troubled

from harness.machine import servers

PARTS = {
    "zookeeper": "error: zookeeper stopped with signal SIGKILL",
    "supervisor": "error: node-1 stopped with signal SIGKILL",
    "generator": "error: generator process ended (exit status -9)",
    "receiver": "error: receiver process ended (exit status -9)",
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    servers.install()
    return troubled(tmp_path_factory.mktemp("killed"), *PARTS, "run", "none")


@pytest.mark.parametrize("part", PARTS)
def test_a_killed_part_ends_the_run_with_what_it_has_in_one_line(
    ended: dict[str, Ended], part: str, figure: Callable[[str], None]
) -> None:
    found = ended[part]
    stopped_with_what_it_had(found, ended["zookeeper"]["first"])
    assert error_of(found["said"]).startswith(PARTS[part])
    logs = [f"{part if part == 'zookeeper' else 'node-1'}.log"] if part in ("zookeeper", "supervisor") else []
    assert [Path(path).name for path in found["logs"]] == logs
    figure(PARTS[part].removeprefix("error: "))


def test_a_run_that_is_killed_with_its_receiver_of_metrics_keeps_what_it_has(
    ended: dict[str, Ended], figure: Callable[[str], None]
) -> None:
    found = ended["run"]
    assert found["status"] == -signal.SIGKILL, found["said"]
    assert found["steps"] == ["00"]
    assert found["first"] == ended["zookeeper"]["first"]
    assert found["left"] == []
    figure(f"the run ended with signal SIGKILL in step 2, {len(found['first'])} files of step 1 as they were")


def test_the_run_is_completed_after_all_of_them(ended: dict[str, Ended]) -> None:
    found = ended["none"]
    assert found["status"] in (0, 3, 4), found["said"]  # so short an interval proves nothing
    assert found["steps"] == ["00", "01"]
    assert found["left"] == []
