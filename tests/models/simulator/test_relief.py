"""Helping and back-pressure as the simulator plays them: Leron's table 1 as fluids, equation 1, the books.

Services are a thousandth as fast as table 1 says: compute 113.76 tuples/s and two of it, exclam1 146.58. All
times are constant, so what is expected follows by hand; where, it is said.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_networks import network, plan, waiting

from harness.errors import ModelDeclined
from harness.models.network import Network, constant
from harness.models.simulator import SimulatedRun, simulate
from harness.models.simulator.helping_gain import paused_share
from harness.models.simulator.kinds import HELPED, PAUSE, PRESSED, RATIO, REQUESTS, STATE
from harness.models.solver.solve import solve
from harness.plans import Backpressure, Help, PhysicalPlan, Relief, Window, Worker

COMPUTE_TPS, EXCLAM_TPS, DELTA = 113.76, 146.58, 0.1
LERON = [("word", "compute"), ("compute", "exclam1"), ("exclam1", "exclam2")]
EXECUTORS = {"word": 1, "compute": 2, "exclam1": 1, "exclam2": 1}
MARKS = {"high_pct": 50.0, "low_pct": 10.0}
RELIEF = Relief(
    helping={"exclam1": Help(delta=DELTA, **MARKS)}, backpressure=Backpressure(kind="heron", **MARKS)
)
ROOM, PENDING = 1024, 540
HIGH, LOW = 0.5 * ROOM, 0.1 * ROOM


def leron(
    parts: tuple[str, ...] = ("helping", "backpressure"),
    *,
    physical: PhysicalPlan | None = None,
    rate_tps: float = 250.0,
    pending: int = PENDING,
    room: int = ROOM,
    hop_ms: float = 0.0,
) -> Network:
    physical = physical or plan(LERON, EXECUTORS)
    services = {"compute": 1000 / COMPUTE_TPS, "exclam1": 1000 / EXCLAM_TPS}
    made = network(
        physical,
        rate_tps,
        {name: waiting(constant(ms)) for name, ms in services.items()},
        scv=0.0,
        acks=True,
        round_robin=True,
        hop_ms=hop_ms,
        spout_idle_ms=1.06,
    )
    (behind,) = physical.query_plan.outputs("exclam1")
    helpers = len(physical.of("compute"))
    tasks = len(physical.of("exclam2"))
    return replace(
        made,
        relief=RELIEF.only(parts),
        help_routing={behind: np.full((helpers, tasks), 1 / tasks)},
        queue_room=room,
        most_pending=pending,
    )


def played(made: Network) -> SimulatedRun:
    return simulate(made, 100.0, 60.0, 1)


def rate_tps(run: SimulatedRun, component: str) -> float:
    start, end = run.interval_ms
    served = run.visits["served"][at(run, component)]
    return float(1000 * ((served >= start) & (served < end)).sum() / (end - start))


def at(run: SimulatedRun, component: str) -> np.ndarray:
    """Tuples that the component's own code served, in whichever executor."""
    of = run.component_of(np.arange(run.visits.size))
    return np.asarray(of == run.network.layout.order.index(component))


def news(run: SimulatedRun, kind: int, component: str, worker: int = 0) -> np.ndarray:
    found, number = run.world.news, list(run.network.marks).index(component)
    return np.asarray(
        found[(found["kind"] == kind) & (found["subject"] == number) & (found["worker"] == worker)]
    )


def whole_cycles(run: SimulatedRun) -> float:
    """Share of pauses in the time from the beginning of one to that of a later one, after the start."""
    changes = run.world.news[run.world.news["kind"] == PAUSE]
    changes = changes[(changes["time"] > run.interval_ms[0]) & (changes["time"] < run.interval_ms[1])]
    begins, ends = (changes["time"][changes["value"] == value] for value in (1.0, 0.0))
    assert begins.size > 5
    ends = ends[(ends > begins[0]) & (ends < begins[-1])]
    return float((ends - begins[:-1]).sum() / (begins[-1] - begins[0]))


