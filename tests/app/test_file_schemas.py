"""The JSON Schemas of users' files: what the shipped files name, and what an editor makes of them."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from harness.app.file_schemas import SCHEMAS
from harness.cli import main
from harness.experiments.cluster_file import ClusterFile
from harness.experiments.clusters import Provisioned
from harness.experiments.config import Experiment
from harness.experiments.key_meanings import meanings, models_of
from harness.plans import QueryPlan
from harness.regression.nightly import Nightly
from harness.topologies.jar import Captured

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
MADE = runpy.run_path(str(ROOT / "scripts" / "file_keys.py"))
NAMED = re.compile(r"^# yaml-language-server: \$schema=(\S+)$")
SHIPPED = [path for path in sorted(CONFIGS.rglob("*.yaml")) if path.parent.name != "placements"]
"""A placement's file has names of its own for keys."""


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_the_tracked_schema_is_what_the_command_prints(kind: str) -> None:
    printed = CliRunner().invoke(main, ["schema", kind])
    assert printed.exit_code == 0
    assert (CONFIGS / "schemas" / f"{kind}.json").read_text(encoding="utf-8") == printed.output, (
        "run make docs"
    )


@pytest.mark.parametrize("name", sorted(MADE["TABLES"]))
def test_tables_of_keys_are_made_from_the_grammar(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert text == MADE["page"](name, text), "run make docs"


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_a_schema_is_an_object_each_of_whose_keys_is_described(kind: str) -> None:
    schema = SCHEMAS[kind]()
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert set(schema["required"]) <= set(schema["properties"])
    described = list(keys(schema))
    assert len(described) > len(schema["properties"])
    assert [key for key, said in described if not said.get("description", "").endswith((".", ")"))] == []


def keys(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the keys that a schema knows with what it says of each, in forms within forms, too."""
    if isinstance(node, dict):
        properties = node.get("properties", {})
        yield from properties.items()
        for inner in (*properties.values(), *(v for k, v in node.items() if k != "properties")):
            yield from keys(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from keys(inner)


def test_only_keys_that_the_harness_writes_have_no_meaning() -> None:
    """A key without a meaning is in no schema and no table, so that each must be meant to be left out."""
    silent = {
        (part, name)
        for whole in (Experiment, ClusterFile, Nightly)
        for part in models_of(whole)
        for name in part.model_fields.keys() - meanings(part).keys()
        if part not in set(models_of(Captured)) | set(models_of(QueryPlan))
    }
    assert {(part.__name__, name) for part, name in silent} == {
        ("JarTopology", "captured"),
        (Provisioned.__name__, "name"),
        (Provisioned.__name__, "file"),
    }


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: str(p.relative_to(CONFIGS)))
def test_a_shipped_file_names_the_schema_that_it_satisfies(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = NAMED.match(text.splitlines()[0])
    assert named
    schema = json.loads((path.parent / named[1]).read_text(encoding="utf-8"))
    assert complaints(schema, YAML(typ="safe").load(text)) == []


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"worklaod": {}}, "worklaod"),
        ({"workload": {"rate_tps": -1}}, "workload"),
        ({"topology": {"name": "windowed", "load_aware": False, "batching": {"window": 0}}}, "topology"),
        ({"cluster": {"nodes": "two"}}, "cluster"),
    ],
)
def test_a_schema_refuses_what_the_grammar_refuses(change: dict[str, Any], key: str) -> None:
    whole = YAML(typ="safe").load((CONFIGS / "experiments" / "quick.yaml").read_text(encoding="utf-8"))
    found = complaints(SCHEMAS["experiment"](), whole | change)
    assert len(found) == 1
    assert key in found[0]


def test_short_forms_are_taken() -> None:
    whole = YAML(typ="safe").load((CONFIGS / "experiments" / "quick.yaml").read_text(encoding="utf-8"))
    short = {"cluster": "configs/clusters/namespaces-3.yaml"}
    whole["topology"]["batching"] = {"bolt-a": 20}
    assert complaints(SCHEMAS["experiment"](), whole | short) == []
    unequal = {"file": "configs/clusters/namespaces-3.yaml", "links": {"node-1~node-2": {"delay_ms": 3}}}
    assert complaints(SCHEMAS["experiment"](), whole | {"cluster": unequal}) == []
    assert complaints(SCHEMAS["experiment"](), whole | {"cluster": unequal | {"nodes": 2}})


def complaints(schema: Any, value: Any) -> list[str]:
    """Return what a validator says of a value, with the key."""
    validator = Draft202012Validator(schema)
    return [f"{'.'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(value)]
