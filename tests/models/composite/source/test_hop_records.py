"""Hop records are the same whether they come as Python objects or as Arrow has them."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hop_synthetic import Leg, hop_rows
from synthetic import Truth, deploy, fields_to_fields, observation

from harness.errors import ModelDeclined
from harness.models.composite.source.hop_records import hop_records
from harness.models.contract.layout import lay_out
from harness.protocols import Observation
from harness.schemas import LATENCY


def source(received_ms: float = 12.0) -> Observation:
    query_plan = fields_to_fields()
    plan = deploy(query_plan, 2)
    ways = [
        (n, 0, [Leg("spout", n, 10.0 + n, 10.0 + n), Leg("bolt-a", 0, received_ms + n, 13.0 + n)])
        for n in range(3)
    ]
    return observation(plan, Truth.random(query_plan, 50.0, 1), latency=hop_rows(plan, ways))


def in_arrow(latency: pd.DataFrame) -> pd.DataFrame:
    kind = LATENCY.field("hops").type
    listed = pa.chunked_array([pa.array([list(way) for way in latency["hops"]], type=kind)])
    return latency.assign(hops=pd.Series(pd.arrays.ArrowExtensionArray(listed), index=latency.index))


def test_both_ways_say_the_same() -> None:
    seen = source()
    layout = lay_out(seen.plan)
    one = hop_records(seen, layout, 2)
    two = hop_records(replace(seen, latency=in_arrow(seen.latency)), layout, 2)
    for f in fields(one):
        np.testing.assert_array_equal(getattr(one, f.name), getattr(two, f.name), err_msg=f.name)
    assert one.received_ms[one.legs] - one.emitted_ms[one.legs - 1] == pytest.approx([2.0, 2.0, 2.0])


def test_a_tuple_that_comes_before_it_was_sent_is_declined() -> None:
    seen = source(received_ms=9.0)
    for latency in (seen.latency, in_arrow(seen.latency)):
        with pytest.raises(ModelDeclined, match="received before it was sent"):
            hop_records(replace(seen, latency=latency), lay_out(seen.plan), 1)
