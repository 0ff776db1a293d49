"""End-to-end latency: propagation along edges against the enumeration of every path that it replaces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import all_in_one, component, deploy, fields_to_fields, join_split, stream

from harness.errors import ModelDeclined
from harness.models.contract.layout import lay_out
from harness.models.thesis import path_latency
from harness.models.thesis.path_latency import (
    Delays,
    ground_truth_ms,
    longest_complete_ms,
    percentile_complete_ms,
    same_node_ground_truth_ms,
)
from harness.plans import ACKER, QueryPlan

DIAMOND = QueryPlan(
    name="diamond",
    components=tuple(component(n, 3) for n in ("s1", "s2", "a", "b", "c", "d")),
    streams=(
        stream("s1", "a"),
        stream("s1", "b", name="other"),
        stream("s2", "b"),
        stream("a", "c"),
        stream("b", "c"),
        stream("b", "d"),
        stream("c", "d"),
    ),
)
QUERY_PLANS = [fields_to_fields(3), all_in_one(3), join_split(3), DIAMOND]


def random_delays(query_plan: QueryPlan, seed: int, executors: int = 3, nodes: int = 2) -> Delays:
    rng = np.random.default_rng(seed)
    layout = lay_out(
        deploy(query_plan, {c.name: rng.integers(1, executors + 1) for c in query_plan.components}, nodes)
    )
    n = len(layout)
    routing = np.zeros((n, n))
    for s in query_plan.streams:
        i, j = layout.of[s.source], layout.of[s.target]
        routing[i, j] = rng.uniform(size=routing[i, j].shape) * (rng.uniform(size=routing[i, j].shape) < 0.8)
    total = routing.sum(axis=1, keepdims=True)
    routing = np.divide(routing, total, out=np.zeros_like(routing), where=total > 0)
    emission = np.zeros(n)
    for name in query_plan.spouts:
        emission[layout.of[name]] = rng.uniform(0.1, 1, size=emission[layout.of[name]].shape)
    inside = np.where(emission > 0, 0.0, rng.exponential(3.0, n))
    hop = rng.exponential(1.0, (n, n)) * (layout.worker[:, None] != layout.worker[None, :])
    return Delays(layout, inside, rng.exponential(0.5, n), hop, routing, emission / emission.sum())


def paths(delays: Delays) -> Iterator[tuple[tuple[int, ...], float, float]]:
    """Every path from a spout executor to a sink executor, its weight and its ground-truth path_latency."""
    plan = delays.layout.plan.query_plan
    sinks = {i for name in plan.sinks for i in range(*delays.layout.of[name].indices(len(delays.layout)))}
    open_paths = [((int(i),), delays.emission[i], 0.0) for i in np.flatnonzero(delays.emission)]
    while open_paths:
        path, weight, ms = open_paths.pop()
        here = path[-1]
        if here in sinks:
            yield path, weight, ms
            continue
        for j in np.flatnonzero(delays.routing[here]):
            step = delays.send_ms[here] + delays.hop_ms[here, j] + delays.inside_ms[j]
            open_paths.append(((*path, int(j)), weight * delays.routing[here, j], ms + step))


def complete_ms(delays: Delays, path: tuple[int, ...], ground_truth: float, acker: int) -> float:
    """4.13.5: the path and the way to the acker, less the init delay to the same acker."""
    spout, sink = path[0], path[-1]
    whole = ground_truth + delays.send_ms[sink] + delays.hop_ms[sink, acker]
    return float(whole - delays.send_ms[spout] - delays.hop_ms[spout, acker])


@settings(max_examples=budget(60), deadline=None)
@given(st.sampled_from(QUERY_PLANS), st.integers(0, 10_000))
def test_propagation_equals_the_enumeration(query_plan, seed) -> None:
    delays = random_delays(query_plan, seed)
    layout = delays.layout
    every = list(paths(delays))
    if not every:
        with pytest.raises(ModelDeclined):
            ground_truth_ms(delays)
        return
    node = [e.worker.node for e in layout.executors]

    def mean(chosen) -> float:
        weight = sum(w for _, w, _ in chosen)
        return sum(w * ms for _, w, ms in chosen) / weight

    found = ground_truth_ms(delays)
    assert found.pop("") == pytest.approx(mean(every))
    for sink, value in found.items():
        ends = range(*layout.of[sink].indices(len(layout)))
        assert value == pytest.approx(mean([p for p in every if p[0][-1] in ends]))
    home = [p for p in every if node[p[0][0]] == node[p[0][-1]]]
    if home:
        assert same_node_ground_truth_ms(delays) == pytest.approx(mean(home))
    else:
        with pytest.raises(ModelDeclined, match="begins and ends"):
            same_node_ground_truth_ms(delays)

    by_spout: dict[str, dict[str, list[float]]] = {}
    for path, _, ms in every:
        outputs = layout.plan.query_plan.outputs(layout.executors[path[0]].component)
        on = next(s.stream for s in outputs if s.target == layout.executors[path[1]].component)
        values = by_spout.setdefault(layout.executors[path[0]].label, {}).setdefault(on, [])
        values += [complete_ms(delays, path, ms, a) for a in range(len(layout))[layout.ackers]]
    longest = longest_complete_ms(delays)
    p90 = percentile_complete_ms(delays, 0.9)
    assert set(by_spout) == set(longest) - {""} == set(p90) - {""}
    for label, streams in by_spout.items():
        assert longest[label] == pytest.approx(np.mean([max(v) for v in streams.values()]))
        values = [x for v in streams.values() for x in v]
        assert p90[label] == pytest.approx(np.quantile(values, 0.9, method="inverted_cdf"))
    assert longest[""] == pytest.approx(np.mean([max(v) for s in by_spout.values() for v in s.values()]))
    assert p90[""] == pytest.approx(np.mean([v for k, v in p90.items() if k]))


def test_thinned_percentiles_stay_with_the_exact_ones(monkeypatch) -> None:
    delays = random_delays(all_in_one(8), 4, executors=8)
    thinned = percentile_complete_ms(delays, 0.9)
    monkeypatch.setattr(path_latency, "POINTS", 10**9)
    exact = percentile_complete_ms(delays, 0.9)
    assert thinned == pytest.approx(exact, rel=2e-3)


def test_a_plan_without_ackers_has_no_complete_latency() -> None:
    delays = random_delays(fields_to_fields(3), 1)
    plan = delays.layout.plan.model_copy(
        update={"executors": tuple(e for e in delays.layout.plan.executors if e.component != ACKER)}
    )
    n = len(lay_out(plan))
    bare = Delays(
        lay_out(plan),
        delays.inside_ms[:n],
        delays.send_ms[:n],
        delays.hop_ms[:n, :n],
        delays.routing[:n, :n],
        delays.emission[:n],
    )
    assert ground_truth_ms(bare)[""] == pytest.approx(ground_truth_ms(delays)[""])
    with pytest.raises(ModelDeclined, match="no acker"):
        longest_complete_ms(bare)
    with pytest.raises(ModelDeclined, match="no acker"):
        percentile_complete_ms(bare, 0.9)
