"""Capture of the topology that a jar's main submits: without a cluster, before anything is measured."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import assert_never

from harness.errors import ClusterError, UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import completed
from harness.machine.named_paths import file_at
from harness.machine.servers import ServerHomes
from harness.plans import Component, QueryPlan, Stream, Window
from harness.storm.submission import MainOfAJar, MetricsAddress, submit_settings
from harness.storm.submitter import SubmitterAnswer, SubmitterComponent, submit
from harness.topologies.jar import CAPTURED_AS, Captured, JarTopology
from harness.topologies.test_topology import Topology

NOBODY = "127.0.0.1:9"
"""Stands for ``{bootstrap}`` then: nothing listens there."""
CHECKPOINTS = "$checkpoint"
"""Storm's stream between stateful bolts."""


def known(experiment: Experiment, homes: ServerHomes, jars: Path) -> Experiment:
    """Return the experiment with its topology's components and streams, captured from a jar where it has one.

    Parameters
    ----------
    experiment : Experiment
    homes : ServerHomes
        Storm's jars, which main runs with.
    jars : Path
        Folder of ``instrumentation.jar``.

    Raises
    ------
    UsageError
        When there is no such jar or class, its main fails, submits nothing or more than one topology; when
        steps ask for what the topology has not; or when the jar is another than the run began with.
    """
    match experiment.topology:
        case Topology():
            return experiment
        case JarTopology() as topology:
            return _captured_of(experiment, topology, homes, jars)
        case unknown:
            assert_never(unknown)


def _captured_of(experiment: Experiment, topology: JarTopology, homes: ServerHomes, jars: Path) -> Experiment:
    if file_at(topology.jar) is None:
        raise UsageError(f"topology.jar: there is no file {topology.jar}")
    if topology.captured is not None:
        if topology.captured.sha256 != _sha256(topology.jar):
            raise UsageError(f"{topology.jar}: another jar than the run began with", "start a new run")
        return experiment
    with tempfile.TemporaryDirectory(prefix="harness-capture-") as folder:
        submit_json = Path(folder) / "submit.json"
        arguments = topology.arguments(CAPTURED_AS, NOBODY, f"{CAPTURED_AS}-in", f"{CAPTURED_AS}-out")
        settings = submit_settings(
            experiment,
            MainOfAJar(topology.jar, topology.main, tuple(arguments), storm=experiment.overrides()),
            MetricsAddress(f"http://{NOBODY}/"),
            nimbus=None,
            answer=Path(folder) / "answer.json",
        )
        submit_json.write_text(json.dumps(settings))
        instrumentation = jars / "instrumentation.jar"
        try:
            answer = submit(
                homes,
                submit_json,
                instrumentation=instrumentation,
                topology_jar=topology.jar,
                hosts=None,
                heap_mb=topology.main_heap_mb,
            )
        except (ClusterError, UsageError) as error:
            reason = error.message.removeprefix("submitting failed: ")
            raise UsageError(f"{topology.main} of {topology.jar.name}: {reason}") from None
    found = captured(topology, answer)
    return completed(experiment, topology.model_copy(update={"captured": found}))


def captured(topology: JarTopology, answer: SubmitterAnswer) -> Captured:
    """Return the captured topology that the submitter's answer describes.

    Components that Storm added are left out of the query plan, with their streams.
    """
    description = answer.description
    own = {n: c for n, c in description.components.items() if not c.storms}
    asked = topology.tasks
    # spouts first, as a reader expects
    names = sorted(own, key=lambda n: (own[n].kind != "spout", n))
    plan = QueryPlan(
        name=topology.main.rpartition(".")[2],
        components=tuple(_component(n, own[n], asked.get(n)) for n in names),
        streams=tuple(
            Stream.model_validate(s)
            for s in description.streams
            if s["source"] in own and s["target"] in own and s["stream"] != CHECKPOINTS
        ),
    )
    return Captured(
        sha256=_sha256(topology.jar),
        topology=answer.topology,
        plan=plan,
        executors={n: own[n].executors for n in names},
        storms={n: c.executors for n, c in description.components.items() if c.storms},
        unwrapped={n: reason for n, reason in answer.unwrapped.items() if n in own},
        settings={
            key: value
            for key, value in {**description.defaults, **description.settings}.items()
            if value is not None
        },
    )


def _component(name: str, described: SubmitterComponent, tasks: int | None) -> Component:
    window = described.window
    if window and window.slide > window.length:
        window = None  # it leaves tuples out: nothing here has a word for that
    spout = described.kind == "spout"
    return Component(
        name=name,
        role="spout" if spout else "window" if window else "other",
        tasks=tasks or described.tasks,
        window=Window(kind=window.kind, length=window.length, slide=window.slide) if window else None,
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
