"""``harness schedule`` on an archived run: plans side by side, the JSON line, a plan that is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML
from scheduling import placed

import harness
from harness.app.planning import check_placements, own_executors
from harness.cli import main
from harness.experiments.loading import load
from harness.experiments.placement_file import read_placement
from harness.plans import PhysicalPlan
from harness.schedulers.plan_costs import plan_shape

RUNS = Path(__file__).resolve().parents[2] / "reports" / "runs"
RUN = RUNS / "loaded-workers" / "20261123T170830Z"
SPREAD = 2
"""A step whose executors are on more than one worker."""


def asked(*options: str) -> Result:
    return CliRunner().invoke(main, ["schedule", str(RUN), *options], catch_exceptions=False)


@pytest.fixture(scope="module")
def plan() -> PhysicalPlan:
    found = harness.load_run(RUN).plan(SPREAD)
    assert len(found.workers) > 1
    return found


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    result = asked("--step", str(SPREAD), "--json", "--scheduler", "even", "--scheduler", "r-storm")
    assert result.exit_code == 0, result.output
    said: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return said


def test_every_executor_is_placed_once_in_a_slot_that_exists(
    answer: dict[str, Any], plan: PhysicalPlan
) -> None:
    slots = {f"{n.name}:{port}" for n in plan.nodes for port in n.slots}
    assert [p["scheduler"] for p in answer["proposals"]] == ["even", "r-storm"]
    for proposal in answer["proposals"]:
        assert proposal["placement"].keys() == {e.label for e in plan.executors}
        assert set(proposal["placement"].values()) <= slots


def test_storms_own_scheduler_made_the_plan_in_force(answer: dict[str, Any], plan: PhysicalPlan) -> None:
    """The archived step was placed by Storm's, which ``even`` repeats but for like slots."""
    even = answer["proposals"][0]
    assert plan_shape(placed(plan.query_plan, plan.nodes, even["placement"])) == plan_shape(plan)
    assert even["status"] == "ok"
    latency = even["predicted"]["ground_truth_latency_ms"]
    assert latency["mean"]["low"] < latency["mean"]["value"] < latency["mean"]["high"]
    assert latency["mean"]["value"] < latency["p95"]["value"]
    assert even["traffic_tps"]["between_workers"] >= even["traffic_tps"]["between_nodes"] > 0


def test_limits_are_listed_as_they_fill(answer: dict[str, Any]) -> None:
    """Time in proportion to the rate, CPU later: a part of it is there without messages."""
    rate_tps = harness.load_run(RUN).steps.loc[SPREAD, "rate_tps"]
    for proposal in answer["proposals"]:
        full_tps = [limit["max_rate_tps"] or rate_tps / limit["utilisation"] for limit in proposal["limits"]]
        assert full_tps == sorted(full_tps)
        assert all(proposal["limits"][0][key] for key in ("subject", "resource"))
        for limit in proposal["limits"]:
            if limit["resource"] == "heap":
                assert limit["max_rate_tps"] is None
                continue
            in_proportion = limit["utilisation"] * limit["max_rate_tps"] / rate_tps
            assert in_proportion == pytest.approx(1) if limit["resource"] == "time" else in_proportion > 1


def test_bytes_are_null_where_no_size_was_measured(answer: dict[str, Any]) -> None:
    """Nothing of the archived run travelled in batches."""
    for proposal in answer["proposals"]:
        assert proposal["traffic_bytes_s"] == {"between_workers": None, "between_nodes": None}


