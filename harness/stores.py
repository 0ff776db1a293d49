"""Joins Neo4j, the store of plans, to runs and questions: one of this machine, or one that is named."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from harness import secret_files
from harness.backends import optional_servers
from harness.backends.companions import Companion, data_folder
from harness.backends.neo4j import PlanGraph, set_first_password
from harness.backends.neo4j_server import Neo4jServer
from harness.errors import HarnessError, MissingTool, UsageError
from harness.experiments.config import Experiment
from harness.experiments.contracts import Progress, Watcher
from harness.runs import Run

logger = logging.getLogger(__name__)

URI = "NEO4J_URI"
USERNAME = "NEO4J_USERNAME"
PASSWORD = "NEO4J_PASSWORD"


@dataclass(frozen=True)
class Stores:
    """The servers beside the local cluster that an experiment names; None where it names none."""

    plans: Neo4jServer | None

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """Return the servers that an experiment names, not started.

        Raises
        ------
        MissingTool
            When one is not installed.
        """
        return cls(local_neo4j(experiment.plans.data) if experiment.plans.store == "neo4j" else None)

    @property
    def companions(self) -> tuple[Companion, ...]:
        """The servers that there are."""
        return (self.plans,) if self.plans else ()

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the servers that there are."""
        return {"neo4j": optional_servers.NEO4J_VERSION} if self.plans else {}

    @contextmanager
    def recording(self, run: Run, watch: Watcher) -> Iterator[Watcher]:
        """Give a watcher that hands finished steps on; at the end every one is in the stores.

        Raises
        ------
        HarnessError
            When at the end a store has not taken a step.
        """
        if self.plans is None:
            yield watch
            return
        recorder = Recorder(run, watch, self._into_graph(run))
        yield recorder
        self.plans.wait()
        recorder.finish()

    def _into_graph(self, run: Run) -> Callable[[int], None]:
        def take(step: int) -> None:
            assert self.plans is not None, "asked by the caller"
            with PlanGraph(self.plans.uri, secret_files.read(self.plans.password_file)) as graph:
                graph.add_step(run, step)

        return take


class Recorder:
    """Hands each finished step on to a store; what it does not take is offered again at the end.

    Measuring goes on meanwhile: the run directory has all of it.
    """

    def __init__(self, run: Run, watch: Watcher, take: Callable[[int], None]) -> None:
        self._run = run
        self._watch = watch
        self._take = take
        self._taken: set[int] = set()

    def __call__(self, now: Progress) -> None:
        """Hand on a step that is finished, and tell the campaign's own watcher."""
        self._watch(now)
        if now.phase != "done":
            return
        try:
            self._take(now.step)
            self._taken.add(now.step)
        except HarnessError as error:
            logger.warning("step %d is not stored yet: %s", now.step, error)

    def finish(self) -> None:
        """Hand on what was not taken, or was measured by an attempt before this one."""
        for step in self._run.finished_steps:
            if step not in self._taken:
                self._take(step)


def local_neo4j(data: Path | None = None) -> Neo4jServer:
    """Return a Neo4j on this machine, not started.

    Raises
    ------
    MissingTool
        When it is not installed.
    """
    home = optional_servers.neo4j_home()
    if home is None:
        raise MissingTool("Neo4j is not installed", "make servers")
    return Neo4jServer(home, data or data_folder("neo4j"), set_first_password)


def given_graph() -> PlanGraph | None:
    """Return the graph that the environment names (``NEO4J_URI``), None when it names none.

    Raises
    ------
    UsageError
        When there is no password for it.
    """
    uri = os.environ.get(URI)
    if not uri:
        return None
    password = secret_files.from_environment(PASSWORD)
    if password is None:
        raise UsageError(f"{URI} is set, and no password for it", f"set {PASSWORD} or {PASSWORD}_FILE")
    return PlanGraph(uri, password, os.environ.get(USERNAME, "neo4j"))


@contextmanager
def local_graph(folder: Path, progress: Callable[[str], None]) -> Iterator[PlanGraph]:
    """Start the user's own Neo4j for a block, with its log in a folder."""
    server = local_neo4j()
    server.start(folder, progress)
    try:
        with PlanGraph(server.uri, secret_files.read(server.password_file)) as graph:
            yield graph
    finally:
        server.stop()
