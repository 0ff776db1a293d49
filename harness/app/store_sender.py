"""Gives each finished step of a run to an InfluxDB that is there already: a process outside its network.

A run on this machine is in a private network, from which no other server is reached. So a process that was
started before reads the step from the run directory, writes it into the bucket, and answers with the result.
Request and answer are a line of JSON each. The token is in the environment only (``INFLUXDB_TOKEN``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Self

from harness.app.store_events import events_of
from harness.backends.influxdb.store import PATIENCE_S, InfluxBucket, InfluxStore
from harness.errors import ClusterError, HarnessError, UsageError
from harness.experiments.stores import MetricStore
from harness.machine import secret_files
from harness.runs import Run, read_table

TOKEN = "INFLUXDB_TOKEN"
HANDED_ON = "HARNESS_STORE_SENDER"
"""Names the two pipes of a sender that was started before the private network was entered."""


def given_store(metrics: MetricStore, topology: str, patience_s: float = PATIENCE_S) -> InfluxStore:
    """Return the bucket that an experiment names by its address, with the name that its topology has there.

    Parameters
    ----------
    patience_s : float
        How long a server that is away is waited for.

    Raises
    ------
    UsageError
        When there is no token for it.
    """
    token = secret_files.from_environment(TOKEN)
    if token is None:
        raise UsageError(f"metrics.url is set, and no token for it: set {TOKEN} or {TOKEN}_FILE")
    bucket = InfluxBucket(str(metrics.url), str(metrics.org), str(metrics.bucket))
    return InfluxStore(bucket, token, topology, patience_s=patience_s)


def require_given(metrics: MetricStore, topology: str) -> None:
    """Check that the bucket that an experiment names by its address takes points, where it names one.

    Raises
    ------
    UsageError
        When it does not answer, refuses the token, or has no such organisation or bucket.
    """
    if not metrics.given:
        return
    with given_store(metrics, topology) as store:
        store.require_writable()


class StoreSender:
    """A sender's two pipes.

    Parameters
    ----------
    requests, answers
        Files of the pipes.
    """

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests = requests
        self._answers = answers

    @classmethod
    def start(cls, metrics: MetricStore, topology: str) -> Self:
        """Start a sender; it ends when its pipe does."""
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.app.store_sender"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,  # Ctrl-C ends the run, which closes the pipe
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(
            json.dumps({"metrics": metrics.model_dump(mode="json"), "topology": topology}) + "\n"
        )
        return cls(process.stdin, process.stdout)

    @classmethod
    def of(cls, metrics: MetricStore, topology: str) -> Self:
        """Return the sender that was handed on, else a new one."""
        handed_on = os.environ.get(HANDED_ON)
        if handed_on is None:
            return cls.start(metrics, topology)
        requests, answers = map(int, handed_on.split(","))
        return cls(os.fdopen(requests, "w", buffering=1), os.fdopen(answers))

    def hand_on(self) -> None:
        """Let the program that takes this process' place use the sender."""
        numbers = [pipe.fileno() for pipe in (self._requests, self._answers)]
        for number in numbers:
            os.set_inheritable(number, True)
        os.environ[HANDED_ON] = ",".join(map(str, numbers))

    def send(self, run: Run, step: int) -> None:
        """Put a finished step into the bucket.

        Raises
        ------
        ClusterError
            When the bucket did not take it.
        """
        try:
            self._requests.write(json.dumps({"run": str(run.path.resolve()), "step": step}) + "\n")
            answer = self._answers.readline()
        except OSError:
            answer = ""
        if not answer:
            raise ClusterError("the process that gives steps to InfluxDB is gone", "harness run --resume RUN")
        if refusal := json.loads(answer)["error"]:
            raise ClusterError(refusal)


def answer_requests(requests: IO[str], answers: IO[str]) -> None:
    """Send the steps that are asked for, until nobody asks any more."""
    given = json.loads(requests.readline())
    with given_store(MetricStore.model_validate(given["metrics"]), given["topology"]) as store:
        for line in requests:
            asked = json.loads(line)
            run, step, error = Run(Path(asked["run"])), asked["step"], ""
            try:
                store.write_rows(read_table(run.step_path(step) / "metrics.parquet"))
                store.write_events(events_of(run, step))
            except HarnessError as refused:
                error = str(refused)
            answers.write(json.dumps({"error": error}) + "\n")
            answers.flush()


if __name__ == "__main__":
    answer_requests(sys.stdin, sys.stdout)
