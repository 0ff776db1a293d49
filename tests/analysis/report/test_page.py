"""From a run directory to its outputs: figures, page and files, whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from synthetic_run import UNUSUAL

from harness import __version__
from harness.analysis.analyse import OUTPUTS, analyse, write
from harness.analysis.figures.all_figures import REGISTRY
from harness.analysis.judge.checks import DECLINED
from harness.analysis.judge.results import Results
from harness.analysis.report import sections, writing
from harness.machine.environment import commit
from harness.protocols import CheckResult
from harness.schemas import ERRORS, Measure


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, run_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = (
        tmp_path_factory.mktemp("analysed") / "run [1] {a}"
    )  # characters that Spark's paths treat specially
    shutil.copytree(run_path, path)
    analyse(path)
    return path


def test_all_outputs_are_there_and_readable(analysed: Path) -> None:
    assert not [name for name in OUTPUTS if not (analysed / name).exists()]
    assert not list(analysed.glob(".*.partial"))
    assert pq.read_schema(analysed / "errors.parquet").equals(ERRORS)
    verdict = json.loads((analysed / "verdict.json").read_text())
    assert verdict["verdict"] == "valid"
    assert {"check", "status", "step", "detail"} == set(verdict["checks"][0])
    summary = json.loads((analysed / "summary.json").read_text())
    assert summary["experiment"] == "synthetic-fields-to-fields"
    assert summary["measured"] is True
    assert summary["judged_with"] == {"harness": __version__, "commit": commit()}


def test_a_model_that_repeats_the_source_has_no_error_on_the_diagonal(analysed: Path) -> None:
    errors = pd.read_parquet(analysed / "errors.parquet")
    mine = errors[(errors["model"] == "no-change") & (errors["verdict"] == "judged")]
    diagonal = mine["source_step"] == mine["proposed_step"]
    assert diagonal.sum() == 20
    assert mine.loc[diagonal, "abs_error_pct"].max() < 1e-10
    assert mine.loc[~diagonal, "abs_error_pct"].max() > 10


def test_a_model_a_tenth_high_is_a_tenth_high(analysed: Path) -> None:
    errors = pd.read_parquet(analysed / "errors.parquet")
    mine = errors[(errors["model"] == "tenth-high") & (errors["verdict"] == "judged")]
    diagonal = mine[mine["source_step"] == mine["proposed_step"]]
    assert diagonal["relative_error"].to_numpy() == pytest.approx(0.1)
    assert diagonal["q_error"].to_numpy() == pytest.approx(1.1)


def test_the_reports_figures_are_drawn_as_png_and_svg(analysed: Path) -> None:
    names = {p.stem for p in (analysed / "figures").iterdir()}
    of_others = {
        "latency-by-scheduler",
        "traffic-by-scheduler",
        "adaptation-by-period",
        "relief-over-time",
    }
    found = {kind.name for kind in REGISTRY if kind.in_report} - of_others
    assert names == found - {"error-matrix-complete-latency"}
    assert "error-matrix-ground-truth-latency" in names, "complete latency is predicted by no model here"
    for name in names:
        assert (analysed / "figures" / f"{name}.png").stat().st_size > 2000
        assert (analysed / "figures" / f"{name}.svg").read_text().startswith("<?xml")


class Page(HTMLParser):
    """Collects what a page refers to, and checks that its elements nest."""

    VOID = frozenset({"meta", "link", "img", "br", "input", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        named = dict(attrs)
        self.links += [v for k in ("src", "href", "action", "data") if (v := named.get(k))]
        self.ids += [v for k in ("id",) if (v := named.get(k))]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_no_network_and_is_well_formed(analysed: Path) -> None:
    text = (analysed / "report.html").read_text()
    page = Page(text)
    assert page.open == []
    assert all(link.startswith(("data:", "#")) for link in page.links)
    assert len(set(page.ids)) == len(page.ids)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    anchors = {link.removeprefix("#") for link in page.links if link.startswith("#")}
    assert anchors <= set(page.ids)
    assert "pair-0-2" in anchors
    assert len(text) < 4_000_000


def test_the_page_says_the_verdict_first_and_then_the_errors(analysed: Path) -> None:
    text = (analysed / "report.html").read_text()
    places = [
        text.index(f'id="{name}"')
        for name in (
            *("verdict", "checks", "answer", "matrices", "pairs", "measured", "plans"),
            *("notes", "provenance"),
        )
    ]
    assert places == sorted(places)
    summary = json.loads((analysed / "summary.json").read_text())
    for row in summary["errors"]:
        if row["statistic"] == "mean":
            assert f"{row['median_abs_error_pct']:.1f} %" in text
    assert "no configuration was repeated" in text


def test_repeats_are_counted_by_configuration(results: Results) -> None:
    """Of four steps the last is said to be of the third's configuration."""
    rows = results.actuals
    third = rows.loc[rows["step"] == 2, "configuration"].iloc[0]
    again = rows.assign(configuration=rows["configuration"].mask(rows["step"] == 3, third))
    said = sections.repeats(replace(results, actuals=again))
    assert (said["configurations"], said["steps"]) == (1, 2)
    assert sections.repeats(results)["configurations"] == 0


