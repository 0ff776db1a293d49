"""Shares of keys by phase of a season: exact where they are known, intervals that hold, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from forecast_command import ask, last_line
from hypothesis import given
from hypothesis import strategies as st

from harness.app.forecasting import read_key_counts
from harness.forecasts.key_shares import KeyCounts, forecast_key_shares
from harness.runs import Run, read_table

ARCHIVE = Path(__file__).resolve().parents[2] / "reports" / "runs"
KEYED = next((ARCHIVE / "albic-live").glob("*"))
UNKEYED = next((ARCHIVE / "loaded-ramp").glob("*"))
SEASON_S, PHASES = 120.0, 12


def counted(table: npt.NDArray[np.float64], season_s: float = SEASON_S) -> KeyCounts:
    """Counts by season, phase and key, each in the middle of its phase; of the first season on at 0."""
    seasons, phases, keys = table.shape
    season, phase, key = np.indices(table.shape).reshape(3, -1)
    time_s = (season + (phase + 0.5) / phases) * season_s
    names = tuple(f"k{i}" for i in range(keys))
    return KeyCounts("made", names, time_s, key, table.ravel(), 0.0, seasons * season_s)


@given(
    table=st.lists(st.integers(0, 50), min_size=3 * 4 * 5, max_size=3 * 4 * 5),
    most=st.integers(1, 7),
    cut_s=st.floats(0, 100),
)
def test_shares_of_a_phase_and_of_the_rest_are_one(table: list[int], most: int, cut_s: float) -> None:
    """Whatever was counted: in [0, 1], inside their intervals, the frequent keys first."""
    made = counted(np.array(table, dtype=float).reshape(3, 4, 5))
    made = KeyCounts(made.component, made.keys, made.time_s, made.key, made.count, cut_s, made.end_s)
    found = forecast_key_shares(made, SEASON_S, most, phases=4)
    if not sum(table):
        assert (found.status, found.reason) == ("declined", "no keys were recorded")
        return
    assert found.seasons == (3 if cut_s <= 0.1 * SEASON_S / 4 else 2)
    assert found.share.shape == (4, min(most, 5) + 1)
    seen = found.tuples > 0
    assert found.share[seen].sum(axis=1) == pytest.approx(np.ones(seen.sum()))
    assert np.isnan(found.share[~seen]).all()
    low, share, high = found.low[seen], found.share[seen], found.high[seen]
    assert ((low >= 0) & (low <= share) & (share <= high) & (high <= 1)).all()
    totals = (np.nan_to_num(found.share[:, :-1]) * found.tuples[:, None]).sum(axis=0)
    assert (np.diff(totals) <= 1e-9 * max(totals.max(initial=0), 1)).all()


def test_shares_that_are_known_are_found_exactly() -> None:
    """In phase p of twelve, p + 1 of 16 tuples have the key A, the others B or C in turn."""
    table = np.zeros((3, PHASES, 3))
    a = np.arange(1, PHASES + 1)
    table[:, :, 0], table[:, :, 1] = a, (16 - a + 1) // 2
    table[:, :, 2] = 16 - table[:, :, 0] - table[:, :, 1]
    found = forecast_key_shares(counted(table), SEASON_S, most=1)
    totals = table.sum(axis=(0, 1))
    assert found.keys == (f"k{int(np.argmax(totals))}",)
    every = forecast_key_shares(counted(table), SEASON_S, most=3)
    assert every.share[:, every.keys.index("k0")].tolist() == (a / 16).tolist()
    assert every.share[:, -1].tolist() == [0.0] * PHASES
    assert every.tuples.tolist() == [48.0] * PHASES


@pytest.mark.parametrize("spread", [0.0, 0.25])
def test_intervals_hold_the_shares_of_the_next_season(spread: float) -> None:
    """Five keys whose shares follow the day; with a spread, each season has weights of its own, too.

    90 % is asked. By the binomial distribution, 4,800 shares that are independent would be within 1.3 points
    of it 99.7 % of the time; a season's five are not, and shares are estimated: 4 points are allowed.
    """
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(80):
        base = rng.dirichlet(np.full(5, 3.0), size=PHASES)
        weights = np.exp(spread * rng.standard_normal((6, PHASES, 5)))
        shares = base * weights / (base * weights).sum(axis=2, keepdims=True)
        table = np.array([[rng.multinomial(400, p) for p in season] for season in shares], dtype=float)
        found = forecast_key_shares(counted(table[:5]), SEASON_S, most=4)
        order = [*(int(k[1:]) for k in found.keys)]
        order += [k for k in range(5) if k not in order]
        came = table[5][:, order] / 400
        inside.append((found.low <= came) & (came <= found.high))
    assert float(np.mean(inside)) == pytest.approx(0.9, abs=0.04)


def test_seasons_that_differ_widen_the_intervals() -> None:
    same, other = np.full((2, 1, 2), 100.0), np.array([[[150.0, 50.0]], [[50.0, 150.0]]])
    steady, moving = (forecast_key_shares(counted(t), SEASON_S, 2, phases=1) for t in (same, other))
    assert moving.share.tolist() == steady.share.tolist()
    assert moving.high[0, 0] - moving.low[0, 0] > 2 * (steady.high[0, 0] - steady.low[0, 0])


def test_no_whole_season_and_buckets_that_are_too_long_are_declined() -> None:
    made = counted(np.ones((1, PHASES, 2)))
    found = forecast_key_shares(made, 2 * SEASON_S, most=1)
    assert found.reason == "120 s were recorded, and no whole season of 240 s"
    long = KeyCounts("made", made.keys, made.time_s, made.key, made.count, 0.0, made.end_s, bucket_s=20.0)
    found = forecast_key_shares(long, SEASON_S, most=1)
    assert found.reason == "a season of 120 s has less than 12 buckets of 20 s"


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two days of two minutes: ten tuples a second, of storm in the morning, of heron after noon."""
    path = tmp_path_factory.mktemp("trace") / "day.txt"
    times = np.arange(0, 240, 0.1)
    keys = np.where(times % 120 < 60, "storm", "apache heron")
    path.write_text("".join(f"{t:.1f} {key}\n" for t, key in zip(times, keys, strict=True)))
    return path


