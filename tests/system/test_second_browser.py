"""Two browsers that start a run at once, on a cluster: the second waits for the machine's lock."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import chromium
from playwright.sync_api import Browser, expect
from waiting import until
from watched_page import WatchedPage

from harness.machine.servers import ServerHomes

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
SLOW_MS = 180_000
WAITS = re.compile(r"process \d+ is measuring \S+ on this machine: waiting until it has ended")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[str]:
    """Serve a folder of its own; give the address with its token."""
    command = [sys.executable, "-m", "harness", "serve", "--port", "0", "--runs", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://[0-9.:]+/#token=\S+", process.stderr.readline())
            assert found
            yield found[0]
        finally:
            process.terminate()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with chromium("the pages were") as there:
        yield there


def test_the_second_waits_until_the_first_has_ended(
    server_homes: ServerHomes, opened: str, browser: Browser
) -> None:
    del server_homes  # they are there by now
    url, _, token = opened.partition("/#")
    contexts = [browser.new_context() for _ in range(2)]
    both = [WatchedPage(context, url) for context in contexts]
    for watched in both:
        watched.page.goto(f"{url}/activity#{token}")
        form = watched.page.locator("form[data-kind=run]")
        form.locator("select").select_option("quick")
        form.get_by_label("on the simulator").uncheck()
    for watched in both:
        form = watched.page.locator("form[data-kind=run]")
        form.get_by_role("button", name="Start").click(no_wait_after=True)
    for watched in both:
        expect(watched.page.locator("#job")).to_have_attribute("data-state", "running", timeout=SLOW_MS)

    def waiting() -> list[bool]:
        said = [bool(WAITS.search(watched.page.locator("#job").inner_text())) for watched in both]
        return said if any(said) else []

    said = until(waiting, "one of both waits", SLOW_MS / 1e3)
    first, second = both[said.index(False)].page, both[said.index(True)].page
    expect(first.locator("#job")).to_contain_text("Run: quick/", timeout=SLOW_MS)
    expect(second.locator("#job")).to_have_attribute("data-state", "running")
    expect(second.locator("#job")).not_to_contain_text("Run: quick/")
    for page in (second, first):
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#job")).to_have_attribute("data-state", "interrupted", timeout=SLOW_MS)
    assert [watched.wrong for watched in both] == [[], []]
    for context in contexts:
        context.close()
