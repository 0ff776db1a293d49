"""`harness run` inside the sandbox: cluster up, campaign, cluster down, prediction, analysis."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from harness.backends import sandbox
from harness.backends.kafka import Topics
from harness.backends.metrics_receiver import MetricsReceiver
from harness.backends.servers import KAFKA_VERSION, STORM_VERSION, ServerHomes
from harness.deployment import StormDeployment, local_cluster
from harness.environment import describe
from harness.errors import HarnessError, UsageError
from harness.experiments.campaign import Campaign
from harness.experiments.config import Experiment, Workload
from harness.experiments.contracts import Watcher
from harness.experiments.schedule import Constant, Poisson, Schedule, Trace
from harness.runs import Run
from harness.workload.load import KafkaLoad

FREE_BYTES = 2 * 1024**3
"""Disk that servers' logs, topics and results of one run may need."""


def jars() -> Path:
    """Return the folder of the topologies' jars.

    Raises
    ------
    UsageError
        When they were not built.
    """
    folder = Path(str(resources.files("harness"))) / "assets" / "jars"
    for name in ("instrumentation.jar", "topologies.jar"):
        if not (folder / name).is_file():
            raise UsageError(f"{name} is missing", "run make setup, which builds it with Maven")
    return folder


def environment() -> dict[str, Any]:
    """Return ``environment.json`` of a run that begins now on the local cluster."""
    isolation = "private network and process namespaces" if sandbox.inside() else "loopback addresses only"
    return describe("local", {"storm": STORM_VERSION, "kafka": KAFKA_VERSION, "isolation": isolation})


def require_room(runs: Path, experiment: Experiment) -> None:
    """Check that disk and memory suffice.

    Raises
    ------
    UsageError
        When they do not.
    """
    existing = next(p for p in (runs, *runs.resolve().parents) if p.exists())
    free = shutil.disk_usage(existing).free
    if free < FREE_BYTES:
        raise UsageError(f"{existing}: {free >> 20} MiB free, a run needs {FREE_BYTES >> 20}", "make room")
    # A worker's resident set is about its heap and 150 MiB; daemons, Kafka and Spark take 2.5 GiB.
    needed_mb = experiment.slots * (experiment.cluster.worker_heap_mb + 150) + 2500
    available_mb = psutil.virtual_memory().available >> 20
    if available_mb < needed_mb:
        raise UsageError(
            f"{available_mb} MiB of memory available, {experiment.slots} workers need about {needed_mb}",
            "lower cluster.worker_heap_mb or the number of nodes",
        )


def schedule(workload: Workload, rate_tps: float) -> Schedule:
    """Return the send times of a step; a trace keeps its own rate."""
    if workload.arrivals == "constant":
        return Constant(rate_tps)
    if workload.arrivals == "poisson":
        return Poisson(rate_tps, workload.seed)
    assert workload.trace is not None  # checked when the experiment was loaded
    return Trace.read(workload.trace)


@contextmanager
def logging_to(run: Run) -> Iterator[None]:
    """Append the harness's log to the run's ``log.txt``."""
    handler = logging.FileHandler(run.path / "log.txt", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("harness")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


def first_free_id(run: Run) -> int:
    """Return a message identifier above all that the run's finished steps used."""
    highest = -1
    for step in run.finished_steps:
        column = pq.read_table(run.step_path(step) / "latency.parquet", columns=["message_id"])["message_id"]
        if len(column):
            highest = max(highest, int(column.to_numpy().max()))
    # The unfinished step of the interrupted attempt sent more than any file knows of.
    return 0 if highest < 0 else highest + 10_000_000


def measure(
    experiment: Experiment, run: Run, homes: ServerHomes, watch: Watcher, progress: Callable[[str], None]
) -> None:
    """Measure the steps that a run does not have yet, on a local cluster that ends with it."""
    folder = jars()
    home = Path(tempfile.mkdtemp(prefix="storm-harness-"))
    topology = f"{experiment.name}-{run.path.name.lower()}"
    logger = logging.getLogger(__name__)

    def say(line: str) -> None:
        logger.info(line)
        progress(line)

    with logging_to(run):
        logger.info("steps finished before: %s", list(run.finished_steps))
        keep = True
        try:
            with local_cluster(experiment, homes, home, folder, say) as cluster:
                names = (f"{topology}-in", f"{topology}-out")
                with Topics(cluster.bootstrap) as topics:
                    for name in names:
                        topics.create(name)
                workload = experiment.workload
                with (
                    MetricsReceiver() as metrics,
                    KafkaLoad(
                        cluster.bootstrap,
                        *names,
                        partial(schedule, workload),
                        "x" * workload.payload_bytes,
                        first_free_id(run),
                    ) as load,
                ):
                    deployment = StormDeployment(
                        experiment, cluster, topology, load, metrics, folder, home / "submission"
                    )
                    Campaign(experiment, run, deployment, load, metrics.store, watch).carry_out()
            keep = False
        except HarnessError as error:
            logger.error("stopped: %s", error)
            raise
        finally:
            if keep:  # the servers' logs say why it ended
                kept = run.path / "servers"
                shutil.rmtree(kept, ignore_errors=True)
                if (home / "logs").is_dir():
                    shutil.copytree(home / "logs", kept, dirs_exist_ok=True)
            shutil.rmtree(home, ignore_errors=True)
