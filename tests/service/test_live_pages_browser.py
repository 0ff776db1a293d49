"""A submitted topology and proposals for it as a person sees them, in headless Chromium.

It reports what an archived step did; tests/system has one that runs.
"""

from __future__ import annotations

import pytest
from left_running import STEP, archived
from playwright.sync_api import Browser, Page, expect
from served import TOPOLOGY, Served
from watched_page import SCREENS, WIDE, WatchedPage, screen_of

pytestmark = pytest.mark.deep
SLOW_MS = 120_000
"""A model may still be compiled."""


def drawings(page: Page) -> list[int]:
    """Return the executors in each drawing of a physical plan."""
    return [drawn.locator("g.executor").count() for drawn in page.locator("svg.plan").all()]


def test_a_plan_is_chosen_on_the_page_and_seen_beside_the_one_in_force(
    browser: Browser, served: Served
) -> None:
    """By a tuner, then by a scheduler, whose choice is on the page of the first proposal."""
    running = archived().plan(STEP).start
    watched = WatchedPage(browser.new_context(), served.url)
    page = watched.page
    page.set_default_timeout(SLOW_MS)
    page.goto(f"{served.url}/topologies")
    page.get_by_role("link", name=TOPOLOGY).click()
    page.get_by_label("Tuner").select_option("ds2")
    page.get_by_role("button", name="Propose a plan").click()
    expect(page.locator("h1")).to_have_text(f"A plan for {TOPOLOGY}")
    expect(page.get_by_label("Tuner")).to_have_value("ds2")
    assert drawings(page)[0] == len(running.executors)
    expect(page.locator("svg.plan")).to_have_count(2)
    decided = page.locator(".decided details")
    decided.last.locator("summary").press("Enter")
    expect(decided.last.locator("math")).to_have_count(2)
    page.get_by_label("Scheduler").select_option("random")
    page.get_by_role("button", name="Propose a placement").press("Enter")
    expect(page.get_by_label("Scheduler")).to_have_value("random")
    assert drawings(page) == [len(running.executors)] * 2
    expect(page.locator(".decided")).to_have_count(0)
    expect(page.locator("pre")).to_contain_text("placement:")
    assert watched.wrong == []
    page.context.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_pages_fit_the_screen_and_nothing_is_wrong_with_them(
    screen: str, browser: Browser, served: Served
) -> None:
    """Pictures are kept by the test of the real one."""
    watched = WatchedPage(screen_of(browser, screen), served.url)
    watched.page.set_default_timeout(SLOW_MS)
    for name, path in (
        ("submitted", "topologies"),
        ("reported", f"topologies/{TOPOLOGY}"),
        ("tuned", f"topologies/{TOPOLOGY}/proposal?tuner=ds2"),
        ("placed", f"topologies/{TOPOLOGY}/proposal?scheduler=random"),
        ("declined", f"topologies/{TOPOLOGY}/proposal?scheduler=flux"),
    ):
        watched.page.goto(f"{served.url}/{path}")
        expect(watched.page.locator("h1")).to_be_visible()
        assert watched.page.evaluate(WIDE), name
        assert watched.serious() == [], name
    assert watched.wrong == []
    watched.page.context.close()
