"""Flink's rule on the example of DS2's tests, by hand: when it changes anything, and to what."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from harness.tuning.dataflow import DataflowLink, DataflowNode
from harness.tuning.flink import bounded_scale
from harness.tuning.reading_tuner import TunedDataflow


def word_count(rate_tps: int, splitters: int, counters: int) -> list[DataflowNode]:
    """Sentences of 10 words: splitting one takes 5 ms, counting a word 0.6 ms."""
    halves = (F(1, 2), F(1, 2))
    to_split, to_count = (
        DataflowLink(n, fan, F(100), halves) for n, fan in (("split", F(1)), ("count", F(10)))
    )
    return [
        DataflowNode("source", F(0), (to_split,), rate_tps=F(rate_tps), executors=2),
        DataflowNode("split", F(5, 1000), (to_count,), executors=splitters),
        DataflowNode("count", F(6, 10_000), executors=counters),
    ]


def scaled(rate_tps: int, splitters: int, counters: int) -> TunedDataflow:
    return bounded_scale(word_count(rate_tps, splitters, counters), F(7, 10), F(3, 10))


@pytest.mark.parametrize(
    ("rate_tps", "now", "then", "reason"),
    [
        # split 700 x 0.005 = 3.5 (5 at 0.7), count 7,000 x 0.0006 = 4.2 (6 at 0.7)
        (700, (1, 3), (5, 6), "split would be busy 3.50 of the time, count would be busy 1.40 of the time"),
        # busy 0.875 and 0.84: both would change, and neither leaves 0.4 to 1
        (700, (4, 5), (4, 5), "within its bounds: split, count"),
        # one leaves its bounds (3.5 / 3 is 1.17), and the other changes with it
        (700, (3, 5), (5, 6), "split would be busy 1.17 of the time"),
        # 250 x 0.005 = 1.25 (2 at 0.7), busy 0.3125; count 1.5 (3 at 0.7), busy 0.3
        (250, (4, 5), (2, 3), "split would be busy 0.31 of the time, count would be busy 0.30 of the time"),
        # exactly at the upper bound: 800 x 0.005 / 4 is 1; count 4.8 / 5 is 0.96
        (800, (4, 5), (4, 5), "within its bounds: split, count"),
        (700, (5, 6), (5, 6), ""),
    ],
)
def test_all_change_as_soon_as_one_leaves_its_bounds(
    rate_tps: int, now: tuple[int, int], then: tuple[int, int], reason: str
) -> None:
    found = scaled(rate_tps, *now)
    assert found.executors == {"source": 2, "split": then[0], "count": then[1]}
    assert found.reason == reason
    assert [d.result for d in found.decisions] == [2, *then]
