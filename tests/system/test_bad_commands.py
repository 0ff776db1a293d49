"""Fifty of the inputs of ``tests/test_bad_input.py``, as real commands: exit status, lines, files, time."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from altered_runs import ALL_IN_ONE
from mutated_input import NASTY_TEXTS, mutated_text, mutated_tree
from ruamel.yaml import YAML

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = sorted((ROOT / "configs" / "experiments").glob("*.yaml"))
CLUSTERS = sorted((ROOT / "configs" / "clusters").glob("*.yaml"))
VARIABLES = (
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_HOME",
    "NEO4J_URI",
    "INFLUXDB_TOKEN_FILE",
    "TMPDIR",
)
ONE_WITHIN_S = 300


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def mutated(source: Path, rng: random.Random, text: str = "") -> bytes:
    text = text or source.read_text()
    if rng.random() < 0.5:
        return mutated_text(text, rng)
    tree = YAML(typ="safe").load(text)
    return json.dumps(mutated_tree(tree, rng)).encode()


@pytest.mark.parametrize("seed", range(50))
def test_a_command_succeeds_or_says_in_one_line_what_is_wrong(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    environment = {**os.environ, "COLUMNS": "200"}
    given = tmp_path / "given.yaml"
    kind = ("experiment", "cluster", "plan", "variable", "option")[seed % 5]
    if kind == "experiment":
        given.write_bytes(mutated(rng.choice(EXPERIMENTS), rng))
        command = ["check", str(given)]
    elif kind == "cluster":
        (tmp_path / "key").touch()
        source = rng.choice(CLUSTERS)
        text = source.read_text().replace("~/.ssh/id_ed25519", str(tmp_path / "key"))
        given.write_bytes(mutated(source, rng, text))
        command = ["check", "quick", f"--set=cluster={given}"]
    elif kind == "plan":
        run = Path(shutil.copytree(ALL_IN_ONE, tmp_path / "runs" / "all-in-one" / ALL_IN_ONE.name))
        plan = run / "steps" / "00" / "plan.json"
        plan.write_bytes(mutated(plan, rng))
        command = ["predict", str(run), "--model", "no-change"]
    elif kind == "variable":
        environment |= {
            name: rng.choice(NASTY_TEXTS).replace("\0", "").encode(errors="replace").decode()
            for name in rng.sample(VARIABLES, 2)
        }
        command = rng.choice([["list"], ["cluster", "status", "none"], ["check", "quick"]])
    else:
        key = rng.choice(["workload.rate_tps", "steps.plan.0.executors", "topology.storm.a", "cluster", ""])
        command = ["check", "quick", f"--set={key}={rng.choice(NASTY_TEXTS)}".replace("\0", "")]
        command[-1] = command[-1].encode(errors="replace").decode()
    before = files(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "harness", *command],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=ONE_WITHIN_S,
        env=environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2), done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    if done.returncode == 2:
        errors = [line for line in said if line.startswith(("error: ", "Error: "))]
        assert len(errors) == 1, done.stderr
        assert said[-1] == errors[0]
    after = [path for path in files(tmp_path) if path.name != "predictions.parquet"]
    assert after == before  # of predict that succeeds its predictions
    assert not (ROOT / "evil").exists()
