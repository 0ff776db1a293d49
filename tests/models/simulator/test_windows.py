"""Windows: residence as measured on a real cluster, and tuple by tuple as an oracle of the sources says."""

from __future__ import annotations

import numpy as np
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_networks import network, plan
from window_manager import count_windows, time_windows

from harness.models.simulator import SimulatedRun, simulate
from harness.plans import Window

pytestmark = pytest.mark.deep

EDGES = [("spout", "window"), ("window", "sink")]


def windowed(window: Window, rate_tps: float = 1000.0, scv: float = 0.0, **more: float) -> SimulatedRun:
    """One windowed task that gets a tuple each millisecond, and takes no time."""
    physical = plan(EDGES, windows={"window": window})
    made = network(physical, rate_tps, scv=scv, acks=True, **more)  # type: ignore[arg-type]
    return simulate(made, 20, 5, seed=1)


def members(run: SimulatedRun) -> np.ndarray:
    mine = run.visits[run.parts.identifiers[run.visits["task"]] == run.network.layout.tasks["window"][0]]
    return np.asarray(mine[np.argsort(mine["served"], kind="stable")])


@pytest.mark.parametrize(
    ("length", "slide", "arrivals"),
    [(50, 50, 74.5), (99, 99, 148.0), (200, 200, 249.0), (1000, 1000, 1049.0), (100, 10, 104.5),
     (1000, 50, 1024.5), (20, 20, 29.5), (30, 5, 32.0)],
)  # fmt: skip
def test_residence_in_count_windows(length: int, slide: int, arrivals: float) -> None:
    """Measured on Storm 2.8.3: mean arrivals from a tuple's own to its ack, in whole windows.

    Tumbling below 100: 1.5 N - 0.5. From 100 on about N + 49.5. Sliding: W + (S - 1) / 2.
    """
    run = windowed(Window(kind="count", length=length, slide=slide))
    mine = members(run)
    inside = (mine["served"] >= 5000) & (mine["served"] < 25_000)  # whole windows: lengths divide 20,000 ...
    if 20_000 % length:
        inside = (mine["served"] >= 5000) & (mine["served"] < 5000 + 20_000 // length * length)
    residence = (mine["expired"] - mine["served"])[inside]
    assert not np.isnan(residence).any()
    assert residence.mean() == pytest.approx(arrivals, abs=0.6 if length >= 100 else 1e-6)


@pytest.mark.parametrize(("length", "slide", "mean"), [(500, 500, 1.5), (1000, 200, 1.1)])
def test_residence_in_time_windows(length: int, slide: int, mean: float) -> None:
    """Tumbling: one length and a half (measured 1516 ms of 1000). Sliding: W + U(0, S)."""
    mine = members(windowed(Window(kind="time", length=length, slide=slide)))
    inside = (mine["served"] >= 5000) & (mine["served"] < 25_000)
    residence = (mine["expired"] - mine["served"])[inside]
    assert residence.mean() == pytest.approx(mean * length, abs=0.5)
    assert (mine["emitted"] - mine["served"])[inside].mean() == pytest.approx(slide / 2, abs=0.5)


@given(
    length=st.integers(1, 260),
    parts=st.sampled_from([1, 1, 2, 3, 7]),
    rate=st.sampled_from([100.0, 700.0]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=budget(25))
def test_every_tuple_in_count_windows(length: int, parts: int, rate: float, seed: int) -> None:
    window = Window(kind="count", length=length, slide=max(1, length // parts))
    made = network(plan(EDGES, windows={"window": window}), rate, acks=True)
    run = simulate(made, 2, 0, seed=seed, tail_s=0)
    mine = members(run)
    oracle = count_windows(window, mine["served"].tolist())
    assert {i: t for i, t in enumerate(mine["emitted"].tolist()) if t == t} == oracle.first
    assert {i: t for i, t in enumerate(mine["expired"].tolist()) if t == t} == oracle.expired
    assert [(f["time"], f["fresh"]) for f in run.world.firings] == [
        (t, sum(oracle.first[m] == t for m in held)) for t, held in oracle.windows
    ]


@given(
    length=st.sampled_from([20, 100, 300]), parts=st.sampled_from([1, 2, 5]), seed=st.integers(0, 1000)
)  # fmt: skip
@settings(max_examples=budget(25))
def test_every_tuple_in_time_windows(length: int, parts: int, seed: int) -> None:
    window = Window(kind="time", length=length, slide=length // parts)
    run = simulate(network(plan(EDGES, windows={"window": window}), 50, acks=True), 2, 0, seed=seed, tail_s=0)
    mine = members(run)
    task = run.world.tasks[run.parts.identifiers == run.network.layout.tasks["window"][0]][0]
    oracle = time_windows(window, mine["served"].tolist(), float(task["phase"]), 5000.0)
    firings = run.world.firings
    assert np.allclose(firings["time"], [t for t, _ in oracle.windows])
    assert np.allclose(mine["emitted"], [oracle.first[i] for i in range(mine.size)])
    assert np.allclose(mine["expired"], [oracle.expired[i] for i in range(mine.size)])
    # each output comes from all messages in its window
    assert (firings["end"] - firings["anchors"]).tolist() == [len(held) for _, held in oracle.windows]


def test_complete_latency_of_a_count_window_is_its_residence() -> None:
    """A tree is complete when its window's next one has fired: 1.5 N - 0.5 arrivals, not N / 2 - 0.5."""
    run = windowed(Window(kind="count", length=20, slide=20))
    assert run.latencies.ground_truth_ms.mean() == pytest.approx(9.5)
    assert run.complete_latency_ms.mean() == pytest.approx(29.5)
    assert run.unfinished == 0


def test_a_message_whose_children_wait_in_two_windows_is_complete_with_the_later_one() -> None:
    """Two time windows of 100 ms whose clocks are d apart: the mean of the later of two remaining times of
    one clock and the other, over a whole turn, is L / 2 + d (L - d) / L; its ack comes a window later."""
    window = Window(kind="time", length=100, slide=100)
    physical = plan([("spout", "a"), ("spout", "b")], windows={"a": window, "b": window})
    run = simulate(network(physical, 997.0, scv=0.0, acks=True), 20, 1, seed=5)
    apart = abs(float(np.diff(run.world.tasks["phase"][1:])[0])) % 100
    expected = 100 + 50 + apart * (100 - apart) / 100
    assert run.complete_latency_ms.mean() == pytest.approx(expected, abs=0.2)


def test_outputs_of_a_second_window_stand_for_the_first_ones_members() -> None:
    """Windows of 5 of windows of 4: each of 20 messages leaves with the 20th."""
    windows = {"one": Window(kind="count", length=4, slide=4), "two": Window(kind="count", length=5, slide=5)}
    physical = plan([("spout", "one"), ("one", "two"), ("two", "sink")], windows=windows)
    run = simulate(network(physical, 1000.0, scv=0.0, acks=True), 10, 1, seed=1)
    found = run.latencies
    assert found.message.size == 10_000
    assert np.unique(found.message).size == 10_000
    assert found.ground_truth_ms.mean() == pytest.approx(9.5)
    lengths = np.diff(run.paths.first)
    assert (lengths == 4).all()  # spout, one, two, sink
    assert run.unfinished == 0
