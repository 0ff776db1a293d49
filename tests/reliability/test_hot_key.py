"""One key has four fifths of the messages: its task cannot keep up, and both cores are full.

Two cores are what it fills: the hot task is one thread, and what reads, passes on and acks takes the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from campaigns import carry_out
from short_experiments import short_measure

from harness.analysis.judge.checks import run_checks
from harness.analysis.judge.raw_steps import untiled
from harness.analysis.judge.samples import Samples
from harness.analysis.spark.inputs import read_raw
from harness.backends.local.cluster import LocalCluster

pytestmark = pytest.mark.skipif((os.cpu_count() or 1) > 2, reason="more than two cores are not filled by it")

RATE_TPS = 400
SERVICE_MS = 6.0
"""320 of 400 messages a second are the hot key's, and the hot task serves 167 at most."""
FULL_PCT = 95.0


def test_its_generator_keeps_its_schedule_and_the_step_is_saturated(
    cluster: LocalCluster, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    run = carry_out(
        {
            "name": "hot-key",
            "topology": {
                "name": "fields-to-fields",
                "load_aware": False,
                "ackers": 2,
                "service": {"bolt-a": {"kind": "cpu", "distribution": "constant", "mean_ms": SERVICE_MS}},
            },
            "workload": {"rate_tps": RATE_TPS, "keys": {"A": 80, "B": 5, "C": 5, "D": 5, "E": 5}},
            "cluster": {"nodes": 2, "slots_per_node": 2},
            "measure": {**short_measure(10, 20), "bucket_s": 2, "attempts": 1},
            "steps": {
                "plan": [{"executors": {"spout": 2, "bolt-a": 4, "bolt-b": 2, "sender": 2}, "workers": 2}]
            },
            "models": ["no-change"],
        },
        cluster,
        tmp_path / "runs",
        lambda _: None,
    )
    (step,) = run.finished_steps
    quality, busy_pct = run.quality(step), run.interval(step).machine_busy_pct
    assert quality.generator is not None
    assert busy_pct is not None
    figure(f"{busy_pct:.0f} % busy; {quality.generator.detail}; {quality.saturated}")
    assert busy_pct > FULL_PCT
    assert quality.generator.ok, quality.generator.detail
    assert quality.saturated
    record = read_raw(run.path)
    samples = {s.index: Samples(values=100, untiled=untiled(s)) for s in record.steps}
    found = run_checks(record, samples)
    assert {check.check: check.detail for check in found if check.status != "valid"} == {}