def test_the_largest_errors_name_the_thesis_protocol_and_rank_each_protocol_alone(results: Results) -> None:
    rows = sections.worst_rows(results)
    assert {r["protocol"] for r in rows} == {"ours", "thesis"}
    for r in rows:
        assert r["what"].endswith(" (the thesis's protocol)") == (r["protocol"] == "thesis"), r["what"]
    ranked = [list(of) for _, of in groupby(rows, lambda r: (r["measure"], r["protocol"]))]
    assert len({(of[0]["measure"], of[0]["protocol"]) for of in ranked}) == len(ranked)  # none comes twice
    for of in ranked:
        errors = [r["abs_error_pct"] for r in of]
        assert errors == sorted(errors, reverse=True)
        assert len(of) <= sections.WORST_ROWS


JUDGED_SUBJECTS: Mapping[str, str] = {
    Measure.GROUND_TRUTH: "",
    Measure.COMPLETE: "",
    Measure.ACK: "",
    Measure.ARRIVALS: "bolt-a[3-4]",
    Measure.SERVICE: "bolt-a[3-4]",
    Measure.ROUTING: "bolt-a[3-4]->bolt-b[5-6]:default",
    Measure.IO_RATIO: "bolt-a[3-4]:default",
    Measure.THROUGHPUT: "",
    Measure.SUSTAINABLE: "",
    Measure.WORKER_CPU: "node-1:6700",
}
"""A subject that each measure is judged by (docs/write-a-model.md, docs/analysis.md)."""


def test_the_largest_errors_are_of_every_measure_that_is_judged(results: Results) -> None:
    frame = results.frame
    one = frame[(frame["verdict"] == "judged") & (frame["source_step"] != frame["proposed_step"])].iloc[0]
    whole = {"measure": Measure.SERVICE, "subject": "bolt-a"}  # of a component: its executors are judged
    rows = [{"measure": m, "subject": s} for m, s in JUDGED_SUBJECTS.items()] + [whole]
    pairs = pd.DataFrame([{**one, "protocol": "ours", "statistic": "mean", **row} for row in rows])
    shown = sections.worst_rows(
        replace(results, pairs=pa.Table.from_pandas(pairs, ERRORS, preserve_index=False))
    )
    assert {(r["measure"], r["subject"]) for r in shown} == set(JUDGED_SUBJECTS.items())
    assert set(JUDGED_SUBJECTS) == {m for m in Measure if m.judged}


def reported(results: Results) -> str:
    """Write a run's outputs and return the page."""
    write(results, results.run.path, writing.write)
    assert not [name for name in OUTPUTS if not (results.run.path / name).exists()]
    return (results.run.path / "report.html").read_text()


@pytest.mark.deep
@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_runs_are_reported_too(unusual: Mapping[str, Results], name: str) -> None:
    results = unusual[name]
    text = reported(results)
    assert f'<span class="verdict {results.summary["verdict"]}"' in text
    Page(text)


