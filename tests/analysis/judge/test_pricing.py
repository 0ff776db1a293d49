"""Prices of mechanisms by hand, and on archived runs: each one acts somewhere, and none changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import harness.models.composite as composite_room
from harness.analysis.judge import pricing
from harness.analysis.judge.evaluation import Evaluated, Part
from harness.analysis.judge.predicting import observation
from harness.errors import UsageError
from harness.experiments.loading import load
from harness.models.composite.mechanisms import MECHANISMS, require_known
from harness.models.composite.model import Prepared, composite, predicted
from harness.models.composite.uncertainty import calibrations
from harness.protocols import Estimate
from harness.runs import Run
from harness.schemas import Measure

RUNS = Path(__file__).resolve().parents[3] / "reports" / "runs"
QUIET = {"anchoring"}
"""Mechanisms that act in no archived run: none has probes, batches of the rewriting layer, or is a jar's."""
GROUND_TRUTH = str(Measure.GROUND_TRUTH)


def prepared_of(run: Run, step: int) -> Prepared:
    return composite.prepare(observation(run, load(run.path / "experiment.yaml"), step))


def answered(model: Prepared, run: Run, step: int) -> list[Estimate]:
    there = observation(run, load(run.path / "experiment.yaml"), step)
    solution = model.solve(there.plan, there.settings, there.rate_tps)
    return list(predicted(solution, [], there.rate_tps, calibrations()).estimates)


def outcome(value: float, actual: float, *, covered: bool = True) -> pricing._PairOutcome:
    return pricing._PairOutcome(value, 100 * abs(value / actual - 1), covered)


def evaluated(experiment: str, part: Part) -> Evaluated:
    return Evaluated(name=f"{experiment}/1", experiment=experiment, part=part, verdict="valid", machine="",
                     configurations={}, commit="", saturated=frozenset(), stolen_pct=None, busy_pct={},
                     pairs=pd.DataFrame())  # fmt: skip


def test_a_price_is_of_the_experiments_in_which_a_mechanism_acts_by_hand() -> None:
    """In `moved` it takes errors of 10 and 0 % to 30 and 0 %; the 50 % of `still` is not counted."""
    moved = {(0, 1, GROUND_TRUTH, ""): outcome(11, 10), (0, 2, GROUND_TRUTH, ""): outcome(10, 10)}
    without = {
        (0, 1, GROUND_TRUTH, ""): outcome(13, 10, covered=False),
        (0, 2, GROUND_TRUTH, ""): outcome(10, 10),
    }
    still = {(0, 1, GROUND_TRUTH, ""): outcome(15, 10)}
    of_runs = [(evaluated("moved", "tuning"), moved, without), (evaluated("still", "tuning"), still, still)]
    found = pricing._price("coldness", GROUND_TRUTH, "tuning", of_runs)
    assert (found.experiments, found.pairs) == (("moved",), 2)
    assert found.median_pct == pytest.approx((5.0, 15.0))
    assert found.p95_pct == pytest.approx((9.5, 28.5))
    assert found.covered_pct == pytest.approx((100.0, 50.0))
    nothing = pricing._price("coldness", Measure.SERVICE, "tuning", of_runs)
    assert (nothing.experiments, nothing.pairs, nothing.median_pct) == ((), 0, None)
    table = pricing.price_table([found, nothing]).splitlines()
    assert f"| {GROUND_TRUTH} | tuning | 1 | 2 | 5.0 → 15.0 | 9.5 → 28.5 | 100.0 → 50.0 |" in table[2]
    assert "| 0 | 0 | – | – | – |" in table[3]


def test_lines_are_those_of_modules_and_of_functions_in_them() -> None:
    """A module's are its file's; `at_once` of the builder begins behind its decorator."""
    room = Path(composite_room.__path__[0])
    assert pricing.lines_of("starts") == len((room / "plan" / "starts.py").read_text().splitlines())
    text = (room / "plan" / "network_builder.py").read_text().splitlines()
    first = text.index("    def at_once(self) -> FloatArray:")
    end = next(i for i in range(first, len(text)) if text[i] == "    @cached_property")
    assert pricing.lines_of("at-once") == end - 1 - first
    assert all(pricing.lines_of(name) >= 0 for name in MECHANISMS)


def test_the_page_names_each_mechanism_with_what_is_predicted_without_it() -> None:
    page = (RUNS.parents[1] / "docs" / "model.md").read_text(encoding="utf-8")
    table = page.partition("<!-- mechanisms -->\n")[2].partition("<!-- end of mechanisms -->")[0]
    assert table.splitlines()[2:] == [f"| `{name}` | {m.says} |" for name, m in MECHANISMS.items()]


def test_an_unknown_mechanism_is_named() -> None:
    with pytest.raises(UsageError, match="composite has no mechanism 'warmth'"):
        require_known(["coldness", "warmth"])


def test_with_everything_on_a_prediction_is_the_same_bit_for_bit() -> None:
    run = Run(RUNS / "loaded-cpu" / "20261123T200134Z")
    prepared = prepared_of(run, 0)
    assert answered(replace(prepared, without=frozenset()), run, 1) == answered(prepared, run, 1)
    assert answered(pricing.without_one(prepared, "coldness"), run, 1) != answered(prepared, run, 1)


@pytest.mark.deep
def test_each_mechanism_changes_an_archived_prediction() -> None:
    left = set(MECHANISMS)
    for path in sorted(RUNS.glob("*/*")):
        run = Run(path)
        source, proposed = run.finished_steps[0], run.finished_steps[-1]
        prepared = prepared_of(run, source)
        whole = answered(prepared, run, proposed)
        left -= {n for n in left if answered(pricing.without_one(prepared, n), run, proposed) != whole}
        if left == QUIET:
            break
    assert left == QUIET


@pytest.mark.deep
def test_a_run_is_priced_as_its_predictions_say() -> None:
    """Measured values made up here: half of what the whole model predicts, so each of its errors is 100 %."""
    path = RUNS / "loaded-cpu" / "20261123T200134Z"
    run = Run(path)
    whole = {
        (e.measure, e.subject): e.value
        for e in answered(prepared_of(run, 0), run, 1)
        if e.statistic == "mean"
    }
    asked = {(GROUND_TRUTH, ""): (whole[GROUND_TRUTH, ""] or 0.0) / 2}
    found, without = pricing.outcomes(path, {(0, 1): asked}, ["contention", "row-batches"])
    ((key, one),) = found.items()
    assert key == (0, 1, GROUND_TRUTH, "")
    assert one.error_pct == pytest.approx(100.0)
    assert without["row-batches"] == found
    assert without["contention"][key].value != one.value
