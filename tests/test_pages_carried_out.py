"""Pages on what can be added, carried out word by word on a copy of the code.

A page has blocks of a new file, each the whole of the file named before it, and blocks of changed lines
(``diff``): a line that begins with ``+`` is put before or after its neighbour, one with ``-`` is taken out.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.machine import servers
from harness.models.contract.layout import lay_out
from harness.runs import Run

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES = 40
MOST_FILES = 3
RUN = ROOT / "reports" / "runs" / "windowed" / "20261122T005431Z"
PAGES = tuple(sorted(p.name for p in (ROOT / "docs").glob("add-a-*.md")))
JAVA = "storm-topologies/topologies/src/main/java/harness/storm/topologies"
BLOCK = re.compile(r"`([\w/.-]+\.\w+)`[^`]*?\n\n```(python|java|yaml|diff)\n(.*?)```", re.DOTALL)


def carry_out(page: str, folder: Path) -> list[str]:
    """Do what a page says to a copy of the code in a folder; return the files that it made or changed."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for name in ("harness", "configs", "scripts", JAVA):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "jars"))
    for name in ("docs/architecture.md", "tests/test_architecture.py"):
        (folder / name).parent.mkdir()
        shutil.copy(ROOT / name, folder / name)
    touched = []
    for name, kind, block in BLOCK.findall(text):
        file = folder / name
        if kind != "diff":
            assert not file.exists(), f"{name} is there already"
            file.write_text(block, encoding="utf-8")
        else:
            file.write_text(changed(file.read_text(encoding="utf-8"), block, name), encoding="utf-8")
        touched.append(name)
    assert 0 < len(touched) <= MOST_FILES
    return touched


def changed(text: str, block: str, name: str) -> str:
    """Apply changed lines to a file's text: each stands beside a line of the file that occurs once."""
    place: int | None = None
    lines, waiting = text.splitlines(), list[str]()
    for line in block.splitlines():
        sign, rest = line[:1], line[1:]
        if sign == "+" and place is None:
            waiting.append(rest)
        elif sign == "+":
            lines.insert(place, rest)
            place += 1
        else:
            assert lines.count(rest) == 1, f"{name} has {lines.count(rest)} lines {rest!r}"
            place = lines.index(rest)
            if sign == "-":
                del lines[place]
            lines[place:place] = waiting
            place += len(waiting) + (sign != "-")
            waiting = []
    return "\n".join(lines) + "\n"


