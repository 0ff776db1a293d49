"""Each mechanism on its own, in networks so regular that every time can be told beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_networks import batch_means, computing, network, plan, waiting

from harness.errors import ModelDeclined
from harness.models.contract.answers import Saturated
from harness.models.contract.layout import IntArray, Output
from harness.models.network import Input, constant
from harness.models.simulator import SimulatedRun, simulate, simulate_messages
from harness.models.simulator.messages import Messages

CHAIN = [("spout", "bolt"), ("bolt", "sink")]


def at(run: SimulatedRun, component: str) -> np.ndarray:
    """The visits of a component by time of service."""
    tasks = np.isin(run.parts.identifiers[run.visits["task"]], run.network.layout.tasks[component])
    return np.sort(run.visits[tasks], order="received")


def spout_task(*tasks: int) -> IntArray:
    return np.array(tasks, dtype=np.int64)


def test_service_hops_and_the_sinks_client() -> None:
    """Ground truth ends before the client's 0.3 ms, which hold the executor and delay the ack."""
    made = network(
        plan(CHAIN), 10, {"bolt": waiting(constant(2.0))}, scv=0.0, hop_ms=0.5, send_ms=0.3, acks=True
    )
    run = simulate(made, 10, 1, seed=1)
    assert np.allclose(run.latencies.ground_truth_ms, 0.5 + 2.0 + 0.5)
    # init and acks take a hop each: the first is there 0.5 after the emit, the last 0.5 after the send
    assert np.allclose(run.complete_latency_ms, 3.0 + 0.3)
    assert np.allclose(run.ack_latency_ms, 3.0 + 0.3 + 0.5 + 0.5)
    assert run.use.utilisation[run.network.layout.of["sink"]] == pytest.approx(0.3 * 10 / 1000)


def test_a_tuple_that_meets_an_idle_executor_waits_for_the_rest_of_its_sleep() -> None:
    """It looks at multiples of 4 ms after its last work's end."""
    made = network(plan(CHAIN), 100, {"bolt": waiting(constant(1.0))}, idle_ms=4.0)
    bolt = at(simulate(made, 20, 0, seed=1), "bolt")
    slept = bolt["received"][1:] - bolt["served"][:-1]
    alone = bolt["queued"][1:] > bolt["served"][:-1]
    assert np.allclose(slept[~alone], 0.0)
    turns = slept[alone] / 4.0
    assert np.allclose(turns, np.round(turns), atol=1e-6)
    assert (turns > 0.5).all()
    waits = (bolt["received"] - bolt["queued"])[1:][alone]
    assert (waits <= 4.0 + 1e-9).all()
    # gaps between messages are exponential with mean 10: those that end in a sleep end a bit early in it
    assert waits.mean() == pytest.approx(4.0 - (10.0 - 4.0 / np.expm1(0.4)), abs=0.15)


def rounds(start: float, due: dict[int, list[float]], poll_ms: float, idle_ms: float) -> list[float]:
    """A spout executor's loop told step by step: when it emits what is due at each of its tasks."""
    waiting, time, entered = {t: list(times) for t, times in due.items()}, start, []
    while any(waiting.values()):
        before = len(entered)
        for times in waiting.values():
            if times and times[0] <= time:
                entered.append(time)
                times.pop(0)
            else:
                time += poll_ms
        time += idle_ms if len(entered) == before else 0.0
    return entered