def require_balance(run: SimulatedRun) -> None:
    """Every message came out once and was acked, whoever served it; no more were pending than may be."""
    made = run.network
    messages = run.messages.size
    assert np.isfinite(run.messages["acked"]).all()
    assert (run.messages["acked"] >= run.messages["back"]).all()
    assert at(run, "exclam2").sum() == at(run, "compute").sum() == at(run, "exclam1").sum() == messages
    assert np.unique(run.visits["root"][at(run, "exclam2")]).size == messages
    assert np.isfinite(run.visits["served"]).all()
    if made.most_pending:
        entered, back = np.sort(run.messages["entered"]), np.sort(run.messages["back"])
        pending = np.arange(1, messages + 1) - np.searchsorted(back, entered, "right")
        assert pending.max() <= made.most_pending
    layout, owner = made.layout, run.world.tasks["executor"][run.visits["task"]]
    for name in ("compute", "exclam1"):
        for e in range(*layout.of[name].indices(len(layout))):
            mine = np.sort(run.visits[owner == e], order="received")
            assert (mine["received"][1:] >= mine["served"][:-1] - 1e-6).all(), "one thing at a time"


def test_without_relief_the_bottleneck_says_how_much_comes_out() -> None:
    run = played(leron(()))
    assert rate_tps(run, "exclam2") == pytest.approx(EXCLAM_TPS, rel=0.002)
    assert run.world.news.size == 0
    require_balance(run)


def test_spouts_pause_for_the_share_of_time_that_follows_by_hand() -> None:
    """From the low mark to the high one the queue grows by what two of compute make more than it loses.

    Then spouts pause, what is pending comes into the queue, all but what is in service and on its way, and
    goes down to the low mark. With as many pending as the high mark it would be 1 - 146.58 / 227.52 = 35.6 %.
    """
    run = played(leron(("backpressure",)))
    growing_s = (HIGH - LOW) / (2 * COMPUTE_TPS - EXCLAM_TPS)
    shrinking_s = (PENDING - LOW) / EXCLAM_TPS
    expected = shrinking_s / (growing_s + shrinking_s)
    assert 0.356 < expected < 0.38
    assert whole_cycles(run) == pytest.approx(expected, rel=0.01)
    assert rate_tps(run, "exclam2") == pytest.approx(EXCLAM_TPS, rel=0.002)
    assert set(news(run, STATE, "exclam1")["value"]) == {0.0, float(PRESSED)}
    require_balance(run)


def test_pauses_come_to_the_fluid_limit_where_no_more_is_pending_than_the_mark() -> None:
    """The fluid limit 1 - mu_e / (m mu_c); a few more are pending for those that are in service."""
    run = played(leron(("backpressure",), pending=round(HIGH) + 6))
    assert whole_cycles(run) == pytest.approx(1 - EXCLAM_TPS / (2 * COMPUTE_TPS), abs=0.005)


def test_help_comes_to_the_fluid_limit_of_steps_of_a_tenth() -> None:
    """By equation 1, 0.1, 0.19, 0.271; from r = 0.237 on exclam1 keeps up, 188.0 come out (ReliefTest)."""
    run = played(leron())
    ratio = news(run, RATIO, "exclam1")["value"]
    np.testing.assert_allclose(ratio, 1 - (1 - DELTA) ** np.arange(1, 4))
    expected = 2 / (1 / COMPUTE_TPS + ratio[-1] / EXCLAM_TPS)
    assert expected == pytest.approx(188.0, abs=0.05)
    assert rate_tps(run, "exclam2") == pytest.approx(expected, rel=0.005)
    assert paused_share(run, 0) == 0
    assert set(news(run, STATE, "exclam1")["value"]) == {0.0, float(HELPED)}
    require_balance(run)


def test_a_share_is_dealt_exactly_and_all_while_help_is_with_all() -> None:
    run = played(leron())
    helped = int(run.world.watched["input"][list(run.network.marks).index("exclam1")])
    mine = run.visits[at(run, "exclam1")]
    emitted = np.where(
        mine["input"] == helped, mine["queued"], run.visits["emitted"][np.maximum(mine["parent"], 0)]
    )
    task = run.visits["task"][mine["parent"]]
    last = run.world.news["time"].max()
    for t in np.unique(task):
        here = (task == t) & (emitted > last + 1)
        kept = (mine["input"] == helped)[here][np.argsort(emitted[here], kind="stable")]
        due = np.arange(1, kept.size + 1) * (1 - 0.9**3)
        assert kept.size > 1000
        assert np.ptp(np.cumsum(kept) - due) <= 1 + 1e-6
    states = news(run, STATE, "exclam1")
    for begin, end in zip(states["time"][::2], states["time"][1::2], strict=True):
        within = (emitted > begin) & (emitted < end)
        assert within.any()
        assert (mine["input"] == helped)[within].all()


