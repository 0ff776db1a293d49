"""A pair's breakdown: its sums, and the sentences that say what explains an error."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest

from harness.analysis.judge.results import Results
from harness.analysis.report import pairs as pair_views
from harness.analysis.report.pairs import PairViews
from harness.analysis.spark import stages
from harness.schemas import Measure


@pytest.fixture(scope="module")
def views(results: Results) -> PairViews:
    return PairViews(results)


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_every_pair_has_a_breakdown_and_an_anchor_of_its_own(views: PairViews, results: Results) -> None:
    shown = views.views()
    assert len(shown) == len(results.steps) ** 2
    assert len({v["id"] for v in shown}) == len(shown)
    assert pair_views.pair_id(0, 2) in {v["id"] for v in shown}


def test_stages_add_up_to_the_measured_means(views: PairViews, results: Results) -> None:
    means = results.measured("ground_truth_latency_ms").set_index("step")["value"]
    rows = views.view(0, 2)["stages"]
    *parts, total = rows
    assert total["source"] == pytest.approx(means[0], rel=1e-9)
    assert total["proposed"] == pytest.approx(means[2], rel=1e-9)
    assert sum(r["change"] for r in parts) == pytest.approx(means[2] - means[0], rel=1e-6)
    assert max(r["share"] for r in parts) == 100


def test_each_model_is_shown_in_what_it_predicts(views: PairViews, results: Results) -> None:
    view = views.view(1, 0)
    lines = {r["name"]: r for r in (*view["whole"], *view["parts"])}
    assert {"mean ground-truth latency", "bolt-a: service time", "bolt-b: arrival rate"} <= set(lines)
    predicted = dict(zip(results.models, lines["mean ground-truth latency"]["predicted"], strict=True))
    assert predicted["linear"]["value"] is None
    assert "no latency" in predicted["linear"]["reason"]
    source = lines["mean ground-truth latency"]["source"]
    assert predicted["no-change"]["value"] == pytest.approx(source)


def test_what_no_change_misses_is_the_measured_change(views: PairViews) -> None:
    """It predicts each step from itself without error, so all of its error is the change it does not see."""
    view = views.view(0, 2)
    said = next(w["text"] for w in view["why"] if w["model"] == "no-change")
    total = view["stages"][-1]["change"]
    found = re.search(r"It foresees (\S+) ms of the measured change of (\S+) ms", said)
    assert found is not None
    assert abs(number(found[1])) < 1e-9
    assert number(found[2]) == pytest.approx(total, rel=0.01)
    missed = re.search(r"misses of the change \((\S+) ms\) is best explained by (.+) \((\S+) ms\)", said)
    assert missed is not None
    assert number(missed[1]) == pytest.approx(total, rel=0.01)
    largest = min(view["stages"][:-1], key=lambda r: r["change"])
    assert missed[2] == largest["name"]


def test_a_models_own_error_is_told_from_what_it_misses(views: PairViews) -> None:
    """The synthetic latencies have nothing to do with the services, so storm-tracer errs everywhere."""
    said = next(w["text"] for w in views.view(0, 2)["why"] if w["model"] == "storm-tracer")
    assert "from itself" in said
    assert "The stages that it predicts by themselves account for" in said


def test_an_error_within_the_noise_is_called_so(results: Results) -> None:
    loud = results.frame.assign(error_over_noise=0.5)
    noisy = replace(results)
    noisy.__dict__["frame"] = loud
    texts = [w["text"] for w in PairViews(noisy).view(0, 2)["why"] if w["model"] == "no-change"]
    assert texts[0].endswith("within the measurement's noise.")


def test_a_model_that_predicts_waits_is_compared_in_them(results: Results) -> None:
    """Of a model that states its transfer and queue, each stage's own error is shown."""
    frame = results.frame
    rows = frame[(frame["model"] == "storm-tracer") & (frame["measure"] == "service_time_ms")]
    rows = rows[rows["subject"] == "bolt-a"].assign(measure=Measure.QUEUE_WAIT, value=1.0)
    waits = replace(results)
    waits.__dict__["frame"] = pd.concat([frame, rows], ignore_index=True)
    lines = {r["name"]: r for r in PairViews(waits).view(0, 2)["parts"]}
    line = lines["bolt-a: transfer and queue"]
    measured = stages.means(results.stages, results.query)["visit_ms"].loc[(2, "bolt-a", stages.TRANSFER)]
    assert line["proposed"] == measured
    shown = line["predicted"][results.models.index("storm-tracer")]
    assert shown["error"] == pytest.approx(100 * (1.0 - measured) / measured)


def test_a_large_run_shows_the_pairs_with_the_largest_errors(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_views, "MOST_PAIRS", 3)
    shown = PairViews(results).shown
    assert 1 <= len(shown) <= 3
    cells = results.cells("ground_truth_latency_ms")
    worst = cells.loc[cells["abs_error_pct"].idxmax()]
    assert (worst["source_step"], worst["proposed_step"]) in shown
