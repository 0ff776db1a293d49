"""The command that serves: it ends as signals ask, and names what it cannot serve."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import waiting
from harness_command import started
from served import SHORT, Served

from harness.app.simulated.campaign import carry_out
from harness.experiments.loading import dump, load
from harness.experiments.progress import ProgressFile
from harness.machine.environment import describe
from harness.runs import Run

LOADED_WITHIN_S = 300.0
"""Compilation on a busy machine."""
MANY_EXECUTORS = (*SHORT[:-1], "topology.tasks=200", "steps.plan=[{executors: 200}]")
"""Four components: a search that may take any effort goes on for minutes."""


@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGTERM, signal.SIGINT),
        pytest.param((signal.SIGTERM,), marks=pytest.mark.deep),
        pytest.param((signal.SIGINT,), marks=pytest.mark.deep),
        pytest.param((signal.SIGHUP,), marks=pytest.mark.deep),
    ],
)
def test_signals_end_it_quietly_with_a_page_open(numbers: tuple[int, ...], served: Served) -> None:
    run = Run.create(served.runs, "held", {"experiment.yaml": ""}, {})
    process, url = started("--runs", str(served.runs))
    try:
        with (
            run.exclusively(),
            ProgressFile(run.path, 1),
            httpx.stream("GET", f"{url}/runs/held/{run.path.name}/events", timeout=60) as stream,
        ):
            assert "id: 1" in next(stream.iter_lines())
            for number in numbers:
                process.send_signal(number)
            assert process.wait(timeout=15) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    finally:
        process.kill()
        shutil.rmtree(served.runs / "held")


def test_a_port_that_is_taken_and_a_folder_that_is_not_there_are_named(served: Served) -> None:
    for arguments, said in (
        (["--port", served.url.rpartition(":")[2]], "give another with --port"),
        (["--runs", str(served.runs / "never")], "no such folder"),
    ):
        command = [sys.executable, "-m", "harness", "serve", *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (ended.returncode, said in ended.stderr) == (2, True)
        assert len(ended.stderr.splitlines()) == 1


@pytest.mark.deep
def test_it_ends_in_time_while_a_question_is_computed_and_others_are_told(tmp_path: Path) -> None:
    """The search has work for minutes; a question behind it is refused, and the signal ends the service."""
    experiment = load("fields-to-fields", MANY_EXECUTORS)
    files = {"experiment.yaml": dump(experiment)}
    run = Run.create(tmp_path, experiment.name, files, describe("simulator", {"storm": "2.8.3"}))
    carry_out(experiment, run, lambda _: None)
    process, url = started("--runs", str(tmp_path))
    address = f"{url}/model/topology/storm/proposed/{experiment.name}"
    long = {"scheduler": "model-guided", "parameters": {"most_effort": 2**31 - 1}}
    try:
        waiting.until(
            lambda: httpx.get(f"{url}/health").json()["model"] != "loading", "the model", LOADED_WITHIN_S
        )
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(httpx.post, address, json=long, timeout=None)
            refused = waiting.until(lambda: busy(address), "the refusal of another question")
            assert refused.json()["errors"] == [
                {
                    "type": "ModelsBusy",
                    "error": "models have been at work on other questions for 10 s: ask again later,"
                    " or let a job propose (POST /jobs)",
                }
            ]
            assert not asked.done()
            process.terminate()
            assert process.wait(timeout=15) == 0
            answer = asked.result(timeout=15)
        assert (answer.status_code, answer.json()["errors"][0]["type"]) == (503, "ServiceEnds")
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()


def busy(address: str) -> httpx.Response | None:
    """Ask what is answered at once, and return the answer if it is that others are asked about."""
    answer = httpx.post(address, json={"scheduler": "even"}, timeout=60)
    return answer if answer.status_code == 503 else None
