"""The builder, jobs and a tuner's decisions as a person uses them, in headless Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from served import Served
from watched_page import SCREENS, WatchedPage, screen_of

from harness.service import building
from harness.service.jobs import shipped
from harness.tuning import TUNERS

pytestmark = pytest.mark.deep
SLOW_MS = 180_000


def watch(context: BrowserContext, served: Served) -> WatchedPage:
    """Open the address that the service printed, with its token."""
    watched = WatchedPage(context, served.url)
    watched.page.goto(f"{served.url}/activity#token={served.token}")
    expect(watched.page.locator("h1")).to_have_text("Jobs")
    return watched


@pytest.fixture(scope="module")
def decided(browser: Browser, served: Served) -> str:
    """Tune a step from the page, and return the address of the job's page."""
    context = browser.new_context()
    watched = watch(context, served)
    page = watched.page
    form = page.locator("form[data-kind=tune]")
    form.locator("select[name=run]").select_option(served.simulated)
    form.get_by_role("button", name="Start").click()
    expect(page.locator("#job")).to_have_attribute("data-state", "done", timeout=SLOW_MS)
    expect(page.locator("tbody tr")).to_have_count(len(TUNERS))
    assert watched.wrong == []
    assert watched.serious() == []
    address = page.url
    context.close()
    return address


def test_decisions_are_stepped_forward_back_and_played(
    browser: Browser, served: Served, decided: str
) -> None:
    context = browser.new_context()
    watched = watch(context, served)
    page = watched.page
    page.goto(decided)
    page.locator("tr", has_text="ds2").get_by_role("link", name="decisions").click()
    expect(page.locator("h1")).to_contain_text("ds2, decision 1 of")
    page.get_by_role("link", name="Forward").click()
    assert page.url.endswith("/ds2/2")
    name = page.locator("h1").inner_text().rpartition(": ")[2]
    framed = page.locator("svg.query-plan g", has=page.locator("rect[stroke-width='3']"))
    expect(framed.locator("text").first).to_have_text(name)
    expect(page.locator("math")).to_have_count(2)
    assert watched.serious() == []
    page.go_back()
    page.get_by_role("link", name="Play").click()
    page.wait_for_url("**/ds2/2?play=1", timeout=30_000)
    page.get_by_role("link", name="Pause").click()
    assert page.url.endswith("/ds2/2")
    page.get_by_role("link", name="Back").click()
    expect(page.locator("h1")).to_contain_text("decision 1 of")
    assert watched.wrong == []
    context.close()


def test_original_and_proposal_are_played_at_once_in_one_chart(
    browser: Browser, served: Served, decided: str
) -> None:
    context = browser.new_context()
    watched = watch(context, served)
    page = watched.page
    page.goto(decided)
    page.get_by_role("button", name="Run the original and the proposal of ds2").click()
    expect(page.locator("h1")).to_have_text("Two steps in one chart", timeout=SLOW_MS)
    assert page.url.count("step=") == 2
    for kind in ("first", "second"):
        expect(page.locator(f"#latency_ms path.{kind}")).to_have_count(1, timeout=SLOW_MS)
    expect(page.get_by_text("Whole interval")).to_have_count(2, timeout=SLOW_MS)
    assert watched.serious() == []
    assert watched.wrong == []
    context.close()


def test_a_graph_is_optimised_and_run(browser: Browser, served: Served) -> None:
    context = browser.new_context()
    watched = watch(context, served)
    page = watched.page
    page.goto(f"{served.url}/builder?experiment=quick")
    page.locator("#optimise select").select_option("ds2")
    page.get_by_role("button", name="Optimise and run").click()
    expect(page.get_by_text("Whole interval")).to_have_count(2, timeout=SLOW_MS)
    for kind in ("first", "second"):
        expect(page.locator(f"#latency_ms path.{kind}")).to_have_count(1)
    page.get_by_role("link", name="decisions").click()
    expect(page.locator("h1")).to_contain_text("ds2, decision 1 of")
    page.get_by_role("link", name="The run").click()
    expect(page.locator("h1")).to_have_text("quick-ds2")
    assert watched.wrong == []
    context.close()


def test_a_graph_is_edited_predicted_saved_and_run(browser: Browser, served: Served, tmp_path: Path) -> None:
    context = browser.new_context()
    watched = watch(context, served)
    page = watched.page
    page.goto(f"{served.url}/builder?experiment=quick")
    bolt = page.get_by_role("group", name="bolt-a")
    bolt.get_by_label("service, ms").fill("0.8")
    bolt.get_by_label("service, ms").press("Tab")
    expect(page.locator("#prediction tbody tr")).to_have_count(2, timeout=SLOW_MS)
    page.get_by_label("name").fill("extra")
    page.locator("#new-role").select_option("json")
    page.get_by_role("button", name="Add component").click()
    expect(page.locator("#problem")).to_contain_text("extra has no input")
    page.locator("#from").select_option("bolt-a")
    page.locator("#to").select_option("extra")
    page.get_by_role("button", name="Add stream").click()
    expect(page.locator("#problem")).to_contain_text("nobody subscribes to extra")
    page.locator("#from").select_option("extra")
    page.locator("#to").select_option("sender")
    page.get_by_role("button", name="Add stream").click()
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#parts svg a")).to_have_count(5)
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save as a file").click()
    saving.value.save_as(tmp_path / "mine.yaml")
    saved = building.checked((tmp_path / "mine.yaml").read_text())
    assert saved.topology.own().services["bolt-a"].mean_ms == 0.8
    assert "extra" in saved.topology.own().roles
    page.locator("#file").set_input_files(shipped()["windowed"])
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("svg.query-plan")).to_contain_text("window")
    # What is being predicted anew is pale meanwhile.
    expect(page.locator("#prediction")).not_to_have_attribute("aria-busy", "true", timeout=SLOW_MS)
    assert watched.serious() == []
    assert watched.wrong == []
    context.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_pages_fit_the_screen_and_are_kept_as_pictures(
    screen: str, browser: Browser, served: Served, decided: str, tmp_path: Path
) -> None:
    context = screen_of(browser, screen)
    watched = watch(context, served)
    for name, address in (
        ("proposals", decided),
        ("decision", f"{decided}/ds2/2"),
        ("builder", f"{served.url}/builder?experiment=join-split"),
    ):
        watched.page.goto(address)
        watched.keep(f"{name}-{screen}", tmp_path)
    assert watched.wrong == []
    assert watched.serious() == []
    context.close()