def test_a_trace_with_keys_tells_shares_and_rates(day: Path) -> None:
    done = ask(day, "--season-s", 120, "--keys", 1)
    assert done.exit_code == 0, done.output
    (told,) = last_line(done)["key_shares"]
    assert (told["component"], told["seasons"], told["status"]) == ("trace", 2, "ok")
    assert [p["from_s"] for p in told["phases"]] == [10.0 * n for n in range(12)]
    assert [p["tuples"] for p in told["phases"]] == [200.0] * 12
    first, last = (told["phases"][n]["shares"] for n in (0, -1))
    assert [s["key"] for s in first] == ["apache heron", None]
    assert [s["share"] for s in first] == [0.0, 1.0]
    assert [s["share"] for s in last] == [1.0, 0.0]
    rates = ask(day, "--model", "stats-summary", "--quantiles", "0.5")
    assert last_line(rates)["forecasts"][0]["horizons"][0]["rate_tps"] == pytest.approx([10])


def test_key_groups_of_a_run_are_its_keys() -> None:
    """Each group's tuples are those of the rows; a season of 60 s is in the step several times."""
    counts = read_key_counts(KEYED, None, ())
    run = Run(KEYED)
    rows = read_table(run.step_path(run.finished_steps[-1]) / "metrics.parquet").to_pandas()
    rows = rows[(rows["measurement"] == "key_group") & (rows["field"] == "count")]
    assert [c.component for c in counts] == sorted(rows["component"].astype(str).unique())
    done = ask(KEYED, "--season-s", 60, "--keys", 3, "--component", counts[0].component)
    assert done.exit_code == 0, done.output
    (told,) = last_line(done)["key_shares"]
    assert told["seasons"] >= 1
    groups = {str(g) for g in rows.loc[rows["component"] == counts[0].component, "peer"]}
    for phase in told["phases"]:
        assert {s["key"] for s in phase["shares"]} <= {*groups, None}
        assert sum(s["share"] for s in phase["shares"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--keys", 2), "no shares of keys: no season of "),
        (("--keys", 2, "--season-s", 300), "no shares of keys: trace: 240 s were recorded, and no whole"),
        (("--keys", 2, "--season-s", 120, "--alert", 9), "--alert beside --keys"),
        (("--keys", 2, "--season-s", 120, "--step", 1), "a trace has no step and no component"),
        (("--keys", 0), "0 is not in the range"),
        (("--source-hours", 2), "--source-hours without --topology"),
    ],
)
def test_wrong_questions_end_in_one_line(day: Path, typed: tuple[object, ...], said: str) -> None:
    done = ask(day, *typed)
    assert done.exit_code == 2, done.output
    assert said in last_line(done)["error"]


def test_where_no_keys_were_recorded_that_is_said(day: Path, tmp_path: Path) -> None:
    done = ask(UNKEYED, "--keys", 2, "--season-s", 20)
    assert (done.exit_code, "no keys were recorded" in last_line(done)["error"]) == (2, True)
    plain = tmp_path / "plain.txt"
    plain.write_text("0\n1\n2\n")
    done = ask(plain, "--keys", 2, "--season-s", 1)
    assert "no keys were recorded: write a key behind each send time" in last_line(done)["error"]
    plain.write_text("0 a\n1\n")
    assert f"{plain}, line 2: has no key" in last_line(ask(plain, "--keys", 2, "--season-s", 1))["error"]
