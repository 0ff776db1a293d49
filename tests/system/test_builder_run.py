"""A tiny experiment from the builder's page to its finished run, on a local cluster that the run starts.

Another run has the machine at first. One step, and the shortest interval that there can be.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx
import pytest
from chromium import chromium
from harness_command import started_with_token
from playwright.sync_api import expect
from short_experiments import short_experiment, short_measure
from watched_page import WatchedPage

from harness.experiments.loading import load
from harness.machine import sandbox
from harness.machine.machine_lock import MachineLock
from harness.machine.servers import ServerHomes
from harness.runs import Run

pytestmark = pytest.mark.system

MEASURE = {**short_measure(burn_in_s=5, least_s=5), "attempts": 1}
TINY = {
    **short_experiment("tiny", MEASURE, tasks=2, ackers=1, slots_per_node=1),
    "steps": {"plan": [{"executors": 1}]},
}
SLOW_MS = 300_000


def test_an_experiment_waits_its_turn_and_is_measured_from_the_page(
    server_homes: ServerHomes, tmp_path: Path
) -> None:
    if reason := sandbox.obstacle():
        pytest.skip(f"no sandbox on this machine: {reason}")
    (tmp_path / "runs").mkdir()
    file = tmp_path / "tiny.yaml"
    file.write_text(json.dumps(TINY))  # JSON is YAML
    # The tests live in a sandbox; the run, as its user's would, makes one of its own.
    environment = {k: v for k, v in os.environ.items() if k != sandbox.MARK}
    process, url, token = started_with_token(tmp_path / "runs", environment)
    try:
        with chromium("a run from the page was") as browser:
            watched = WatchedPage(browser.new_context(), url)
            page = watched.page
            page.goto(f"{url}/activity#token={token}")
            page.goto(f"{url}/builder")
            page.locator("#file").set_input_files(file)
            expect(page.locator("#text")).to_have_value(file.read_text())
            expect(page.locator("#problem")).to_be_hidden()
            with MachineLock("runs/another", wait=False, say=print):
                page.get_by_role("button", name="Run it").click()
                state = page.locator("#job .verdict")
                expect(state).to_have_text("queued", timeout=SLOW_MS)
                job = page.url.rpartition("/")[2]
                assert httpx.get(f"{url}/jobs/{job}").json()["state"] == "queued"
                assert 'class="verdict queued"' in httpx.get(f"{url}/activity").text
            expect(state).to_have_text("running", timeout=SLOW_MS)
            expect(state).to_have_text("done", timeout=SLOW_MS)
            page.get_by_role("link", name="tiny/").click()
            expect(page.locator("h1")).to_have_text("tiny")
            expect(page.locator("#state")).to_have_text("measuring ended: finished")
            expect(page.get_by_role("region", name="Finished steps").locator("tbody tr")).to_have_count(1)
            expect(page.get_by_role("link", name="Report of this run")).to_be_visible()
            assert watched.wrong == []
        address = httpx.get(f"{url}/jobs/{job}").json()["run"]
    finally:
        process.terminate()
        process.communicate(timeout=60)
    run = Run(tmp_path / "runs" / address)
    assert load(run.path / "experiment.yaml").cluster.measured
    assert run.finished_steps == (0,)
    ledger = run.quality(0).ledger
    assert ledger.balanced, ledger.reason
    assert abs(ledger.sent - 200) <= 1  # 5 s at 40 messages a second; a boundary may fall on either side
