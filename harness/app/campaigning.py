"""Measuring a run on the cluster that its experiment names: one of this machine, or a provisioned one."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.app.adapting import StepAdapter
from harness.app.clusters import access, isolation
from harness.app.homes import temporary_home
from harness.app.jars import jars
from harness.app.key_group_routes import routes_of
from harness.app.loads import load_of
from harness.app.planning import StepPlanner
from harness.app.store_sender import require_given
from harness.app.stores import Stores
from harness.errors import ClusterError, HarnessError, UsageError
from harness.experiments.campaign import Campaign, OutsideWorld
from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames, Watcher, watched_by
from harness.experiments.loading import expand_steps
from harness.experiments.progress import ProgressFile
from harness.machine import cgroups, host_logs, room
from harness.machine.environment import describe
from harness.machine.masking import SecretMask
from harness.machine.niceness import NICENESS, giving_way
from harness.machine.servers import KAFKA_VERSION, STORM_VERSION, ServerHomes
from harness.machine.whole_files import write_atomically
from harness.runs import Run, read_table
from harness.schemas.environment import Environment, Resumption
from harness.storm.deployment import StormDeployment, submitter_of
from harness.storm.running_cluster import RunningCluster

STORE_MEMORY_MB = {"influxdb": 300, "neo4j": 900}
"""Resident set of each optional server, at most about."""


def environment(experiment: Experiment | None = None) -> Environment:
    """Return ``environment.json`` of a run that begins now, on a local cluster if no experiment says else."""
    versions: dict[str, object] = {"storm": STORM_VERSION, "kafka": KAFKA_VERSION}
    versions["servers_niceness"] = NICENESS
    if experiment is None:
        return describe("local", {**versions, "isolation": isolation()})
    there = access(experiment)
    if experiment.cluster.cpu_quota_cores:
        versions["cpu_quota_groups"] = cgroups.kind_of_groups()
    return describe(experiment.cluster.kind, {**versions, **there.stores().versions, **there.describe()})


def note_resumption(run: Run, experiment: Experiment | None = None) -> None:
    """Add to ``environment.json`` that a run is taken up again, with what may differ from its start."""
    now = environment(experiment)
    entry = Resumption(
        started=now["started"],
        commit=now["commit"],
        harness=now["harness"],
        cluster=now["cluster"],
        load_1min=now["machine"]["load_1min"],
    )
    known = run.environment
    known["resumed"] = [*known.get("resumed", []), entry]
    write_atomically(run.path / "environment.json", json.dumps(known, indent=2))


def require_room(runs: Path, experiment: Experiment) -> None:
    """Check that disk and memory suffice, and that the machine allows everything that the experiment asks.

    Raises
    ------
    UsageError
        When they do not, or a CPU quota is asked for where none can be set, or a store
        that is not installed or takes no points, or a cluster that is not provisioned.
    """
    there = access(experiment)
    there.check()
    stores = there.stores()
    require_given(experiment.metrics, experiment.name)
    if experiment.cluster.cpu_quota_cores and (reason := cgroups.obstacle()):
        raise UsageError(f"cluster.cpu_quota_cores: {reason}", "leave it out, or see harness doctor")
    room.require_room(
        (runs, Path(tempfile.gettempdir())),  # for the results; for the servers
        experiment.slots_to_fill,
        experiment.worker_heap_mb,
        sum(STORE_MEMORY_MB[server.name] for server in stores.companions),
    )


class _RunLog(logging.FileHandler):
    def __init__(self, path: Path, mask: SecretMask) -> None:
        super().__init__(path, encoding="utf-8")
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        """Return a line without secrets."""
        return self._mask.text(super().format(record))

    def handleError(self, record: logging.LogRecord) -> None:
        """Pass over a line that cannot be written: a full disk is reported where a step is written."""


@contextmanager
def logging_to(run: Run, mask: SecretMask) -> Iterator[None]:
    """Append the harness's log to the run's ``log.txt``, secrets masked."""
    handler = _RunLog(run.path / "log.txt", mask)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("harness")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        with suppress(OSError):  # what it could not write before, it cannot write now
            handler.close()


def keep_logs(logs: Path, target: Path, mask: SecretMask | None = None) -> bool:
    """Copy the servers' logs, which say why a run ended, into the run; return whether there was room.

    Modes, owners, links and secrets are not copied: who wrote logs on a provisioned host is not trusted.
    """
    try:
        host_logs.tell("the servers", host_logs.copy(logs, target, mask))
    except OSError:
        return False
    return True


def first_free_id(run: Run) -> int:
    """Return a message identifier above all that the run's finished steps used.

    Raises
    ------
    UsageError
        When a step's table cannot be read.
    """
    highest = -1
    for step in run.finished_steps:
        used = read_table(run.step_path(step) / "latency.parquet", ["message_id"])["message_id"]
        if len(used):
            highest = max(highest, int(used.to_numpy().max()))
    # The unfinished step of the interrupted attempt sent more than any file knows of.
    return 0 if highest < 0 else highest + 10_000_000


def measure(
    experiment: Experiment, run: Run, homes: ServerHomes, watch: Watcher, progress: Callable[[str], None]
) -> None:
    """Measure the steps that a run does not have yet, on a local cluster of its own or a provisioned one."""
    if len(run.ended_steps) == len(expand_steps(experiment)):
        return
    first_id = first_free_id(run)  # reads every finished step: none is found cut after the servers' start
    logger = logging.getLogger(__name__)
    name = storm_name(experiment, run)

    def say(line: str) -> None:
        logger.info(line)
        progress(line)

    mask = SecretMask.of(experiment.model_dump(mode="json"), sys.argv[1:])
    steps = len(expand_steps(experiment))
    with (
        temporary_home() as home,
        logging_to(run, mask),
        ProgressFile(run.path, steps, mask.text) as progress_file,
    ):
        watchers = watched_by(progress_file, watch)
        logger.info("steps finished before: %s", list(run.finished_steps))
        try:
            there = access(experiment)
            stores = there.stores()
            with there.open(homes, home, say, stores) as cluster:
                try:
                    submission = NamedSubmission(name, cluster.logs / "submission", first_id)
                    carry_out_on(experiment, run, cluster, submission, stores, watchers)
                except KeyboardInterrupt as stop:
                    say(f"told to stop{f' by {stop}' if str(stop) else ''}, {experiment.cluster.ending}")
                    raise
        except Exception as error:
            logger.error("stopped: %s", error)
            kept = keep_logs(home / "logs", run.path / "servers", mask)
            if isinstance(error, HarnessError):
                _refer_to_kept(error, home / "logs", run.path / "servers" if kept else None)
            raise


def storm_name(experiment: Experiment, run: Run) -> str:
    """Return a name that no other run or attempt has: a provisioned cluster may remember those before.

    Storm takes no topology with a dot in its name.
    """
    attempts = len(run.environment.get("resumed", ()))
    name = f"{experiment.name}-{run.path.name.lower()}" + (f"-{attempts}" if attempts else "")
    return name.replace(".", "-")


@dataclass(frozen=True)
class NamedSubmission:
    """A run's submission to a cluster, told from all others that it has had.

    Attributes
    ----------
    name : str
        A name that nothing else on the cluster has: of the topology and its topics.
    folder : Path
        Where the settings of each submission are kept.
    first_id : int
        Identifier of the first message (``first_free_id``).
    """

    name: str
    folder: Path
    first_id: int


def carry_out_on(
    experiment: Experiment,
    run: Run,
    cluster: RunningCluster,
    submission: NamedSubmission,
    stores: Stores,
    watch: Watcher,
) -> str:
    """Measure on a cluster that is up, and return Storm's name for the topology, which is left running.

    Parameters
    ----------
    experiment : Experiment
        With what its topology is made of (``harness.storm.capturing``).
    run : Run
        Gets the steps that it does not have yet.
    submission : NamedSubmission
    stores : Stores
        Where metrics and plans go beside the run; its servers are up.
    watch : Watcher
        Told how far each step is.
    """
    name, folder = submission.name, submission.folder
    with ExitStack() as stack:
        measuring = stores.measuring(experiment, run, watch, cluster.here, cluster.hand_out)
        target, metrics, watcher = stack.enter_context(measuring)
        topics = TopicNames.of(name, experiment.topology.entrances, experiment.topology.key_groups)
        load = stack.enter_context(load_of(experiment, cluster, name, topics, submission.first_id))
        stack.enter_context(cluster.movable_clocks(experiment.skewed_nodes))
        submitter = submitter_of(experiment, name, cluster.broker, topics, jars(), folder)
        deployment = StormDeployment(experiment, cluster, submitter, target, jars(), folder)
        stack.enter_context(giving_way())  # to generator and receiver, which run by now
        planner = StepPlanner(experiment, run, lambda: cluster.nodes, lambda: cluster.lost)
        routes = stack.enter_context(routes_of(experiment, cluster, submitter.topology, topics))
        world = OutsideWorld(
            deployment,
            load,
            metrics,
            cluster.round_trips,
            faults=cluster.faults(load.processes),
            routes=routes,
        )
        Campaign(experiment, run, world, watcher, planner, StepAdapter(experiment, run)).carry_out()
    return submitter.topology


def _refer_to_kept(error: HarnessError, logs: Path, kept: Path | None) -> None:
    """Make an error name the copy of a log, where there is one: the log itself goes with the cluster."""
    if not error.log and isinstance(error, ClusterError):
        error.log = str(logs)
    if error.log and Path(error.log).is_relative_to(logs):
        error.log = os.path.relpath(kept / Path(error.log).relative_to(logs)) if kept else ""
