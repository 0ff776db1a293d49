"""Fits the composite model's intervals to judged runs of the tuning set, and writes its calibration.json.

    python scripts/calibrate.py runs/all-in-one/20260102T030405Z runs/loaded-cpu/20260102T040506Z

Runs of other experiments than the tuning set's are refused: accuracy and coverage are reported on those.
"""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np

from harness.analysis import accuracy
from harness.analysis.evaluation import evaluate, find_runs, read_split
from harness.errors import UsageError
from harness.models import uncertainty

SPLIT = Path("reports/evaluation-split.yaml")
FILE = Path(uncertainty.__file__).with_name("calibration.json")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--model", default="composite", show_default=True)
def main(runs: tuple[Path, ...], model: str) -> None:
    """Fit and write."""
    found = evaluate(find_runs(runs), read_split(SPLIT), click.echo)
    for run in found:
        if run.part != "tuning":
            raise UsageError(f"{run.name}: not of the tuning set", f"see {SPLIT}")
    rows = accuracy.gather(found)
    rows = rows[(rows["model"] == model) & (rows["verdict"] == "judged") & ~rows["full"]]
    rows = rows[(rows["value"] > 0) & (rows["actual"] > 0) & (rows["low"] > 0)]
    measures: dict[str, dict[str, dict[str, float]]] = {}
    for (measure, statistic), mine in rows.groupby(["measure", "statistic"]):
        known = uncertainty.calibration(str(measure), str(statistic))
        spreads = uncertainty.spread_of(np.log(mine["high"] / mine["value"]).to_numpy(), known)
        errors = np.log(mine["value"] / mine["actual"]).to_numpy()
        error = uncertainty.fit(errors.tolist(), spreads.tolist()).error
        measures.setdefault(str(measure), {})[str(statistic)] = {"error": round(error, 4)}
        click.echo(f"{measure} {statistic}: {len(mine)} pairs, error {error:.3f}")
    FILE.write_text(json.dumps({"schema": 1, "measures": measures}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
