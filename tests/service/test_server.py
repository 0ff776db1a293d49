"""The command that serves: it ends as signals ask, and names what it cannot serve."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

import httpx
import pytest
from harness_command import started
from served import Served

from harness.experiments.progress import ProgressFile
from harness.runs import Run


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
