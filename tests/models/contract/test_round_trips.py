"""Round trips between worker nodes in the model: neither counted twice nor lost, for every pair of nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from analytic_networks import exponential, network, query_plan
from hop_synthetic import Leg, hop_rows, line_times
from synthetic import SETTINGS, Truth, component, deploy, observation, stream

from harness.errors import ModelDeclined
from harness.models.composite.idling import TRANSFER_SLEEP_MS
from harness.models.composite.proposal import network_of
from harness.models.composite.source.evidence import read
from harness.models.composite.source.hop_times import BETWEEN_WORKERS, HopTimes, hop_sums, hop_times, one_way
from harness.models.contract.layout import lay_out
from harness.models.contract.observe import observe, round_trips
from harness.models.network import Atoms, Hops, Network, constant, hop_kinds
from harness.models.simulator import simulate
from harness.models.solver.solve import solve
from harness.plans import PhysicalPlan, QueryPlan, Window

PAIR = ("node-1", "node-2")
DELAY_MS = 5.0
SLEEP_MS = 2.06
TREE = {("spout", "a"): "shuffle", ("spout", "b"): "shuffle", ("a", "c"): "fields", ("b", "c"): "fields"}
WINDOW = Window(kind="count", length=4, slide=4)


def placed(nodes: int = 3, ackers: int = 2, window: bool = False) -> PhysicalPlan:
    """Four components, 2 or 3 executors each, round-robin on the workers of some nodes."""
    query = query_plan(TREE, 6, {"b": WINDOW} if window else None)
    plan = deploy(query, {"spout": 2, "a": 3, "b": 2, "c": 3}, nodes=nodes, ackers=ackers)
    assert {w.node for w in plan.workers} == {f"node-{i + 1}" for i in range(nodes)}
    return plan


def slowed(net: Network, delay_ms: float = DELAY_MS) -> Network:
    """The same where any hop between two nodes takes so much longer."""
    ordinary = net.hops.between_nodes_ms
    longer = Atoms(ordinary.values_ms + delay_ms, ordinary.probabilities)
    return replace(net, hops=replace(net.hops, between_pairs_ms={PAIR: longer}))


def crossings(net: Network) -> float:
    """Mean number of times that a row of the sink went between the two nodes, followed along the plan."""
    layout = net.layout
    node = np.array([e.worker.node for e in layout.executors])
    apart = np.isin(node[:, None], PAIR) & np.isin(node[None, :], PAIR) & (node[:, None] != node[None, :])
    rows, times = np.zeros(len(layout)), np.zeros(len(layout))
    for name in layout.order:
        at, inputs = layout.of[name], layout.plan.query_plan.inputs(name)
        if not inputs:
            rows[at] = layout.membership[name] @ net.input_tps[name]
        for s in inputs:
            share = net.routing[s] @ layout.membership[name].T
            source = layout.of[s.source]
            rows[at] += rows[source] @ share
            times[at] += times[source] @ share + rows[source] @ (share * apart[source, at])
        fans = [fan for key, fan in net.fanout.items() if key.component == name and fan and inputs]
        made = {float(pmf @ np.arange(pmf.size)) for fan in fans for pmf in fan.values()} or {1.0}
        assert len(made) == 1  # whatever it came from
        rows[at] *= next(iter(made))
        times[at] *= next(iter(made))
    return float(times[at].sum() / rows[at].sum())


def example(window: bool = False, **more: object) -> Network:
    fanout = {"a": [0.0, 0.5, 0.5], "b": [0.2, 0.8]}
    if window:
        fanout["b"] = [0.0, 1.0]
    return network(
        placed(window=window),
        40.0,
        wait={n: exponential(0.5) for n in "abc"},
        fanout=fanout,
        idle_ms=1.0,
        hops_ms=(0.05, 0.8, 1.1),
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("window", [False, True])
def test_a_delay_moves_the_mean_by_the_share_of_rows_that_cross_it(window: bool) -> None:
    fast, slow = solve(example(window)), solve(slowed(example(window)))
    expected = crossings(slow.network) * DELAY_MS
    assert expected > 0.5
    moved = slow.ground_truth()[""].mean_ms - fast.ground_truth()[""].mean_ms
    assert moved == pytest.approx(expected, rel=1e-9)  # a blur of the flows aside, which constants have not


def test_a_pair_that_is_as_the_others_changes_nothing() -> None:
    net = example()
    plain, named = solve(net), solve(slowed(net, 0.0))
    assert named.flat.first_hop.size == plain.flat.first_hop.size + 1
    for one, other in ((plain.ground_truth(), named.ground_truth()), (plain.ack(), named.ack())):
        for key, latency in one.items():
            assert other[key].mean_ms == pytest.approx(latency.mean_ms, rel=1e-9)
            assert other[key].percentiles_ms == pytest.approx(latency.percentiles_ms, rel=1e-9)
    assert named.complete_mean_ms()[""] == pytest.approx(plain.complete_mean_ms()[""], rel=1e-9)


def line_on(nodes: tuple[str, str, str]) -> Network:
    """Spout, bolt and acker, one executor each, on a node each; all that takes time is hops."""
    query = query_plan([("spout", "bolt")], 1)
    plan = deploy(query, 1, nodes=3, workers_per_node=1, ackers=1)
    worker = {e.worker.node: e.worker for e in plan.executors}
    where = dict(zip(("spout", "bolt", "__acker"), nodes, strict=True))
    executors = tuple(e.model_copy(update={"worker": worker[where[e.component]]}) for e in plan.executors)
    return network(plan.model_copy(update={"executors": executors}), 10.0, hops_ms=(0.2, 0.2, 0.2))


@pytest.mark.parametrize(
    ("nodes", "truth", "complete", "ack"),
    [
        # complete: from the acker's first word of a message to its last, so the spout's way to it comes off
        (("node-1", "node-2", "node-3"), 1, 1, 1),  # only spout to bolt
        (("node-1", "node-3", "node-2"), 0, -1, 1),  # spout to acker, and the acker's way back
        (("node-3", "node-1", "node-2"), 0, 1, 1),  # only bolt to acker
        (("node-1", "node-2", "node-2"), 1, 0, 2),  # there and back
        (("node-3", "node-3", "node-3"), 0, 0, 0),
    ],
)
def test_acks_take_the_slow_way_too(nodes: tuple[str, str, str], truth: int, complete: int, ack: int) -> None:
    fast, slow = (solve(n) for n in (line_on(nodes), slowed(line_on(nodes))))
    assert slow.ground_truth()[""].mean_ms - fast.ground_truth()[""].mean_ms == pytest.approx(
        truth * DELAY_MS
    )
    moved = slow.complete_mean_ms()[""] - fast.complete_mean_ms()[""]
    assert moved == pytest.approx(complete * DELAY_MS)
    assert slow.ack()[""].mean_ms - fast.ack()[""].mean_ms == pytest.approx(ack * DELAY_MS)


@pytest.mark.parametrize("window", [False, True])
def test_the_simulator_plays_the_same_kinds(window: bool) -> None:
    """Both plays draw the same numbers at executors that no delay reorders; the rest is chance.

    A row's crossings of the slow link are at most two, so the mean of their number over 8,000 rows is known
    to about 0.01; three times that, and the difference that the queues make.
    """
    net = example(window)
    runs = [simulate(n, duration_s=200, warm_up_s=5, seed=3) for n in (net, slowed(net))]
    moved = float(np.diff([run.latencies.ground_truth_ms.mean() for run in runs])[0])
    assert moved == pytest.approx(crossings(net) * DELAY_MS, rel=0.06)


def test_kinds_are_those_of_the_plans_own_nodes() -> None:
    layout = lay_out(placed(nodes=2))
    pairs = {("node-1", "node-2"): constant(3.0), ("node-1", "node-3"): constant(4.0)}
    kinds, between = hop_kinds(layout, Hops(constant(0.0), constant(1.0), constant(2.0), pairs))
    assert [k.mean_ms for k in kinds] == [0.0, 1.0, 2.0, 3.0]
    assert [node for node, _ in layout.workers] == ["node-1", "node-1", "node-2", "node-2"]
    assert between.tolist() == [[0, 1, 3, 3], [1, 0, 3, 3], [3, 3, 0, 1], [3, 3, 1, 0]]


# --- from what was measured --------------------------------------------------------------------------

LINE = QueryPlan(
    name="line",
    components=tuple(component(n, 1) for n in ("spout", "a", "b")),
    streams=(stream("spout", "a"), stream("a", "b")),
)


def probes(*seen: tuple[str, str, list[float]]) -> pd.DataFrame:
    """Rows of metrics.parquet of so many packets."""
    return pd.DataFrame(
        [
            {
                "bucket_end_ms": 1_700_000_000_000 + 20 * i,
                "measurement": "round_trip",
                "component": "",
                "task": -1,
                "worker": "",
                "stream": source,
                "peer": target,
                "field": "rtt_ms",
                "value": value,
            }
            for source, target, values in seen
            for i, value in enumerate(values)
        ]
    )


def test_both_ends_tell_of_a_pair() -> None:
    lost = probes(("node-1", "node-2", [1.0])).assign(field="lost")
    rows = pd.concat([probes(("node-2", "node-1", [0.4, 0.2]), ("node-1", "node-2", [0.3])), lost])
    found = round_trips(rows)
    assert {pair: ms.tolist() for pair, ms in found.items()} == {PAIR: [0.2, 0.3, 0.4]}
    assert one_way(found)[PAIR].mean_ms == pytest.approx(0.15)
    assert round_trips(rows.iloc[:0]) == {}
    with pytest.raises(ModelDeclined, match=r"round_trip.rtt_ms has the value -0.3"):
        round_trips(probes(("node-2", "node-1", [-0.3])))


def observed(delay_ms: float):
    """A line whose first leg goes between nodes 1 and 2, and its second between workers of node 2.

    Beyond the sleeps a leg takes 0.3 ms plus an exponential 0.2 ms, and between the nodes the delay.
    """
    plan = deploy(LINE, 1, nodes=2, workers_per_node=2, ackers=0)
    slots = dict(zip(("spout", "a", "b"), (("node-1", 0), ("node-2", 0), ("node-2", 1)), strict=True))
    executors = tuple(
        e.model_copy(update={"worker": e.worker.model_copy(update={"node": node, "port": port})})
        for e in plan.executors
        for node, i in (slots[e.component],)
        for port in (plan.node_names[node].slots[i],)
    )
    plan = plan.model_copy(update={"executors": executors})
    rng = np.random.default_rng(4)
    n = 6000
    ways = [
        rng.uniform(0, SLEEP_MS, n) + rng.uniform(0, TRANSFER_SLEEP_MS, n) + 0.3 + rng.exponential(0.2, n)
        for _ in range(2)
    ]
    ways[0] += delay_ms
    times = line_times(rng, n, 40.0, ways, 0.5)
    rows = [
        (i, 0, [Leg(name, 0, *at) for name, at in zip(("spout", "a", "b"), mine, strict=True)])
        for i, mine in enumerate(times)
    ]
    return observation(plan, Truth.random(LINE, 25.0, 1), latency=hop_rows(plan, rows))


def estimated(delay_ms: float, probed: pd.DataFrame | None) -> HopTimes:
    source = observed(delay_ms)
    if probed is not None:
        source = replace(source, metrics=pd.concat([source.metrics, probed], ignore_index=True))
    evidence = read(source)
    sums = hop_sums(evidence, np.full(3, SLEEP_MS))
    weights, executes = np.ones(evidence.blocks), np.full(3, np.nan)
    return hop_times(sums, weights, SLEEP_MS, 0.0, executes, one_way(evidence.round_trips))[0]


def test_what_the_network_takes_is_taken_off_what_was_observed_and_put_on_every_pair() -> None:
    slow = probes(
        ("node-1", "node-2", [2 * DELAY_MS] * 20),
        ("node-1", "node-3", [2.0] * 10),
        ("node-3", "node-1", [4.0] * 10),
    )
    plain, found = estimated(0.0, None), estimated(DELAY_MS, slow)
    # the same random numbers, so a delay that is known leaves the same hops behind
    assert found.mean_ms == pytest.approx(plain.mean_ms, abs=1e-9)
    assert found.scv == pytest.approx(plain.scv, rel=1e-6)
    ordinary = plain.hops(0.0).between_workers_ms.mean_ms
    hops = found.hops(0.0)
    assert hops.between_workers_ms.mean_ms == pytest.approx(ordinary)
    assert {pair: ms.mean_ms for pair, ms in hops.between_pairs_ms.items()} == pytest.approx(
        {("node-1", "node-2"): ordinary + DELAY_MS, ("node-1", "node-3"): ordinary + 1.5}
    )


def test_what_round_trips_vary_is_not_the_hops_own() -> None:
    """Round trips of 8 and 12 ms have a variance of 1 ms2 one way: hops that vary by as much more."""
    source = observed(DELAY_MS)
    seen = probes(("node-1", "node-2", [8.0, 12.0]))
    evidence = read(replace(source, metrics=pd.concat([source.metrics, seen], ignore_index=True)))
    constant_way = {PAIR: np.array([10.0])}
    idle_ms = np.full(3, SLEEP_MS)
    steady = hop_sums(replace(evidence, round_trips=constant_way), idle_ms)
    varying = hop_sums(evidence, idle_ms)
    assert steady is not None
    assert varying is not None
    assert varying.total_ms == pytest.approx(steady.total_ms)
    between_nodes = float(varying.number.sum()) / 2  # every second leg
    less = steady.total_ms2[BETWEEN_WORKERS].sum() - varying.total_ms2[BETWEEN_WORKERS].sum()
    assert less == pytest.approx(between_nodes, rel=1e-3)


def test_a_proposed_plans_network_has_the_pairs_that_were_probed_and_names_those_that_were_not() -> None:
    source = observed(DELAY_MS)
    seen = probes(("node-1", "node-2", [10.0] * 3), ("node-1", "node-3", [2.0] * 3))
    probed = replace(source, metrics=pd.concat([source.metrics, seen], ignore_index=True))
    proposed = deploy(LINE, 1, nodes=3, workers_per_node=1, ackers=0)
    plain, known = (network_of(s, proposed, SETTINGS, 25.0) for s in (observed(0.0), probed))
    ordinary = plain.hops.between_workers_ms.mean_ms
    hops = known.hops
    assert hops.between_workers_ms.mean_ms == pytest.approx(ordinary)
    assert hops.between_nodes_ms.mean_ms == pytest.approx(ordinary + 3.0)  # the median of 5 and 1
    assert {pair: ms.mean_ms for pair, ms in hops.between_pairs_ms.items()} == pytest.approx(
        {("node-1", "node-2"): ordinary + 5.0, ("node-1", "node-3"): ordinary + 1.0}
    )
    unknown = (
        "no round trip between node-2 and node-3 was measured: 3 ms one way are assumed, the median of the"
        " known ones"
    )
    assert [note for note in known.notes if "round trip" in note] == [unknown]
    assert dict(plain.hops.between_pairs_ms) == {}
    assert not any("round trip" in note for note in plain.notes)
    assert dict(observe(observed(0.0)).round_trips) == {}
