"""Helping and back-pressure in an experiment's file: what a step has of them, and the line each mistake gets.

The topology is that of Leron, section 6.2 (``configs/experiments/helping.yaml``).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from changed_files import line_of_mistake, read_changed

from harness.experiments.loading import dump, expand_steps, find, load
from harness.plans import Component, Help, QueryPlan, Relief, Stream, Window
from harness.topologies.helping import require_helped

TEXT = find("helping").read_text()
HELP = Help(delta=0.1, high_pct=50, low_pct=10)
HELPED = "    exclam1: {delta: 0.1, high_pct: 50, low_pct: 10}\n"
EXCLAM = (
    "    exclam1: {role: json, tasks: 1, service: {kind: wait, distribution: constant, mean_ms: 6.822}}\n"
)
WAY = "    - {from: compute, to: exclam1, grouping: shuffle}\n"
TICKING = ("buffer.size: 1024}", "buffer.size: 1024, topology.tick.tuple.freq.secs: 1}")


def test_a_step_has_what_it_asks_for_and_else_all_of_the_topology(tmp_path: Path) -> None:
    steps = expand_steps(read_changed(tmp_path / "helping.yaml", TEXT))
    whole = ("helping", "backpressure")
    assert [s.relief.parts for s in steps] == [(), ("backpressure",), whole, whole, (), whole]
    assert steps[2].relief.helping == {"exclam1": HELP}
    assert steps[0].label == "spec-0/1+2x1@250"
    assert steps[2].label == "spec-2/1+2x1@250/helping+backpressure"


def test_what_a_run_keeps_of_it_is_read_again(tmp_path: Path) -> None:
    experiment = read_changed(tmp_path / "helping.yaml", TEXT)
    kept = tmp_path / "experiment.yaml"
    kept.write_text(dump(experiment))
    assert load(kept) == experiment


MISTAKES = {
    "unknown": ((HELPED, HELPED.replace("exclam1", "sauce")), "helping: there is no component 'sauce'"),
    "a spout": ((HELPED, HELPED.replace("exclam1", "word")), "word cannot be helped: it is a spout"),
    "behind a spout": (
        (HELPED, HELPED.replace("exclam1", "compute")),
        "compute cannot be helped: it comes after a spout, word, which cannot help",
    ),
    "a chain": (
        (HELPED, HELPED + HELPED.replace("exclam1", "compute")),
        "exclam1 cannot be helped: it has a helper that is helped itself, compute",
    ),
    "a sink": ((HELPED, HELPED.replace("exclam1", "exclam2")), "writes to the output topic in its own name"),
    "a filter": (
        (EXCLAM, "    exclam1: {role: filter, keep: 0.5, tasks: 1}\n"),
        "exclam1 cannot be helped: it is a filter, which draws by its own name",
    ),
    "windows": (
        (EXCLAM, "    exclam1: {role: window, window: {kind: count, length: 2, slide: 2}, tasks: 1}\n"),
        "exclam1 cannot be helped: it has windows",
    ),
    "ticks": (TICKING, "exclam1 cannot be helped: it gets ticks (topology.tick.tuple.freq.secs)"),
    "fields grouping": (
        (WAY, WAY.replace("shuffle", "fields")),
        "exclam1 cannot be helped: it is grouped by fields, so it matters which task gets a tuple",
    ),
    "several inputs": (
        (WAY, WAY + "    - {from: word, to: exclam1, grouping: shuffle}\n"),
        "exclam1 cannot be helped: it has 2 inputs",
    ),
    "a stream for several": (
        (WAY, WAY + "    - {from: compute, to: exclam2, grouping: shuffle}\n"),
        "exclam1 cannot be helped: it shares the stream compute:default with other subscribers",
    ),
    "marks of help": (
        (HELPED, HELPED.replace("low_pct: 10", "low_pct: 50")),
        "topology.helping.exclam1: low_pct 50 must be below high_pct 50",
    ),
    "marks of back-pressure": (
        ("{kind: heron, high_pct: 50,", "{kind: heron, high_pct: 5,"),
        "topology.backpressure: low_pct 10 must be below high_pct 5",
    ),
    "a mark beyond the queue": ((HELPED, HELPED.replace("50", "101")), "exclam1.high_pct"),
    "delta": ((HELPED, HELPED.replace("0.1", "1")), "topology.helping.exclam1.delta"),
    "another kind": (("kind: heron", "kind: storm"), "topology.backpressure.kind"),
    "a step's part that is not there": (
        ("  backpressure: {kind: heron, high_pct: 50, low_pct: 10}\n", ""),
        "steps.plan.1: relief: there is no topology.backpressure",
    ),
    "a step's part of another name": (("relief: [backpressure]", "relief: [sleep]"), "steps.plan.1.relief"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_line_that_names_it(mistake: str, tmp_path: Path) -> None:
    change, message = MISTAKES[mistake]
    assert message in line_of_mistake(tmp_path / "helping.yaml", TEXT, change)


def of_a_jar(*streams: Stream, window: Window | None = None) -> QueryPlan:
    """Return a plan whose components have no roles that are known here."""
    names = ("spout", "one", "two", "three")
    parts = tuple(
        Component(name=n, role="other", tasks=1, window=window if n == "two" else None) for n in names
    )
    return QueryPlan(name="jar", components=parts, streams=streams)


def way(source: str, target: str, grouping: str = "shuffle") -> Stream:
    return Stream.model_validate(
        {"source": source, "stream": "default", "target": target, "grouping": grouping}
    )


@pytest.mark.parametrize("grouping", ["shuffle", "local-or-shuffle", "none"])
def test_a_jars_bolt_can_be_helped_where_any_task_will_do(grouping: str) -> None:
    plan = of_a_jar(way("spout", "one"), way("one", "two", grouping), way("two", "three"))
    require_helped({"two": HELP}, plan, {}, own_roles=False)
    require_helped({"three": HELP}, plan, {"topology.tick.tuple.freq.secs": None}, own_roles=False)


@pytest.mark.parametrize("grouping", ["fields", "all", "global", "partial-key", "direct", "custom"])
def test_and_not_where_it_matters_which(grouping: str) -> None:
    plan = of_a_jar(way("spout", "one"), way("one", "two", grouping), way("two", "three"))
    with pytest.raises(ValueError, match=f"two cannot be helped: it is grouped by {grouping}"):
        require_helped({"two": HELP}, plan, {}, own_roles=False)


def test_parts_that_are_not_there_are_not_kept() -> None:
    helped = Relief(helping={"two": HELP})
    assert helped.only(["helping", "backpressure"]) == helped
    assert helped.only([]) == helped.only(["backpressure"]) == Relief()
