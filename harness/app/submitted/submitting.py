"""Submitting a jar's topology to a cluster that others run, instrumented, to stay there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from pydantic import ValidationError

from harness.app.homes import temporary_home
from harness.app.jars import jars
from harness.app.store_sender import TOKEN, require_given
from harness.app.stores import given_graph
from harness.app.submitted.folder import SubmittedFacts, SubmittedTopology, now_ms
from harness.app.submitted.recorded_plans import keep_in_graph
from harness.backends.running.cluster import FoundCluster, look, require_free
from harness.backends.running.standing import StandingCluster
from harness.errors import HarnessError, UsageError, describe_fault
from harness.experiments.clusters import Running
from harness.experiments.config import TAGS, Experiment
from harness.experiments.contracts import TopicNames
from harness.experiments.stores import MetricStore
from harness.machine import secret_files
from harness.machine.masking import SecretMask
from harness.machine.servers import ServerHomes
from harness.plans import PhysicalPlan, TopologyConfiguration
from harness.storm.capturing import known
from harness.storm.deployment import StormDeployment, submitter_of
from harness.storm.submission import MetricsAddress
from harness.topologies.jar import ACKERS

HEAP = "topology.worker.max.heap.size.mb"
WORKERS = "topology.workers"
UP_WITHIN_S = 180.0
"""Longest time that workers may take until all executors have reported."""


@dataclass(frozen=True)
class AskedSubmission:
    """A jar, where it goes, and how.

    Attributes
    ----------
    jar : Path
    main : str
        The class whose main submits the topology.
    args : tuple of str
        Its arguments; ``{name}`` in one becomes ``name``.
    name : str
        What the metrics go by, and the topology's folder.
    cluster : Running
    metrics : MetricStore
        An InfluxDB that is there already.
    workers : int, optional
        As the jar has them by default.
    bucket_s : int
        Seconds of a metric bucket.
    season_s : tuple of float
        Lengths of the traffic's seasons, where it has any.
    """

    jar: Path
    main: str
    args: tuple[str, ...]
    name: str
    cluster: Running
    metrics: MetricStore
    workers: int | None = None
    bucket_s: int = 2
    season_s: tuple[float, ...] = ()


def submit_to_stay(
    asked: AskedSubmission, folder: Path, homes: ServerHomes, say: Callable[[str], None]
) -> SubmittedTopology:
    """Submit a topology, wait until it is up, and write its folder.

    A topology that does not come up is killed again.

    Parameters
    ----------
    folder : Path
        Where folders of submitted topologies are.

    Raises
    ------
    UsageError
        When the jar, the cluster, the store or a name cannot be used.
    ClusterError
        When a server does not answer, or the topology is not up in time.
    """
    path = folder / asked.name
    if path.exists():
        raise UsageError(f"{path} is there already", "give another --name, or remove it")
    found = look(asked.cluster, broker=False)
    require_given(asked.metrics, asked.name)
    experiment = _complete(known(_experiment(asked, found), homes, jars()), asked.workers)
    configuration = experiment.configuration(experiment.steps.plan[0])
    shape = Running.model_validate(experiment.cluster.model_dump())
    require_free(found, shape, configuration.workers)
    graph = given_graph()
    if graph is not None:
        graph.close()  # refused before anything is submitted
    with temporary_home() as home:
        cluster = StandingCluster(shape, homes, home)
        topics = TopicNames.of(asked.name, experiment.topology.entrances, experiment.topology.key_groups)
        submitter = submitter_of(experiment, asked.name, cluster.broker, topics, jars(), home)
        target = MetricsAddress(write_url(asked.metrics), token_file=cluster.hand_out(_token()))
        deployment = StormDeployment(experiment, cluster, submitter, target, jars(), home / "submission")
        say(f"submitting {submitter.topology} to nimbus at {shape.nimbus}")
        try:
            deployment.submit(configuration)
            plan = _await(deployment, cluster, submitter.topology)
            facts = SubmittedFacts(
                topology=submitter.topology,
                at_epoch_ms=now_ms(),
                cluster=shape,
                storm_version=found.version,
                settings=_masked(cluster.nimbus.topology_settings(submitter.topology)),
                unwrapped=experiment.topology.unwrapped,
                season_s=asked.season_s,
            )
            submitted = SubmittedTopology.create(path, experiment, facts, plan)
            keep_in_graph(facts, submitted.plan)
        except BaseException:
            if deployment.submitted is not None:  # else somebody else's topology may have the name
                cluster.nimbus.kill(deployment.submitted.topology)
            raise
    return submitted


def write_url(metrics: MetricStore) -> str:
    """Return the address that lines are posted to, timestamps in nanoseconds."""
    where = {"org": metrics.org, "bucket": metrics.bucket, "precision": "ns"}
    return f"{str(metrics.url).rstrip('/')}/api/v2/write?{urlencode(where)}"


def _token() -> str:
    token = secret_files.from_environment(TOKEN)
    if token is None:
        raise UsageError(f"metrics.url is set, and no token for it: set {TOKEN} or {TOKEN}_FILE")
    return token


def _experiment(asked: AskedSubmission, found: FoundCluster) -> Experiment:
    nodes = [node.model_dump(mode="json") for node in found.nodes]
    given = {
        "name": asked.name,
        "topology": {"jar": str(asked.jar.resolve()), "main": asked.main, "args": list(asked.args)},
        "cluster": {**asked.cluster.model_dump(mode="json"), "nodes": len(nodes), "found": nodes},
        "measure": {"bucket_s": asked.bucket_s},
        "metrics": asked.metrics.model_dump(mode="json"),
        "steps": {"plan": [{"executors": {}, "workers": 1}]},
        "models": ["composite"],
    }
    return _validated(given)


def _complete(experiment: Experiment, workers: int | None) -> Experiment:
    """Return the experiment with what the jar has, where the harness would have something else."""
    own, given = experiment.topology.own_settings, experiment.model_dump(mode="json")
    has = own.get(WORKERS)
    used = workers or (has if isinstance(has, int) else 1)
    given["steps"]["plan"][0]["workers"] = used
    ackers, heap = own.get(ACKERS), own.get(HEAP)
    given["topology"]["ackers"] = ackers if isinstance(ackers, int) else used  # Storm's: one a worker
    if isinstance(heap, int | float):
        given["cluster"]["worker_heap_mb"] = int(heap)
    return _validated(given)


def _validated(given: Mapping[str, object]) -> Experiment:
    try:
        return Experiment.model_validate(given)
    except ValidationError as error:
        raise UsageError(describe_fault(error, TAGS), "see harness submit --help") from None


def _await(deployment: StormDeployment, cluster: StandingCluster, topology: str) -> PhysicalPlan:
    cluster.nimbus.wait_active(topology, UP_WITHIN_S)
    plan = deployment.plan()
    if not plan.executors:
        raise HarnessError(f"topology {topology} has no plan", "look at the log of nimbus")
    return plan


def _masked(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings without those that are empty, secrets masked."""
    masked: dict[str, object] = json.loads(json.dumps(SecretMask().tree(dict(settings))))
    return {key: value for key, value in masked.items() if value is not None}


def configuration_of(plan: PhysicalPlan) -> TopologyConfiguration:
    """Return executors of the query plan's components, and workers.

    Storm's own executors are left out: a rebalance leaves their number as it is.
    """
    names = {c.name for c in plan.query_plan.components}
    whole = plan.configuration()
    own = {name: count for name, count in whole.executors.items() if name in names}
    return TopologyConfiguration(executors=own, workers=whole.workers)
