"""An experiment on a cluster that the harness did not start, with somebody's topology on it that stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from default_storm import KAFKA, NIMBUS, SLOTS, SeenTopology, default_storm, require_untouched
from foreign_jars import compiled
from harness_command import harness

from harness.machine.servers import ServerHomes
from harness.runs import Run
from harness.storm.nimbus import Nimbus

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

OTHERS = "somebody-elses"
CLUSTER = f"cluster={{kind: running, nimbus: '{NIMBUS}', kafka: '{KAFKA}'}}"
SHORT = (
    CLUSTER,
    "topology.tasks=4",
    "measure.attempts=1",
    "measure.bucket_s=1",
    "measure.burn_in.least_s=12",
    "measure.burn_in.most_s=60",
    "measure.burn_in.drift_pct=90",
    "measure.interval.least_s=12",
    "measure.interval.most_s=12",
    "measure.interval.looks=1",
    "measure.interval.precision_pct=50",
    "workload.rate_tps=50",
    "models=[no-change]",
)


@pytest.fixture(scope="module")
def nimbus(server_homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nimbus]:
    home = tmp_path_factory.mktemp("default-storm")
    with default_storm(server_homes, home) as storm:
        jar = compiled("Foreign.java", server_homes, tmp_path_factory.mktemp("jar"))
        storm.submit_foreign(jar, OTHERS)
        yield storm.nimbus


def options(*given: str) -> list[str]:
    return [f"--set={option}" for option in given]


def test_it_is_described_before_anything_is_submitted(nimbus: Nimbus) -> None:
    status, _, said = harness("check", "quick", *options(CLUSTER, "steps.plan=[{executors: 1, workers: 1}]"))
    assert status == 0, said
    assert f"cluster at {NIMBUS}: localhost ({SLOTS} slots), {SLOTS - 1} free; beside {OTHERS}" in said


def test_more_workers_than_are_free_are_refused(nimbus: Nimbus) -> None:
    status, result, _ = harness("run", "quick", *options(*SHORT, "steps.plan=[{executors: 1, workers: 4}]"))
    assert status == 2
    assert f"{SLOTS - 1} slots of the cluster at {NIMBUS} are free, not 4" in str(result["error"])


def test_schedulers_are_refused_where_nimbus_has_its_own() -> None:
    plan = "steps.plan=[{executors: 1, workers: 1, scheduler: even}]"
    status, result, _ = harness("check", "quick", *options(CLUSTER, plan))
    assert status == 2
    assert "steps.plan.0: scheduler: a cluster that others run places executors itself" in str(
        result["error"]
    )


def test_a_run_is_measured_and_leaves_the_cluster_as_it_was(nimbus: Nimbus, tmp_path: Path) -> None:
    """Whether the machine was quiet enough for a valid step is not asked; all that is measured is there."""
    before = SeenTopology.of(nimbus, OTHERS)
    plan = "steps.plan=[{executors: 1, workers: 1}, {executors: 2, workers: 2}]"
    status, result, said = harness("run", "quick", *options(*SHORT, plan), "--runs", str(tmp_path))
    assert status in (0, 3, 4), said
    run = Run(Path(str(result["run"])))
    assert run.finished_steps == (0, 1)
    assert run.environment["cluster_kind"] == "running"
    assert run.environment["cluster"]["other_topologies"] == [OTHERS]
    for step in run.finished_steps:
        assert run.plan(step).start.nodes[0].name == "localhost"
        quality = run.quality(step)
        assert quality.plan_as_asked.ok, quality.plan_as_asked.detail
        assert quality.ledger.balanced, quality.ledger.reason
        assert quality.metrics.ok, quality.metrics.detail
    require_untouched(nimbus, OTHERS, before)
