"""Topics of a test on the shared broker, which are there for that test only."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from harness.backends.kafka.client import Topics


@pytest.fixture
def topics(kafka_bootstrap: str) -> Iterator[Topics]:
    with Topics(kafka_bootstrap) as t:
        yield t


@pytest.fixture
def topic(topics: Topics) -> Iterator[str]:
    yield from _there_meanwhile(topics, "")


@pytest.fixture
def out(topics: Topics) -> Iterator[str]:
    yield from _there_meanwhile(topics, "-out")


def _there_meanwhile(topics: Topics, suffix: str) -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}{suffix}"
    topics.create(name)
    yield name
    topics.delete(name)
