"""DS2's rule on an example worked by hand, and what holds of every dataflow."""

from __future__ import annotations

from fractions import Fraction as F

import pytest
from hypothesis import given
from made_dataflows import dataflows

from harness.tuning.dataflow import CyclicDataflow, DataflowLink, DataflowNode
from harness.tuning.ds2 import scale, scaled_executors


def link(target: str, fan_out: F = F(1), shares: tuple[F, ...] = (F(1, 2), F(1, 2))) -> DataflowLink:
    return DataflowLink(target, fan_out, F(100), shares)


def word_count(
    rate_tps: int, splitters: int = 1, count_shares: tuple[F, ...] = (F(1, 2), F(1, 2))
) -> list[DataflowNode]:
    """Sentences of 10 words: splitting one takes 5 ms, counting a word 0.6 ms, and all counts are kept."""
    return [
        DataflowNode("source", F(0), (link("split"),), rate_tps=F(rate_tps), executors=2),
        DataflowNode("split", F(5, 1000), (link("count", F(10), count_shares),), executors=splitters),
        DataflowNode("count", F(6, 10_000), executors=3),
    ]


def test_one_pass_reaches_the_parallelism_that_the_target_needs() -> None:
    """700 sentences/s: split has 200/s an executor, 3.5 -> 4; count gets 7,000/s of 1,666.7, 4.2 -> 5.

    That holds although one splitter now passes 200/s on, of which count needs 1.2 executors: the upstream
    output rate is that at the target (a rule by observed rates would need a second step).
    """
    scaled = scale(word_count(700))
    assert scaled.executors == {"source": 2, "split": 4, "count": 5}
    values = scaled.decisions[-1].values
    assert (values["target_tps"], values["p_now"]) == (7000.0, 3)
    assert values["true_rate_tps"] == 5000.0  # 3 executors of 1 / 0.6 ms


def test_the_step_does_not_depend_on_how_many_there_are_now() -> None:
    assert scale(word_count(700, splitters=7)).executors == scale(word_count(700)).executors


def test_a_rate_that_just_fits_needs_no_further_executor() -> None:
    """200/s of one splitter: 1 (Aeolus' equation 2 is strict, and gives 2)."""
    assert scale(word_count(200)).executors["split"] == 1


@pytest.mark.parametrize(("utilisation", "executors"), [(F(1), 4), (F(7, 10), 5), (F(4, 10), 9)])
def test_a_target_utilisation_leaves_room(utilisation: F, executors: int) -> None:
    """3.5 / 0.7 is 5, 3.5 / 0.4 is 8.75."""
    assert scaled_executors(F(700), F(200), 1, utilisation) == executors


def test_executors_are_bounded_by_tasks_and_the_rest_is_planned_for_the_target() -> None:
    nodes = word_count(700)
    nodes[1] = DataflowNode("split", F(5, 1000), nodes[1].links, tasks=3)
    scaled = scale(nodes)
    assert scaled.executors == {"source": 2, "split": 3, "count": 5}
    assert [d.result for d in scaled.decisions if d.node == "split"] == [4, 3]


def test_the_remark_of_the_thesis_is_made_where_keys_are_uneven() -> None:
    assert "busiest" not in " ".join(d.why for d in scale(word_count(700)).decisions)
    uneven = scale(word_count(700, count_shares=(F(9, 10), F(1, 10)))).decisions
    assert [d.node for d in uneven if "the busiest gets 1.8 times the mean" in d.why] == ["count"]


def test_a_circle_is_refused() -> None:
    nodes = [DataflowNode("a", F(1), (link("b"),)), DataflowNode("b", F(1), (link("a"),))]
    with pytest.raises(CyclicDataflow, match="a, b"):
        scale(nodes)


@given(dataflows())
def test_executors_are_the_fewest_that_are_not_asked_for_more_than_they_can(
    nodes: list[DataflowNode],
) -> None:
    executors = scale(nodes).executors
    targets = {sent.target for n in nodes for sent in n.links}
    arriving: dict[str, F] = {n.name: n.rate_tps for n in nodes}
    by_name = {n.name: n for n in nodes}
    for name, number in executors.items():  # downstream
        node = by_name[name]
        for sent in node.links:
            arriving[sent.target] += arriving[name] * sent.fan_out
        if name in targets:
            load = arriving[name] * node.ppt_s
            assert load <= number
            assert number == 1 or load > number - 1
