"""What tests of campaigns begin with: a recorded world that nobody waits for, and a run without steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_world import EXPERIMENT, World

from harness.experiments import campaign, step_traffic
from harness.runs import Run


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    for module in (campaign, step_traffic):
        monkeypatch.setattr(module, "POLL_S", 0.0)
    for name in ("QUIET_S", "UNSURE_S"):
        monkeypatch.setattr(step_traffic, name, 0.0)
    return World()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, EXPERIMENT.name, {"experiment.yaml": ""}, {"started": "2026-01-02T03:04:05"})
