"""Clients of one run's events: its file is read by one task for all, which ends with the last of them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.experiments.contracts import Progress
from harness.experiments.progress import ProgressFile, ProgressReader
from harness.runs import Run
from harness.service.following import RunFollowers
from harness.service.own_load import OwnLoad, OwnReading


async def next_of(stream: AsyncIterator[str]) -> str:
    return await asyncio.wait_for(anext(stream), 60)


def made_run(folder: Path) -> Run:
    return Run.create(folder, "live", {"experiment.yaml": "name: live\n"}, {})


def test_clients_of_a_run_share_what_is_read_and_each_has_every_line_once(
    tmp_path: Path, monkeypatch: object
) -> None:
    readers: list[ProgressReader] = []

    class Counted(ProgressReader):
        def __init__(self, run: Path) -> None:
            super().__init__(run)
            readers.append(self)

    monkeypatch.setattr("harness.service.following.ProgressReader", Counted)  # type: ignore[attr-defined]
    run = made_run(tmp_path)

    async def follow(file: ProgressFile) -> None:
        followers = RunFollowers(lambda: False, OwnLoad())
        first, second = followers.server_sent(run, 0), followers.server_sent(run, 1)
        assert "id: 1\n" in await next_of(first)
        file(Progress(0, 1, "submit", "a"))
        both = [await next_of(stream) for stream in (first, second)]
        assert [text.count("id: ") for text in both] == [1, 1]
        assert both[0] == both[1]
        assert both[0].startswith("id: 2\n")
        assert len(readers) == 1
        (feed,) = followers._feeds.values()
        await first.aclose()
        assert not feed.task.cancelling()
        await second.aclose()
        assert followers._feeds == {}
        assert await asyncio.wait({feed.task}, timeout=60)
        assert feed.task.cancelled()

    with run.exclusively(), ProgressFile(run.path, 1) as file:
        asyncio.run(follow(file))


def test_streams_end_when_the_server_ends_and_with_the_run(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    ending = False

    async def stop() -> list[str]:
        nonlocal ending
        stream = RunFollowers(lambda: ending, OwnLoad()).server_sent(run, 0)
        said = [await next_of(stream)]
        ending = True
        return said + [text async for text in stream if "still here" not in text]

    async def all_of_it() -> list[str]:
        return [text async for text in RunFollowers(lambda: False, OwnLoad()).server_sent(run, 0)]

    with run.exclusively(), ProgressFile(run.path, 1):
        assert ["over" in text for text in asyncio.run(stop())] == [False]
    said = asyncio.run(all_of_it())
    assert [text.count("id: ") for text in said] == [2, 0]
    assert said[-1] == "event: over\ndata: \n\n"


def test_a_run_that_is_deleted_while_it_is_followed_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.service.following.ASK_EVERY_S", 0.1)
    run = made_run(tmp_path)

    async def follow() -> list[str]:
        stream = RunFollowers(lambda: False, OwnLoad()).server_sent(run, 0)
        first = await next_of(stream)
        shutil.rmtree(run.path)
        return [first, *[text async for text in stream]]

    with run.exclusively(), ProgressFile(run.path, 1):
        said = asyncio.run(follow())
    assert said[0].startswith("id: 1\n")
    assert said[-1] == "event: gone\ndata:\n\n"
    assert not any("over" in text for text in said)


def test_who_follows_is_told_what_the_service_takes(tmp_path: Path) -> None:
    """Half a second of CPU time in the five seconds until the second reading: 5 % of two cores."""
    readings = iter([OwnReading(0.0, 0.0), OwnReading(5.0, 0.5)])
    load = OwnLoad(lambda: next(readings), cores=2)
    run = made_run(tmp_path)

    async def follow(file: ProgressFile) -> list[str]:
        stream = RunFollowers(lambda: False, load).server_sent(run, 0)
        first = await next_of(stream)
        file(Progress(0, 1, "submit", "a"))
        second = await next_of(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return [first, second]

    with run.exclusively(), ProgressFile(run.path, 1) as file:
        first, second = asyncio.run(follow(file))
    assert "event: cost" not in first
    assert second.endswith("event: cost\ndata: This service takes 5.0 % of the machine's CPU time.\n\n")
