"""Settings for all tests: where a change is judged, property tests repeat the same examples.

``HARNESS_TESTS=quick`` (``make test``) leaves out what is marked ``deep`` and tries fewer examples.
"""

from __future__ import annotations

import os

import pytest
from budgets import DEEP, budget
from hypothesis import settings

from harness.machine import machine_lock

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("dev", deadline=None)
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=budget(100))
settings.load_profile("quick" if not DEEP else "ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session", autouse=True)
def _lock_of_these_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands of tests are not refused for what else is measured: whether they disturb it is not asked."""
    os.environ[machine_lock.PLACE] = str(tmp_path_factory.mktemp("locks"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of the quick circle what only the deep one runs."""
    if DEEP:
        return
    kept = [item for item in items if item.get_closest_marker("deep") is None]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
