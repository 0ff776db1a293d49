"""Dataflows drawn at random, for what holds of every one of them."""

from __future__ import annotations

from fractions import Fraction as F

from hypothesis import strategies as st

from harness.tuning.dataflow import DataflowLink, DataflowNode, MessageCost

micros = st.integers(1, 2000).map(lambda n: F(n, 1_000_000))
rates = st.integers(1, 50_000).map(F)
messages = st.builds(MessageCost, micros, st.integers(0, 1000).map(lambda n: F(n, 10**9)))
sizes = st.integers(1, 4000).map(F)


@st.composite
def dataflows(draw: st.DrawFn, keyed: bool = False) -> list[DataflowNode]:
    """Nodes 0..n-1 with links to later ones, in any order; those that nothing is sent to are sources."""
    number = draw(st.integers(1, 7))
    pairs = [(i, j) for i in range(number) for j in range(i + 1, number)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    nodes = []
    for i in range(number):
        links = []
        for a, b in chosen:
            if a == i:
                weights = draw(st.lists(st.integers(0, 9), min_size=1, max_size=5)) if keyed else [1]
                weights = weights if sum(weights) else [1]
                links.append(
                    DataflowLink(
                        f"n{b}",
                        draw(st.integers(0, 30)) * F(1, 10),
                        draw(sizes),
                        tuple(F(w, sum(weights)) for w in weights),
                    )
                )
        is_source = i not in {b for _, b in chosen}
        nodes.append(
            DataflowNode(
                f"n{i}",
                draw(micros),
                tuple(links),
                executors=draw(st.integers(1, 4)),
                tasks=draw(st.integers(4, 60)) if keyed else None,
                rate_tps=draw(rates) if is_source else F(0),
            )
        )
    return draw(st.permutations(nodes))
