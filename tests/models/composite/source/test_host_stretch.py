"""What of wall-clock over CPU time is taken for contention, from observations whose ratios are set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from synthetic import SETTINGS, Truth, deploy, fields_to_fields, observation

from harness.errors import ModelDeclined
from harness.models.composite.plan.network_builder import NetworkBuilder, build_network
from harness.models.composite.proposal import examine, prepare
from harness.models.composite.source.evidence import read
from harness.models.composite.source.host_stretch import HIDDEN_CORES, HostStretch, host_stretch
from harness.models.composite.uncertainty import replicates
from harness.models.contention import stretch
from harness.models.contract.layout import lay_out
from harness.protocols import Observation


def source(ratios: Mapping[str, float], cores: float) -> Observation:
    """Wall-clock over CPU time of each bolt, and what each of four workers uses of a host's two cores."""
    query_plan = fields_to_fields()
    plan = deploy(query_plan, 2)
    whole = observation(plan, Truth.random(query_plan, 50.0, 1))
    metrics = whole.metrics.copy()
    for name, ratio in ratios.items():
        mine = (metrics["measurement"] == "service") & (metrics["component"] == name)
        cpu = metrics.loc[mine & (metrics["field"] == "cpu_sum_ns"), "value"].to_numpy()
        metrics.loc[mine & (metrics["field"] == "wall_sum_ns"), "value"] = ratio * cpu
    ends = np.unique(metrics["bucket_end_ms"])
    used = cores * 1e6 * float(np.diff(ends).mean())  # ns in a bucket
    rows = [(int(end), "worker", w.label, "cpu_ns", used) for w in plan.workers for end in ends]
    added = pd.DataFrame(rows, columns=["bucket_end_ms", "measurement", "worker", "field", "value"])
    return replace(whole, metrics=pd.concat([metrics, added], ignore_index=True))


def found(ratios: Mapping[str, float], luck: float = 0.0) -> HostStretch:
    evidence = read(source(ratios, 0.15))
    return host_stretch(evidence, np.ones(evidence.blocks), luck)


LAW = 1 / (1 - ((4 * 0.15 + HIDDEN_CORES) / 2) ** 2)
"""Of two cores, of which four workers use 0.15 each."""


def test_bolts_that_compute_say_the_stretch() -> None:
    ratios = {"bolt-a": 1.5, "bolt-b": 1.5, "sender": 2.0}
    assert found(ratios) == (pytest.approx(1.5), None)
    observed = source(ratios, 0.15)
    builder = NetworkBuilder(prepare(observed), lay_out(observed.plan), observed.settings, observed.rate_tps)
    own = builder.demand_cores
    law = stretch(np.array(4 * 0.15 + HIDDEN_CORES), np.array(2.0), float(own @ builder.at_once / own.sum()))
    assert LAW < law < LAW * 1.02  # few of 50 messages a second come together
    assert prepare(observed).beyond == pytest.approx(1.5 / law)


def test_a_sinks_ratio_is_a_bound_only() -> None:
    assert found({"bolt-a": 1.5, "bolt-b": 1.5, "sender": 1.4}).stretched == pytest.approx(1.4)
    assert found({"bolt-a": 20.0, "bolt-b": 30.0, "sender": 1.4}).stretched == pytest.approx(LAW)
    assert found({"bolt-a": 20.0, "bolt-b": 30.0, "sender": 1.1}).stretched == pytest.approx(1.1)


def test_a_bolt_beside_one_that_waits_says_it() -> None:
    assert found({"bolt-a": 30.0, "bolt-b": 1.2, "sender": 1.5}).stretched == pytest.approx(1.2)


def test_where_nothing_says_it_the_law_is_taken_and_varied() -> None:
    waits = {"bolt-a": 20.0, "bolt-b": 30.0, "sender": 3.0}
    assert found(waits) == (pytest.approx(LAW), pytest.approx(1.0))
    assert found(waits, luck=1.0).stretched == pytest.approx(LAW * np.exp(0.2))
    assert found(waits, luck=-9.0).stretched == 1.0
    told = {"bolt-a": 1.5, "bolt-b": 1.5, "sender": 2.0}
    assert found(told, luck=1.0) == found(told)


def test_workers_that_use_more_than_there_is_are_declined() -> None:
    with pytest.raises(ModelDeclined, match="more CPU than their hosts have"):
        prepare(source({"bolt-a": 1.5, "bolt-b": 1.5, "sender": 2.0}, 0.6))


def test_replicates_differ_by_what_is_assumed() -> None:
    waits = source({"bolt-a": 20.0, "bolt-b": 30.0, "sender": 3.0}, 0.15)
    assert any("contention" in note for note in prepare(waits).notes)
    beyond = [r.beyond for r in replicates(examine(waits))]
    assert 0.1 < np.std(np.log(beyond)) < 0.4  # eight draws of 0.2


def test_less_cpu_in_the_proposed_plan_is_less_contention() -> None:
    """The law between them is what the plans' CPU use makes of it; the source's own ratio comes back."""
    busy = prepare(source({"bolt-a": 2.0, "bolt-b": 2.0, "sender": 3.0}, 0.25))
    plan = deploy(fields_to_fields(), 2)
    same, calm = (build_network(busy, plan, SETTINGS, rate) for rate in (50.0, 5.0))
    bolts = same.layout.of["bolt-a"]
    assert same.stretch is not None
    assert calm.stretch is not None
    assert same.stretch[bolts] == pytest.approx(np.full(2, 2.0), rel=0.02)
    assert (calm.stretch[bolts] < same.stretch[bolts]).all()