def harness(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command of the changed copy."""
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_short_its_changes_fit_and_its_words_pass_the_lint(page: str, tmp_path: Path) -> None:
    assert len((ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    made = [tmp_path / name for name in carry_out(page, tmp_path) if not (ROOT / name).exists()]
    lint = runpy.run_path(str(ROOT / "scripts" / "prose.py"))
    for text in (t for path in made if path.suffix == ".py" for t in lint["docstrings"](path)):
        assert [*lint["faults"](text)] == []
        assert not lint["FIRST_WORDS"].match(text), text


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_adds_a_module_says_how_the_architecture_names_it(page: str, tmp_path: Path) -> None:
    added = [
        name.removeprefix("harness/")
        for name in carry_out(page, tmp_path)
        if name.startswith("harness/") and not (ROOT / name).exists()
    ]
    assert ("`make docs`" in (ROOT / "docs" / page).read_text(encoding="utf-8")) == bool(added)
    subprocess.run([sys.executable, "scripts/module_index.py"], cwd=tmp_path, check=True)
    before, after = ((folder / "docs" / "architecture.md").read_text("utf-8") for folder in (ROOT, tmp_path))
    new = set(after.splitlines()) - set(before.splitlines())
    assert {line.partition("`: ")[0] for line in new} == {f"- `{name}" for name in added}


def test_the_pages_are_of_all_that_the_house_is_added_to() -> None:
    things = ("check", "command", "figure", "model", "role", "topology")
    assert tuple(f"add-a-{thing}.md" for thing in things) == PAGES


def test_a_topology(tmp_path: Path) -> None:
    assert carry_out("add-a-topology.md", tmp_path) == ["my.yaml"]
    done = harness(tmp_path, "check", "my.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == 2


@pytest.mark.deep
def test_a_model(tmp_path: Path) -> None:
    """It conforms, and a step's latency changes as the messages a second of its executors do."""
    carry_out("add-a-model.md", tmp_path)
    shutil.copytree(RUN, tmp_path / "run")
    done = harness(tmp_path, "conformance", "--model", "by-load")
    assert done.returncode == 0, done.stdout + done.stderr
    done = harness(tmp_path, "predict", "run", "--model", "by-load")
    assert done.returncode == 0, done.stderr
    run = Run(RUN)
    load = {s: run.interval(s).rate_tps / len(lay_out(run.plan(s).start)) for s in run.finished_steps}
    rows = pq.read_table(tmp_path / "run" / "predictions.parquet").to_pylist()
    value = {(r["source_step"], r["proposed_step"]): r["value"] for r in rows}
    assert len(value) == len(load) ** 2
    for (source, proposed), predicted_ms in value.items():
        measured_ms = value[source, source]
        assert predicted_ms == pytest.approx(measured_ms * load[proposed] / load[source])


TRIED = """
package harness.storm.topologies;

import java.nio.file.Path;
import java.util.List;

final class Tried {
    public static void main(String[] args) throws Exception {
        TopologySettings settings = SettingsReader.read(Path.of(args[0]));
        TopologyFactory.build(settings);
        TopologySettings.Component relay = settings.components().get("relay");
        Workload drawn = new Workload(settings.seed(), settings.keys());
        Role.Outlets outlets = new Role.Outlets(List.of("default"), List.of());
        Fixtures.Prepared bolt =
                new Fixtures.Prepared(relay.role().bolt(relay, outlets, settings.sink(), drawn));
        for (String key : List.of("A", "B", "C")) {
            byte[] members = Members.encode(List.of(Fixtures.member(1, 12, 1000)));
            bolt.bolt.execute(bolt.tuple(1, key, Fixtures.message(1, 12).toJson(), members));
        }
        for (Fixtures.Emitted emitted : bolt.recorder.emitted) {
            System.out.println(emitted.key() + " " + emitted.members().get(0).hops().size());
        }
        System.out.println(bolt.recorder.acked.size() + " " + bolt.recorder.failed.size());
    }
}
"""
SETTINGS = """
import json
from harness.experiments.contracts import TopicNames
from harness.experiments.loading import load
from harness.machine.broker import Broker
from harness.storm.submission import topology_settings
e = load("relayed.yaml")
counts, topics = e.configuration(e.steps.plan[0]), TopicNames({"in": "in"}, "out")
own = topology_settings(e, e.topology.own(), "t", counts, broker=Broker("b:1"), topics=topics)
print(json.dumps(own))
"""
RELAYED = """
name: relayed
topology:
  load_aware: false
  components:
    in: {role: spout}
    relay: {role: relay, service: {kind: cpu, distribution: constant, mean_ms: 0.01}}
    out: {role: sender}
  streams:
    - {from: in, to: relay, grouping: fields}
    - {from: relay, to: out, grouping: fields}
workload: {rate_tps: 10}
steps: {plan: [{executors: 1, workers: 1}]}
"""


@pytest.mark.deep
def test_a_role(tmp_path: Path) -> None:
    """The harness takes it, and the bolt that its settings name emits each tuple with its own key."""
    assert len(carry_out("add-a-role.md", tmp_path)) == MOST_FILES
    (tmp_path / "relayed.yaml").write_text(RELAYED)
    done = harness(tmp_path, "check", "relayed.yaml")
    assert done.returncode == 0, done.stderr
    settings = subprocess.run(
        [sys.executable, "-c", SETTINGS], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (tmp_path / "topology.json").write_text(settings.stdout)
    said = run_java(tmp_path).splitlines()[-4:]  # before that, Storm logs
    assert said == ["A 2", "B 2", "C 2", "3 0"]  # the spout's hop and its own; all acked


def run_java(folder: Path) -> str:
    """Compile the changed bolts beside the jar's others, and return what ``Tried`` prints."""
    fixtures = ROOT / JAVA.replace("/main/", "/test/") / "Fixtures.java"
    sources = [folder / JAVA / name for name in ("Role.java", "RelayBolt.java")]
    given = {path.name: path.read_text(encoding="utf-8") for path in (*sources, fixtures)}
    (folder / "java").mkdir()
    for name, text in (given | {"Tried.java": TRIED}).items():
        moved = text.replace("com.fasterxml.jackson", "harness.storm.shaded.jackson")  # as in the jar
        (folder / "java" / name).write_text(moved)
    jar = ROOT / "harness" / "assets" / "jars" / "topologies.jar"
    path = os.pathsep.join(["classes", str(jar), f"{servers.install().storm}/lib-worker/*"])
    compiled = ["javac", "-nowarn", "-cp", path, "-d", "classes", *map(str, (folder / "java").glob("*.java"))]
    done = subprocess.run(compiled, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ran = ["java", "-cp", path, "harness.storm.topologies.Tried", "topology.json"]
    done = subprocess.run(ran, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command(tmp_path: Path) -> None:
    carry_out("add-a-command.md", tmp_path)
    done = harness(tmp_path, "steps", str(RUN), "--json")
    assert done.returncode == 0, done.stderr
    rates_tps = json.loads(done.stdout.splitlines()[-1])["rates_tps"]
    steps = sorted((RUN / "steps").iterdir())
    recorded = [json.loads((step / "interval.json").read_text())["rate_tps"] for step in steps]
    assert list(rates_tps.values()) == recorded
    assert done.stdout.startswith(f"step 0: {recorded[0]:g}/s\n")


def test_a_check(tmp_path: Path) -> None:
    """A step that is said to have been measured on a full machine is doubted, the others are not."""
    carry_out("add-a-check.md", tmp_path)
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    interval = run / "steps" / "01" / "interval.json"
    interval.write_text(json.dumps(json.loads(interval.read_text()) | {"machine_busy_pct": 99.0}))
    program = """
import json, pathlib
from harness.analysis.judge.checks import run_checks
from harness.analysis.spark.inputs import read_raw
found = run_checks(read_raw(pathlib.Path("run")), {})
print(json.dumps([[c.step, c.status, c.detail] for c in found if c.check == "spare-time"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    outcomes = json.loads(done.stdout)
    assert outcomes[0] == [0, "valid", ""]
    assert outcomes[1] == [1, "unknown", "the machine was busy for 99 % of the interval"]


@pytest.mark.deep
def test_a_figure(tmp_path: Path) -> None:
    carry_out("add-a-figure.md", tmp_path)
    shutil.copytree(RUN, tmp_path / "run")
    assert harness(tmp_path, "predict", "run", "--model", "no-change").returncode == 0
    done = harness(tmp_path, "figures", "run", "--only", "machine-busy", "--out", "pictures")
    assert done.returncode == 0, done.stderr
    assert [p.suffix for p in sorted((tmp_path / "pictures").rglob("machine-busy.*"))] != []
