"""Clients of one run's events: its file is read by one task for all, which ends with the last of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from harness.experiments.contracts import Progress
from harness.experiments.progress import ProgressFile, ProgressReader
from harness.runs import Run
from harness.service.following import RunFollowers


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
        followers = RunFollowers(lambda: False)
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
        stream = RunFollowers(lambda: ending).server_sent(run, 0)
        said = [await next_of(stream)]
        ending = True
        return said + [text async for text in stream if "still here" not in text]

    async def all_of_it() -> list[str]:
        return [text async for text in RunFollowers(lambda: False).server_sent(run, 0)]

    with run.exclusively(), ProgressFile(run.path, 1):
        assert ["over" in text for text in asyncio.run(stop())] == [False]
    said = asyncio.run(all_of_it())
    assert [text.count("id: ") for text in said] == [2, 0]
    assert said[-1] == "event: over\ndata: \n\n"
