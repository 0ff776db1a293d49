"""Schedules: exact where they are arithmetic, within their distribution's bounds where they are random."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from budgets import budget
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, poisson

from harness.errors import UsageError
from harness.experiments.schedule import (
    CHUNK,
    NS_PER_S,
    BegunSchedule,
    Changing,
    Constant,
    Due,
    Poisson,
    Schedule,
    Trace,
    schedule_of,
)
from harness.experiments.workload_settings import RateChange, Workload

rates = st.floats(min_value=1e-3, max_value=1e6, allow_nan=False).map(lambda r: round(r, 6)).filter(bool)
firsts = st.integers(min_value=0, max_value=3 * CHUNK + 5)


def offsets(schedule: Schedule, count: int, first: int = 0) -> list[int]:
    return list(islice((o for chunk in schedule.chunks(first) for o in chunk.tolist()), count))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    gaps = draw(st.lists(st.integers(0, 10**10), min_size=1, max_size=30))
    ends = np.cumsum(gaps).astype(np.int64)
    period = draw(st.none() | st.integers(max(int(ends[-1]), 1), int(ends[-1]) + 10**10))
    return Trace(ends, period)


steady = st.builds(Constant, rates) | st.builds(Poisson, rates, st.integers(0, 2**32))


@st.composite
def changing(draw: st.DrawFn) -> Changing:
    at_ns = sorted(draw(st.sets(st.integers(0, 10**12), min_size=1, max_size=4)))
    return Changing(draw(steady), tuple((at, draw(rates)) for at in at_ns))


schedules = st.one_of(steady, traces(), changing())


@given(schedules)
@settings(max_examples=budget(60), deadline=None)
def test_offsets_never_decrease_and_are_int64(schedule: Schedule) -> None:
    chunks = list(islice(schedule.chunks(), 3))
    assert all(c.dtype == np.int64 for c in chunks)
    joined = np.concatenate(chunks)
    assert joined[0] >= 0
    assert (np.diff(joined) >= 0).all()


@given(schedules, firsts)
@settings(max_examples=budget(60), deadline=None)
def test_taken_up_at_k_it_is_the_tail(schedule: Schedule, k: int) -> None:
    assert offsets(schedule, 50, first=k) == offsets(schedule, k + 50)[k:]


@given(rates, st.integers(0, 10**9))
@settings(deadline=None)
def test_constant_message_n_is_due_at_n_over_rate_rounded_down(rate: float, n: int) -> None:
    # The definition, in exact arithmetic: floor(n * 1e9 / rate), however far into the schedule.
    schedule = Constant(rate)
    exact = Fraction(repr(rate)).limit_denominator(10**6)
    # An int64 of nanoseconds ends after 292 years, and a chunk reaches ahead of what is asked of it.
    assume((n + 2 * CHUNK) * 10**9 / exact < 2**63)
    assert schedule.exact_rate_tps == exact
    assert offsets(schedule, 3, first=n) == [int(i * 10**9 / exact) for i in range(n, n + 3)]


@given(st.integers(1, 10**6))
def test_constant_sends_exactly_rate_messages_in_every_second(rate: int) -> None:
    for second in (0, 7, 86_400 * 365):
        schedule = Constant(float(rate))
        assert offsets(schedule, 1, first=second * rate)[0] == second * 10**9
        if second:
            assert offsets(schedule, 1, first=second * rate - 1)[0] < second * 10**9


@pytest.mark.parametrize("rate", [16.0, 50.0, 1000.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_poisson_counts_and_gaps_follow_their_distributions(rate: float, seed: int) -> None:
    # Number of events of a Poisson process in T is Poisson(rate * T); gaps are exponential(1 / rate).
    # Seeds are fixed, so the outcome is too: bounds of probability 1e-6 leave room for no seed of these.
    n = 40_000
    due = np.array(offsets(Poisson(rate, seed), n))
    half_s = n / rate / 2
    low, high = poisson.interval(1 - 1e-6, rate * half_s)
    assert low <= (due < half_s * 1e9).sum() <= high
    gaps = np.diff(due, prepend=0) / 1e9
    assert kstest(gaps, "expon", args=(0, 1 / rate)).pvalue > 1e-6


def test_poisson_depends_on_seed_alone() -> None:
    assert offsets(Poisson(50.0, 1), 100) == offsets(Poisson(50.0, 1), 100)
    assert offsets(Poisson(50.0, 1), 100) != offsets(Poisson(50.0, 2), 100)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40).map(sorted))
def test_trace_file_is_read_to_the_nanosecond(
    tmp_path_factory: pytest.TempPathFactory, due: list[int]
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.txt"
    path.write_text("# seconds\n\n" + "".join(f"{d // 10**9}.{d % 10**9:09d}  # one\n" for d in due))
    trace = Trace.read(path)
    assert offsets(trace, len(due) + 1) == due


def test_trace_with_a_period_repeats(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("0\n0.5\n")
    trace = Trace.read(path, period_s=2.0)
    assert offsets(trace, 5) == [0, 500_000_000, 2_000_000_000, 2_500_000_000, 4_000_000_000]
    assert trace.rate_tps == 1.0


@pytest.mark.parametrize(
    ("text", "period", "says"),
    [
        ("1\nx\n", None, "line 2: 'x' is not a number"),
        ("1\n0.5\n", None, "line 2: 0.5 s is before"),
        ("-1\n", None, "line 1: -1 s"),
        ("nan\n", None, "line 1: nan s"),
        ("inf\n", None, "line 1: inf s"),
        ("# none\n", None, "holds no offset"),
        ("0\n3\n", 2.0, "period of 2.0 s ends before"),
        ("0\n", 0.0, "period of 0.0 s"),
    ],
)
def test_a_wrong_trace_names_file_and_line(
    tmp_path: Path, text: str, period: float | None, says: str
) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text(text)
    with pytest.raises(UsageError, match=says) as e:
        Trace.read(path, period)
    assert str(path) in str(e.value)


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        Trace.read(tmp_path / "none.txt")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan"), 1e-9])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(UsageError, match="rate"):
        Constant(rate)
    if rate != 1e-9:
        with pytest.raises(UsageError, match="rate"):
            Poisson(rate, 1)


@given(
    schedules,
    firsts,
    st.integers(-(10**12), 10**12),
    st.lists(st.integers(0, 10**11), min_size=2, max_size=2),
)
@settings(max_examples=budget(60), deadline=None)
def test_what_is_due_in_a_span_is_what_a_walk_over_the_schedule_finds(
    schedule: Schedule, skip: int, base_ns: int, span: list[int]
) -> None:
    most = 3 * CHUNK
    walked = offsets(schedule, most, skip)
    start, end = sorted(span)
    if len(walked) == most:
        end = min(end, walked[-1])  # as far as was walked
    start = min(start, end)
    due = BegunSchedule(schedule, skip, base_ns).due(base_ns + start, base_ns + end)
    assert due.messages == sum(start <= o < end for o in walked)
    assert due.ended == all(o < end for o in walked)


def test_a_trace_that_ends_in_the_span_says_so() -> None:
    trace = Trace(np.array([0, 5, 5, 9], dtype=np.int64))
    begun = BegunSchedule(trace, skip=0, base_ns=100)
    assert begun.due(100, 109) == Due(3, ended=False)
    assert begun.due(105, 110) == Due(3, ended=True)
    assert BegunSchedule(Trace(trace.offsets_ns, period_ns=10), 0, 100).due(105, 111) == Due(4, ended=False)
    assert BegunSchedule(trace, skip=9, base_ns=100).due(100, 200) == Due(0, ended=True)


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(1, 60))
@settings(deadline=None)
def test_each_part_of_a_changing_rate_has_its_messages(first_tps: int, then_tps: int, at_s: int) -> None:
    """Counted from the schedule: rate times seconds, whole where equal gaps begin on the second."""
    schedule = Changing(Constant(first_tps), ((at_s * NS_PER_S, float(then_tps)),))
    begun = BegunSchedule(schedule, skip=0, base_ns=0)
    assert begun.due(0, at_s * NS_PER_S) == Due(first_tps * at_s, ended=False)
    after = begun.due(at_s * NS_PER_S, (at_s + 7) * NS_PER_S)
    assert after.messages == pytest.approx(7 * then_tps, abs=1)
    assert schedule.rate_tps == then_tps


def test_until_the_first_change_it_is_the_steady_schedule() -> None:
    same = Poisson(50.0, seed=3)
    early = [offset for offset in offsets(same, 1000) if offset < 10 * NS_PER_S]
    assert offsets(Changing(same, ((10 * NS_PER_S, 100.0),)), len(early)) == early


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_poisson_schedule_that_changes_is_poisson_in_both_parts(seed: int) -> None:
    """By the time change of a Poisson process; bounds of probability 1e-6 for each fixed seed."""
    schedule = Changing(Poisson(40.0, seed), ((500 * NS_PER_S, 120.0),))
    at_s = np.array(offsets(schedule, 90_000)) / 1e9
    for since_s, until_s, rate in ((0, 500, 40.0), (500, 1000, 120.0)):
        inside = at_s[(at_s >= since_s) & (at_s < until_s)]
        low, high = poisson.ppf([5e-7, 1 - 5e-7], rate * 500)
        assert low <= inside.size <= high
        assert kstest(np.diff(inside), "expon", args=(0, 1 / rate)).pvalue > 1e-6


def test_changes_count_from_the_begin_of_the_interval() -> None:
    workload = Workload(rate_tps=10, changes=(RateChange(at_s=2, rate_tps=20),))
    found = schedule_of(workload, 10, workload.changes, interval_at_s=5)
    assert found == Changing(Constant(10), ((7 * NS_PER_S, 20.0),))