def test_where_nobody_is_busy_helping_is_worth_nothing() -> None:
    run = played(leron(rate_tps=120.0))
    assert run.world.news.size == 0
    assert rate_tps(run, "exclam2") == pytest.approx(120.0, rel=0.001)


def apart() -> PhysicalPlan:
    """Exclam1 in a worker of its own."""
    made = plan(LERON, EXECUTORS)
    away = Worker(node="node-1", port=6701)
    node = made.nodes[0].model_copy(update={"slots": (6700, 6701)})
    executors = tuple(
        e.model_copy(update={"worker": away}) if e.component == "exclam1" else e for e in made.executors
    )
    return made.model_copy(update={"nodes": (node,), "executors": executors})


def test_without_a_helper_in_the_same_worker_spouts_pause_and_the_share_is_learnt() -> None:
    """Leron 4.2: a worker cannot know whether helpers elsewhere are free. The ratio is outside of that."""
    run = played(leron(physical=apart(), hop_ms=0.5))
    here, there = (
        {e.component for e in run.network.layout.plan.executors if e.worker.port == p} for p in (6700, 6701)
    )
    assert there == {"exclam1"}
    assert "compute" in here
    workers = [worker[1] for worker in run.network.layout.workers]
    for worker in (0, 1):
        assert set(news(run, STATE, "exclam1", worker)["value"]) == {0.0, float(PRESSED)}
        assert news(run, RATIO, "exclam1", worker)["value"][-1] == pytest.approx(1 - 0.9**3)
    pressed = [news(run, STATE, "exclam1", workers.index(p))["time"][0] for p in (6701, 6700)]
    assert pressed[0] + 0.5 <= pressed[1], "the spout's worker hears of it"
    assert rate_tps(run, "exclam2") == pytest.approx(188.0, rel=0.005)
    require_balance(run)


def test_helpers_in_other_workers_learn_the_same() -> None:
    run = played(leron(physical=plan(LERON, EXECUTORS, workers=2), hop_ms=0.5))
    asked = [news(run, REQUESTS, "exclam1", worker)["value"].tolist() for worker in (0, 1)]
    assert asked[0] == asked[1] != []
    assert rate_tps(run, "exclam2") == pytest.approx(188.0, rel=0.01)
    require_balance(run)


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([(), ("helping",), ("backpressure",), ("helping", "backpressure")]),
    st.sampled_from([0, 7, 60]),
    st.sampled_from([16, 64]),
    st.integers(0, 1000),
)
@settings(max_examples=budget(30), deadline=None)
def test_nothing_is_lost_or_served_twice(
    helpers: int, helped: int, workers: int, parts: tuple[str, ...], pending: int, room: int, seed: int
) -> None:
    physical = plan(LERON, {**EXECUTORS, "compute": helpers, "exclam1": helped}, workers=workers)
    made = leron(parts, physical=physical, rate_tps=400.0, pending=pending, room=room, hop_ms=0.4)
    require_balance(simulate(made, 3.0, 1.0, seed, tail_s=0.5))


def test_the_limit_of_pending_messages_alone_is_kept() -> None:
    """A closed system of one: each message takes both services, its hops and its way back."""
    run = simulate(leron((), pending=1, hop_ms=0.5), 20.0, 1.0, 1)
    took = run.messages["back"] - run.messages["entered"]
    assert took.min() == pytest.approx(1000 / COMPUTE_TPS + 1000 / EXCLAM_TPS + 5 * 0.5, abs=1e-6)
    require_balance(run)


def test_what_is_not_played_or_solved_is_declined() -> None:
    with pytest.raises(ModelDeclined, match="beside Storm's batches"):
        simulate(replace(leron(), batch=10, flush_ms=1.0), 1.0, 0.0, 1)
    with pytest.raises(ModelDeclined, match="not solved, only played"):
        solve(leron())
    windowed = plan(LERON, EXECUTORS, windows={"compute": Window(kind="count", length=2, slide=2)})
    with pytest.raises(ModelDeclined, match="compute, which has windows, for exclam1"):
        simulate(leron(physical=windowed), 1.0, 0.0, 1)
