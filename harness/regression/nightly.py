"""A night: which experiments, measuring them through ``harness run``, and the page that is made of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from pydantic import Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from harness.analysis.judge.scores import RunScores
from harness.errors import UsageError, describe_fault
from harness.plans import Frozen
from harness.regression.outcomes import Limits, Regression
from harness.regression.outputs import COLUMNS, table, verdict

RUN_ENDED = (0, 3, 4)
"""Exit statuses of ``harness run`` that leave a whole run: valid, invalid, unknown."""


class Nightly(Frozen):
    """``configs/nightly.yaml``.

    Attributes
    ----------
    experiments : list of str
        Experiments of a night: files, or names of shipped ones.
    runs : Path
        Where runs go; relative to the folder that the command is given in, as the following are.
    baseline : Path
        The scores that a night is compared with.
    history : Path
        The file to which each night adds its numbers.
    page : Path
        Folder of page, figure and summaries.
    limits : Limits
        Changes that are no finding (docs/regression.md).
    """

    experiments: tuple[str, ...] = Field(min_length=1)
    runs: Path = Path("runs")
    baseline: Path = Path("reports/baseline.json")
    history: Path = Path("reports/history.parquet")
    page: Path = Path("reports/nightly")
    limits: Limits = Limits()


def read(path: Path) -> Nightly:
    """Read a night's file.

    Raises
    ------
    UsageError
        Missing or unreadable file, unknown key, wrong type.
    """
    try:
        return Nightly.model_validate(YAML(typ="safe").load(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        hint = "name the night's file with --config (docs/nightly.md has its keys)"
        raise UsageError(f"{path}: there is no such file", hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read", str(error)) from None
    except YAMLError as error:
        raise UsageError(f"{path}: not readable as YAML", str(error).splitlines()[0]) from None
    except ValidationError as error:
        raise UsageError(f"{path}: {describe_fault(error)}") from None


@dataclass(frozen=True)
class Attempt:
    """Attempt to measure one experiment: its run, or the reason why no run came of it."""

    experiment: str
    run: Path | None
    problem: str = ""


def measure(experiment: str, runs: Path) -> Attempt:
    """Measure one experiment with ``harness run`` in a process of its own, whose progress is shown."""
    command = [sys.executable, "-m", "harness", "run", experiment, "--runs", str(runs), "--wait", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1:] or [""]
    try:
        said = json.loads(last[0])
    except ValueError:
        said = {}
    if done.returncode in RUN_ENDED and "run" in said:
        return Attempt(experiment, Path(said["run"]))
    return Attempt(experiment, None, str(said.get("error", f"harness run ended with {done.returncode}")))


def measure_all(
    experiments: Sequence[str], runs: Path, progress: Callable[[str], None]
) -> tuple[Attempt, ...]:
    """Measure every experiment; one that fails does not keep the others from being measured."""
    out = []
    for experiment in experiments:
        progress(f"measuring {experiment}")
        out.append(measure(experiment, runs))
        if out[-1].run is None:
            progress(f"{experiment}: not measured: {out[-1].problem}")
    return tuple(out)


def page(
    night: str,
    regression: Regression,
    scored: Sequence[RunScores],
    noisy: Sequence[str],
    missing: Sequence[Attempt],
    trend_svg: str,
) -> str:
    """Return the night's page, which needs no network: verdict and noise, findings, trend, runs."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = (resources.files("harness") / "assets" / "nightly.html.j2").read_text(encoding="utf-8")
    svg = trend_svg[trend_svg.index("<svg") :] if "<svg" in trend_svg else ""
    return environment.from_string(template).render(
        night=night,
        verdict=verdict(regression),
        status=regression.status,
        noisy=noisy,
        missing=missing,
        findings=[o.line for o in regression.worse],
        gaps=regression.gaps,
        notes=[n for n in regression.notes if n not in noisy],
        columns=COLUMNS,
        table=table(regression),
        runs=scored,
        trend=svg,
    )
