"""The tutorial, command by command as its page has them; only burn-ins and intervals are shorter."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from harness.runs import Run

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
SHORT = (
    "measure.attempts=1",
    "measure.burn_in.most_s=30",
    "measure.interval.least_s=20",
    "measure.interval.most_s=45",
    "measure.interval.precision_pct=30",
)


def commands() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that the page says, in one shell; the folder in which it worked."""
    place = tmp_path_factory.mktemp("tutorial")
    shorter = " ".join(f"--set={word}" for word in SHORT)
    script = "\n".join(
        [
            "set -euo pipefail",
            f"ln -s {ROOT}/examples examples",
            "harness() {",
            "  local command=$1; shift",
            f'  [ "$command" != run ] || set -- "$@" {shorter}',
            "  local status=0",
            f'  {sys.executable} -m harness "$command" "$@" || status=$?',
            "  # so short a run may be noisy: its report says so, and no plan may keep the target for sure",
            "  [ $status = 3 ] && [[ $command =~ ^(run|report|advise)$ ]] && return 0",
            "  return $status",
            "}",
            *commands(),
        ]
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=place, capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return place / "tutorial"


def test_the_page_has_a_command_for_each_of_its_parts() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(commands()) == len(re.findall(r"^## \d", text, re.MULTILINE))


def test_the_advised_plan_has_more_executors_of_the_busy_bolt(folder: Path) -> None:
    """One executor of price is busy 60 % of the time: a p95 of 55 ms is predicted, of two 30."""
    plan = yaml.safe_load((folder / "better.yaml").read_text())
    assert 2 <= Counter(label.split("[")[0] for label in plan)["price"] <= 4


def test_the_better_plan_is_measured_to_be_faster(folder: Path) -> None:
    """By hand (M/G/1) 22 ms against at most 15."""
    newest = sorted((folder / "runs" / "orders").iterdir())[-1]
    before, after = (Run(newest).interval(n).mean_ms for n in (0, 1))
    assert after < before
    assert (newest / "report.html").exists()
