"""What is written for the submitter, which has no defaults of its own."""

from __future__ import annotations

from pathlib import Path

from harness.experiments.config import Experiment
from harness.storm.submission import submit_settings


def _experiment(batching: object) -> Experiment:
    return Experiment.model_validate(
        {
            "name": "e",
            "topology": {"name": "fields-to-fields", "load_aware": False, "batching": batching},
            "workload": {"rate_tps": 10},
            "steps": {"plan": [{"executors": 1, "workers": 1}]},
        }
    )


def _batching(batching: object) -> object:
    experiment = _experiment(batching)
    return submit_settings(experiment, Path("a.jar"), "a.Main", [], metrics_url="", nimbus=None)["batching"]


def test_batch_sizes_are_whole() -> None:
    assert _batching({}) == {}
    assert _batching({"spout": 50, "bolt-a:default": {"size": 2, "flush_ms": 1}}) == {
        "spout": {"size": 50, "flush_ms": 5},
        "bolt-a:default": {"size": 2, "flush_ms": 1},
    }
