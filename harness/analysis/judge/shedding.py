"""Messages without output that become more with the load: a topology that sheds what it cannot carry.

A jar that says ``outputs: any`` may leave messages out. A filter chooses by the messages, and all steps of a
run are sent messages of one kind: its share is the same in every step. Where the share of one step is above
that of another, messages were left out for want of capacity, and "kept up" says nothing. Nor does it where
all steps have one load: then nothing tells a filter from a topology that sheds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from harness.analysis.spark.inputs import StepRecord

LEAST_MORE_SHARE = 0.01
"""Shares that differ by less are the same: as much may go astray in any step."""
STANDARD_ERRORS = 4.0
"""Nor is one of fewer standard errors: one step in 30,000 has as much by chance."""


def shed_load(steps: Iterable[StepRecord]) -> Mapping[int, str]:
    """Say of each step that left out more of its messages than another, or that no other load is set beside.

    Parameters
    ----------
    steps : iterable of StepRecord
        Of one run.

    Returns
    -------
    mapping of int to str
        By step, where its share of messages without output is above the least one.
    """
    steps = tuple(steps)
    counts = {
        s.index: (ledger.sent, ledger.without_output, s.interval.rate_tps)
        for s in steps
        if (ledger := s.quality.ledger) is not None and ledger.sent
    }
    if not counts:
        return {}
    loads = {(s.interval.rate_tps, s.plan.asked.model_dump_json()) for s in steps if s.index in counts}
    if len(loads) == 1:
        return {
            step: (
                f"{100 * out / sent:.1f} % of the messages have no output, and every step has the same load:"
                " whether they were filtered or shed is not known (a step at another rate, or of other"
                " executors, would tell)"
            )
            for step, (sent, out, _) in counts.items()
            if out / sent > LEAST_MORE_SHARE
        }
    least = min(counts, key=lambda step: counts[step][1] / counts[step][0])
    sent_0, out_0, rate_0_tps = counts[least]
    found = {}
    for step, (sent, out, rate_tps) in counts.items():
        more = out / sent - out_0 / sent_0
        pooled = (out + out_0) / (sent + sent_0)
        error = math.sqrt(pooled * (1 - pooled) * (1 / sent + 1 / sent_0))
        if more > LEAST_MORE_SHARE and more > STANDARD_ERRORS * error:
            found[step] = (
                f"{100 * out / sent:.1f} % of the messages have no output at {rate_tps:g} messages/s,"
                f" {100 * out_0 / sent_0:.1f} % in step {least} at {rate_0_tps:g}: what is left out depends"
                " on the load, so whether the topology kept up is not known"
            )
    return found
