"""Intervals of values by subject, from replicates that may have other subjects."""

from __future__ import annotations

import numpy as np
import pytest

from harness.models.composite.values import Others, Values, estimated

LATENCY = "ground_truth_latency_ms"


def values(**by_subject: float) -> Values:
    return Values(LATENCY, "mean", ["", *by_subject], np.array([10.0, *by_subject.values()]))


def known(found: Values) -> dict[tuple[str, str, str], Values]:
    return {found.key: found}


def test_a_path_that_a_replicate_never_takes_has_no_interval() -> None:
    """The other paths and the whole have theirs, whatever the order of a replicate's paths."""
    own = values(left=9.0, right=11.0)
    replicates = [known(values(right=11.5, left=9.1)), known(values(right=10.9, other=7.0))]
    same = known(own)
    whole, left, right = estimated([own], Others(same, same, replicates), {})
    assert (left.value, left.low, left.high) == (9.0, None, None)
    for found in (whole, right):
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high
    assert right.high == pytest.approx(11.0, abs=2.0)
