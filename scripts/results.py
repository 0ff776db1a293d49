"""Writes the README's results from the archived runs under reports/runs/; run it after archiving.

python scripts/results.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from harness.schemas import Measure
from harness.topologies.thesis import THESIS

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
MODELS = ("composite", "storm-tracer", "jackson", "no-change")
COLUMNS = (
    (Measure.GROUND_TRUTH, "mean", "ours"),
    (Measure.COMPLETE, "mean", "ours"),
    (Measure.GROUND_TRUTH, "mean_same_node", "thesis"),
    (Measure.COMPLETE, "p90_paths", "thesis"),
)


def experiments() -> list[str]:
    """Return the thesis's five, then those of ours that move the answer."""
    loaded = sorted(p.name for p in (ROOT / "reports" / "runs").glob("loaded-*"))
    return [*(topology.name for topology in THESIS), *loaded]


def newest(name: str) -> Path | None:
    """Return the newest valid archived run of an experiment."""
    runs = [p.parent for p in sorted((ROOT / "reports" / "runs" / name).glob("*/verdict.json"))]
    valid = [r for r in runs if json.loads((r / "verdict.json").read_text())["verdict"] == "valid"]
    return valid[-1] if valid else None


def cell(summary: Any, model: str, column: tuple[str, str, str]) -> str:
    """Return median and worst error of a model as text, and of how many pairs where not of all."""
    for row in summary["errors"]:
        if (row["measure"], row["statistic"], row["protocol"], row["model"]) == (*column, model):
            if row["median_abs_error_pct"] is None:
                return "declined" if not row["judged"] else "-"
            errors = f"{row['median_abs_error_pct']:.0f} / {row['worst_abs_error_pct']:.0f}"
            judged, pairs = row["judged"], row["pairs"]
            return errors if judged == pairs else f"{errors} ({judged} of {pairs})"
    return "-"


def table() -> str:
    """Return the section."""
    published = YAML(typ="safe").load((ROOT / "reports" / "published.yaml").read_text())
    lines = [
        "| experiment | model | ground truth | complete latency | ground truth, thesis's protocol |"
        " complete latency, thesis's protocol | thesis's own report: ground truth; complete |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    provenance = []
    for name in experiments():
        run = newest(name)
        if run is None:
            continue
        summary = json.loads((run / "summary.json").read_text())
        environment = json.loads((run / "environment.json").read_text())
        for model in MODELS:
            if all(row["model"] != model for row in summary["errors"]):
                continue  # the run was reported before there was the model
            cells = " | ".join(cell(summary, model, column) for column in COLUMNS)
            own = published.get(name) if model == "storm-tracer" else None
            theirs = f"{own['ground_truth']}; {own['complete']}" if own else ""
            lines.append(f"| {name} | {model} | {cells} | {theirs} |")
        machine = environment["machine"]
        provenance.append(
            f"`{run.relative_to(ROOT)}`: {summary['verdict']}, commit {environment['commit'] or 'unknown'},"
            f" {machine['cores']} cores ({machine['cpu']}), {machine['memory_bytes'] / 2**30:.0f} GiB"
        )
    return "\n".join([*lines, "", "Runs: " + "; ".join(provenance) + "."])


def main() -> None:
    """Replace the README's section between the two marks."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    readme.write_text(f"{head}{BEGIN}\n{table()}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
