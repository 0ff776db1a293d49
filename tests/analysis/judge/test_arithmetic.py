"""The arithmetic of judging: against formulas written out with numpy, and the same for all who use it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.judge import arithmetic
from harness.analysis.judge.arithmetic import StepStates, between_share, widened
from harness.schemas import LATENCIES, Measure

numbers = st.floats(0.5, 50)
measured = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), numbers, st.one_of(st.none(), numbers)),
    max_size=20,
)
Row = tuple[str, str, float, float | None]


def shares(rows: list[Row]) -> dict[str, float]:
    frame = pd.DataFrame(rows, columns=["kind", "configuration", "value", "within"])
    found = between_share(frame.astype({"value": float, "within": float}), ["kind"], ["configuration"])
    return dict(zip(found["kind"], found["share"], strict=True))


@given(measured)
def test_the_share_between_repeats_is_the_formula_written_out(rows: list[Row]) -> None:
    """numpy's variance, group by group; an interval without an error explains nothing."""
    found = shares(rows)
    for kind in "ab":
        excess = []
        for configuration in "xyz":
            mine = [r for r in rows if r[:2] == (kind, configuration)]
            if len(mine) > 1:
                values = np.array([r[2] for r in mine])
                explained = [r[3] ** 2 for r in mine if r[3] is not None]
                left = values.var(ddof=1) - (np.mean(explained) if explained else 0.0)
                excess.append(left / values.mean() ** 2)
        if excess:
            assert found[kind] ** 2 == pytest.approx(max(0.0, float(np.mean(excess))), rel=1e-9, abs=1e-12)
        else:
            assert kind not in found


@given(measured.flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))))
def test_no_bit_of_the_share_depends_on_the_order_of_rows(rows: tuple[list[Row], list[Row]]) -> None:
    assert shares(rows[0]) == shares(rows[1])


@given(st.lists(numbers, min_size=1, max_size=5))
def test_noise_within_alone_stays_as_it_is(within: list[float]) -> None:
    """The square root of a square is the number itself, to the last bit."""
    known = np.array(within)
    assert widened(known, np.full_like(known, np.nan)).tolist() == within


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=5))
def test_errors_of_one_prediction_agree_with_each_other(rows: list[tuple[float, float, float]]) -> None:
    """By their definitions: q - 1 is the relative error above, and q over noise scales with the value."""
    predicted, actual, noise = np.array(rows).T
    relative = arithmetic.relative_error(predicted, actual)
    size = arithmetic.abs_error_pct(predicted, actual)
    assert size.tolist() == (np.abs(relative) * 100).tolist()
    above = predicted >= actual
    q = arithmetic.q_error(predicted, actual)
    assert q[above] - 1 == pytest.approx(relative[above], abs=1e-12)
    assert arithmetic.error_over_noise(predicted, actual, noise) == pytest.approx(size / 100 * actual / noise)


steps = st.integers(0, 3)


@given(
    st.dictionaries(steps, st.tuples(st.sampled_from(["invalid", "unsteady"]), st.just("why"))),
    st.dictionaries(steps, st.just("saturated: so much")),
    *(steps, steps),
    st.sampled_from(list(Measure)),
)
def test_a_pair_is_left_out_by_the_worst_that_its_ends_are(
    unusable: dict[int, tuple[str, str]], saturated: dict[int, str], source: int, proposed: int, measure: str
) -> None:
    """docs/analysis.md: invalid before unsteady before saturated; only latencies need the proposed step."""
    kinds = {unusable.get(end, ("",))[0] for end in (source, proposed)}
    full = source in saturated or (measure in LATENCIES and proposed in saturated)
    expected = next((v for v in ("invalid", "unsteady") if v in kinds), "saturated" if full else "")
    verdict, why = StepStates(unusable, saturated).excluded(source, proposed, measure)
    assert verdict == expected
    assert bool(why) == bool(verdict)
