"""Random graphs of a topology, and small experiments on them, for tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from harness.experiments.config import Experiment

EACH = {"kind": "count", "length": 1, "slide": 1}
"""A window that holds nothing back: every tuple is one."""
GROUPINGS = ("shuffle", "fields", "local-or-shuffle", "all", "global", "none", "partial-key")
ROLES = ("json", "json", "multiplier", "window", "join")
STREAMS = ("stream-5", "stream-6", "fish")
CHILDREN = {"min": 1, "max": 3, "mean": 2, "sd": 0}
"""Two of each tuple, by names that leave room for a third."""


@st.composite
def graphs(
    draw_: st.DrawFn, roles: tuple[str, ...] = ROLES, children: dict[str, float] = CHILDREN
) -> dict[str, Any]:
    """Return components and streams: what a bolt hears is anything before it that it may follow.

    Joins send a window on all of their streams. Where ``parity`` sends it depends on what is in it, so how
    often something comes out has bounds only (``tests/experiments/test_expected_members.py``).
    """
    spouts = [f"in-{i}" for i in range(draw_(st.integers(1, 2)))]
    components: dict[str, dict[str, Any]] = {
        name: {"role": "spout", "tasks": draw_(st.integers(1, 2))} for name in spouts
    }
    streams: list[dict[str, str]] = []
    behind: dict[str, set[str]] = {name: set() for name in spouts}

    def hear(target: str, sources: list[str]) -> None:
        for source in sources:
            emits = STREAMS if components[source]["role"] == "join" else ("default",)
            way = {"from": source, "to": target, "grouping": draw_(st.sampled_from(GROUPINGS))}
            streams.append({**way, "stream": draw_(st.sampled_from(emits))})
        behind[target] = set().union(*(behind[s] | {components[s]["role"]} for s in sources))

    for i in range(draw_(st.integers(1, 5))):
        role = draw_(st.sampled_from(roles))
        # names of children grow with each multiplier, and filters are not behind windows
        refused = {"filter": {"window", "join"}}.get(role, set())
        fit = [n for n in behind if not refused & (behind[n] | {components[n]["role"]})]
        least = 2 if role == "join" else 1
        if len(fit) < least:
            continue
        sources = draw_(st.lists(st.sampled_from(fit), min_size=least, max_size=3, unique=True))
        name = f"bolt-{i}"
        components[name] = {"role": role, "tasks": draw_(st.integers(1, 2))}
        hear(name, sources)
    for name in list(behind):
        if name not in {s["from"] for s in streams}:
            components[f"out-{name}"] = {"role": "sender", "tasks": draw_(st.integers(1, 2))}
            hear(f"out-{name}", [name])
    several = draw_(st.lists(st.sampled_from(list(behind)), unique=True, max_size=3))
    if emitting := [name for name in several if components[name]["role"] != "sender"]:
        components["also"] = {"role": "sender", "tasks": 1}
        hear("also", emitting)
    keys = {
        "multiplier": ("multiplier", children),
        "join": ("routing", "one-per-window"),
        "filter": ("keep", 0.5),
    }
    for component in components.values():
        if component["role"] in keys:
            key, value = keys[component["role"]]
            component[key] = value
    window = {"window": EACH} if {"window", "join"} & {c["role"] for c in components.values()} else {}
    return {"load_aware": False, "ackers": 1, **window, "components": components, "streams": streams}


def experiment(topology: dict[str, Any]) -> Experiment:
    """Return an experiment on a graph whose first spout gets two messages of three where there are two."""
    spouts = [name for name, c in topology["components"].items() if c["role"] == "spout"]
    return Experiment.model_validate(
        {
            "name": "random",
            "topology": topology,
            "workload": {"rate_tps": 5, "shares": dict(zip(spouts, (2, 1), strict=False))},
            "cluster": {"kind": "simulator", "nodes": 2, "slots_per_node": 1},
            "measure": {
                "bucket_s": 1,
                "burn_in": {"least_s": 1, "most_s": 1},
                "interval": {"least_s": 5, "most_s": 5},
            },
            "steps": {"plan": [{"executors": 1}]},
        }
    )
