"""A broker, a worker and the receiver stand still for seconds within a step, on the real cluster.

Messages are due at a constant rate, so how late the latest was is known from how long something stood still.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from campaigns import carry_out
from numpy.typing import NDArray
from short_experiments import RATE_TPS, short_experiment, short_measure

from harness.backends.local.cluster import LocalCluster
from harness.runs import FaultMade, Run, read_table

INTERVAL_S = 16.0
PLAIN, BROKER, WORKER, RECEIVER = range(4)
STOPPED: dict[int, dict[str, object]] = {
    BROKER: {"stop": "broker", "for_s": 10},
    WORKER: {"stop": "worker", "node": "node-2", "for_s": 10},
    RECEIVER: {"stop": "receiver", "for_s": 10},
}
"""A broker that is silent for longer than ``broker.session.timeout.ms`` is gone for its own controller: its
clients would wait for longer than it stood still."""
NEARLY = 0.05
SHIFT_MOST_MS = 500.0
"""How far two steps' longest latencies may be apart by chance: a twentieth of the standstill."""


@pytest.fixture(scope="module")
def run(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    plan: list[dict[str, object]] = [
        {"executors": 1, "workers": 2, "faults": [{"at_s": 3, **STOPPED[n]}] if n in STOPPED else []}
        for n in range(RECEIVER + 1)
    ]
    measure = short_measure(4, INTERVAL_S)
    small = short_experiment("still", measure, tasks=2, ackers=1, slots_per_node=1)
    settings = {**small, "steps": {"plan": plan}}
    return carry_out(settings, cluster, tmp_path_factory.mktemp("still"), lambda _: None)


def stood_ms(run: Run, step: int) -> float:
    made: FaultMade
    (made,) = run.interval(step).faults
    assert made.problem == ""
    assert made.at_ns is not None
    assert made.until_ns is not None
    return (made.until_ns - made.at_ns) / 1e6


def latencies_ms(run: Run, step: int, column: str = "scheduled_ms") -> NDArray[np.float64]:
    table = read_table(run.step_path(step) / "latency.parquet")
    return np.asarray(table.filter(table["in_interval"])[column].to_numpy(), dtype=np.float64)


@pytest.mark.parametrize("step", [PLAIN, *STOPPED])
def test_every_message_of_the_step_is_accounted_for(run: Run, step: int) -> None:
    ledger = run.quality(step).ledger
    assert ledger is not None
    assert ledger.balanced, ledger
    assert ledger.lost == 0, ledger
    assert latencies_ms(run, step).size >= RATE_TPS * INTERVAL_S - 1


@pytest.mark.parametrize("step", [BROKER, WORKER])
def test_what_stood_still_shows_in_the_latest_message_and_the_last_hundredth(
    run: Run, step: int, figure: Callable[[str], None]
) -> None:
    """The first message that is due while it stands still waits for all of it, the next 25 ms less.

    Of 640 messages, 400 are due in that time: the 99th percentile is the seventh of them.
    """
    stood, found = stood_ms(run, step), latencies_ms(run, step)
    most, p99 = float(found.max()), float(np.percentile(found, 99))
    said = f"{stood:.0f} ms: longest {most:.0f} ms, p99 {p99:.0f} ms"
    figure(said)
    assert (1 - NEARLY) * stood <= most <= (1 + NEARLY) * stood, said
    assert (1 - NEARLY) * stood <= p99 <= most, said


def test_a_receiver_that_stands_still_moves_no_latency(run: Run, figure: Callable[[str], None]) -> None:
    """Times are those of the sink: what nobody reads for ten seconds has left long ago."""
    stood, longest = stood_ms(run, RECEIVER), float(latencies_ms(run, RECEIVER).max())
    plain = float(latencies_ms(run, PLAIN).max())
    said = f"{stood:.0f} ms: longest {longest:.0f} ms, {plain:.0f} without"
    figure(said)
    assert longest <= plain + SHIFT_MOST_MS, said
    assert run.quality(RECEIVER).receiver is not None
