"""A graph in an experiment's file: what is built of it, and the one line that each mistake gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from changed_files import Change, line_of_mistake, read_changed

from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import dump, load
from harness.experiments.preflight import findings

GOOD = """\
name: own
topology:
  load_aware: false
  tasks: 4
  window: {kind: count, length: 5, slide: 5}
  multiplier: {min: 1, max: 3, mean: 2, sd: 1}
  components:
    in: {role: spout, tasks: 2}
    parse: {role: json, service: {kind: cpu, distribution: constant, mean_ms: 1}}
    spread: {role: multiplier}
    meet: {role: join, routing: parity, window: {kind: count, length: 7, slide: 7}}
    few: {role: window}
    out: {role: sender, tasks: 1}
    last: {role: sender}
  streams:
    - {from: in, to: parse, grouping: shuffle}
    - {from: in, to: spread, grouping: shuffle}
    - {from: parse, to: meet, grouping: fields}
    - {from: parse, to: few, grouping: fields}
    - {from: spread, to: meet, grouping: fields}
    - {from: meet, to: out, grouping: local-or-shuffle, stream: stream-5}
    - {from: meet, to: last, grouping: all, stream: stream-6}
    - {from: few, to: last, grouping: fields}
workload: {rate_tps: 100}
steps: {plan: [{executors: 1}]}
"""
PARSE = "    parse: {role: json, service: {kind: cpu, distribution: constant, mean_ms: 1}}\n"


def read(folder: Path, *changes: Change) -> Experiment:
    return read_changed(folder / "own.yaml", GOOD, *changes)


def test_a_component_is_as_it_says_and_else_as_the_topology_does(tmp_path: Path) -> None:
    topology = read(tmp_path).topology.own()
    plan = topology.query_plan()
    assert {c.name: c.tasks for c in plan.components} == {
        **{"in": 2, "parse": 4, "spread": 4, "meet": 4},
        **{"few": 4, "out": 1, "last": 4},
    }
    lengths = {c.name: c.window.length for c in plan.components if c.window}
    assert lengths == {"meet": 7, "few": 5}
    assert {name: m.mean for name, m in topology.multipliers.items()} == {"spread": 2}
    assert topology.routings == {"meet": "parity"}
    assert list(topology.services) == ["parse"]
    assert [s.label for s in plan.streams][5] == "meet->out:stream-5"
    assert plan.name == "graph"


def test_what_a_run_keeps_of_it_is_the_same_graph(tmp_path: Path) -> None:
    experiment = read(tmp_path)
    again = tmp_path / "again.yaml"
    again.write_text(dump(experiment))
    assert load(again) == experiment
    assert load(again).topology.query_plan() == experiment.topology.query_plan()


def test_a_window_that_storm_refuses_is_named_by_its_component(tmp_path: Path) -> None:
    """Max spout pending is 5000 tuples unless the file says otherwise."""
    experiment = read(tmp_path, ("length: 7, slide: 7", "length: 4000, slide: 4000"))
    first = findings(experiment)[0]
    assert (first.severity, first.key) == ("error", "topology.components.meet")


MISTAKES = {
    "a role that is not there": (
        ("parse: {role: json,", "parse: {role: sieve,"),
        "components.parse: there is no role 'sieve':"
        " spout, json, filter, multiplier, keyed, window, join, sender",
    ),
    "a key of the future": (
        ("few: {role: window}", "few: {role: window, colour: red}"),
        "unknown key 'topology.components.few.colour'",
    ),
    "a grouping that is not there": (("grouping: local-or-shuffle", "grouping: near"), "streams.5.grouping"),
    "a grouping of jars": (("grouping: local-or-shuffle", "grouping: direct"), "streams.5.grouping"),
    "a component that is not there": (
        ("from: few, to: last", "from: few, to: lost"),
        "streams.7: there is no component 'lost'; there are in, parse",
    ),
    "a source that is not there": (
        ("from: in, to: spread", "from: inn, to: spread"),
        "streams.1: there is no component 'inn'",
    ),
    "a stream that nobody emits": (
        ("{from: few, to: last, grouping: fields", "{from: few, to: last, grouping: fields, stream: fish"),
        "streams.7: few does not emit on 'fish'; it emits on default",
    ),
    "a stream of a sender": (
        ("from: few, to: last", "from: out, to: last"),
        "streams.7: out does not emit on 'default'; it emits on no stream",
    ),
    "a loop": (
        ("from: few, to: last", "from: few, to: parse"),
        "few -> parse -> few is a loop",
    ),
    "its own output": (("from: in, to: parse", "from: parse, to: parse"), "parse -> parse is a loop"),
    "a name used twice": (("    few: {role: window}", "    in: {role: window}"), "duplicate key"),
    "a stream used twice": (
        ("from: parse, to: few", "from: parse, to: meet"),
        "streams.3: meet subscribes to parse already",
    ),
    "a name with a slash": (("    few: {role: window}", "    f/w: {role: window}"), "f/w"),
    "a name that no record holds": (
        ("    few: {role: window}", f"    {65 * 'f'}: {{role: window}}"),
        65 * "f",
    ),
    "a join of one input": (
        ("from: spread, to: meet", "from: spread, to: out"),
        "streams: meet joins 2 components or more and subscribes to 1",
    ),
    "a sink that no one feeds": (
        ("    last: {role: sender}", "    last: {role: sender}\n    idle: {role: sender}"),
        "streams: idle has no input",
    ),
    "a bolt without output": (
        ("    - {from: few, to: last, grouping: fields}\n", ""),
        "streams: nobody subscribes to few",
    ),
    "a part that no spout reaches": (
        ("    few: {role: window}", "    few: {role: window}\n    a: {role: json}\n    b: {role: json}"),
        "streams: a has no input",
    ),
    "a stream into a spout": (("from: few, to: last", "from: few, to: in"), "streams.7: in is a spout"),
    "no spout": (("in: {role: spout, tasks: 2}", "in: {role: json, tasks: 2}"), "must have the role spout"),
    "a spout that nobody hears": (
        ("    few: {role: window}", "    few: {role: window}\n    more: {role: spout}"),
        "streams: nobody subscribes to more",
    ),
    "a filter without its key": (
        ("few: {role: window}", "few: {role: filter}"),
        "components.few needs the key 'keep'",
    ),
    "a filter that keeps more than there is": (
        ("few: {role: window}", "few: {role: filter, keep: 1.5}"),
        "topology.components.few.keep",
    ),
    "keys that a window forwards": (
        ("few: {role: window}", "few: {role: window, forwarded_share: 0.5}"),
        "components.few: a window has no forwarded_share, only json and keyed have",
    ),
    "a payload of a sender": (
        ("out: {role: sender, tasks: 1}", "out: {role: sender, output_bytes: 5}"),
        "components.out: a sender emits nothing that has output_bytes",
    ),
    "a stream of Storm's": (
        ("stream: stream-5", "stream: __ack"),
        "streams.5: __ack is a name of Storm's own",
    ),
    "shares of a bolt": (
        ("workload: {rate_tps: 100}", "workload: {rate_tps: 100, shares: {in: 1, parse: 2}}"),
        "workload.shares must name each place of entry: in",
    ),
    "shares of nothing": (
        ("workload: {rate_tps: 100}", "workload: {rate_tps: 100, shares: {in: 0}}"),
        "workload.shares.in",
    ),
    "shares without end": (
        ("workload: {rate_tps: 100}", "workload: {rate_tps: 100, shares: {in: 1001}}"),
        "workload.shares: their sum is more than 1000",
    ),
    "a window without its key": (
        ("  window: {kind: count, length: 5, slide: 5}\n", ""),
        "components.few needs the key 'window'",
    ),
    "a multiplier without its key": (
        ("  multiplier: {min: 1, max: 3, mean: 2, sd: 1}\n", ""),
        "components.spread needs the key 'multiplier'",
    ),
    "a join without its key": (("routing: parity, ", ""), "components.meet needs the key 'routing'"),
    "a key that a role has no use for": (
        ("out: {role: sender, tasks: 1}", "out: {role: sender, routing: parity}"),
        "components.out: a sender has no use for the key 'routing'",
    ),
    "service of a spout": (
        (
            "in: {role: spout, tasks: 2}",
            "in: {role: spout, service: {kind: cpu, distribution: constant, mean_ms: 1}}",
        ),
        "components.in: a spout has no service time",
    ),
    "service said twice": (
        ("  tasks: 4\n", "  tasks: 4\n  service: {parse: {kind: cpu, distribution: constant, mean_ms: 2}}\n"),
        "service: parse has one in its component",
    ),
    "parity heard on three streams": (
        (
            "    - {from: meet, to: last, grouping: all, stream: stream-6}\n",
            "    - {from: meet, to: last, grouping: all, stream: stream-6}\n"
            "    - {from: meet, to: few, grouping: all, stream: stream-7}\n",
        ),
        "streams: parity of meet is of two inputs and at most two streams; it subscribes to parse, spread",
    ),
    "the name of another": (("topology:\n", "topology:\n  name: windowed\n"), "name: windowed is a shipped"),
    "tasks of some": (("  tasks: 4\n", "  tasks: {few: 2}\n"), "tasks must name each of parse, spread, meet"),
    "no tasks at all": (("tasks: 2}", "tasks: 0}"), "topology.components.in.tasks"),
    "executors beyond tasks": (
        ("executors: 1", "executors: 2"),
        "2 executors of out are more than its 1 tasks",
    ),
    "batches of a component that is not there": (
        ("  tasks: 4\n", "  tasks: 4\n  batching: {sauce: 5}\n"),
        "batching: there is no component 'sauce'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_line_that_names_it(mistake: str, tmp_path: Path) -> None:
    change, message = MISTAKES[mistake]
    line = line_of_mistake(tmp_path / "own.yaml", GOOD, change)
    assert line.startswith(f"{tmp_path}/own.yaml:")
    assert message in line


def test_a_graph_is_components_and_streams(tmp_path: Path) -> None:
    streams = GOOD[GOOD.index("  streams:") : GOOD.index("workload:")]
    with pytest.raises(UsageError, match="the key 'streams' is missing"):
        read(tmp_path, (streams, ""))
    with pytest.raises(UsageError, match="the key 'name' is missing: name a topology, or give components"):
        read(tmp_path, (GOOD[GOOD.index("  components:") : GOOD.index("workload:")], ""))


def test_copies_that_double_with_each_diamond_are_refused(tmp_path: Path) -> None:
    """Ten diamonds, one behind the other, are 2**10 ways; nine are 512."""
    made, last = "name: own\ntopology:\n  load_aware: false\n  components:\n    d0: {role: spout}\n", 10
    streams = f"    - {{from: d{last}, to: out, grouping: shuffle}}\n"
    for i in range(last):
        made += "".join(f"    {n}: {{role: json}}\n" for n in (f"a{i}", f"b{i}", f"d{i + 1}"))
        for side in (f"a{i}", f"b{i}"):
            streams += f"    - {{from: d{i}, to: {side}, grouping: shuffle}}\n"
            streams += f"    - {{from: {side}, to: d{i + 1}, grouping: shuffle}}\n"
    end = "workload: {rate_tps: 100}\nsteps: {plan: [{executors: 1}]}\n"
    path = tmp_path / "own.yaml"
    path.write_text(f"{made}    out: {{role: sender}}\n  streams:\n{streams}{end}")
    with pytest.raises(UsageError, match="d10 gets each message 1024 times over, at most 1000"):
        load(path)
    path.write_text(path.read_text().replace("{from: b0, to: d1,", "{from: b0, to: out,"))
    assert load(path).topology.known


def test_a_part_that_feeds_itself_is_a_loop(tmp_path: Path) -> None:
    ways = "    - {from: a, to: b, grouping: fields}\n    - {from: b, to: a, grouping: fields}\n"
    with pytest.raises(UsageError, match="b -> a -> b is a loop"):
        read(
            tmp_path,
            (PARSE, f"{PARSE}    a: {{role: json}}\n    b: {{role: json}}\n"),
            ("workload:", f"{ways}workload:"),
        )


def test_a_join_has_two_inputs_or_more_and_parity_just_two(tmp_path: Path) -> None:
    last = "    - {from: few, to: last, grouping: fields}\n"
    third = (last, f"{last}    - {{from: in, to: meet, grouping: fields}}\n")
    with pytest.raises(UsageError, match="parity of meet is of two inputs and at most two streams"):
        read(tmp_path, third)
    plan = read(tmp_path, third, ("routing: parity", "routing: one-per-window")).topology.query_plan()
    assert [s.source for s in plan.inputs("meet")] == ["parse", "spread", "in"]


def test_a_filter_comes_before_windows(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="drop filters what few gathered: what it leaves out would be known to"
    ):
        read(
            tmp_path,
            ("    few: {role: window}\n", "    few: {role: window}\n    drop: {role: filter, keep: 0.3}\n"),
            (
                "    - {from: few, to: last, grouping: fields}\n",
                "    - {from: few, to: drop, grouping: none}\n    - {from: drop, to: last, grouping: none}\n",
            ),
        )


def test_multipliers_have_settings_of_their_own_and_may_follow_each_other_and_windows(tmp_path: Path) -> None:
    """Up to 4 children of up to 3 of a message: 12 of them, and 100 x 101 are refused."""
    changes = (
        (
            "    last: {role: sender}\n",
            "    last: {role: sender}\n    wide: {role: multiplier, multiplier: %s}\n",
        ),
        ("from: spread, to: meet", "from: wide, to: meet"),
        ("  streams:\n", "  streams:\n    - {from: spread, to: wide, grouping: shuffle}\n"),
        ("from: parse, to: few", "from: wide, to: few"),
    )
    kept = "{min: 1, max: 4, mean: 2, sd: 1}"
    topology = read(tmp_path, (changes[0][0], changes[0][1] % kept), *changes[1:]).topology.own()
    assert {name: m.max for name, m in topology.multipliers.items()} == {"spread": 3, "wide": 4}
    many = "{min: 1, max: 3334, mean: 2, sd: 1}"
    with pytest.raises(UsageError, match="meet may get 10003 children of each message, at most 10000"):
        read(tmp_path, (changes[0][0], changes[0][1] % many), *changes[1:])


def test_each_spout_has_an_input_of_its_own(tmp_path: Path) -> None:
    more = (
        "    few: {role: window}\n",
        "    few: {role: window}\n    more: {role: spout, output_bytes: 9}\n",
    )
    heard = ("from: in, to: spread", "from: more, to: spread")
    experiment = read(tmp_path, more, heard)
    assert experiment.shares == {"in": 1, "more": 1}
    assert experiment.topology.own().output_bytes == {"more": 9}
    shared = ("{rate_tps: 100}", "{rate_tps: 100, shares: {more: 3, in: 2}}")
    assert read(tmp_path, more, heard, shared).shares == {"in": 2, "more": 3}
    with pytest.raises(UsageError, match=r"workload\.shares must name each place of entry: in, more"):
        read(tmp_path, more, heard, ("{rate_tps: 100}", "{rate_tps: 100, shares: {more: 3}}"))
