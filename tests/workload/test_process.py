"""What a child hands over is all there at the parent's next look, however much it is."""

from __future__ import annotations

import os
import select

import pytest
from talkative import RESULTS, SIZE_BYTES, hand_over_much

from harness.errors import ClusterError
from harness.workload.process import START_TIMEOUT_S, Process, Ready


def test_a_parent_that_does_not_look_holds_nobody_up_and_then_finds_everything() -> None:
    child = Process("much", hand_over_much, None)
    ended = os.pidfd_open(child.pid)
    _await_end(ended)
    found = [child.result(START_TIMEOUT_S) for _ in range(1 + RESULTS)]
    with pytest.raises(ClusterError, match="exit status 0"):
        child.result(START_TIMEOUT_S)
    child.end()
    assert found == [Ready(), *((number, b"x" * SIZE_BYTES) for number in range(RESULTS))]


def _await_end(pidfd: int) -> None:
    """Wait until the process has ended, which it does when everything was taken from it."""
    assert select.select([pidfd], [], [], START_TIMEOUT_S)[0], "it still waits to be rid of its results"
    os.close(pidfd)
