"""Algorithm 1: the paper's equations with numbers worked by hand, and what holds of every dataflow.

The worked case has n = 0.5 ms a message and s = 0.1 us a byte. Its source has 10,000 tuples/s, ppt 0.02 ms
and tuples of 100 bytes; its consumer sends tuples of 200 bytes on.
"""

from __future__ import annotations

from fractions import Fraction as F
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_dataflows import dataflows, messages, micros, rates, sizes

from harness.errors import UsageError
from harness.tuning.aeolus import Optimizer, required_batch, required_executors
from harness.tuning.bounds import MOST_BATCH_BYTES, TRANSPORT_BYTES, batch_bound, batch_warning
from harness.tuning.dataflow import (
    CyclicDataflow,
    DataflowLink,
    DataflowNode,
    MessageCost,
    producers_first,
    rational,
)

MESSAGE = MessageCost(F(5, 10_000), F(1, 10_000_000))


def ms(text: str) -> F:
    return F(text) / 1000


def link(
    target: str, tuple_bytes: int = 100, fan_out: F = F(1), shares: tuple[F, ...] = (F(1),)
) -> DataflowLink:
    return DataflowLink(target, fan_out, F(tuple_bytes), shares)


def chain(consumer_ppt_ms: str) -> list[DataflowNode]:
    return [
        DataflowNode("sink", F(0)),
        DataflowNode("consumer", ms(consumer_ppt_ms), (link("sink", 200),)),
        DataflowNode("source", ms("0.02"), (link("consumer"),), rate_tps=F(10_000)),
    ]


def output_rate_tps(gap_s: F, batch: int, ppt_s: F, message: MessageCost, tuple_bytes: F) -> F:
    """Equation 3, as printed: one executor's output rate, one tuple out for each tuple in."""
    sending_s = message.overhead_s + batch * (ppt_s + tuple_bytes * message.per_byte_s)
    return batch / max(batch * gap_s, sending_s)


def test_batch_of_the_worked_source() -> None:
    """Equation 4: 0.5 / (0.1 - 0.02 - 0.01) = 7.14."""
    assert required_batch(ms("0.1"), ms("0.02"), MESSAGE.overhead_s, ms("0.01")) == 8


@pytest.mark.parametrize(("ppt_ms", "executors"), [("0.25", 3), ("0.30", 4), ("0.29", 3), ("0", 1)])
def test_executors_of_the_worked_consumer(ppt_ms: str, executors: int) -> None:
    """Equation 2 is strict: 10,000/s times 0.3 ms is 3, and 3 executors would be busy all the time."""
    assert required_executors(ms(ppt_ms), F(10_000)) == executors


def test_a_measured_double_is_taken_by_its_decimals() -> None:
    """0.3e-3 * 1e4 is 2.9999999999999996 in doubles, which would give 3."""
    assert required_executors(rational(0.3e-3), rational(1e4)) == 4


def test_the_worked_consumer_as_a_producer() -> None:
    """dop 3, l_i = 0.3 ms: 0.5 / (0.3 - 0.25 - 0.02) = 16.67."""
    tuned = Optimizer(MESSAGE).tune(chain("0.25")).nodes
    assert [(n, t.executors, t.batch) for n, t in tuned.items()] == [
        ("source", 1, 8),
        ("consumer", 3, 17),
        ("sink", 1, 1),
    ]
    assert tuned["consumer"].processed_tps == 10_000


def test_where_no_batch_keeps_up_executors_are_added_until_b_max_does() -> None:
    """l_i - ppt - t s < 0; b = 65536 / 200 = 327; 10 x 0.31153 = 3.115 -> dop 4; 0.5 / 0.09 = 5.56."""
    result = Optimizer(MESSAGE).tune(chain("0.29"))
    assert (result.nodes["consumer"].executors, result.nodes["consumer"].batch) == (4, 6)
    steps = [(d.formula.split("(")[-1], d.result) for d in result.decisions if d.node == "consumer"]
    assert steps == [
        ("eq. 2)", 3),
        ("eq. 4)", 327),
        ("lines 6, 7)", 4),
        ("eq. 4)", 6),
        ("eq. 3)", 10_000.0),
    ]


def test_every_record_has_the_formulas_values_with_their_units_and_origin() -> None:
    decisions = Optimizer(MESSAGE).tune(chain("0.25")).decisions
    record = next(d for d in decisions if d.node == "source" and "eq. 4" in d.formula)
    assert record.result == 8
    assert record.values == {
        "ppt_ms": 0.02,
        "ppt_from": "given",
        "f": 1.0,
        "t_bytes": 100.0,
        "t_from": "given",
        "n_us": 500.0,
        "s_ns_per_byte": 100.0,
        "n_s_from": "given",
        "l_i_ms": 0.1,
        "b_max": 655,
    }


