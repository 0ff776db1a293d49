"""Two browsers that start the same run at once: each has one of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from served import Served, serving
from watched_page import WatchedPage

from harness.runs import Run

pytestmark = pytest.mark.deep
SLOW_MS = 180_000


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Served]:
    """A service of this test's own: what is started stays among its runs."""
    with serving(tmp_path) as service:
        yield service


def test_each_has_a_run_of_its_own(browser: Browser, alone: Served) -> None:
    contexts = [browser.new_context() for _ in range(2)]
    both = [WatchedPage(context, alone.url) for context in contexts]
    for watched in both:
        watched.page.goto(f"{alone.url}/activity#token={alone.token}")
        watched.page.locator("form[data-kind=run] select").select_option("quick")
    for watched in both:
        form = watched.page.locator("form[data-kind=run]")
        form.get_by_role("button", name="Start").click(no_wait_after=True)
    runs = []
    for watched in both:
        link = watched.page.locator("#job").get_by_role("link", name="quick/")
        expect(link).to_be_visible(timeout=SLOW_MS)
        runs.append(link.inner_text())
        link.click()
        ended = "measuring ended: finished"  # the job goes on with predictions and report
        expect(watched.page.locator("#state")).to_have_text(ended, timeout=SLOW_MS)
        assert watched.wrong == []
    assert len(set(runs)) == 2
    steps = [len(Run(alone.runs / run).finished_steps) for run in runs]
    assert steps[0] == steps[1] > 0
    for context in contexts:
        context.close()