@given(
    due=st.dictionaries(st.integers(1, 3), st.lists(st.floats(0, 200), max_size=6), min_size=1),
    poll_ms=st.sampled_from([0.25, 1.0, 7.0]),
    idle_ms=st.sampled_from([0.0, 0.5, 5.0]),
)
@settings(max_examples=budget(40))
def test_a_spout_looks_at_its_tasks_in_turn(
    due: dict[int, list[float]], poll_ms: float, idle_ms: float
) -> None:
    """Tasks without a message hold the executor, and a round without one ends with a sleep."""
    physical = plan(CHAIN, 1, {"spout": 3, "bolt": 1, "sink": 1})
    made = network(physical, 10, poll_ms=poll_ms, spout_idle_ms=idle_ms)
    times = {t: sorted(due.get(t, [])) for t in (1, 2, 3)}
    messages = Messages(
        np.array([d for t in times for d in times[t]]),
        np.array([t for t in times for _ in times[t]], dtype=np.int64),
    )
    run = simulate_messages(made, messages, (0.0, 300.0), seed=3)
    start = float(run.world.rounds["start"][0])
    assert -(3 * poll_ms + idle_ms) <= start <= 0
    assert np.allclose(np.sort(run.messages["entered"]), rounds(start, times, poll_ms, idle_ms))


def test_acks_wait_for_the_next_round() -> None:
    """Polls of 10 ms and no sleep: a round of one task begins every 10 ms until a message is there."""
    made = network(plan(CHAIN), 10, poll_ms=10.0, hop_ms=1.0, acks=True)
    run = simulate_messages(made, Messages(np.array([25.0]), spout_task(1)), (0.0, 100.0), seed=1)
    message = run.messages[0]
    # init at 1 ms after the emit, acks at 2 and 3 ms, the answer at 4 ms; rounds go on every 10 ms
    assert message["last"] - message["first"] == pytest.approx(2.0)
    assert message["back"] - message["entered"] == pytest.approx(4.0)
    assert message["acked"] - message["entered"] == pytest.approx(10.0)


@pytest.mark.parametrize("flush_ms", [0.0, 4.0])
def test_batches_go_when_full_or_at_the_next_flush(flush_ms: float) -> None:
    """Batches of 3 of tuples that come each millisecond; without flushes the last ones stay."""
    made = network(plan([("spout", "sink")]), 1000, scv=0.0, batch=3, flush_ms=flush_ms)
    run = simulate(made, 1, 0, seed=2, tail_s=0)
    sink, spout = at(run, "sink"), run.messages["entered"]
    if not flush_ms:
        ends = spout[3::3]  # a full batch goes when the next tuple comes
        whole = 3 * ends.size
        assert np.allclose(sink["queued"][:whole], np.repeat(ends, 3))
        assert sink.size - whole == np.isinf(sink["queued"]).sum() + np.isnan(sink["queued"]).sum()
        return
    phase = float(run.world.executors["flush"][0])
    expected, held = [], []
    for time in spout.tolist():
        while held and (due := phase + np.ceil((held[0] - phase) / flush_ms) * flush_ms) < time:
            expected += [due] * len(held)
            held = []
        if len(held) == 3:
            expected += [time] * 3
            held = []
        held.append(time)
    if held:
        expected += [phase + np.ceil((held[0] - phase) / flush_ms) * flush_ms] * len(held)
    assert np.allclose(np.sort(sink["queued"]), expected)


def test_two_threads_on_one_core_run_at_half_speed() -> None:
    """Demands of 1 and 3 ms that begin together: the first is done after 2 ms, the other after 4."""
    physical = plan([("spout", "a"), ("spout", "b")])
    made = network(
        physical, 10, {"a": computing(constant(1.0)), "b": computing(constant(3.0))}, scv=0.0, cores=1.0
    )
    run = simulate(made, 5, 0, seed=1)
    assert np.allclose(run.latencies.ground_truth_ms[run.latencies.sink == 1], 2.0)
    assert np.allclose(run.latencies.ground_truth_ms[run.latencies.sink == 2], 4.0)


@pytest.mark.parametrize(("cores", "other"), [(1.0, 0.5), (2.0, 1.0), (2.0, 1.6)])
def test_other_work_on_a_host_stretches_what_a_thread_computes(cores: float, other: float) -> None:
    """Processor sharing: a demand x takes x / (1 - (a/c)^c) on the average, exact for one core and two, for
    a thread beside others with demand a; its waiting is not stretched. The bolt's own demand is small."""
    bolt = replace(computing(constant(1.0)), wait_ms=constant(5.0))
    made = network(plan([("spout", "bolt")]), 20, {"bolt": bolt}, background_cores=other, cores=cores)
    run = simulate(made, 400, 1, seed=1)
    bolts = at(run, "bolt")
    found = batch_means(bolts["served"] - bolts["received"])
    assert found.holds(5.0 + 1.0 / (1 - (other / cores) ** cores)), found
    assert found.precision < 0.03
    assert run.use.cpu_cores[1] == pytest.approx(0.02, rel=0.1)


