"""Writes what is made from the grammar of the files that users write; tests keep it equal.

python scripts/file_keys.py

The tables of keys in docs/experiments.md, docs/clusters.md and docs/nightly.md, and the JSON Schemas in
configs/schemas/, which the shipped files name for editors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from marks import replaced
from pydantic import BaseModel

from harness.app.file_schemas import SCHEMAS
from harness.experiments import cluster_file
from harness.experiments.clusters import Local
from harness.experiments.key_meanings import KeyRow, rows
from harness.experiments.measure_settings import Measuring
from harness.experiments.step_settings import Steps
from harness.experiments.stores import MetricStore, PlanStore
from harness.experiments.workload_settings import Workload
from harness.regression.nightly import Nightly
from harness.topologies.jar import Captured, JarTopology
from harness.topologies.test_topology import Topology

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "configs" / "schemas"

TABLES: dict[str, dict[str, tuple[type[BaseModel], str, frozenset[type[BaseModel]]]]] = {
    "experiments.md": {
        "topology": (Topology, "topology.", frozenset()),
        "jar": (JarTopology, "topology.", frozenset({Captured})),
        "workload": (Workload, "workload.", frozenset()),
        "cluster": (Local, "cluster.", frozenset()),
        "measure": (Measuring, "measure.", frozenset()),
        "metrics": (MetricStore, "metrics.", frozenset()),
        "plans": (PlanStore, "plans.", frozenset()),
        "steps": (Steps, "steps.", frozenset()),
    },
    "clusters.md": {
        "cluster": (cluster_file.ClusterFile, "", frozenset()),
        "local": (cluster_file.LocalHosts, "hosts.", frozenset()),
        "existing": (cluster_file.ExistingHosts, "hosts.", frozenset({cluster_file.Machine})),
        "openstack": (cluster_file.OpenstackHosts, "hosts.", frozenset({cluster_file.Machine})),
        "hetzner": (cluster_file.HetznerHosts, "hosts.", frozenset({cluster_file.Machine})),
    },
    "nightly.md": {"night": (Nightly, "", frozenset())},
}
"""The tables of each page: class, start of its keys, and parts that are not opened."""


def shown(row: KeyRow) -> str:
    """Return a key's default as a cell."""
    if row.required:
        return "required"
    if row.default is None or row.default in ({}, []):
        return ""
    if isinstance(row.default, dict) and len(row.default) > 4:
        return "see below"
    if isinstance(row.default, dict):
        return f"`{{{', '.join(f'{key}: {value}' for key, value in row.default.items())}}}`"
    if isinstance(row.default, (list, bool)):
        return f"`{json.dumps(row.default)}`"
    return f"`{row.default}`"


def said(row: KeyRow) -> str:
    """Return a key's meaning with the words that may stand there, and the pages that it names as links."""
    choices = f" ({', '.join(f'`{word}`' for word in row.choices)})" if len(row.choices) > 1 else ""
    return re.sub(r"docs/([a-z-]+\.md)", r"[\1](\1)", f"{row.meaning}{choices}").replace("|", "\\|")


def table(found: Iterable[KeyRow]) -> str:
    """Return keys as a table in Markdown."""
    lines = ["| key | default | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{row.key}` | {shown(row)} | {said(row)} |".replace("|  |", "| |") for row in found]
    return "\n".join(lines) + "\n"


def page(name: str, text: str) -> str:
    """Return a page with its tables made anew between their markers."""
    for title, (model, prefix, closed) in TABLES[name].items():
        text = replaced(text, f"keys: {title}", table(rows(model, prefix, closed)))
    return text


def listing(kind: str) -> str:
    """Return the JSON Schema that ``harness schema`` prints."""
    return json.dumps(SCHEMAS[kind](), indent=2) + "\n"


if __name__ == "__main__":
    for name in TABLES:
        path = ROOT / "docs" / name
        path.write_text(page(name, path.read_text(encoding="utf-8")), encoding="utf-8")
    for kind in SCHEMAS:
        (FOLDER / f"{kind}.json").write_text(listing(kind), encoding="utf-8")
