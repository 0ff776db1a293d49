"""The fit of n, s and ppt: on throughputs that follow from known costs, exact and with noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.tuning.message_fit import FittedMessageCost, ThroughputRow, fit_message_cost

BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SIZES = (8, 100, 1000)


def rows(overhead_us: float, per_byte_ns: float, ppt_us: float) -> list[ThroughputRow]:
    """Throughputs by equation 3 of Aeolus, where input is never short."""
    return [
        ThroughputRow(b, t, 1e6 / (ppt_us + overhead_us / b + t * per_byte_ns / 1000))
        for b in BATCHES
        for t in SIZES
    ]


def values(fit: FittedMessageCost) -> list[float]:
    return [fit.overhead_us.value, fit.per_byte_ns.value, fit.ppt_us.value]


@given(st.floats(0.5, 500), st.floats(0.5, 50), st.floats(0.5, 100))
def test_exact_throughputs_give_their_costs_back(n: float, s: float, ppt: float) -> None:
    fit = fit_message_cost(rows(n, s, ppt))
    assert values(fit) == pytest.approx([n, s, ppt], rel=1e-6)
    assert fit.worst_error_pct < 1e-6


@given(st.floats(0.5, 500), st.floats(0.5, 50), st.floats(0.5, 100), st.floats(0, 1000))
def test_known_user_code_is_no_part_of_the_costs(n: float, s: float, ppt: float, work_us: float) -> None:
    """It adds to the time of a tuple (equation 3 of Aeolus), so throughputs with it give the same costs."""
    plain = rows(n, s, ppt)
    worked = [
        r._replace(throughput_tps=1e6 / (1e6 / r.throughput_tps + work_us), work_us=work_us) for r in plain
    ]
    fit = fit_message_cost([*plain, *worked])
    assert values(fit) == pytest.approx([n, s, ppt], rel=1e-5)
    assert fit.throughput_tps(10, 100, work_us) == pytest.approx(
        1e6 / (ppt + n / 10 + s / 10 + work_us), rel=1e-5
    )


def test_intervals_hold_the_true_costs_as_often_as_they_say() -> None:
    """400 sets of 30 throughputs with 3 % noise: 95 % intervals, give or take 4 standard errors (4.4 %)."""
    rng = np.random.default_rng(3)
    truth = (40.0, 4.0, 2.0)
    covered = np.zeros(3)
    for _ in range(400):
        noisy = [r._replace(throughput_tps=r.throughput_tps * rng.normal(1, 0.03)) for r in rows(*truth)]
        fit = fit_message_cost(noisy)
        costs = (fit.overhead_us, fit.per_byte_ns, fit.ppt_us)
        covered += [c.low <= t <= c.high for c, t in zip(costs, truth, strict=True)]
    assert (np.abs(covered / 400 - 0.95) < 0.044).all(), covered / 400


def test_a_wider_level_has_a_wider_interval() -> None:
    noisy = [
        r._replace(throughput_tps=r.throughput_tps * (1 + 0.01 * (-1) ** i))
        for i, r in enumerate(rows(40, 4, 2))
    ]
    narrow, wide = (fit_message_cost(noisy, level).overhead_us for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


@pytest.mark.parametrize(
    ("given_rows", "said"),
    [
        (rows(40, 4, 2)[:3], "3 rows do not tell n, s and ppt apart"),
        ([r for r in rows(40, 4, 2) if r.batch == 1], "do not tell"),
        ([r for r in rows(40, 4, 2) if r.tuple_bytes == 8], "do not tell"),
        ([], "0 rows do not tell"),
        ([*rows(40, 4, 2), ThroughputRow(1, 8, 0.0)], "no throughput above 0"),
        ([*rows(40, 4, 2), ThroughputRow(0, 8, 10.0)], "a batch below 1"),
    ],
)
def test_rows_that_say_nothing_are_refused(given_rows: list[ThroughputRow], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fit_message_cost(given_rows)