@pytest.mark.deep
def test_an_unsteady_steps_pairs_are_gaps_with_a_name(unusual: Mapping[str, Results]) -> None:
    results = unusual["an unsteady step"]
    assert results.summary["verdict"] == "invalid"
    errors = results.frame
    touched = errors[(errors["source_step"] == 1) | (errors["proposed_step"] == 1)]
    assert set(touched["verdict"]) == {"unsteady"}
    assert set(errors.drop(touched.index)["verdict"]) == {"judged", "not-predicted"}
    assert "drift of 30 %" in reported(results)


@pytest.mark.deep
def test_what_was_not_measured_says_so(unusual: Mapping[str, Results]) -> None:
    results = unusual["not measured"]
    assert results.summary["measured"] is False
    assert results.summary["verdict"] == "invalid"
    assert "Not a measurement" in reported(results)


@pytest.mark.deep
def test_a_declined_step_is_told_and_is_no_check(unusual: Mapping[str, Results]) -> None:
    results = unusual["an unsteady step"]
    declined = CheckResult(DECLINED, "valid", 7, "scheduler a<b has no plan")
    told = replace(results, checks=[*results.checks, declined])
    assert "Step 7 was not measured, as its placement was declined: scheduler a&lt;b has" in reported(told)
    assert sections.check_grid(told) == sections.check_grid(results)


@pytest.mark.deep
def test_text_from_files_cannot_become_markup(unusual: Mapping[str, Results]) -> None:
    assert "<script>alert" not in reported(unusual["markup in a text"])


def test_old_outputs_stay_when_a_figure_cannot_be_drawn(
    spark: SparkSession, analysed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    shutil.copytree(analysed, path)
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}

    def broken(*_: object) -> list[str]:
        raise RuntimeError("no more disk")

    monkeypatch.setattr(writing, "draw", broken)
    with pytest.raises(RuntimeError):
        analyse(path)
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before
    assert not list(path.glob(".*.partial"))


@pytest.mark.deep
def test_the_same_run_gives_the_same_bytes(spark: SparkSession, analysed: Path, tmp_path: Path) -> None:
    path = tmp_path / "again"
    shutil.copytree(analysed, path)
    for name in OUTPUTS:
        shutil.rmtree(path / name) if (path / name).is_dir() else (path / name).unlink()
    analyse(path)
    for name in (
        "summary.json",
        "verdict.json",
        "report.html",
        "figures/timeline.svg",
        "figures/latency-by-step.png",
    ):
        assert (path / name).read_bytes() == (analysed / name).read_bytes(), name
    a, b = (pq.read_table(p / "errors.parquet").to_pandas() for p in (path, analysed))
    keys = ["model", "protocol", "source_step", "proposed_step", "measure", "subject", "statistic"]
    pd.testing.assert_frame_equal(
        a.sort_values(keys, ignore_index=True), b.sort_values(keys, ignore_index=True), check_exact=True
    )


def test_a_run_without_any_latency_is_summed_up_by_what_was_judged(results: Results) -> None:
    """Spouts that track nothing: rates, service times and routing come first in table and matrices."""
    matrices = results.matrices.copy()
    gap = [0, "not-measured", "not measured"]
    matrices.loc[matrices["measure"].str.contains("latency"), ["judged", "verdict", "reason"]] = gap
    steps = [
        replace(s, interval=s.interval.model_copy(update={"latency": "service"})) for s in results.run.steps
    ]
    data = replace(results, matrices=matrices, run=replace(results.run, steps=steps))
    shown = list(dict.fromkeys(e["measure"] for e, _ in sections.leaderboard(data)))
    assert shown == ["arrival_rate_tps", "service_time_ms", "routing_probability"]
    kinds = [view["kind"] for view in sections.matrix_views(data)]
    latencies = [i for i, kind in enumerate(kinds) if "latency" in kind]
    assert latencies == list(range(len(kinds) - len(latencies), len(kinds))), kinds
    whole = [view["kind"] for view in sections.matrix_views(results)]
    assert whole[0] == "ground-truth latency, mean"
