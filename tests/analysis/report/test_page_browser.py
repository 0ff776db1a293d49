"""The report as a reader meets it, in headless Chromium: opened, hovered, clicked, sorted and printed.

PAGES_TO says where the picture of an archived run's report is kept, which README shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from chromium import chromium
from playwright.sync_api import Browser, Page, Request
from pypdf import PdfReader
from pyspark.sql import SparkSession
from watched_page import SCREENS, WatchedPage, keep_picture, screen_of

from harness.analysis.judge.computing import compute, predicted
from harness.analysis.judge.results import Results
from harness.analysis.report import writing
from harness.analysis.spark.inputs import read_run

pytestmark = pytest.mark.deep

ARCHIVE = Path(__file__).resolve().parents[3] / "reports" / "runs"
WIDEST = ("all-in-one", "adapt-aeolus")
"""Of all models, five steps and every measure; and of steps that adapt their plan, with most columns."""
PRINTED_PX = round((297 - 2 * 11) / 25.4 * 96)
"""Width of the printed part of the page: A4 landscape less the margins that the style sheet asks for."""


@pytest.fixture(scope="module")
def report(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    writing.write(results, folder)
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium("the report was") as opened:
        yield opened


@pytest.fixture(scope="module")
def archived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of archived runs by the experiment's name."""
    reports = {}
    for name in WIDEST:
        folder = tmp_path_factory.mktemp(name)
        with predicted(max((ARCHIVE / name).iterdir())) as ready:
            writing.write(compute(spark, read_run(ready)), folder)
        reports[name] = folder / "report.html"
    return reports


class Opened:
    """A page and what happened while it was open."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", self._request)
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        page.goto(path.as_uri())

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield Opened(context.new_page(), report)
    context.close()


def test_it_opens_without_errors_and_asks_nobody_for_anything(opened: Opened, report: Path) -> None:
    page = opened.page
    page.wait_for_load_state("networkidle")
    for name in ("answer", "matrices", "pairs", "plans", "provenance"):
        page.locator(f"#{name}").scroll_into_view_if_needed()
    assert opened.errors == []
    others = [url for url in opened.requests if not url.startswith("data:")]
    assert others == [report.as_uri()]
    loaded = page.evaluate("performance.getEntriesByType('resource').map(r => r.name)")
    assert [url for url in loaded if not url.startswith("data:")] == []
    sizes = page.evaluate("[...document.images].map(i => i.naturalWidth)")
    assert len(sizes) >= 5
    assert all(width > 100 for width in sizes)


def test_hovering_over_a_cell_shows_its_numbers(opened: Opened) -> None:
    page = opened.page
    tip = page.locator("#tip")
    assert tip.is_hidden()
    cell = page.locator(".view:not([hidden]) .matrix td:not(.gap):not(.diagonal)").first
    cell.hover()
    assert tip.is_visible()
    text = tip.inner_text()
    assert text.startswith("step ")
    assert "predicted" in text
    assert "measured" in text
    box = tip.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1280
    page.locator("h1").hover()
    assert tip.is_hidden()


def test_a_cell_that_has_the_keyboards_focus_shows_them_too(opened: Opened) -> None:
    page = opened.page
    page.locator("#kind").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('td') !== null")
    assert page.locator("#tip").is_visible()


def test_a_click_opens_the_pair_stage_by_stage(opened: Opened, results: Results) -> None:
    page = opened.page
    assert page.locator("section.pair:visible").count() == 0
    assert page.locator(".none-chosen").is_visible()
    page.locator('.view:not([hidden]) .matrix a[href="#pair-0-2"]').first.click()
    shown = page.locator("section.pair:visible")
    assert shown.count() == 1
    assert page.url.endswith("#pair-0-2")
    assert "Step 0" in shown.inner_text()
    assert page.locator(".none-chosen").is_hidden()
    mean = results.measured("ground_truth_latency_ms").set_index("step")["value"]
    total = shown.locator("tr.total td").all_inner_texts()
    assert float(total[2]) == pytest.approx(mean[2], rel=0.01)
    page.locator('.view:not([hidden]) .matrix a[href="#pair-2-1"]').first.click()
    assert page.locator("section.pair:visible").get_attribute("id") == "pair-2-1"


def test_another_measure_shows_other_matrices(opened: Opened) -> None:
    page = opened.page
    before = page.locator(".view:visible h3").all_inner_texts()
    page.locator("#kind").select_option(index=2)
    after = page.locator(".view:visible h3").all_inner_texts()
    assert after
    assert before != after


def test_a_click_on_a_heading_sorts_by_it_with_gaps_last(opened: Opened) -> None:
    page = opened.page
    table = page.locator("#answer table.sortable")
    heads = table.locator("thead th")
    at = heads.all_inner_texts().index("median error %")

    def column() -> list[str]:
        return table.locator(f"tbody td:nth-child({at + 1})").all_inner_texts()

    def numbers() -> list[float]:
        return [float(t) for t in column() if t != "–"]

    heads.nth(at).locator("button").click()
    assert heads.nth(at).get_attribute("aria-sort") == "ascending"
    assert numbers() == sorted(numbers())
    gaps = [i for i, t in enumerate(column()) if t == "–"]
    assert gaps == list(range(len(numbers()), len(column()))), "what has no number is at the end"
    heads.nth(at).locator("button").click()
    assert heads.nth(at).get_attribute("aria-sort") == "descending"
    assert numbers() == sorted(numbers(), reverse=True)
    heads.nth(3).locator("button").click()
    assert heads.nth(at).get_attribute("aria-sort") is None
    names = table.locator("tbody td:nth-child(4)").all_inner_texts()
    assert names == sorted(names)


def test_plans_are_drawn_with_every_executor(opened: Opened, results: Results) -> None:
    page = opened.page
    plans = page.locator("svg.plan")
    assert plans.count() == len(results.steps)
    for i, s in enumerate(results.run.steps):
        executors = plans.nth(i).locator("g[data-tip]")
        assert executors.count() == len(s.plan.start.executors)
    first = plans.first.locator("g[data-tip]").first
    first.hover()
    assert "task" in page.locator("#tip").inner_text()


ALL_OPEN = """() => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    for (const view of document.querySelectorAll(".view")) view.hidden = false;
    for (const pair of document.querySelectorAll(".pair")) pair.style.display = "block";
}"""
TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll(".scroll, .view")]
    .filter(e => e.scrollWidth > e.clientWidth)
    .map(e => `${e.closest("section")?.id}, ${e.scrollWidth} px: ${e.textContent.slice(0, 60)}`)"""


