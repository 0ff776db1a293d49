"""The service's pages as a person uses them, in headless Chromium; PAGES_TO says where pictures are kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from served import HOSTILE, Served
from watched_page import SCREENS, WIDE, WatchedPage, keep_picture, screen_of

from harness.experiments.contracts import Progress
from harness.experiments.progress import ProgressFile
from harness.runs import Run

pytestmark = pytest.mark.deep


class Visit(WatchedPage):
    """A page of the served runs."""

    def __init__(self, context: BrowserContext, served: Served) -> None:
        super().__init__(context, served.url)
        self.served = served
        self.page.on("dialog", lambda d: self.wrong.append(f"dialog: {d.message}"))

    def go(self, path: str) -> Page:
        self.page.goto(self.served.url + path)
        return self.page


@pytest.fixture
def visit(browser: Browser, served: Served) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    visiting = Visit(context, served)
    yield visiting
    context.close()
    assert visiting.wrong == []


def test_runs_are_filtered_and_compared_by_keyboard(visit: Visit) -> None:
    page = visit.go("/")
    expect(page.locator("tbody tr").nth(2)).to_be_visible()
    runs = page.locator("tbody tr").count()  # three, and those of tests before this one
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.get_by_label("Experiment").focus()
    page.keyboard.type("noise")
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_have_text(f"1 of {runs} runs")
    page.go_back()
    for box in page.get_by_role("checkbox").all()[:2]:
        box.focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="compare").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Two runs")


def test_an_ended_run_is_replayed(visit: Visit) -> None:
    page = visit.go("/")
    page.get_by_role("link", name="fields-to-fields", exact=True).click()
    expect(page.locator("#state")).to_have_text("measuring ended: finished")
    expect(page.locator("#phase")).to_contain_text("end")
    for chart in ("#latencies", "#rates"):
        expect(page.locator(f"{chart} rect.measure")).to_have_count(2)  # two steps
        assert page.locator(f"{chart} path.line").get_attribute("d").startswith("M")  # type: ignore[union-attr]
    executors = len(Run(visit.served.runs / visit.served.simulated).plan(1).start.executors)
    expect(page.locator("#plan svg g.executor")).to_have_count(executors, timeout=60_000)  # imports first
    for tile in ("#rate", "#latency", "#ledger", "#step"):  # what was seen last stays
        expect(page.locator(tile)).to_be_visible()
        expect(page.locator(tile)).not_to_be_empty()
    for tile in ("#busy", "#stolen"):  # of a machine; this run was played
        expect(page.locator(tile)).to_be_hidden()
    expect(page.locator("#plan path.connection").first).to_be_attached()
    expect(page.locator("#plan")).to_contain_text("Rates of the last 10 s")
    page.get_by_label("compact").check()
    expect(page.locator("#plan svg.query-plan")).to_be_visible()
    expect(page.get_by_role("region", name="Connections").locator("tbody tr")).to_have_count(3)
    page.get_by_label("every executor").check()
    expect(page.locator("#plan svg g.executor")).to_have_count(executors)
    moment = page.locator("#moment")
    moment.focus()
    page.keyboard.press("Home")
    expect(page.locator("#phase")).to_have_text("begin")
    expect(page.locator("#rate")).to_be_hidden()  # nothing is known of it yet
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#step")).to_contain_text("1 of 2")
    expect(page.locator("#plan-of")).to_have_text("of step 0")
    expect(page.locator("#rate")).to_contain_text("messages/s")
    page.get_by_role("button", name="Play").press("Enter")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.locator("#plan-of")).to_have_text("of step 1", timeout=30_000)
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=30_000)


def test_two_steps_are_watched_in_one_chart(visit: Visit) -> None:
    page = visit.go(f"/runs/{visit.served.simulated}")
    page.get_by_role("button", name="In one chart").click()
    expect(page.locator("#state")).to_have_text("both have ended")
    for chart in ("#latency_ms", "#rate_tps"):
        for kind in ("first", "second"):
            expect(page.locator(f"{chart} path.{kind}")).to_have_count(1)
    expect(page.locator("svg.query-plan")).to_have_count(2)
    expect(page.locator("[data-tile=latency]").last).to_contain_text("ms")
    moment = page.locator("#moment")
    moment.focus()
    page.keyboard.press("Home")
    expect(page.locator("[data-tile=phase]").first).to_have_text("burn-in")
    page.get_by_role("button", name="Play").press("Enter")
    expect(page.locator("[data-tile=phase]").first).to_have_text("measure", timeout=30_000)
    page.get_by_role("button", name="Pause").press("Enter")


def test_a_hostile_name_is_text_and_its_report_is_there(visit: Visit) -> None:
    start = visit.served.simulated.split("/")[1]
    page = visit.go(f"/runs/{quote(HOSTILE)}/{start}")
    expect(page.locator("h1")).to_have_text(HOSTILE)
    expect(page.locator("#state")).to_have_text("measuring ended: finished")
    expect(page.get_by_role("link", name="Report of this run")).to_be_visible()


def test_a_report_reaches_nothing(browser: Browser, served: Served) -> None:
    context = browser.new_context()
    visiting = Visit(context, served)
    page = visiting.go(f"/runs/{quote(HOSTILE)}/{served.simulated.split('/')[1]}/report")
    expect(page.locator("body")).to_contain_text("a report")
    assert any("Content Security Policy" in error for error in visiting.wrong)  # it tried to fetch
    context.close()


def test_a_live_run_shows_what_is_written_now(visit: Visit) -> None:
    source = Run(visit.served.runs / visit.served.simulated)
    files = {"experiment.yaml": (source.path / "experiment.yaml").read_text()}
    run = Run.create(visit.served.runs, "live", files, {"cluster_kind": "local"})
    plan = source.plan(0).start
    try:
        with run.exclusively():
            with ProgressFile(run.path, 1) as file:
                file(Progress(0, 1, "submit", "first", epoch_ms=0))
                page = visit.go(f"/runs/live/{run.path.name}")
                expect(page.locator("#state")).to_have_text("being measured now")
                file(Progress(0, 1, "burn-in", "first", epoch_ms=1000, plan=plan))
                expect(page.locator("#plan svg g.executor")).to_have_count(len(plan.executors))
                used = {"machine_busy_pct": 44.25, "machine_steal_pct": 1.5}
                said = {"ledger": {"sent": 400, "received": 399}, "epoch_ms": 2000, **used}
                file(Progress(0, 1, "measure", "first", 49.5, 12.25, 30.0, **said))  # type: ignore[arg-type]
                expect(page.locator("#latency")).to_have_text("12.25 ms")
                expect(page.locator("#rate")).to_have_text("49.5 messages/s")
                expect(page.locator("#left")).to_have_text("about 30 s")
                expect(page.locator("#ledger")).to_have_text("sent 400, received 399")
                expect(page.locator("#busy")).to_have_text("44.3 %")
                expect(page.locator("#stolen")).to_have_text("1.5 %")
                expect(page.locator("#cost")).to_contain_text("This service takes", timeout=30_000)
            (run.path / "report.html").write_text("judged")
        expect(page.get_by_role("link", name="Report of this run")).to_be_visible(timeout=30_000)
    finally:
        shutil.rmtree(visit.served.runs / "live")


DELETED = "this run's folder was deleted: what is shown was read before"


def test_a_run_that_is_deleted_under_its_replay_is_said_once(visit: Visit) -> None:
    start = visit.served.simulated.split("/")[1]
    copy = visit.served.runs / "deleted" / start
    shutil.copytree(visit.served.runs / visit.served.simulated, copy)
    page = visit.go(f"/runs/deleted/{start}")
    expect(page.locator("#state")).to_have_text("measuring ended: finished")
    expect(page.locator("#plan svg")).to_be_visible(timeout=60_000)
    shutil.rmtree(copy.parent)
    page.locator("#moment").focus()
    page.keyboard.press("Home")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#state")).to_have_text(DELETED)
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#rate")).to_contain_text("messages/s")  # what was read goes on being shown
    expect(page.locator("#plan svg")).to_be_visible()
    assert visit.serious() == []


def test_a_run_that_is_deleted_while_it_is_watched_is_said_once(visit: Visit) -> None:
    source = Run(visit.served.runs / visit.served.simulated)
    files = {"experiment.yaml": (source.path / "experiment.yaml").read_text()}
    run = Run.create(visit.served.runs, "deleted", files, {"cluster_kind": "local"})
    with run.exclusively(), ProgressFile(run.path, 1) as file:
        file(Progress(0, 1, "submit", "first", epoch_ms=0))
        page = visit.go(f"/runs/deleted/{run.path.name}")
        expect(page.locator("#state")).to_have_text("being measured now")
        file(Progress(0, 1, "burn-in", "first", epoch_ms=1000, plan=source.plan(0).start))
        expect(page.locator("#plan svg")).to_be_visible(timeout=60_000)
        shutil.rmtree(run.path.parent)
        expect(page.locator("#state")).to_have_text(DELETED, timeout=30_000)
        expect(page.locator("#plan svg")).to_be_visible()


@pytest.mark.parametrize("screen", SCREENS)
def test_pages_fit_the_screen_and_are_kept_as_pictures(
    screen: str, browser: Browser, served: Served, tmp_path: Path
) -> None:
    context = screen_of(browser, screen)
    visiting = Visit(context, served)
    compared = f"run={quote(served.simulated)}&run={quote(served.archived)}"
    for name, path in (
        ("runs", "/"),
        ("run", f"/runs/{served.archived}"),
        ("compare", f"/compare?{compared}"),
        ("together", f"/together?step={quote(served.simulated)}/0&step={quote(served.simulated)}/1"),
    ):
        page = visiting.go(path)
        if name == "run":
            expect(page.locator("#state")).to_contain_text("measuring ended")
            expect(page.locator("#plan svg")).to_be_visible()
        if name == "together":
            expect(page.locator("#state")).to_have_text("both have ended")
            expect(page.locator(".side svg")).to_have_count(2)
        assert page.evaluate(WIDE), name
        assert visiting.serious() == [], name
        assert keep_picture(page, f"{name}-{screen}", tmp_path, whole=True).stat().st_size < 250_000
    context.close()
    assert visiting.wrong == []
