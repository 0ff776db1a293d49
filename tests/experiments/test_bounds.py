"""Every number of every file has bounds that can work, and what lies outside is refused with its key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.errors import UsageError
from harness.experiments.cluster_file import ClusterFile
from harness.experiments.config import Experiment
from harness.experiments.loading import load

HUGE = 10**30
OF_STORM = r"/(storm/additionalProperties|settings/patternProperties)/"
"""Values of Storm's settings: bounded by ``storm_value``, which the case of topology.priority asks."""
FAR_OUT = [
    "workload.rate_tps",
    "workload.seed",
    "workload.payload_bytes",
    "workload.keys.A",
    "topology.ackers",
    "topology.tasks",
    "topology.metrics_consumers",
    "topology.spout.poll_timeout_ms",
    "topology.spout.commit_period_ms",
    "topology.waiting.sleep_ms",
    "topology.max_spout_pending",
    "topology.message_timeout_s",
    "topology.storm.topology.priority",
    "cluster.nodes",
    "cluster.worker_heap_mb",
    "measure.bucket_s",
    "measure.attempts",
    "measure.burn_in.most_s",
    "measure.burn_in.drift_pct",
    "measure.interval.most_s",
    "measure.interval.precision_pct",
    "measure.interval.looks",
    "measure.steal_pct.most",
    "steps.repeats",
    "steps.plan.0.executors",
    "steps.plan.0.workers",
    "steps.plan.0.rate_tps",
]


@pytest.mark.parametrize("key", FAR_OUT)
def test_a_number_far_out_of_range_is_refused_with_its_key(key: str) -> None:
    given = f"{{A: {HUGE}}}" if key.endswith(".A") else str(HUGE)
    with pytest.raises(UsageError) as refused:
        load("quick", [f"{key.removesuffix('.A')}={given}"])
    assert key in str(refused.value)
    assert re.search(r"less than|within", str(refused.value))


def numbers(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every number of a schema, with where it stands."""
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number"):
            yield path, schema
        for key, inner in schema.items():
            yield from numbers(inner, f"{path}/{key}")
    elif isinstance(schema, list):
        for place, inner in enumerate(schema):
            yield from numbers(inner, f"{path}/{place}")


@pytest.mark.parametrize("grammar", [Experiment, ClusterFile])
def test_no_number_is_without_bounds(grammar: Any) -> None:
    found = dict(numbers(TypeAdapter(grammar).json_schema(mode="serialization")))
    assert len(found) > 5
    without = [
        path
        for path, schema in found.items()
        if "captured" not in path.lower()
        and not re.search(OF_STORM, path)
        and not (
            {"maximum", "exclusiveMaximum"} & schema.keys()
            and {"minimum", "exclusiveMinimum"} & schema.keys()
        )
    ]
    assert without == []


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("steps.plan.0.executors={bolt-a: 0}", "steps.plan.0.executors.bolt-a: "),
        (
            "steps.plan.0.executors={bolt-a: two}",
            "steps.plan.0.executors.bolt-a: Input should be a valid integer",
        ),
        ("steps.plan.0.executors=none at all", "steps.plan.0.executors: Input should be a valid integer"),
        ("topology.tasks={bolt-a: 0}", "topology.tasks.bolt-a: Input should be greater than or equal to 1"),
        ("steps.plan.0.scheduler=3", "steps.plan.0.scheduler: Input should be a valid string"),
        ("topology.storm.topology.x=2024-01-01", "topology.storm.topology.x: a Storm setting must be a text"),
        ("topology.batching={spout: {size: 0}}", "topology.batching.spout.size: Input should be greater"),
    ],
)
def test_a_mistake_is_named_by_keys_only_not_by_types_of_the_grammar(option: str, key: str) -> None:
    with pytest.raises(UsageError) as refused:
        load("quick", [option])
    said = str(refused.value)
    assert key in said
    assert not re.search(r"constrained|dict\[|mapping\[|function-|by-component|for-all", said)
