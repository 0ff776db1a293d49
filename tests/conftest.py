"""Settings for all tests: where a change is judged, property tests repeat the same examples.

``HARNESS_TESTS=quick`` (``make test``) leaves out what is marked ``deep`` and tries fewer examples;
``HARNESS_TESTS=rest`` (``make test-deep``) runs what that left out. Both judge changes. Without either,
examples are new ones each time, so that somebody who develops finds what nobody has seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest
from budgets import CIRCLE, belongs, budget
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from harness.machine import machine_lock

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("dev", deadline=None)
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=budget(100))
settings.load_profile({"quick": "quick", "rest": "ci"}.get(CIRCLE, "dev"))


@pytest.fixture(scope="session", autouse=True)
def _lock_of_these_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands of tests are not refused for what else is measured: whether they disturb it is not asked."""
    os.environ[machine_lock.PLACE] = str(tmp_path_factory.mktemp("locks"))


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Keeps what a test found, for its row in docs/reliability.md (scripts/reliability.py)."""
    return partial(record_property, "figure")


class OneSpark(LoadFileScheduling):
    """Files go to whoever is free, but those of the analysis to one process: its Spark warms up once."""

    ANALYSIS = "tests/analysis"

    def _split_scope(self, nodeid: str) -> str:
        return self.ANALYSIS if nodeid.startswith(f"{self.ANALYSIS}/") else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneSpark:
    """Share tests among processes by file."""
    return OneSpark(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another circle runs."""
    here = [belongs(item) for item in items]
    config.hook.pytest_deselected(items=[item for item, kept in zip(items, here, strict=True) if not kept])
    items[:] = [item for item, kept in zip(items, here, strict=True) if kept]
