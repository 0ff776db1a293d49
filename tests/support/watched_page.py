"""A page in Chromium, with all that goes wrong on it: errors, requests elsewhere, what axe finds."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect

SCREENS: dict[str, dict[str, object]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True},
}
COLOURS = 64
"""Of a picture: edges of letters have a thousand more, which nobody sees."""
WIDE = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


def screen_of(browser: Browser, screen: str) -> BrowserContext:
    """Open a context as large and as bright as a screen by its name."""
    return browser.new_context(**SCREENS[screen])  # type: ignore[arg-type]


def keep_picture(page: Page, name: str, otherwise: Path, *, whole: bool = False) -> Path:
    """Keep what a page looks like, and return the file."""
    path = Path(os.environ.get("PAGES_TO", otherwise)) / f"{name}.png"
    with Image.open(BytesIO(page.screenshot(full_page=whole))) as seen:
        seen.convert("RGB").quantize(COLOURS).save(path, optimize=True)
    return path


class WatchedPage:
    """A page of a server at ``url``, and what went wrong on it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page: Page = context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda e: self.wrong.append(str(e)))
        self.page.on(
            "console", lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else None
        )
        self.page.on(
            "request",
            lambda r: None if r.url.startswith((url, "data:", "blob:")) else self.wrong.append(r.url),
        )

    def serious(self) -> list[str]:
        """Return what axe finds serious or critical."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{v['id']}: {v['nodes'][0]['html']}" for v in found if v["impact"] in ("serious", "critical")
        ]

    def keep(self, name: str, otherwise: Path) -> None:
        """Assert that the page is no wider than its screen, and keep a picture of it.

        Parameters
        ----------
        name : str
            The picture's name, without its ending.
        otherwise : Path
            Folder for the picture where the environment's ``PAGES_TO`` names none.
        """
        self.page.wait_for_load_state("load")  # a heading may be there before the style sheet is
        expect(self.page.locator("h1")).to_be_visible()
        assert self.page.evaluate(WIDE), name
        keep_picture(self.page, name, otherwise)
