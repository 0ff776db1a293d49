"""Prices of mechanisms by hand, and on archived runs: each one acts somewhere, and none changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import harness.models.composite as composite_room
from harness.analysis.judge import pricing
from harness.analysis.judge.predicting import observation
from harness.analysis.report.mechanism_tables import error_table
from harness.errors import UsageError
from harness.experiments.loading import load
from harness.models.composite.mechanisms import MECHANISMS, require_known
from harness.models.composite.model import Prepared, composite
from harness.models.composite.solved_measures import predicted
from harness.models.composite.uncertainty import calibrations
from harness.protocols import Estimate
from harness.runs import Run
from harness.schemas import Measure

RUNS = Path(__file__).resolve().parents[3] / "reports" / "runs"
QUIET = {"anchoring"}
"""Mechanisms that act in no archived run: none is a jar's."""
GROUND_TRUTH = str(Measure.GROUND_TRUTH)


def prepared_of(run: Run, step: int) -> Prepared:
    return composite.prepare(observation(run, load(run.path / "experiment.yaml"), step))


def answered(model: Prepared, run: Run, step: int) -> list[Estimate]:
    there = observation(run, load(run.path / "experiment.yaml"), step)
    solution = model.solve(there.plan, there.settings, there.rate_tps)
    return list(predicted(solution, [], there.rate_tps, calibrations()).estimates)


def outcome(value: float, actual: float, *, covered: bool = True) -> pricing._PairOutcome:
    return pricing._PairOutcome(value, 100 * abs(value / actual - 1), covered)


def of_latency(outcomes: Mapping[int, pricing._PairOutcome]) -> pricing.Outcomes:
    return {(0, step, GROUND_TRUTH, "mean", ""): one for step, one in outcomes.items()}


def test_a_price_is_of_the_experiments_in_which_a_mechanism_acts_by_hand() -> None:
    """In `moved` it takes errors of 10 and 0 % to 30 and 0 %; the 50 % of `still` is not counted."""
    moved = of_latency({1: outcome(11, 10), 2: outcome(10, 10)})
    without = of_latency({1: outcome(13, 10, covered=False), 2: outcome(10, 10)})
    still = of_latency({1: outcome(15, 10)})
    runs = [
        pricing.PricedRun("moved", moved, {"coldness": without, "starts": moved}),
        pricing.PricedRun("still", still, {"coldness": still, "starts": still}),
    ]
    found = pricing.price_of("coldness", "tuning", runs)
    assert found.experiments == ("moved",)
    ((kind, change),) = found.changes.items()
    assert (kind, change.pairs) == ((Measure.GROUND_TRUTH, "mean"), 2)
    assert change.median_pct == pytest.approx((5.0, 15.0))
    assert change.p95_pct == pytest.approx((9.5, 28.5))
    assert change.covered_pct == pytest.approx((100.0, 50.0))
    assert found.points == pytest.approx(19.0)
    nothing = pricing.price_of("starts", "tuning", runs)
    assert (nothing.experiments, nothing.changes, nothing.points) == ((), {}, None)
    cell = "5.0 → 15.0; 9.5 → 28.5; 100 → 50 (2)"
    assert error_table([found, nothing]).splitlines()[2:] == [
        f"| `coldness` | tuning | 1 | {cell} | – | – | – | – |"
    ]


def test_lines_are_those_of_modules_and_of_functions_in_them() -> None:
    """A module's are its file's; `at_once` of the builder begins behind its decorator."""
    room = Path(composite_room.__path__[0])
    assert pricing.lines_of("starts") == len((room / "plan" / "starts.py").read_text().splitlines())
    text = (room / "plan" / "network_builder.py").read_text().splitlines()
    first = text.index("    def at_once(self) -> FloatArray:")
    end = next(i for i in range(first, len(text)) if text[i] == "    @cached_property")
    assert pricing.lines_of("at-once") == end - 1 - first
    assert all(pricing.lines_of(name) >= 0 for name in MECHANISMS)


def test_the_page_prices_each_mechanism_that_there_is_and_no_other() -> None:
    """The page is made by `python scripts/mechanism_prices.py`."""
    page = (RUNS.parents[1] / "docs" / "mechanisms.md").read_text(encoding="utf-8")
    tables = page.partition("<!-- prices -->\n")[2].partition("<!-- end of prices -->")[0]
    _, there, priced = (
        [line.split(" | ") for line in t.splitlines()[2:]] for t in tables.strip().split("\n\n")
    )
    says = [(name, m.says) for name, m in MECHANISMS.items()]
    assert [(row[0].strip("| `"), row[1]) for row in there] == says
    assert {row[0].strip("| `") for row in priced} <= set(MECHANISMS)
    silent = {row[0].strip("| `") for row in there if row[3] == "– |"}
    assert silent.isdisjoint(row[0].strip("| `") for row in priced if row[1] in pricing.SEEN)


def test_an_unknown_mechanism_is_named() -> None:
    with pytest.raises(UsageError, match="composite has no mechanism 'warmth'"):
        require_known(["coldness", "warmth"])
    assert require_known(name for name in ("coldness", "starts")) == {"coldness", "starts"}


def test_with_everything_on_a_prediction_is_the_same_bit_for_bit() -> None:
    """Today's without any switch, beside today's with none off.

    That predictions are those of before is held by ``reports/baseline.json``: of all archived runs in
    ``tests/regression/test_replay.py``, of one in ``test_scoring.py``.
    """
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
def test_a_run_is_priced_by_what_it_is_judged_and_predicted_by() -> None:
    """The whole model's values are those of its full answer; a row-batch of it is nowhere in the run."""
    path = RUNS / "loaded-window-2s" / "20261123T173410Z"
    found = pricing.priced_run(path, ["contention", "row-batches"])
    run = Run(path)
    experiment = load(run.path / "experiment.yaml")
    source, proposed, *_ = next(iter(found.whole))
    there = observation(run, experiment, proposed)
    prepared = composite.prepare(observation(run, experiment, source))
    told = prepared.predict(there.plan, there.settings, there.rate_tps).estimates
    whole = {(e.measure, e.statistic, e.subject): (e.value, e.low, e.high) for e in told}
    mine = {key[2:]: one for key, one in found.whole.items() if key[:2] == (source, proposed)}
    assert mine.keys() <= whole.keys()
    assert {key[:2] for key in mine} == set(pricing.PRICED)
    assert all(one.value == whole[key][0] for key, one in mine.items())
    assert found.without["row-batches"] == found.whole
    latency = source, proposed, GROUND_TRUTH, "mean", ""
    assert found.without["contention"][latency].value != found.whole[latency].value
