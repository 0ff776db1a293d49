"""Caladrius's lines, bends and CPU against numbers worked by hand; all are formulas of its section 6.2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from synthetic import SETTINGS, Truth, component, deploy, observation, stream

from harness.models.baselines.caladrius import RateLine, caladrius, first_bend
from harness.plans import PhysicalPlan, QueryPlan
from harness.protocols import Estimate, Observation
from harness.schemas import Measure

LINE = QueryPlan(
    name="line",
    components=(component("spout", 4), component("split", 4), component("count", 4)),
    streams=(stream("spout", "split"), stream("split", "count", "fields")),
)


def truth(keys: tuple[float, ...] = (0.25, 0.25, 0.25, 0.25)) -> Truth:
    """50 sentences a second, 3 words each; a sentence takes 10 ms, a word 4 ms, both of CPU."""
    made = Truth.random(LINE, 50.0, 1)
    made.coefficients["split", "default"][LINE.streams[0]][:] = 3.0
    made.service_ms["split"][:] = 10.0
    made.service_ms["count"][:] = 4.0
    made.keys[LINE.streams[1]][:] = keys
    return made


def source_of(plan: PhysicalPlan, made: Truth, process_cores: float | None = None) -> Observation:
    """Observe 50 messages a second; ``process_cores``: CPU of all workers together, equal parts each."""
    source = replace(observation(plan, made), rate_tps=50.0)
    if process_cores is None:
        return source
    ends = np.unique(source.metrics["bucket_end_ms"])
    named = {
        "measurement": "worker",
        "component": "spout",
        "task": 1,
        "stream": "",
        "peer": "",
        "field": "cpu_ns",
    }
    each_ns = process_cores / len(plan.workers) * 2e9  # a bucket is 2 s
    rows = [
        {**named, "bucket_end_ms": end, "worker": w.label, "value": each_ns}
        for w in plan.workers
        for end in ends
    ]
    return replace(source, metrics=pd.concat([source.metrics, pd.DataFrame(rows)], ignore_index=True))


def asked(source: Observation, proposed: PhysicalPlan, rate_tps: float) -> dict[tuple[str, str], Estimate]:
    answer = caladrius(source, proposed, SETTINGS, rate_tps)
    return {(e.measure, e.subject): e for e in answer.estimates}


def value(answer: dict[tuple[str, str], Estimate], measure: str, subject: str = "") -> float:
    found = answer[measure, subject].value
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("split", "count", "bend_tps", "first"),
    [
        (1, 1, 250 / 3, "count"),  # 1 word executor: 250 words/s, 3 a sentence: 83.3; splitter: 100
        (1, 2, 100.0, "split"),  # 2: 166.7; splitter: 100
        (2, 2, 500 / 3, "count"),
        (4, 4, 1000 / 3, "count"),  # 4: 333; splitter: 400
    ],
)
def test_the_topology_bends_at_the_least_of_its_components_bends(
    split: int, count: int, bend_tps: float, first: str
) -> None:
    source = source_of(deploy(LINE, {"spout": 1, "split": 1, "count": 1}), truth())
    proposed = deploy(LINE, {"spout": 1, "split": split, "count": count})
    for rate_tps in (20.0, 1000.0):
        answer = asked(source, proposed, rate_tps)
        assert value(answer, Measure.SUSTAINABLE) == pytest.approx(bend_tps)
        through_tps = min(rate_tps, bend_tps)
        assert value(answer, Measure.THROUGHPUT) == pytest.approx(through_tps)
        assert value(answer, "arrival_rate_tps", "split") == pytest.approx(through_tps)
        assert value(answer, "arrival_rate_tps", "count") == pytest.approx(3 * through_tps)
        for executor in proposed.of("count"):
            assert value(answer, "arrival_rate_tps", executor.label) == pytest.approx(3 * through_tps / count)
    service_ms = {"split": 10.0, "count": 4.0}[first]
    share = {"split": 1 / split, "count": 3 / count}[first]
    assert value(answer, Measure.UTILISATION, first) == pytest.approx(1000 * share * service_ms / 1000)
    assert value(answer, Measure.UTILISATION, first) > 1  # back-pressure


def test_of_a_keyed_component_the_executor_with_the_most_keys_bends_the_line() -> None:
    """Shares 0.7 and 0.3 of 3 words: the first executor gets 2.1 a sentence and does 250 a second: 119."""
    plan = deploy(LINE, {"spout": 1, "split": 4, "count": 2})
    source = source_of(plan, truth(keys=(0.5, 0.2, 0.1, 0.2)))
    answer = asked(source, plan, 100.0)
    assert value(answer, Measure.SUSTAINABLE) == pytest.approx(250 / 2.1)
    first, second = (e.label for e in plan.of("count"))
    assert value(answer, "arrival_rate_tps", first) == pytest.approx(210)
    assert value(answer, Measure.UTILISATION, first) == pytest.approx(0.84)
    assert value(answer, Measure.UTILISATION, second) == pytest.approx(0.36)
    # in another plan its shares are not known, and taken as equal (appendix D.3.2)
    other = asked(source, deploy(LINE, {"spout": 1, "split": 4, "count": 4}), 100.0)
    assert value(other, Measure.SUSTAINABLE) == pytest.approx(1000 / 3)


def test_cpu_of_a_worker_grows_with_its_tuples_up_to_the_bend() -> None:
    """At 50 a second: splitter 0.5 cores, counter 150 x 4 ms = 0.6; the processes use 1.6, so 0.5 beside.

    That is 0.5 / (50 + 50 + 150) = 2 ms for each of 250 tuples a second. All in one worker: at 80 a second
    80/50 x 1.6 = 2.56 cores, beyond the bend at 83.3 a second 83.3/50 x 1.6 = 2.67.
    """
    one = deploy(LINE, 1, nodes=1, workers_per_node=1, ackers=1)
    (worker,) = one.workers
    source = source_of(one, truth(), process_cores=1.6)
    for rate_tps, cores in ((50.0, 1.6), (80.0, 2.56), (500.0, 1.6 * 250 / 3 / 50)):
        assert value(asked(source, one, rate_tps), Measure.WORKER_CPU, worker.label) == pytest.approx(cores)


def test_cpu_follows_executors_to_their_workers() -> None:
    """An executor a worker: spout 50 x 2 ms a second, splitter 50 x 12 ms, counter 150 x 6 ms."""
    one = deploy(LINE, 1, nodes=1, workers_per_node=1, ackers=1)
    source = source_of(one, truth(), process_cores=1.6)
    apart = deploy(LINE, 1, nodes=2, workers_per_node=2, ackers=1)  # the acker has the fourth
    answer = asked(source, apart, 50.0)
    for name, cores in (("spout", 0.1), ("split", 0.6), ("count", 0.9)):
        (executor,) = apart.of(name)
        assert value(answer, Measure.WORKER_CPU, executor.worker.label) == pytest.approx(cores)


def test_without_a_service_time_rates_are_lines_and_no_bend_is_named() -> None:
    plan = deploy(LINE, 2)
    source = source_of(plan, truth())
    timed = (source.metrics["measurement"] == "service") & (source.metrics["component"] == "count")
    answer = asked(replace(source, metrics=source.metrics[~timed]), plan, 1000.0)
    assert value(answer, "arrival_rate_tps", "count") == pytest.approx(3000)
    for measure in (Measure.SUSTAINABLE, Measure.THROUGHPUT):
        gap = answer[measure, ""]
        assert (gap.status, gap.value) == ("declined", None)
        assert gap.reason == "metric service of count is missing from the source step"


def test_cpu_that_was_not_measured_is_declined_by_worker() -> None:
    plan = deploy(LINE, 2)
    answer = asked(source_of(plan, truth()), plan, 50.0)
    for worker in plan.workers:
        gap = answer[Measure.WORKER_CPU, worker.label]
        assert (gap.status, gap.value) == ("declined", None)
        assert gap.reason == "metric worker.cpu_ns is missing from the source step"


def test_a_component_without_arrivals_bends_nothing() -> None:
    idle = RateLine(np.zeros(2), service_ms=float("nan"))
    busy = RateLine(np.array([1.0]), service_ms=5.0)
    assert first_bend({"idle": idle, "busy": busy}) == (200.0, "busy")
    assert idle.loads(100.0).tolist() == [0, 0]