def test_a_source_that_no_batch_helps_sends_the_largest_and_keeps_its_executors() -> None:
    """l_i = 0.1 ms, ppt 0.2 ms: b = B_max = 655, and r_o = 1 / (0.21 + 0.5 / 655) ms (eq. 3)."""
    source = DataflowNode("source", ms("0.2"), (link("sink"),), rate_tps=F(10_000))
    tuned = Optimizer(MESSAGE).tune([source, DataflowNode("sink", F(0))]).nodes["source"]
    assert (tuned.executors, tuned.batch) == (1, 655)
    assert tuned.processed_tps == 1 / (ms("0.21") + MESSAGE.overhead_s / 655)


def test_no_batch_where_a_tuple_is_sent_before_the_next_one_comes() -> None:
    """ppt + n + t s = 0.53 ms against 1 ms."""
    source = DataflowNode("source", ms("0.02"), (link("sink"),), rate_tps=F(1000))
    result = Optimizer(MESSAGE).tune([source, DataflowNode("sink", F(0))])
    assert result.nodes["source"].batch == 1
    assert result.batching(5.0) == {}
    assert any("line 4" in d.formula for d in result.decisions)


def test_more_executors_than_tasks_are_not_proposed_and_less_goes_on() -> None:
    """A consumer of 1 ms at 10,000/s wants 11; with 4 tasks it takes 4,000/s."""
    nodes = [
        DataflowNode("source", F(0), (link("consumer", 0),), rate_tps=F(10_000), tasks=1),
        DataflowNode("consumer", ms("1"), (link("sink", 0),), tasks=4),
        DataflowNode("sink", ms("0.5"), tasks=4),
    ]
    result = Optimizer(MessageCost(F(0), F(0))).tune(nodes)
    assert result.nodes["consumer"].executors == 4
    assert result.nodes["sink"].input_tps == 4000
    assert result.nodes["sink"].executors == 3
    capped = next(d for d in result.decisions if "tasks" in d.formula)
    assert (capped.node, capped.values, capped.result) == ("consumer", {"dop": 11, "tasks": 4}, 4)


def test_fan_out_shares_a_message_among_the_tuples_that_come_of_one() -> None:
    """f = 3: 3 x 0.5 ms a batch's share against 1 - 0.02 - 3 x 0.01 = 0.95 ms: 1.58 -> 2."""
    source = DataflowNode("source", ms("0.02"), (link("sink", fan_out=F(3)),), rate_tps=F(1000))
    result = Optimizer(MESSAGE).tune([source, DataflowNode("sink", F(0))])
    assert result.nodes["source"].batch == 2
    assert result.nodes["sink"].input_tps == 3000


def test_batches_by_key_leave_before_they_are_full_and_cost_more() -> None:
    """One task sends 1,000/s, 90 % of them to one of two receivers; n is 3 ms, ppt and bytes are 0.

    Batches that wait until they are full: 3 ms / 1 ms = 3 (eq. 4). Of those that leave after 10 ms the rarer
    receiver's have 1 tuple, the other's 9 at most: 3 (0.9 / 3 + 0.1) = 1.2 ms at b = 3, 0.975 ms at b = 4.
    After 4 ms they have 1 and 3.6: 3 (0.9 / 3.6 + 0.1) = 1.05 ms at any size from 4 on, more than 1 ms.
    """
    source = DataflowNode(
        "source", F(0), (link("sink", 1, shares=(F(9, 10), F(1, 10))),), rate_tps=F(1000), tasks=1
    )
    sink = DataflowNode("sink", F(0), tasks=2)
    message = MessageCost(ms("3"), F(0))

    assert Optimizer(message).tune([source, sink]).nodes["source"].batch == 3
    waiting = Optimizer(message, flush_s=ms("10")).tune([source, sink])
    assert waiting.nodes["source"].batch == 4
    assert waiting.nodes["source"].processed_tps == 1000
    values = next(d.values for d in waiting.decisions if "eq. 3" in d.formula)
    assert values["fill_least_ms"] == pytest.approx(4 / 0.9)
    assert values["fill_most_ms"] == 40.0
    assert values["tuples_per_message"] == pytest.approx(1 / (0.9 / 4 + 0.1))
    short = Optimizer(message, flush_s=ms("4")).tune([source, sink]).nodes["source"]
    assert float(short.processed_tps) == pytest.approx(1000 / 1.05)


def test_batches_that_leave_after_a_time_need_the_number_of_tasks() -> None:
    nodes = [DataflowNode("source", F(0), (link("sink"),), rate_tps=F(1)), DataflowNode("sink", F(0))]
    with pytest.raises(ValueError, match="source: its batches fill by task"):
        Optimizer(MESSAGE, flush_s=F(1)).tune(nodes)


