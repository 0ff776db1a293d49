"""What the project is made of, and what is known of it: the bill of materials and the audit."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from harness.machine.server_pins import jar_of, pinned, purls

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("pypi", "maven")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)


@pytest.mark.deep
def test_the_bill_has_every_locked_package_and_pinned_jar(tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        done = run("scripts/sbom.py", "--out", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    text = (tmp_path / "one.json").read_text()
    assert text == (tmp_path / "two.json").read_text()
    bill = json.loads(text)
    assert bill["bomFormat"] == "CycloneDX"
    version = next(v for v in SchemaVersion if v.to_version() == bill["specVersion"])
    assert JsonStrictValidator(version).validate_str(text) is None
    locked = set(re.findall(r"^([\w.-]+)==([\w.!+-]+)", (ROOT / "requirements.lock").read_text(), re.M))
    every = bill["components"]
    packages = {kind: [c for c in every if c["purl"].startswith(f"pkg:{kind}/")] for kind in KINDS}
    assert sum(map(len, packages.values())) == len(every)
    assert {(c["name"], c["version"]) for c in packages["pypi"]} == locked
    jars = {h["content"] for c in packages["maven"] for h in c["hashes"]}
    assert jars == {*pinned("storm-kafka").values(), *pinned("neo4j").values()}
    kafka = next(c for c in packages["maven"] if c["bom-ref"] == "storm-kafka/kafka_2.13-4.1.0.jar")
    assert (kafka["group"], kafka["name"], kafka["version"]) == ("org.apache.kafka", "kafka_2.13", "4.1.0")
    assert len({c["bom-ref"] for c in every}) == len(every)


def test_each_pinned_jar_has_one_package_url() -> None:
    pins = {Path(jar).name for name in ("storm-kafka", "neo4j") for jar in pinned(name)}
    assert set(purls()) == pins
    classified = Path("io/netty/netty-codec/4.1.137.Final/netty-codec-4.1.137.Final-linux-x86_64.jar")
    purl = script("pin_servers").purl_of(classified)
    assert purl == "pkg:maven/io.netty/netty-codec@4.1.137.Final?classifier=linux-x86_64"
    assert jar_of(purl) == classified.name


@pytest.mark.parametrize("service", ["osv", "pypi"])
def test_an_advisory_service_that_does_not_answer_is_one_line_and_unknown(
    service: str, tmp_path: Path
) -> None:
    """By pip-audit itself, which is sent to a port where nobody listens."""
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"click==8.3.0 --hash=sha256:{'0' * 64}\n")
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1", "NO_PROXY": ""}
    cache = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = run("scripts/audit.py", "--lock", str(lock), "--service", service, **nowhere, **cache)
    assert done.returncode == 4, done.stdout + done.stderr
    assert done.stdout.startswith("audit: the advisory service does not answer (")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_an_answer_is_a_line_for_each_vulnerability() -> None:
    """The format is pip-audit's own, as its manual has it."""
    audit = script("audit")
    said = {
        "dependencies": [
            {"name": "a", "version": "1", "vulns": []},
            {
                "name": "b",
                "version": "2",
                "vulns": [{"id": "X-1", "fix_versions": ["2.1", "3"]}, {"id": "X-2"}],
            },
            {"name": "c", "skip_reason": "nobody knows it"},
        ],
        "fixes": [],
    }
    packages = audit.answered(json.dumps(said))
    assert audit.findings(packages) == [
        "b 2: X-1, mended in 2.1, 3",
        "b 2: X-2, mended in no version yet",
        "c: not compared: nobody knows it",
    ]
    assert audit.answered("") is audit.answered("[]") is audit.answered('{"dependencies": []}') is None
