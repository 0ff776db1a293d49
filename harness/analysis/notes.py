"""What the report says in words: captions, and what the models and the protocols are."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent


def _text(block: str) -> str:
    return " ".join(dedent(block).split())


FIGURE_CAPTIONS: Mapping[str, str] = {
    name: _text(block)
    for name, block in {
        "latency-by-step": """
            Ground-truth latency of every step, all samples, on a logarithmic scale.""",
        "ground-truth-and-complete": """
            Ground-truth latency beside Storm's complete latency. A complete latency below the ground truth,
            or far above it, is a property of the measure (thesis 5.7.3) and not an error.""",
        "measured-and-predicted": """
            Predicted against measured means, off-diagonal pairs. Horizontal bars: the measurement's noise;
            vertical bars: the model's interval, where it gives one.""",
        "timeline": """
            The campaign: tuples at the sinks and their latency, with rebalances, burn-in and measured
            intervals.""",
    }.items()
}

MODEL_NOTES: Mapping[str, str] = {
    name: _text(block)
    for name, block in {
        "no-change": """
            The source step's measured value, whatever the proposed plan. The yardstick: a model that does not
            beat it has learnt nothing from the plan.""",
        "linear": """
            Rates in proportion to the input rate, as Caladrius assumes.""",
        "storm-tracer": """
            Chapter 4 of the thesis, its printing errors mended. The thesis models Storm 1.2, whose executors
            read from Disruptor queues with an input batch and a flush interval. Storm 2.x has no such queues:
            what the model says of them has no counterpart in what was measured here.""",
    }.items()
}

PROTOCOL_NOTES: Mapping[str, str] = {
    name: _text(block)
    for name, block in {
        "ours": """
            All messages scheduled in the measured interval, none cut; each statistic against the same
            statistic.""",
        "thesis": """
            Thesis 5.4.3 and 5.7.2. Ground truth: only outputs whose path begins and ends on one worker
            node, cut at the step's mean complete latency (the thesis names the complete latency, its 90th
            percentile and its average; the average is what Storm measures), and their mean against the
            model's mean over the same paths. Complete latency: Storm's value of each spout executor (one
            for the interval, where the thesis takes the median of its 2 s buckets) against the model's
            90th percentile over paths.""",
    }.items()
}
