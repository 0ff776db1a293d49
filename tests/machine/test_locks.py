"""A file's lock, held, refused and looked at."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.machine.locks import held, is_held


def test_it_is_held_by_one_and_seen_without_being_taken(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    with held(tmp_path, UsageError("busy")):
        assert is_held(tmp_path)
        with pytest.raises(UsageError, match="busy"), held(tmp_path, UsageError("busy")):
            pass
    assert not is_held(tmp_path)


def test_who_looks_again_and_again_refuses_nobody(tmp_path: Path) -> None:
    """A page and ``harness watch`` look while a run is resumed; lookers do not see each other."""
    seen: list[bool] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.append(is_held(tmp_path))

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for thread in lookers:
        thread.start()
    try:
        for _ in range(20):
            with held(tmp_path, UsageError("busy")):
                pass
    finally:
        over.set()
        for thread in lookers:
            thread.join()
    assert seen
