"""The JSON Schemas of the files that users write: an experiment's, a cluster's, a night's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import BaseModel

from harness.experiments.cluster_file import ClusterFile
from harness.experiments.clusters import Local, Provisioned
from harness.experiments.config import Experiment
from harness.experiments.key_meanings import schema
from harness.plans import BatchSize
from harness.regression.nightly import Nightly
from harness.topologies.reference_chain import MOST_REPLICAS, Replication

SHORT_FORMS: Mapping[type[BaseModel], Mapping[str, object]] = {
    Local: {
        "anyOf": [
            {"type": "string", "description": "File of a provisioned cluster (docs/clusters.md)."},
            {
                "type": "object",
                "description": "The same, with quotas and slowed links while the run goes on.",
                "properties": {
                    "file": {"type": "string", "description": "File of the provisioned cluster."},
                    "cpu_quota_cores": {
                        "type": "object",
                        "additionalProperties": {"type": "number"},
                        "description": "Cores that a worker node may use, by node.",
                    },
                    "links": {
                        "type": "object",
                        "additionalProperties": {"$ref": "#/$defs/LinkDelay"},
                        "description": "Slowed links between two worker nodes, as `node-1~node-2`.",
                    },
                },
                "required": ["file"],
                "additionalProperties": False,
            },
        ]
    },
    BatchSize: {"type": "integer", "minimum": 1, "description": "Tuples of a full batch."},
    Replication: {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_REPLICAS,
        "description": "One number for all kinds.",
    },
}
"""Values of an experiment's file that stand for others."""


def _experiment() -> dict[str, object]:
    return schema(Experiment, "An experiment of storm-harness", SHORT_FORMS, frozenset({Provisioned}))


def _cluster() -> dict[str, object]:
    return schema(ClusterFile, "A cluster of storm-harness on hosts of its own")


def _nightly() -> dict[str, object]:
    return schema(Nightly, "A night of storm-harness")


SCHEMAS: Mapping[str, Callable[[], dict[str, object]]] = {
    "experiment": _experiment,
    "cluster": _cluster,
    "nightly": _nightly,
}
"""Makes the schema of each kind of file."""