def test_a_network_with_a_known_stretch_plays_no_cores() -> None:
    made = network(plan([("spout", "bolt")]), 20, {"bolt": computing(constant(1.0))}, scv=0.0, cores=1.0)
    stretched = replace(made, stretch=np.full(3, 1.7), background_cores=np.array([0.9]))
    run = simulate(stretched, 10, 1, seed=1)
    assert np.allclose(run.latencies.ground_truth_ms, 1.7)
    assert run.use.cpu_cores[1] == pytest.approx(0.02, rel=0.2)
    with pytest.raises(Saturated, match="more cores"):
        simulate(replace(made, stretch=np.full(3, np.inf)), 1, 0, seed=1)


def test_messages_in_turn_and_tuples_in_turn() -> None:
    """Equal gaps, one task after another; and from each executor to every task before any gets a second."""
    made = network(
        plan([("spout", "bolt")], {"spout": 1, "bolt": 2}, {"spout": 4, "bolt": 5}),
        100, scv=0.0, in_turn=True, round_robin=True,
    )  # fmt: skip
    run = simulate(made, 4, 0, seed=1, tail_s=0)
    roots = run.messages[np.argsort(run.messages["due"])]
    assert np.allclose(np.diff(roots["due"]), 10.0)
    assert ((np.diff(roots["task"]) == 1) | (np.diff(roots["task"]) == -3)).all()
    tasks = run.visits["task"][run.visits["input"] >= 0]
    assert all(np.unique(tasks[i : i + 5]).size == 5 for i in range(0, tasks.size - 5))


def test_a_spout_may_make_other_than_one_tuple() -> None:
    made = network(plan([("spout", "bolt")]), 100, scv=0.0, acks=True)
    two = {Output("spout", "default"): np.array([0.0, 0.0, 1.0])}
    run = simulate(replace(made, fanout={**made.fanout, Input("spout", "", ""): two}), 2, 0, seed=1)
    assert run.latencies.message.size == 2 * run.in_interval.sum()
    assert run.unfinished == 0


def test_what_comes_from_other_workers_waits_for_a_whole_batch() -> None:
    """``JCQueue`` of the receiver: filled by the network's thread, whose batch no flush reaches."""
    made = network(
        plan([("spout", "bolt")], {"spout": 2, "bolt": 1}, workers=2), 1000, scv=0.0, batch=4, flush_ms=2.0
    )
    run = simulate(made, 2, 0, seed=1, tail_s=0)
    worker = run.world.executors["worker"]
    bolts = at(run, "bolt")
    sender = run.world.tasks["executor"][run.visits["task"][bolts["parent"]]]
    far = worker[sender] != worker[run.network.layout.of["bolt"].start]
    assert 0 < far.sum() < far.size
    sent = np.sort(run.visits["emitted"][bolts["parent"][far]])
    ends = sent[4::4]
    whole = 4 * ends.size
    assert np.allclose(np.sort(bolts["queued"][far])[:whole], np.repeat(ends, 4))
    assert np.isinf(bolts["queued"][far]).sum() == sent.size - whole
    near = bolts[~far]
    assert (near["queued"] - run.visits["emitted"][near["parent"]] <= 2.0 + 1e-9).all()


