"""Where the error comes from: parts that add up, and nothing to replace in what is its own source."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

from harness.analysis.judge import ablation
from harness.analysis.judge.ablation import (
    ESTIMATES,
    EVERYTHING,
    NOTHING,
    Causes,
    causes,
    measured,
    measured_services,
    predicted,
)
from harness.analysis.judge.evaluation import Evaluated
from harness.analysis.judge.predicting import observation
from harness.app.conformance import example
from harness.experiments.loading import load
from harness.models.baselines.no_change import no_change
from harness.models.composite.model import composite
from harness.models.composite.source_estimates import SourceEstimates
from harness.runs import Run

RUN = sorted((Path(__file__).resolve().parents[3] / "reports" / "runs" / "noise-floor").iterdir())[0]


@pytest.fixture(scope="module")
def found() -> Causes:
    return causes(RUN, [(0, 0), (0, 1)], {})


def test_measured_stages_add_up_to_the_latency() -> None:
    source = example().source
    parts = measured(composite.prepare(source).source.evidence)
    assert sum(parts.values()) == pytest.approx(source.latency["ground_truth_ms"].mean())


def test_predicted_stages_add_up_to_the_latency() -> None:
    case = example()
    solution = composite.prepare(case.source).solve(case.proposed, case.settings, case.rate_tps)
    assert sum(predicted(solution).values()) == pytest.approx(solution.ground_truth()[""].mean_ms, rel=1e-6)


def test_parts_of_a_pair_are_its_error(found: Causes) -> None:
    parts = found.parts.groupby(["source", "step"])["part"].sum()
    errors = found.left[found.left["replaced"] == NOTHING].set_index(["source", "step"])["error"]
    assert len(errors) == 2
    pd.testing.assert_series_equal(parts, errors, check_names=False)


def test_replaced_by_its_own_an_estimate_changes_nothing(found: Causes) -> None:
    own = found.left[(found.left["source"] == 0) & (found.left["step"] == 0)]
    assert set(own["replaced"]) == {NOTHING, *ESTIMATES, EVERYTHING}
    assert len(set(own["error"])) == 1


def test_with_all_replaced_the_source_does_not_matter(found: Causes) -> None:
    """What the source alone says of step 1 is then step 1's own answer for itself."""
    (own,) = causes(RUN, [(1, 1)], {}).left.query("replaced == @NOTHING")["error"]
    (left,) = found.left.query("step == 1 and replaced == @EVERYTHING")["error"]
    assert left == pytest.approx(own)


def test_errors_of_service_times_are_those_of_the_models_answers() -> None:
    run = Run(RUN)
    source, there = (observation(run, load(run.path / "experiment.yaml"), step) for step in (0, 1))
    answers = (
        no_change(there, there.plan, there.settings, there.rate_tps),  # what is measured there
        composite.prepare(source).predict(there.plan, there.settings, there.rate_tps),
    )
    actual, expected = (
        {
            e.subject: e.value
            for e in answer.estimates
            if (e.measure, e.statistic) == ("service_time_ms", "mean") and "[" in e.subject
        }
        for answer in answers
    )
    found = causes(RUN, [(0, 1)], {1: actual}).services.query("replaced == @NOTHING")
    errors = dict(zip(found["executor"], found["error"], strict=True))
    assert errors.keys() == actual.keys()
    assert len(errors) == 6  # two executors each of two bolts and a sink
    for name, error in errors.items():
        assert error == pytest.approx(100 * (expected[name] / actual[name] - 1), abs=0.1)


def test_every_estimate_is_replaced_once() -> None:
    replaced = [name for names in ESTIMATES.values() for name in names]
    assert sorted(replaced) == sorted(
        f.name for f in fields(SourceEstimates) if f.name not in ("source", "notes", "without")
    )


def test_the_section_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pairs, errors of +10 and -6 %: the service has +8 and -6 of them, the hop +2 and 0."""
    parts = [
        (0, 1, "bolt", ablation.SERVICE, 8.0),
        (0, 1, "bolt", ablation.WAY, 2.0),
        (1, 0, "bolt", ablation.SERVICE, -6.0),
        (1, 0, "bolt", ablation.WAY, 0.0),
        (0, 1, "sink", ablation.WAY, 0.0),
        (1, 0, "sink", ablation.WAY, 0.0),
    ]
    left = [(0, 1, NOTHING, 10.0), (1, 0, NOTHING, -6.0), (0, 1, "demand", 1.0), (1, 0, "demand", -3.0)]
    services = [(0, 1, NOTHING, "bolt[1-1]", -30.0), (1, 0, NOTHING, "bolt[1-1]", 50.0)]
    made = Causes(
        pd.DataFrame(parts, columns=["source", "step", "component", "stage", "part"]),
        pd.DataFrame(left, columns=["source", "step", "replaced", "error"]),
        pd.DataFrame(services, columns=["source", "step", "replaced", "executor", "error"]),
    )
    monkeypatch.setattr(ablation, "causes", lambda *_: made)
    pair = {
        "model": "composite",
        "measure": "ground_truth_latency_ms",
        "statistic": "mean",
        "subject": "",
        "protocol": "ours",
        "verdict": "judged",
    }
    frame = pd.DataFrame(
        [{**pair, "source_step": s, "proposed_step": p} for s, p in ((0, 1), (1, 0), (0, 0))]
    )
    assert ablation.judged_pairs(frame) == [(0, 1), (1, 0)]
    service = pair | {"measure": "service_time_ms", "source_step": 0, "proposed_step": 1, "actual": 2.0}
    wrong = {"model": "jackson"}, {"statistic": "p95"}, {"verdict": "unsteady"}, {"protocol": "thesis"}
    others = [service | other | {"subject": "bolt[1-1]", "actual": 9.0} for other in wrong]
    told = [service | {"subject": "bolt[1-1]"}, service | {"subject": "bolt"}, *others]
    assert measured_services(pd.DataFrame(told)) == {1: {"bolt[1-1]": 2.0}}
    runs = [
        Evaluated(
            name, name, part, "valid", "2 x CPU", {0: "one", 1: "two"}, "abc", frozenset(), None, {}, frame
        )
        for name, part in (("one", "tuning"), ("two", "reporting"))
    ]
    text = ablation.section([Path("one"), Path("two")], runs)
    assert text.index("| reporting | two |") < text.index("| tuning | one |")
    assert "| two | 2 of 2 | 8.0 | – | – | 2.0 | – | – | – |" in text
    assert "| two | 2 of 2 | 40.0 | – | – | – | – | – | – |" in text
    assert "| | | bolt: service | +1.0 | 1.0 |" in text  # what is left: +2 and 0
    assert "| | | bolt: hop and queue | +1.0 | 7.0 |" in text  # +8 and -6
    assert "sink" not in text
