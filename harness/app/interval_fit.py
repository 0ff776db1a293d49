"""Fits the composite model's intervals to judged runs of the tuning set.

Runs of other experiments than the tuning set's are refused: accuracy and coverage are reported on those.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd

from harness.analysis.judge import accuracy
from harness.analysis.judge.evaluation import evaluate, find_runs, read_split
from harness.analysis.judge.predicting import observation, rate_tps
from harness.errors import UsageError
from harness.experiments.loading import load
from harness.machine.whole_files import write_atomically
from harness.models.composite import uncertainty
from harness.models.composite.model import Composite
from harness.models.composite.uncertainty import Calibration, Z, fit
from harness.runs import Run
from harness.schemas import Measure

CALIBRATION = Path(uncertainty.__file__).with_name("calibration.json")
"""File that the shipped model reads."""
THESIS = {(Measure.GROUND_TRUTH, "mean_same_node"), (Measure.COMPLETE, "p90_paths")}
"""Statistics of the thesis's protocol, which is not fitted to: they get their measure's mean's errors."""
PAIR = ["run", "source_step", "proposed_step", "measure", "statistic", "subject"]


def fit_intervals(runs: Sequence[Path], split_file: Path, file: Path, say: Callable[[str], None]) -> None:
    """Fit the intervals to runs, and write the calibration.

    Parameters
    ----------
    runs : sequence of Path
        Run directories of the tuning set, or folders of them.
    split_file : Path
        Names the experiments of the tuning set.
    file : Path
        The calibration to write.
    say : callable
        Takes lines of progress.

    Raises
    ------
    UsageError
        When a run is not of the tuning set.
    """
    paths = find_runs(runs)
    found = evaluate(paths, read_split(split_file), say)
    for run in found:
        if run.part != "tuning":
            raise UsageError(f"{run.name}: not of the tuning set", f"see {split_file}")
    rows = accuracy.gather(found)
    rows = rows[(rows["model"] == "composite") & (rows["verdict"] == "judged") & ~rows["full"]]
    rows = rows[(rows["value"] > 0) & (rows["actual"] > 0) & (rows["low"] > 0)]
    rows = rows.merge(pd.concat([parts(path) for path in paths]), on=PAIR, validate="one_to_one")
    measures: dict[str, dict[str, dict[str, float]]] = {}
    for (measure, statistic), mine in rows.groupby(["measure", "statistic"]):
        errors = np.log((mine["value"] / mine["actual"]).to_numpy())
        fitted = fit(errors, mine["spread"].to_numpy(), mine["share"].to_numpy())
        kept = {name: round(number, 4) for name, number in asdict(fitted).items() if number}
        measures.setdefault(str(measure), {})[str(statistic)] = kept
        say(f"{measure} {statistic}: {len(mine)} pairs, {kept}")
    for measure, statistic in sorted(THESIS):
        measures[measure][statistic] = measures[measure]["mean"]
    write_atomically(file, json.dumps({"schema": 1, "measures": measures}, indent=2) + "\n")


def parts(path: Path) -> pd.DataFrame:
    """Return the parts of the intervals of a run's predictions: sampling error, and share of costs.

    They are found from the widths of intervals without calibration, and with an error in costs of 1.
    """
    run, experiment = Run(path), load(path / "experiment.yaml")
    seen = {step: observation(run, experiment, step) for step in run.finished_steps}
    found = []
    for source, there in seen.items():
        model = Composite({}).prepare(there)
        for proposed in seen.keys() - {source}:
            rate = rate_tps(experiment, there.rate_tps, seen[proposed].rate_tps)
            asked = run.plan(proposed).start, seen[proposed].settings, rate
            plain = model.predict(*asked).estimates
            unit = {(e.measure, e.statistic): Calibration(costs=1.0) for e in plain}
            dear = replace(model, calibrations=unit).predict(*asked).estimates
            for bare, e in zip(plain, dear, strict=True):
                if e.value and e.high and bare.high and bare.value:
                    spread, both = np.log(bare.high / bare.value) / Z, np.log(e.high / e.value) / Z
                    name = f"{path.parent.name}/{path.name}"
                    key = (name, source, proposed, e.measure, e.statistic, e.subject)
                    found.append((*key, spread, np.sqrt(max(both**2 - spread**2, 0.0))))
    return pd.DataFrame(found, columns=[*PAIR, "spread", "share"])
