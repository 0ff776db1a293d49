"""The load of an experiment's topology: generator, receiver, and what records look like between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

from harness.backends.kafka.client import Topics
from harness.experiments.config import Experiment
from harness.experiments.contracts import Load, OwnMessages, TopicNames
from harness.experiments.datasets import dataset_of
from harness.experiments.workload_settings import Workload
from harness.plans import QueryPlan
from harness.storm.running_cluster import RunningCluster
from harness.topologies.traffic import HopTraffic, OwnTraffic, SentTraffic, TopicTraffic
from harness.workload.load import KafkaLoad
from harness.workload.named import NamedWire
from harness.workload.wire import OwnWire, Wire

UNKNOWN_SINK = "?"
"""Stands for the component that writes the output topic of a jar that has several without successors."""


@contextmanager
def load_of(
    experiment: Experiment, cluster: RunningCluster, name: str, topics: TopicNames, first_id: int
) -> Iterator[Load]:
    """Give what sends messages to an experiment's topology and receives them, for a block.

    Parameters
    ----------
    experiment : Experiment
        With what its topology is made of.
    cluster : RunningCluster
        Gets the topics, where messages are sent at all.
    name : str
        Of the submission.
    topics : TopicNames
        Names for inputs, output and routing tables.
    first_id : int
        Identifier of the first message.
    """
    match experiment.topology.traffic():
        case HopTraffic() | TopicTraffic() as traffic:
            broker = cluster.broker
            with Topics(broker.address, broker.trust) as there:
                for topic in (*topics.inputs.values(), topics.output):
                    cluster.remember("topic", topic)
                    there.create(topic)
                for topic in topics.tables.values():
                    cluster.remember("topic", topic)
                    there.create(topic, partitions=1)
            plan, workload = experiment.topology.query_plan(), experiment.input
            wire = wire_of(traffic, plan, workload, cluster.one_clock, cluster.broker_ahead_ms)
            group = traffic.consumer_group(name)
            ends = {topics.inputs[e]: share for e, share in experiment.shares.items()}, topics.output
            with KafkaLoad(broker.address, *ends, wire, first_id, group=group, trust=broker.trust) as load:
                yield load
        case OwnTraffic():
            yield OwnMessages()
        case unknown:
            assert_never(unknown)


def wire_of(
    traffic: SentTraffic, plan: QueryPlan, workload: Workload, one_clock: bool, broker_ahead_ms: float
) -> Wire:
    """Return what records look like on the way to a topology and back, and by whose clocks they are timed."""
    payload = dataset_of(workload) or "x" * workload.payload_bytes
    match traffic:
        case HopTraffic():
            return OwnWire(payload, one_clock=one_clock, broker_ahead_ms=broker_ahead_ms)
        case TopicTraffic():
            sink = plan.sinks[0] if len(plan.sinks) == 1 else UNKNOWN_SINK
            drawn = (workload.keys, workload.seed)
            return NamedWire(traffic.header, traffic.value, payload, *drawn, sink, broker_ahead_ms)