def test_a_flush_waits_for_the_senders_look() -> None:
    """The bolt emits after 1 ms, then sleeps 7 ms at a time; flushes come each 2 ms."""
    made = network(
        plan(CHAIN), 10, {"bolt": waiting(constant(1.0))}, scv=0.0, batch=50, flush_ms=2.0, idle_ms=7.0
    )
    run = simulate(made, 20, 0, seed=1)
    bolt, sink = at(run, "bolt"), at(run, "sink")
    held = sink["queued"] - run.visits["emitted"][sink["parent"]]
    phase = float(run.world.executors["flush"][1])
    flush = phase + np.ceil((bolt["served"] - phase) / 2.0) * 2.0
    # a flush that came during the service is in the queue behind the tuple: it is taken at once
    during = phase + np.floor((bolt["served"] - phase) / 2.0) * 2.0 > bolt["queued"]
    expected = np.where(during, 0.0, np.ceil((flush - bolt["served"]) / 7.0) * 7.0)
    assert np.allclose(held, expected, atol=1e-6)


def test_a_join_gets_the_tuples_of_both_inputs() -> None:
    """Every message comes twice, by a quick and by a slow way; a sink's rows are one a way."""
    edges = [("spout", "quick"), ("spout", "slow"), ("quick", "join"), ("slow", "join")]
    made = network(plan(edges), 20, {"slow": waiting(constant(7.0))}, scv=0.0, acks=True)
    run = simulate(made, 10, 1, seed=1)
    assert run.latencies.ground_truth_ms.size == 2 * 200
    assert np.unique(run.latencies.ground_truth_ms.round(6)).tolist() == [0.0, 7.0]
    assert np.allclose(run.complete_latency_ms, 7.0)


def test_a_grouping_that_copies_sends_to_every_task() -> None:
    physical = plan([("spout", "bolt")], {"spout": 1, "bolt": 3})
    all_ = physical.query_plan.streams[0].model_copy(update={"grouping": "all"})
    query = physical.query_plan.model_copy(update={"streams": (all_,)})
    made = network(physical.model_copy(update={"query_plan": query}), 10, scv=0.0)
    run = simulate(made, 5, 0, seed=1, tail_s=0)
    assert at(run, "bolt").size == 3 * run.messages.size


def test_the_same_seed_gives_the_same_run_and_another_another() -> None:
    made = network(plan(CHAIN, 2), 200, {"bolt": waiting(constant(2.0))}, acks=True)
    one, same, other = (simulate(made, 2, 1, seed=s) for s in (1, 1, 2))
    for field in ("queued", "received", "served", "emitted", "cpu", "task", "parent", "root", "ordinal"):
        assert np.array_equal(one.visits[field], same.visits[field], equal_nan=True), field
    assert one.latencies.ground_truth_ms.mean() != other.latencies.ground_truth_ms.mean()


def test_a_plan_with_more_tuples_than_foreseen_is_played_again_in_larger_arrays() -> None:
    """Rates that the network names are too low for the messages given."""
    made = network(plan(CHAIN), 0.001, acks=True)
    due = np.arange(0.0, 1000.0, 0.2)
    run = simulate_messages(
        made, Messages(due, np.ones(due.size, dtype=np.int64)), (0.0, 1000.0), seed=1
    )  # fmt: skip
    assert run.latencies.ground_truth_ms.size == due.size
    assert run.unfinished == 0


def test_what_is_missing_is_named() -> None:
    made = network(plan(CHAIN), 10)
    with pytest.raises(ModelDeclined, match="no service of bolt"):
        simulate(replace(made, service={}), 1, 0, seed=1)
    with pytest.raises(ModelDeclined, match="what bolt makes of spout:default on default"):
        simulate(replace(made, fanout={}), 1, 0, seed=1)
    nothing = {s: np.full_like(r, np.nan) for s, r in made.routing.items()}
    with pytest.raises(ModelDeclined, match="no routing"):
        simulate(replace(made, routing=nothing), 1, 0, seed=1)
    service = {k: computing(constant(1.0)) for k in made.service}
    busy = replace(made, service=service, cores=np.array([0.5]), background_cores=np.array([0.5]))
    with pytest.raises(Saturated, match="no core left"):
        simulate(busy, 1, 0, seed=1)
