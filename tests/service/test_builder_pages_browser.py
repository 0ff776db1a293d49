"""The builder, jobs and a tuner's decisions as a person uses them, in headless Chromium."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from served import SHORT, Served
from watched_page import SCREENS, WatchedPage, screen_of

from harness.experiments.loading import dump, load
from harness.schedulers import SCHEDULERS
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
    """Let all tuners and schedulers propose from the page, and return the address of the job's page."""
    context = browser.new_context()
    watched = watch(context, served)
    page = watched.page
    form = page.locator("form[data-kind=propose]")
    form.locator("select[name=run]").select_option(served.simulated)
    form.get_by_role("button", name="Start").click()
    expect(page.locator("#job")).to_have_attribute("data-state", "done", timeout=SLOW_MS)
    expect(page.locator("tbody tr")).to_have_count(len(TUNERS) + len(SCHEDULERS))
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
    page.get_by_role("button", name="Run the original and the proposal of the tuner ds2").click()
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


def test_a_graph_is_run_from_the_page_and_followed_to_its_end(
    browser: Browser, served: Served, tmp_path: Path
) -> None:
    file = tmp_path / "quick.yaml"
    file.write_text(dump(load("quick", [*SHORT, "cluster.kind=local", "models=[no-change]"])))
    context = browser.new_context()
    watched = watch(context, served)
    page = watched.page
    page.goto(f"{served.url}/builder?experiment=all-in-one")
    page.locator("#file").set_input_files(file)
    expect(page.locator("#text")).to_have_value(re.compile("name: quick"))
    page.get_by_role("group", name="Input").get_by_label("message size, bytes").fill("100")
    page.keyboard.press("Tab")
    expect(page.locator("#text")).to_have_value(re.compile("payload_bytes: 100"))
    run = page.locator("#run")
    run.get_by_label("on the simulator").check()
    run.get_by_role("button", name="Run it").click()
    expect(page.locator("#job")).to_have_attribute("data-state", "done", timeout=SLOW_MS)
    page.get_by_role("link", name="quick/").click()
    expect(page.locator("h1")).to_have_text("quick")
    expect(page.get_by_text("Simulated, not measured.")).to_be_visible()
    expect(page.locator("#state")).to_have_text("measuring ended: finished")
    expect(page.get_by_role("region", name="Finished steps").locator("tbody tr")).to_have_count(2)
    expect(page.get_by_role("link", name="Report of this run")).to_be_visible()
    played = load(served.runs / page.url.partition("/runs/")[2] / "experiment.yaml")
    assert played.workload is not None
    assert played.workload.payload_bytes == 100
    assert watched.wrong == []
    context.close()


def test_steps_are_edited_by_keyboard(browser: Browser, served: Served) -> None:
    """Each button keeps the focus through the page's new parts, so that the next key goes on from there."""
    context = browser.new_context()
    watched = watch(context, served)
    page = watched.page
    page.goto(f"{served.url}/builder?experiment=quick")
    steps = page.get_by_role("group", name=re.compile(r"^Step \d"))
    expect(steps).to_have_count(2)
    page.get_by_role("button", name="Copy step 1").press("Enter")
    expect(steps).to_have_count(3)
    expect(page.get_by_role("button", name="Copy step 1")).to_be_focused()
    page.get_by_role("group", name="Step 2").get_by_label("planned by").select_option("tuner ds2")
    expect(page.get_by_role("group", name="Step 2").get_by_label("reads step")).to_have_value("1")
    expect(page.get_by_role("group", name="Step 2").get_by_label("executors of each")).to_have_count(0)
    page.get_by_role("button", name="Step 0: executors by component").press("Enter")
    bolt = page.get_by_role("group", name="Step 0").get_by_label("bolt-a, executors")
    bolt.fill("3")
    bolt.press("Tab")
    expect(page.locator("#text")).to_have_value(re.compile("bolt-a: 3"))
    page.get_by_role("button", name="Add step").press("Enter")
    expect(steps).to_have_count(4)
    page.get_by_role("button", name="Remove step 3").press("Enter")
    expect(steps).to_have_count(3)
    expect(page.get_by_role("button", name="Add step")).to_be_focused()
    sizes = page.get_by_role("group", name="bolt-b").get_by_label("tuple size, bytes")
    sizes.fill("500")
    sizes.press("Tab")
    expect(page.locator("#text")).to_have_value(re.compile("output_bytes: 500"))
    page.get_by_label("Grouping from spout to bolt-a").select_option("shuffle")
    expect(page.get_by_label("Grouping from spout to bolt-a")).to_have_value("shuffle")
    expect(page.locator("#problem")).to_be_hidden()
    found = building.checked(page.locator("#text").input_value())
    assert found.topology.own().output_bytes == {"bolt-b": 500}
    assert [(step.executors, step.tuned_by, step.source) for step in found.steps.plan] == [
        ({"spout": 1, "bolt-a": 3, "bolt-b": 1, "sender": 1}, "", None),
        (2, "", None),
        (None, "ds2", 1),
    ]
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