@pytest.mark.parametrize("name", WIDEST)
def test_at_1200_px_no_table_of_an_archived_run_has_to_be_scrolled(
    name: str, browser: Browser, archived: dict[str, Path]
) -> None:
    with browser.new_context(viewport={"width": 1200, "height": 800}) as context:
        page = context.new_page()
        page.goto(archived[name].as_uri())
        page.evaluate(ALL_OPEN)
        assert page.locator("table:visible").count() > 5
        assert page.evaluate(TOO_WIDE) == []


@pytest.mark.parametrize("screen", SCREENS)
def test_nothing_serious_is_wrong_with_an_archived_runs_report(
    screen: str, browser: Browser, archived: dict[str, Path]
) -> None:
    with screen_of(browser, screen) as context:
        address = archived["all-in-one"].as_uri()
        watched = WatchedPage(context, address)
        watched.page.goto(address)
        assert watched.serious() == []
        assert watched.wrong == []


@pytest.mark.parametrize("width_px", [390, 1200])
def test_however_narrow_the_screen_only_tables_scroll(browser: Browser, report: Path, width_px: int) -> None:
    context = browser.new_context(viewport={"width": width_px, "height": 800})
    page = context.new_page()
    page.goto(f"{report.as_uri()}#pair-0-1")
    wide = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert wide <= width_px


def test_it_prints_well(browser: Browser, report: Path) -> None:
    """No table is wider than the paper, no page is empty, and what was chosen is printed."""
    context = browser.new_context(viewport={"width": PRINTED_PX, "height": 700})
    page = context.new_page()
    page.goto(f"{report.as_uri()}#pair-0-2")
    page.emulate_media(media="print")
    too_wide = page.evaluate(
        """w => [...document.querySelectorAll("table, figure, svg, .view")]
            .filter(e => e.getBoundingClientRect().right > w + 1)
            .map(e => `${e.tagName} in ${e.closest("section").id}: ${e.getBoundingClientRect().right}`)""",
        PRINTED_PX,
    )
    assert too_wide == []
    data = page.pdf(prefer_css_page_size=True, print_background=True)
    context.close()
    paper = PdfReader(BytesIO(data))
    assert 4 <= len(paper.pages) <= 40
    texts = [p.extract_text() for p in paper.pages]
    for number, (sheet, text) in enumerate(zip(paper.pages, texts, strict=True), start=1):
        assert float(sheet.mediabox.width) > float(sheet.mediabox.height), "landscape"
        assert len(text.split()) > 10 or sheet.images, f"page {number} is empty"
    whole = " ".join(" ".join(texts).split())
    for said in ("How large are the errors", "Step 0", "What was measured", "Provenance"):
        assert said in whole
    assert "hover over a cell" not in whole, "controls are no use on paper"


def test_the_first_screen_of_an_archived_run_names_verdict_and_models(
    browser: Browser, archived: dict[str, Path], tmp_path: Path
) -> None:
    with screen_of(browser, "light") as context:
        page = context.new_page()
        page.goto(archived["all-in-one"].as_uri())
        page.wait_for_load_state("load")
        for seen in (page.locator("h1"), page.get_by_text("composite").first):
            box = seen.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 900
        assert keep_picture(page, "report-light", tmp_path).stat().st_size < 250_000
