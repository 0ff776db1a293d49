"""Routing tables of key groups on a cluster: published on the topics that the topology's workers read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from harness.backends.kafka.client import Producer
from harness.errors import ClusterError
from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames
from harness.experiments.key_group_moves import GroupMove, KeyGroupRoutes, NoKeyGroups
from harness.plans import RoutingTables
from harness.storm.running_cluster import RunningCluster
from harness.topologies.key_groups import first_table

ANSWER_S = 10.0
"""Longest time that the broker may take for a table."""


class PublishedRoutes:
    """The routing tables of a run's topology, which begin anew with each submission.

    Parameters
    ----------
    first : mapping of str to tuple of int
        Tables that a submission begins with.
    submission : callable
        Returns Storm's id of what is submitted now.
    publish : callable
        Takes a component and a record, and puts it on the topic of the component's tables.
    """

    def __init__(
        self, first: RoutingTables, submission: Callable[[], str], publish: Callable[[str, bytes], None]
    ) -> None:
        self._first = first
        self._submission = submission
        self._publish = publish
        self._begin("")

    def _begin(self, submission: str) -> None:
        self._of = submission
        self._tables = dict(self._first)
        self._versions = dict.fromkeys(self._first, 0)

    def tables(self) -> RoutingTables:
        """Return the tables that were published last, or that the submission began with."""
        if (submission := self._submission()) != self._of:
            self._begin(submission)
        return dict(self._tables)

    def move(self, tables: RoutingTables) -> frozenset[GroupMove]:
        """Publish the tables that differ from those in force, and return the moves that follow.

        Each is its component's next version.
        """
        moves: set[GroupMove] = set()
        for name, now in self.tables().items():
            moving = [g for g, (was, to) in enumerate(zip(now, tables[name], strict=True)) if was != to]
            if not moving:
                continue
            version = self._versions[name] + 1
            record = {"topology": self._of, "version": version, "tasks": list(tables[name])}
            self._publish(name, json.dumps(record).encode())
            self._tables[name], self._versions[name] = tables[name], version
            moves |= {GroupMove(name, group, version) for group in moving}
        return frozenset(moves)


@contextmanager
def routes_of(
    experiment: Experiment, cluster: RunningCluster, topology: str, topics: TopicNames
) -> Iterator[KeyGroupRoutes]:
    """Give the routes of an experiment's key groups for a block.

    Parameters
    ----------
    topology : str
        Storm's name for it.
    topics : TopicNames
        Those of the tables are there, with one partition each.
    """
    groups, broker = experiment.topology.key_groups, cluster.broker
    if not groups:
        yield NoKeyGroups()
        return
    tasks = experiment.topology.task_counts()
    first = {name: first_table(count, tasks[name]) for name, count in groups.items()}
    partitions = {name: number for number, name in enumerate(topics.tables)}
    with closing(Producer(broker.address, *topics.tables.values(), trust=broker.trust)) as producer:

        def publish(component: str, record: bytes) -> None:
            producer.send(partitions[component], record, 0)
            (delivery,) = producer.flush(ANSWER_S)
            if delivery.error is not None:
                raise ClusterError(f"{topics.tables[component]} took no routing table: {delivery.error}")

        yield PublishedRoutes(first, lambda: cluster.nimbus.topology(topology).id, publish)
