"""``harness run`` as a user types it: the quick experiment, killed in its second step and taken up again."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harness.backends.servers import ServerHomes

pytestmark = pytest.mark.system

WAIT_S = 420.0
LOAD_RELATED = {"steady", "burn-in", "precision", "generator"}
"""Checks that a machine which does other work at the same time may spoil."""


def until(done: Callable[[], bool], process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.5)


def digest(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def harness(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "harness", *arguments]


@pytest.mark.timeout(1500)
def test_quick_killed_and_resumed(server_homes: ServerHomes, tmp_path: Path) -> None:
    log = tmp_path / "first.log"
    # The tests live in a sandbox; the command, as its user's would, makes one of its own.
    environment = {k: v for k, v in os.environ.items() if k != "STORM_HARNESS_SANDBOX"}
    with log.open("w") as out:
        first = subprocess.Popen(
            harness("run", "quick", "--runs", str(tmp_path)),
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
    try:
        until(
            lambda: "step 2/2" in log.read_text() and "burn-in" in log.read_text().split("step 2/2")[-1],
            first,
            log,
        )
        family = psutil.Process(first.pid).children(recursive=True)
        assert len(family) > 5
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]

    (run,) = (tmp_path / "quick").iterdir()
    assert [p.name for p in (run / "steps").iterdir()] == ["00"]
    before = digest(run / "steps/00")

    done = subprocess.run(
        harness("run", "--resume", str(run), "--json"),
        capture_output=True,
        text=True,
        env=environment,
        timeout=900,
        check=False,
    )
    # Whether a busy machine measures validly is not this test's question; that it says so is.
    assert done.returncode in (0, 3, 4), done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["verdict"] == {0: "valid", 3: "invalid", 4: "unknown"}[done.returncode]
    assert digest(run / "steps/00") == before
    interval = json.loads((run / "steps/01/interval.json").read_text())
    assert interval["submission"] == "resumed"
    for step in ("00", "01"):
        quality = json.loads((run / f"steps/{step}/quality.json").read_text())
        assert quality["plan_as_asked"]["ok"]
        assert quality["plan_unchanged"]["ok"]
        assert quality["ledger"]["balanced"], quality["ledger"]["reason"]
    verdict = json.loads((run / "verdict.json").read_text())
    spoilt = {c["check"] for c in verdict["checks"] if c["status"] != "valid"}
    assert spoilt <= LOAD_RELATED, spoilt
    for name in ("report.html", "predictions.parquet", "errors.parquet", "summary.json", "verdict.json"):
        assert (run / name).stat().st_size > 0

    # With no cluster and on a copy, predict and report give the same numbers.
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(run), str(copy)], check=True)
    for command, status in (("predict", 0), ("report", done.returncode)):
        again = subprocess.run(
            harness(command, str(copy)), capture_output=True, text=True, timeout=300, check=False
        )
        assert again.returncode == status, again.stderr[-3000:]
    assert json.loads((copy / "summary.json").read_text()) == json.loads((run / "summary.json").read_text())
    assert json.loads((copy / "verdict.json").read_text()) == json.loads((run / "verdict.json").read_text())
