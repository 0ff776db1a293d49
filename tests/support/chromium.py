"""The machine's own Chromium, for tests that look at pages as a person does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
SLOW_MS = 60_000
"""How long a page may take on a busy machine; a page's own default is 5 s."""


@contextmanager
def chromium(what: str) -> Iterator[Browser]:
    """Start it for the block; without one ``what`` was not tried, which is a failure in CI, else a skip."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        said = f"no chromium: {what} not tried in a browser (Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    with sync_playwright() as play:
        expect.set_options(timeout=SLOW_MS)
        opened = play.chromium.launch(executable_path=program, args=list(QUIET))
        yield opened
        opened.close()