def test_a_batch_larger_than_a_packet_warns_and_one_beyond_storms_buffer_is_refused() -> None:
    """The buffer of KryoTupleSerializer in Storm 2.8.3 ends at 2,000,000,000 bytes: 10,000,000 x 200."""
    assert batch_warning("a", 327, F(200)) == ""
    assert "65,600 bytes, more than the 65,536" in batch_warning("a", 328, F(200))
    assert batch_warning("a", TRANSPORT_BYTES // 200, F(200))
    with pytest.raises(UsageError, match="use at most 10000000 tuples"):
        batch_warning("a", TRANSPORT_BYTES // 200 + 1, F(200))


@pytest.mark.parametrize(("tuple_bytes", "most"), [(100, 655), (200, 327), (65_536, 1), (70_000, 1)])
def test_b_max(tuple_bytes: int, most: int) -> None:
    assert batch_bound(F(tuple_bytes)) == most


def test_a_circle_is_refused_by_name() -> None:
    nodes = [
        DataflowNode("source", F(0), (link("a"),), rate_tps=F(1)),
        DataflowNode("a", F(0), (link("b"),)),
        DataflowNode("b", F(0), (link("a"),)),
    ]
    with pytest.raises(CyclicDataflow, match=r"^components form a cycle: a, b$"):
        Optimizer(MESSAGE).tune(nodes)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MessageCost(F(-1), F(0)), "not negative"),
        (lambda: link("a", -1), "not negative"),
        (lambda: link("a", shares=(F(1, 2),)), "add up to 1"),
        (lambda: DataflowNode("a", F(-1)), "not negative"),
        (lambda: DataflowNode("a", F(0), executors=0), "at least one"),
        (lambda: producers_first([DataflowNode("a", F(0), (link("b"),))]), "which is no node"),
        (lambda: producers_first([DataflowNode("a", F(0)), DataflowNode("a", F(1))]), "share a name"),
    ],
)
def test_wrong_dataflows_are_refused(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=said):
        make()


@given(rates, micros, messages, sizes)
def test_the_batch_is_the_least_that_keeps_up(rate: F, ppt: F, message: MessageCost, size: F) -> None:
    gap = 1 / rate
    batch = required_batch(gap, ppt, message.overhead_s, size * message.per_byte_s)
    if batch is None:
        assert output_rate_tps(gap, 10**9, ppt, message, size) < rate
        return
    assert output_rate_tps(gap, batch, ppt, message, size) == rate
    assert batch == 1 or output_rate_tps(gap, batch - 1, ppt, message, size) < rate


@given(dataflows(), messages)
def test_each_node_is_decided_once_after_its_producers_and_with_the_fewest_executors(
    nodes: list[DataflowNode], message: MessageCost
) -> None:
    """Without bounds by tasks nothing but a source is saturated, and one executor fewer would be."""
    tuned = Optimizer(message).tune(nodes).nodes
    order = list(tuned)
    assert sorted(order) == sorted(n.name for n in nodes)
    targets = {link.target for n in nodes for link in n.links}
    for node in nodes:
        for sent in node.links:
            assert order.index(node.name) < order.index(sent.target)
        done = tuned[node.name]
        if node.name not in targets:
            assert done.executors == node.executors
            continue
        arriving = sum(
            (
                tuned[n.name].processed_tps * sent.fan_out
                for n in nodes
                for sent in n.links
                if sent.target == node.name
            ),
            F(0),
        )
        assert done.input_tps == done.processed_tps == arriving
        most = batch_bound(node.largest_tuple_bytes)
        cost = node.ppt_s + node.sending_s(message) + node.fan_out * message.overhead_s / most
        least = required_executors(node.ppt_s, arriving)
        if node.links and arriving:
            least = max(least, ceil(arriving * cost))
        assert done.executors == least


@given(dataflows(keyed=True), messages, st.integers(1, 50))
def test_batches_that_leave_after_a_time_never_pass_on_more_than_full_ones(
    nodes: list[DataflowNode], message: MessageCost, flush_ms: int
) -> None:
    waiting = Optimizer(message, flush_s=F(flush_ms, 1000)).tune(nodes).nodes
    full = Optimizer(message).tune(nodes).nodes
    for name, node in waiting.items():
        assert node.processed_tps <= full[name].processed_tps
        assert node.batch <= max(batch_bound(n.largest_tuple_bytes) for n in nodes) <= MOST_BATCH_BYTES
        tasks = next(n.tasks for n in nodes if n.name == name)
        assert tasks is None or node.executors <= tasks