def test_bytes_are_shown_and_limit_links_where_batches_were_written() -> None:
    """In the archived run each hop of the chain had batches of rows of 20 and of 2,000 bytes."""
    run = min((RUNS / "batched-chain").iterdir())
    options = ("--step", "1", "--json", "--scheduler", "even", "--link-bytes-s", "1000000")
    result = CliRunner().invoke(main, ["schedule", str(run), *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "workers kB/s" in result.output
    even = json.loads(result.stdout.splitlines()[-1])["proposals"][0]
    size, tuples = even["traffic_bytes_s"], even["traffic_tps"]
    assert 20 <= size["between_workers"] / tuples["between_workers"] <= 2100
    assert size["between_nodes"] <= size["between_workers"]


def test_nodes_may_be_those_of_a_clusters_file(plan: PhysicalPlan) -> None:
    """Four nodes with two slots each: the plan in force has two."""
    cluster = RUNS.parents[1] / "configs" / "clusters" / "namespaces-5.yaml"
    options = ("--step", str(SPREAD), "--scheduler", "even", "--workers", "4", "--nodes", str(cluster))
    result = asked(*options, "--json")
    assert result.exit_code == 0, result.output
    even = json.loads(result.stdout.splitlines()[-1])["proposals"][0]
    assert {label.split(":")[0] for label in even["placement"].values()} == {
        f"node-{i}" for i in (1, 2, 3, 4)
    }
    assert len(plan.nodes) == 2
    assert even["status"] == "ok", even["reason"]


def test_a_random_plan_of_the_same_seed_is_the_same_plan(tmp_path: Path, plan: PhysicalPlan) -> None:
    written = []
    for name in ("one.yaml", "two.yaml"):
        result = asked("--scheduler", "{name: random, seed: 3}", "--write", str(tmp_path / name))
        assert result.exit_code == 0, result.output
        written.append((tmp_path / name).read_text())
    assert written[0] == written[1]
    assert "bolt-a" in written[0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--scheduler", "nothing"), "unknown scheduler 'nothing'"),
        (("--scheduler", "{name: random, sead: 3}"), "has no parameter 'sead'"),
        (("--scheduler", "{name: random"), "not readable as YAML"),
        (("--write", "plan.yaml"), "--write takes the plan of one scheduler"),
        (("--step", "99"), "99"),
        (("--nodes", str(RUN / "environment.json")), "not a step's plan.json"),
        (("--nodes", str(RUNS.parent / "evaluation-split.yaml")), "unknown key"),
        (("--link-bytes-s", "0"), "--link-bytes-s"),
    ],
)
def test_a_mistake_is_one_line(options: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(main, ["schedule", str(RUN), *options])
    assert result.exit_code == 2
    assert says in result.output
    assert "Traceback" not in result.output


def test_a_written_plan_is_the_placement_of_a_step(tmp_path: Path, plan: PhysicalPlan) -> None:
    """What is written names every executor as the topology will have it, in slots that the cluster has."""
    file = tmp_path / "plan.yaml"
    options = ("--step", str(SPREAD), "--scheduler", "aniello-offline", "--write", str(file), "--json")
    result = asked(*options)
    assert result.exit_code == 0, result.output
    proposed = json.loads(result.stdout.splitlines()[-1])["proposals"][0]["placement"]
    assert read_placement(file) == proposed
    tree = YAML(typ="safe").load(RUN / "experiment.yaml")
    tree["steps"] = {"plan": [{"placement": str(file)}]}
    written = tmp_path / "again.yaml"
    YAML().dump(tree, written)
    experiment = load(written)
    check_placements(experiment)
    spec = experiment.steps.plan[0]
    assert dict(spec.placed) == proposed
    assert (
        own_executors(experiment, experiment.configuration(spec)).executors == plan.configuration().executors
    )


def test_a_budget_is_for_schedulers_that_choose_counts() -> None:
    result = asked(
        *("--step", str(SPREAD), "--json", "--scheduler", "even", "--scheduler", "model-guided"),
        *("--executors", "9", "--workers", "2", "--rate", "90"),
    )
    assert result.exit_code == 0, result.output
    even, guided = json.loads(result.stdout.splitlines()[-1])["proposals"]
    running = harness.load_run(RUN).plan(SPREAD)
    assert even["executors"] == running.configuration().executors
    assert guided["workers"] <= 2
    assert sum(n for name, n in guided["executors"].items() if not name.startswith("__")) <= 9


def advised(*options: str) -> Result:
    return CliRunner().invoke(main, ["advise", str(RUN), "--step", str(SPREAD), *options])


def test_advice_is_a_plan_that_keeps_the_target_and_a_cheaper_one_that_may_not(tmp_path: Path) -> None:
    """A generous target is kept by every plan that is not saturated, so a cheaper one is."""
    file = tmp_path / "plan.yaml"
    result = advised("--target", "p95=9000ms", "--max-workers", "1", "--write", str(file), "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout.splitlines()[-1])
    best = said["advised"]
    assert said["kept"]
    assert best["predicted"]["ground_truth_latency_ms"]["p95"]["high"] <= 9000
    assert best["margin_pct"] > 0
    assert not said["cheaper"]["keeps"]
    assert (said["cheaper"]["status"], said["cheaper"]["risk"]) == ("unpredicted", 1.0)
    assert read_placement(file) == best["placement"]
    assert "breaks first: " in result.stdout


@pytest.mark.deep
def test_a_target_that_no_plan_keeps_has_a_status_of_its_own() -> None:
    result = advised("--target", "mean=0.1", "--max-workers", "1", "--max-executors", "8")
    assert result.exit_code == 3
    assert "no plan that was found keeps a mean of 0.1 ms" in result.stdout


@pytest.mark.parametrize("target", ["p95", "p95=fast", "p96=3ms", "p95=-1", "=5ms"])
def test_a_target_that_is_none_is_one_line(target: str) -> None:
    result = advised("--target", target)
    assert result.exit_code == 2
    assert f"--target {target}: not a target" in result.output
    assert "Traceback" not in result.output


def test_a_scheduler_is_added_in_one_file_by_the_page_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's block is saved under the name that the page says, and its two commands are given."""
    page = (RUNS.parents[1] / "docs" / "schedulers.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    commands = re.findall(r"^harness ((?:conformance|schedule) .*blocks:Blocks.*)$", page, flags=re.MULTILINE)
    assert len(commands) == 2
    (tmp_path / "blocks.py").write_text(block, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for command in commands:
        words = command.replace("reports/runs", str(RUNS)).split()
        result = CliRunner().invoke(main, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    assert "blocks:Blocks" in result.stdout
