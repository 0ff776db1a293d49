"""Baseline, history and summaries as files: read back as written, refused by name when they are not ours."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from altered_runs import ALL_IN_ONE
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from made_scores import night

from harness.cli import main
from harness.errors import UsageError
from harness.experiments.loading import find
from harness.regression import baseline, history, nightly, outputs
from harness.regression.outcomes import Limits
from harness.regression.regress import noisy, regress

VALUES = st.none() | st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2)
SETTINGS = st.dictionaries(
    st.sampled_from("abc"), VALUES | st.dictionaries(st.sampled_from("abc"), VALUES), max_size=3
)


def test_a_baseline_is_read_back_with_the_digits_that_comparing_needs(tmp_path: Path) -> None:
    """Errors to a hundredth of a point, measured values and contents whole."""
    nights = (night("20260101T000000Z"), night("20260102T000000Z", slower=1.1))
    baseline.write(tmp_path / "b.json", nights)
    found = baseline.read(tmp_path / "b.json")
    assert baseline.dumps(found) == (tmp_path / "b.json").read_text()
    for kept, made in zip(found, nights, strict=True):
        assert kept.steps == made.steps
        assert kept.settings == made.settings
        assert [m.values for m in kept.measured] == [m.values for m in made.measured]
        for old, new in zip(kept.accuracy, made.accuracy, strict=True):
            moved = np.array(old.errors_pct, dtype=float) - np.array(new.errors_pct, dtype=float)
            assert np.nanmax(np.abs(moved)) <= 0.005 + 1e-9
    assert regress(found, nights).status == 0
    assert [p.name for p in tmp_path.iterdir()] == ["b.json"]


@given(st.lists(SETTINGS, min_size=1, max_size=4))
def test_settings_are_read_back_whatever_differs_between_nights(each: list[dict[str, object]]) -> None:
    """Keys that are new or gone, mappings in place of values, lists and nulls."""
    nights = [night(f"2026010{i}T000000Z").model_copy(update={"settings": s}) for i, s in enumerate(each)]
    with TemporaryDirectory() as folder:
        baseline.write(Path(folder) / "b.json", nights)
        assert [n.settings for n in baseline.read(Path(folder) / "b.json")] == each


def test_the_same_run_replaces_its_older_scores_and_others_stay() -> None:
    old, other = night("20260101T000000Z"), night("20260102T000000Z")
    new = night("20260101T000000Z", slower=1.5)
    assert baseline.updated([old, other], [new]) == (new, other)


def test_only_valid_runs_become_a_baseline() -> None:
    bad = night("20260101T000000Z").model_copy(
        update={"verdict": "invalid", "failed": ("step 1: steady: no",)}
    )
    with pytest.raises(UsageError, match="its verdict is invalid"):
        baseline.updated([], [bad])


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "no such baseline"),
        ("", "not readable as JSON"),
        ('{"kind": "harness-basel', "not readable as JSON"),
        ('{"verdict": "valid"}', "not a baseline"),
        ("[]", "not a baseline"),
        ('{"kind": "harness-baseline", "version": 99, "nights": []}', "version 99 is newer"),
        ('{"kind": "harness-baseline", "version": 1, "nights": []}', "version 1 is older"),
        ('{"kind": "harness-baseline", "version": 5}', "its nights cannot be read"),
        (
            '{"kind": "harness-baseline", "version": 5, "settings": {}, "nights": [{"run": 3}]}',
            "the key 'experiment'",
        ),
    ],
)
def test_a_file_that_is_no_baseline_is_named_in_one_line(
    contents: str | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "b.json"
    if contents is not None:
        path.write_text(contents)
    shown = CliRunner().invoke(main, ["regress", str(ALL_IN_ONE), "--baseline", str(path)])
    assert shown.exit_code == 2
    assert message in shown.output
    assert str(path) in shown.output
    assert shown.output.count("\n") == 1


def test_a_baseline_of_other_experiments_is_named() -> None:
    with pytest.raises(
        UsageError, match=r"b\.json: a baseline of other experiments.*has no run of this"
    ) as e:
        regress(
            [night("20260101T000000Z", experiment="windowed")], [night("20260102T000000Z")], where="b.json"
        )
    assert e.value.exit_status == 2


def test_a_baseline_of_another_version_of_the_experiment_names_the_key() -> None:
    old, new = night("20260101T000000Z", rate_tps=50.0), night("20260102T000000Z", rate_tps=60.0)
    with pytest.raises(UsageError, match=r"workload\.rate_tps differs"):
        regress([old], [new])
    found = regress([old, night("x", experiment="windowed")], [new, night("y", experiment="windowed")])
    assert found.status == 4
    assert any("workload.rate_tps differs" in gap for gap in found.gaps)


def test_which_models_were_listed_makes_no_other_experiment() -> None:
    old = night("20260101T000000Z")
    new = old.model_copy(update={"settings": {**old.settings, "models": ["no-change"], "name": "again"}})
    assert old.same_experiment(new) == ""


def table(version: str | None = "1", **columns: Any) -> pa.Table:
    metadata = {"harness-history": version} if version else None
    return pa.table(columns).replace_schema_metadata(metadata)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"PAR1 cut short", "not a whole Parquet file"),
        (table(None, a=[1]), "not a history"),
        (table("99", a=[1]), "version 99 is newer"),
        (table("1", a=[1]), "not a history"),
    ],
)
def test_a_history_that_is_not_ours_is_named_and_left_alone(
    contents: bytes | pa.Table, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "history.parquet"
    if isinstance(contents, bytes):
        path.write_bytes(contents)
    else:
        pq.write_table(contents, path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=message) as error:
        history.append(path, [history.rows("n", night("r"), [])])
    assert str(path) in str(error.value)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_nights_add_up_and_a_run_scored_again_is_not_counted_twice(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "history.parquet"
    first, second = (history.rows(n, night(n), []) for n in ("20260101T000000Z", "20260102T000000Z"))
    history.append(path, [first])
    both = history.append(path, [second])
    assert both.num_rows == first.num_rows + second.num_rows
    again = history.append(path, [history.rows("20260103T000000Z", night("20260102T000000Z"), ["noisy: so"])])
    assert again.num_rows == both.num_rows
    assert history.read(path).equals(again)
    assert set(again["noisy"].to_pylist()) == {"", "noisy: so"}


def test_a_noisy_night_is_called_noisy() -> None:
    usual = [night(f"2026010{i}T000000Z") for i in (1, 2, 3)]
    assert noisy(night("n"), usual) == []
    loud = noisy(night("n", within=0.05), usual)
    assert len(loud) == 1
    assert "noisy" in loud[0]
    bad = night("n").model_copy(update={"verdict": "invalid", "failed": ("step 1: steady: drift",)})
    assert any("invalid: step 1: steady: drift" in line for line in noisy(bad, usual))


def test_junit_counts_what_the_table_counts() -> None:
    found = regress([night("a")], [night("b", slower=2.0)])
    root = ET.fromstring(outputs.junit(found).split("\n", 1)[1])
    suite = root.find("testsuite")
    assert suite is not None
    assert int(suite.attrib["failures"]) == len(found.worse) == len(root.findall(".//failure")) > 0
    assert int(suite.attrib["tests"]) == len(found.outcomes)
    assert int(suite.attrib["skipped"]) == sum(o.found == "untested" for o in found.outcomes)
    assert all("\n" not in line for line in outputs.lines(found))
    assert outputs.markdown(found).startswith("# Regression\n\nRegression: ")


def test_the_page_says_first_that_a_night_was_noisy() -> None:
    usual, loud = [night("a")], night("b", within=0.08)
    found = regress(usual, [loud], Limits())
    missing = [nightly.Attempt("join-split", None, "Kafka <gone>")]
    page = nightly.page("20260102T000000Z", found, [loud], noisy(loud, usual), missing, "<?xml?><svg></svg>")
    assert page.index('id="noisy"') < page.index('id="missing"') < page.index('id="findings"')
    assert "Kafka &lt;gone&gt;" in page
    assert "<?xml" not in page
    assert "http" not in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("experiments: []", "experiments"),
        ("experiments: [a]\nalfa: 0.1", "alfa"),
        ("experiments: [a]\nlimits: {alpha: 2}", "limits.alpha"),
        ("experiments: [a]\nlimits: {alfa: 0.1}", "limits.alfa"),
        ("experiments: [a", "not readable as YAML"),
        ("", "valid dictionary"),
    ],
)
def test_a_wrong_night_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "nightly.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as error:
        nightly.read(path)
    assert str(path) in str(error.value)


def test_away_from_a_checkout_a_night_asks_for_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(main, ["nightly"])
    assert shown.exit_code == 2
    assert shown.stderr.splitlines() == [
        "error: configs/nightly.yaml: there is no such file: name the night's file with --config"
        " (docs/nightly.md has its keys)"
    ]
    assert list(tmp_path.iterdir()) == []


def test_the_shipped_night_names_experiments_that_there_are() -> None:
    root = Path(__file__).resolve().parents[2]
    for name in nightly.read(root / "configs" / "nightly.yaml").experiments:
        assert find(name).is_file()


def test_a_missing_folder_is_found_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps({}))
    target = tmp_path / "nowhere" / "j.xml"
    shown = CliRunner().invoke(main, ["regress", str(ALL_IN_ONE), "--junit", str(target)])
    assert shown.exit_code == 2
    assert "there is no folder" in shown.output
