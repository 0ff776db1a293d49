"""The client of Kafka on a real broker: what it does when the broker does not answer, or says no."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import psutil
import pytest
import waiting

from harness.backends.kafka.client import NO_COORDINATOR_YET, Producer, Topics, _PatientClient
from harness.errors import ClusterError

pytestmark = pytest.mark.system

WAIT_S = 60.0
until = partial(waiting.until, within_s=WAIT_S)
RECORDS = 20
"""Sent while the broker stands still, one every 100 ms."""


def test_a_producer_waits_for_a_broker_that_does_not_answer(
    kafka_bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    """Five requests may be under way; kafka-python's own sender asks again some thousand times a second."""
    asked: list[float] = []
    delay_of = _PatientClient.connection_delay

    def noted(client: _PatientClient, node: int | str) -> float:
        asked.append(delay := delay_of(client, node))
        return delay

    monkeypatch.setattr(_PatientClient, "connection_delay", noted)
    producer = Producer(kafka_bootstrap, topic)
    producer.send(0, b"connected", 0)
    until(lambda: bool(producer.deliveries()), "an answer")
    port = int(kafka_bootstrap.rpartition(":")[2])
    broker = next(
        c.pid for c in psutil.net_connections("tcp") if c.status == "LISTEN" and c.laddr.port == port
    )
    os.kill(broker, signal.SIGSTOP)
    try:
        stopped_ns = time.monotonic_ns()
        asked.clear()
        for number in range(RECORDS):
            producer.send(number % producer.partitions, b"late", number)
            until(lambda: time.monotonic_ns() > stopped_ns + (number + 1) * 100_000_000, "its time")  # noqa: B023
        assert producer.unanswered == RECORDS
    finally:
        os.kill(broker, signal.SIGCONT)
    answered = producer.flush(WAIT_S)
    producer.close()
    assert [delivery.error for delivery in answered] == [None] * RECORDS
    assert 0 < len(asked) <= 2 * RECORDS
    figure(f"asked {len(asked)} times in {RECORDS / 10:g} s, with {RECORDS} records to send")


def test_a_topic_is_not_made_twice(topics: Topics, topic: str) -> None:
    with pytest.raises(ClusterError, match=f"cannot create topic {topic}"):
        topics.create(topic)


def test_what_a_group_has_committed_is_read_back(topics: Topics, topic: str) -> None:
    group, offsets = f"readers-of-{topic}", np.arange(16)
    assert topics.committed(group, topic).tolist() == [0] * 16
    topics.commit(group, topic, offsets)
    until(lambda: bool((topics.committed(group, topic) == offsets).all()), "the offsets are known")


@pytest.mark.parametrize("error", NO_COORDINATOR_YET)
def test_a_broker_that_loads_the_offsets_is_asked_again_later(
    topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Such an answer ended a run on a busy machine; when a broker gives it nobody can tell."""

    def loading(_: object) -> None:
        raise error("the offsets are being loaded")

    monkeypatch.setattr(topics._admin, "list_group_offsets", loading)
    assert topics.committed("any", topic).tolist() == [0] * 16
