"""Explanations of the protocols and the models, as the report gives them."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

from harness.errors import HarnessError
from harness.models import describe, resolve


def _text(block: str) -> str:
    return " ".join(dedent(block).split())


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
            90th percentile over paths; of a model that lists no paths, against the mean that it answers in
            its place (composite its own, no-change the source step's).""",
    }.items()
}


def model_note(name: str) -> str:
    """Return a model's own description; empty for a user's model that is not here."""
    try:
        return _text(describe(resolve(name)))
    except HarnessError:
        return ""
