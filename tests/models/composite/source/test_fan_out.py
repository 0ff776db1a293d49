"""Counts of tuples made of one: from counters, from hop records, of windows."""

from __future__ import annotations

import numpy as np
import pytest
from hop_synthetic import Leg, hop_rows
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from synthetic import Truth, all_in_one, component, deploy, join_split, observation, stream

from harness.errors import ModelDeclined
from harness.models.composite.source.evidence import read
from harness.models.composite.source.fan_out import fan_out, fan_sums, input_ratios, two_point, with_mean
from harness.models.composite.source.inputs import spout_inputs
from harness.models.contract.layout import Output
from harness.models.network import Input
from harness.plans import QueryPlan

counts = arrays(np.float64, st.integers(2, 25), elements=st.floats(0.0, 100.0)).filter(lambda c: c.sum() > 1)


@given(counts, st.floats(0.0, 30.0))
@example(np.array([1.0, *[4.0] * 7]), 3.2e-171)  # once missed by 1e-6: the tilt has no end
@example(np.array([1.0, *[4.0] * 7]), 1e-8)
@example(np.array([1.0, *[4.0] * 7]), 7.0 - 1e-8)
def test_any_mean_can_be_met(count: np.ndarray, mean: float) -> None:
    found = with_mean(count, mean)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()
    assert found @ np.arange(found.size) == pytest.approx(mean, abs=1e-6)


@given(st.floats(0.0, 50.0))
def test_two_whole_numbers_next_to_a_mean(mean: float) -> None:
    found = two_point(mean)
    assert (found > 0).sum() <= 2
    assert found @ np.arange(found.size) == pytest.approx(mean, abs=1e-9)


@given(st.integers(0, 1000), arrays(np.float64, st.integers(1, 4), elements=st.floats(0.1, 10.0)))
def test_ratios_of_inputs_that_vary_by_themselves_are_those_of_exact_counts(
    seed: int, ratios: np.ndarray
) -> None:
    """Counts of 20 blocks as chance has them, of 200 tuples each in the mean."""
    received = np.random.default_rng(seed).poisson(200, (ratios.size, 20)).astype(float)
    assert input_ratios(received, ratios @ received) == pytest.approx(ratios, rel=1e-6)


@pytest.mark.parametrize("inputs", [2, 3, 4, 5])
def test_inputs_at_even_intervals_make_as_many_each(inputs: int) -> None:
    """Each block has as many of each input, give or take a tuple; so have the outputs, of one tuple each.

    Least squares finds ratios of that rounding, off by half or more in most of 200 draws of four inputs.
    """
    for seed in range(50):
        rng = np.random.default_rng(seed)
        shares = 160.0 + 40.0 * np.arange(inputs)
        received = shares[:, None] + rng.integers(-1, 2, (inputs, 10))
        emitted = received.sum(axis=0) + rng.integers(-2, 3, 10)
        assert input_ratios(received, emitted) == pytest.approx(np.ones(inputs), abs=0.5)


@pytest.mark.parametrize("rates", [(200, 20), (1000, 10), (2000, 20)])
def test_the_ratio_of_a_small_input_is_found_beside_a_large_one(rates: tuple[int, int]) -> None:
    """All outputs are of the small input; counts of 15 blocks are off by a tuple at their ends."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        received = rng.poisson(np.array(rates)[:, None], (2, 15)).astype(float)
        emitted = received[1] + rng.integers(-1, 2, 15)
        assert input_ratios(received, emitted) == pytest.approx([0.0, 1.0], abs=0.25)


def fans(source, evidence_of=None):
    evidence = read(source)
    weights = np.ones(evidence.blocks)
    return fan_out(evidence, fan_sums(evidence), weights, spout_inputs(evidence, weights, None))


def test_without_hop_records_counts_are_next_to_their_mean() -> None:
    query_plan = all_in_one()
    truth = Truth.random(query_plan, 40.0, 1)
    stream_in = query_plan.streams[0]
    truth.coefficients["multiplier", "default"][stream_in][:] = 9.75
    truth.coefficients["window", "default"][query_plan.streams[1]][:] = 0.1  # one output for ten tuples
    found = fans(observation(deploy(query_plan, 1), truth))
    made = found[Input("multiplier", "spout", "default")][Output("multiplier", "default")]
    assert made[9:] == pytest.approx([0.25, 0.75])
    assert found[Input("window", "", "")][Output("window", "default")] == pytest.approx([0.0, 1.0])


def test_children_are_told_apart_by_their_emits() -> None:
    # Messages 0 to 3 have 3, 1, 3, 1 children; the last child of message 2 is still in a window, but its
    # number, 3, is that of a sibling's rank... children 1 and 3 arrived.
    query_plan = QueryPlan(
        name="m",
        components=(component("spout"), component("multiplier"), component("sender")),
        streams=(stream("spout", "multiplier"), stream("multiplier", "sender")),
    )
    plan = deploy(query_plan, 1)
    children = {0: (1, 2, 3), 1: (1,), 2: (1, 3), 3: (1,)}
    rows = [
        (
            message,
            child,
            [
                Leg("spout", 0, 10.0 * message, 10.0 * message),
                Leg("multiplier", 0, 10.0 * message + 1, 10.0 * message + 1 + 0.1 * child),
                Leg("sender", 0, 10.0 * message + 3 + 0.01 * child, 10.0 * message + 3.1),
            ],
        )
        for message, mine in children.items()
        for child in mine
    ]
    truth = Truth.random(query_plan, 40.0, 1)
    truth.coefficients["multiplier", "default"][query_plan.streams[0]][:] = 2.0
    found = fans(observation(plan, truth, latency=hop_rows(plan, rows)))
    made = found[Input("multiplier", "spout", "default")][Output("multiplier", "default")]
    assert made == pytest.approx([0.0, 0.5, 0.0, 0.5])


def test_windows_are_known_by_their_members() -> None:
    # Three windows of a join: two emit on stream-5, one on stream-6; the first of them has two members.
    plan = deploy(join_split(), 1)
    windows = [("sender-1", (0, 1)), ("sender-2", (2,)), ("sender-1", (3,))]
    rows = [
        (
            message,
            0,
            [
                Leg("spout", 0, 10.0 * message, 10.0 * message),
                Leg("json", 0, 10.0 * message + 1, 10.0 * message + 2),
                Leg("join", 0, 10.0 * message + 3, 10.0 * members[-1] + 5),
                Leg(sink, 0, 10.0 * members[-1] + 6, 10.0 * members[-1] + 7),
            ],
        )
        for sink, members in windows
        for message in members
    ]
    truth = Truth.random(join_split(), 40.0, 1)
    found = fans(observation(plan, truth, latency=hop_rows(plan, rows)))[Input("join", "", "")]
    assert found[Output("join", "stream-5")] == pytest.approx([1 / 3, 2 / 3])
    assert found[Output("join", "stream-6")] == pytest.approx([2 / 3, 1 / 3])


def test_a_ratio_of_an_input_that_brought_nothing_is_declined() -> None:
    query_plan = QueryPlan(
        name="two-inputs",
        components=tuple(component(n) for n in "abcd"),
        streams=(stream("a", "c"), stream("b", "c", name="other"), stream("c", "d")),
    )
    truth = Truth.random(query_plan, 40.0, 1)
    truth.emission_tps["b"][:] = 1e-9
    source = observation(deploy(query_plan, 1), truth)
    source.metrics.loc[(source.metrics["component"] == "c") & (source.metrics["peer"] == "b"), "value"] = 0.0
    with pytest.raises(ModelDeclined, match=r"I/O ratio of c:default for b->c:other is unknown"):
        fans(source)
