"""How soon a placement is in force, beside rebalances of Storm's own scheduler that move the same executors.

    python bench/placement_times.py              # about 8 minutes
    python bench/placement_times.py --rounds 2   # a try

An idle topology on the local cluster goes to and fro, each change under four workers that have run for a
while:

- placement alone: a plan file moves each executor to the next worker, and a rebalance with the same numbers
  takes all of them back;
- with other numbers: from one executor of each component to two, or back, once with a plan file that is
  there before the rebalance, and once without; executors go to the same places.

A change is in force when Nimbus shows each executor where it has to be, and its new worker has reported it
up. Prints a Markdown table, with 95 % intervals over the rounds.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from instrumentation import mean

from harness.app.jars import jars
from harness.backends.kafka.client import Topics
from harness.backends.local.opened import local_cluster
from harness.backends.metrics.receiver import MetricsReceiver
from harness.errors import ClusterError
from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames
from harness.experiments.loading import expand_steps
from harness.machine import sandbox, servers
from harness.plans import AskedPlacement
from harness.storm.deployment import StormDeployment, submitter_of
from harness.storm.nimbus import Nimbus
from harness.storm.pinned_plans import placement

NAME = "placement-times"
AIM_S = 2.0
"""Of the difference."""
AGE_S = 10
"""A worker has reported so much uptime before the next change: its successor's reports tell less."""
WITHIN_S = 180.0
POLL_S = 0.1

Places = Mapping[str, str]


class Took(NamedTuple):
    """Seconds from asking until Nimbus shows each executor at its place, and until all is in force."""

    shown_s: float
    in_force_s: float


class Turns:
    """A topology that is asked for one change after another."""

    def __init__(self, deployment: StormDeployment, nimbus: Nimbus, setup: Experiment) -> None:
        self._deployment = deployment
        self._nimbus = nimbus
        self._configurations = [step.configuration for step in expand_steps(setup)]

    def submit(self) -> Places:
        """Submit it with its first configuration; return where Storm put the executors."""
        self._deployment.submit(self._configurations[0])
        self._wait(lambda: bool(self.places()) and self._deployment.whole(), "it is up")
        return self.places()

    def places(self) -> Places:
        """Return where the executors are."""
        return placement(self._deployment.plan())

    def storms(self, configuration: int, places: Places) -> Took:
        """Let Storm's own scheduler place a configuration, which it does there."""
        return self._timed(lambda: self._deployment.rebalance(self._configurations[configuration]), places)

    def pinned(self, configuration: int, places: Places) -> Took:
        """Pin a configuration's executors there."""
        asked = AskedPlacement(by="placement", workers=places)
        return self._timed(lambda: self._deployment.place(self._configurations[configuration], asked), places)

    def found(self, configuration: int) -> Places:
        """Let Storm's own scheduler place a configuration of other numbers; return where."""
        self._aged()
        self._deployment.rebalance(self._configurations[configuration])
        self._wait(lambda: bool(self.places()) and self._deployment.whole(), "the rebalance is in force")
        return self.places()

    def _timed(self, ask: Callable[[], None], places: Places) -> Took:
        self._aged()
        begun_s = time.monotonic()
        ask()
        self._wait(lambda: self.places() == places, "executors at their places")
        shown_s = time.monotonic() - begun_s
        self._wait(lambda: self.places() == places and self._deployment.whole(), "all of them up")
        return Took(shown_s, time.monotonic() - begun_s)

    def _aged(self) -> None:
        def aged() -> bool:
            state = self._nimbus.topology(NAME)
            return state.all_up and min(state.uptimes_s().values()) >= AGE_S

        self._wait(aged, "workers of some age")

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not done():
            if time.monotonic() > deadline:
                raise ClusterError(f"not within {WITHIN_S:g} s: {what}; found {self.places()}")
            time.sleep(POLL_S)


def experiment() -> Experiment:
    """Return fields-to-fields with one executor of each component on four workers, and with two."""
    return Experiment.model_validate(
        {
            "name": NAME,
            "topology": {"name": "fields-to-fields", "load_aware": False, "tasks": 4, "ackers": 2},
            "workload": {"rate_tps": 40},
            "cluster": {"nodes": 2, "slots_per_node": 2},
            "steps": {"plan": [{"executors": 1, "workers": 4}, {"executors": 2, "workers": 4}]},
        }
    )


def next_worker(places: Places) -> Places:
    """Return the places with each executor in the next worker."""
    workers = sorted(set(places.values()))
    after = dict(pairwise([*workers, workers[0]]))
    return {label: after[worker] for label, worker in places.items()}


def measure(turns: Turns, rounds: int) -> dict[str, list[tuple[Took, Took]]]:
    """Return each kind's pairs: Storm's own, then pinned."""
    few = turns.submit()
    many = turns.found(1)
    if turns.found(0) != few:
        raise ClusterError("Storm's own scheduler does not put executors where it did")
    moved = next_worker(few)
    taken: dict[str, list[tuple[Took, Took]]] = {"placement alone": [], "with other numbers": []}
    for turn in range(rounds):
        pinned = turns.pinned(0, moved)
        taken["placement alone"].append((turns.storms(0, few), pinned))
        if turn % 2 == 0:  # who goes up and who goes down alternates
            storms, pinned = turns.storms(1, many), turns.pinned(0, few)
        else:
            pinned, storms = turns.pinned(1, many), turns.storms(0, few)
        taken["with other numbers"].append((storms, pinned))
        for kind, pairs in taken.items():
            click.echo(f"round {turn + 1}/{rounds}, {kind}: {pairs[-1]}", err=True)
    return taken


def show(taken: Mapping[str, list[tuple[Took, Took]]]) -> None:
    """Print the table."""
    click.echo("| change | until | Storm's own, s | pinned, s | pinned - Storm's own, s |")
    click.echo("| --- | --- | --- | --- | --- |")
    for kind, pairs in taken.items():
        for at, until in enumerate(("Nimbus shows it", "every executor is up there")):
            storms, pinned = (np.array([pair[who][at] for pair in pairs]) for who in (0, 1))
            cells = [mean(values).text(".2f") for values in (storms, pinned, pinned - storms)]
            click.echo(f"| {' | '.join((kind, until, *cells))} |")


@click.command()
@click.option("--rounds", default=6, show_default=True, type=click.IntRange(1))
def main(rounds: int) -> None:
    """Time placements and rebalances in turns."""
    if not sandbox.inside() and sandbox.obstacle() is None:
        sandbox.enter([sys.executable, *sys.argv])
    load, setup, homes = os.getloadavg()[0], experiment(), servers.install()
    with (
        tempfile.TemporaryDirectory() as made,
        local_cluster(setup.cluster, homes, Path(made) / "home", jars(), lambda _: None) as cluster,
        MetricsReceiver(hand_out=cluster.hand_out) as metrics,
        Topics(cluster.bootstrap) as topics,
    ):
        names = TopicNames.of(NAME, setup.topology.entrances)
        for topic in (*names.inputs.values(), names.output):
            topics.create(topic)
        folder = Path(made) / "submission"
        folder.mkdir()
        submitter = submitter_of(setup, NAME, cluster.broker, names, jars(), folder)
        deployment = StormDeployment(setup, cluster, submitter, metrics, jars(), folder)
        taken = measure(Turns(deployment, cluster.nimbus, setup), rounds)
        cluster.nimbus.kill(NAME)
    show(taken)
    click.echo(
        f"\n{rounds} rounds; aim of the difference: {AIM_S:g} s;"
        f" load {load:.1f} at the start and {os.getloadavg()[0]:.1f} at the end, on {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    main()
