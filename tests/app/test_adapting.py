"""What is decided on a period: on metrics made so that all traffic and loads are known."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from scheduling import nodes_of, observation, placed, topology

from harness.app.adapting import StepAdapter
from harness.experiments.adapting import PeriodDecision, PeriodSeen
from harness.experiments.config import Experiment
from harness.experiments.loading import expand_steps, load
from harness.runs import Run
from harness.schemas import METRICS

CHAINS = topology((("a", "b"), ("b", "c"), ("d", "e"), ("e", "f")))
NODES = nodes_of([1, 1])
WORKERS = ("node-1:6700", "node-2:6700")
LABELS = [f"{name}[{i}-{i}]" for i, name in enumerate("abcdef", start=1)]
TRAFFIC = {(1, 2): 50.0, (2, 3): 40.0, (4, 5): 60.0, (5, 6): 30.0}


def decided(tmp_path: Path, workers: list[str], scheduler: str, improvement_pct: float = 0) -> PeriodDecision:
    experiment: Experiment = load(
        "quick",
        [
            f"steps.plan=[{{executors: 1, adapt: {{scheduler: '{scheduler}',"
            f" improvement_pct: {improvement_pct}}}}}]"
        ],
    )
    run = Run.create(tmp_path, "quick", {"experiment.yaml": ""}, {"started": "2026-01-02T03:04:05"})
    plan = placed(CHAINS, NODES, dict(zip(LABELS, workers, strict=True)))
    seen = observation(plan, TRAFFIC, dict.fromkeys(range(1, 7), 0.1))
    rows = pa.Table.from_pandas(seen.metrics, preserve_index=False).cast(METRICS)
    period = PeriodSeen(expand_steps(experiment)[0], plan, 100.0, 0, 10_000, rows)
    return StepAdapter(experiment, run)(period)


def test_a_better_plan_is_applied_with_its_reason(tmp_path: Path) -> None:
    """In turn, all 180 tuples a second cross; METIS cuts the two chains apart, and none does."""
    found = decided(tmp_path, list(WORKERS) * 3, "traffic-cut")
    assert (found.decision, found.reason) == ("applied", "traffic between nodes 180 -> 0 tuples/s")
    assert found.placement is not None
    assert {found.placement.workers[label] for label in LABELS[:3]} != {
        found.placement.workers[label] for label in LABELS[3:]
    }
    assert found.figures["between_nodes_tps"] == 180
    assert found.figures["collocation_factor"] == 0
    assert found.figures["load_cores"] == pytest.approx(0.6)
    assert found.figures["load_index_pct"] == 100


def test_the_plan_in_force_stays_where_it_is_proposed(tmp_path: Path) -> None:
    apart = [WORKERS[0]] * 3 + [WORKERS[1]] * 3
    found = decided(tmp_path, apart, "traffic-cut")
    assert (found.decision, found.placement) == ("stays", None)
    assert found.figures["collocation_factor"] == 1


def test_a_gain_that_is_too_small_moves_nothing(tmp_path: Path) -> None:
    """Of the chains only f is astray: 30 of 180 tuples cross, and even distances are equal by 20 points."""
    apart = [WORKERS[0]] * 3 + [WORKERS[1]] * 2 + [WORKERS[0]]
    assert decided(tmp_path, apart, "even", 50).decision == "stays"


def test_a_scheduler_that_fails_declines_the_period(tmp_path: Path) -> None:
    found = decided(tmp_path, list(WORKERS) * 3, "faulty_schedulers:Raising")
    assert (found.decision, found.placement) == ("declined", None)
    assert "ZeroDivisionError" in found.reason
