from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import chromium
from playwright.sync_api import Browser
from served import Served, serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("runs")) as service:
        yield service


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium("the pages were") as opened:
        yield opened
