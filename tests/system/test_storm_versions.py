"""A step on clusters of older Storms, as somebody else would start them, with somebody's topology that stays.

The newest of 2.8 is measured so in ``test_running_cluster.py``, by command. Here the campaign is called:
models and report know nothing of the cluster's version.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from default_storm import KAFKA, NIMBUS, SeenTopology, default_storm, require_untouched
from foreign_jars import compiled
from harness_command import harness
from kept_topology import CAUTIOUS, GUESSES, NAME, KeptTopology, submission
from other_storms import VERSIONS, install

from harness.app import campaigning
from harness.app.clusters import as_found
from harness.app.submitted.folder import SubmittedTopology
from harness.backends.influxdb.server import InfluxServer
from harness.experiments.contracts import unwatched
from harness.experiments.loading import files, load
from harness.machine import secret_files
from harness.machine.servers import ServerHomes, quiet
from harness.runs import Run
from harness.storm.nimbus import Nimbus

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

OTHERS = "somebody-elses"
SHORT = (
    f"cluster={{kind: running, nimbus: '{NIMBUS}', kafka: '{KAFKA}'}}",
    "topology.tasks=4",
    "measure.attempts=1",
    "measure.bucket_s=1",
    "measure.burn_in.least_s=4",
    "measure.burn_in.most_s=20",
    "measure.burn_in.drift_pct=90",
    "measure.interval.least_s=6",
    "measure.interval.most_s=6",
    "measure.interval.looks=1",
    "measure.interval.precision_pct=50",
    "workload.rate_tps=50",
    "models=[no-change]",
    "steps.plan=[{executors: 2, workers: 2}]",
)


@pytest.fixture(scope="module", params=VERSIONS)
def nimbus(
    request: pytest.FixtureRequest, server_homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nimbus]:
    home = tmp_path_factory.mktemp(f"storm-{request.param}")
    with default_storm(server_homes, home, install(request.param)) as storm:
        assert storm.nimbus.cluster_summary().version == request.param
        storm.submit_foreign(compiled("Foreign.java", server_homes, tmp_path_factory.mktemp("jar")), OTHERS)
        yield storm.nimbus


def test_a_step_is_measured_and_leaves_the_cluster_as_it_was(
    nimbus: Nimbus, server_homes: ServerHomes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether the machine was quiet enough for a valid step is not asked; all that is measured is there."""
    before = SeenTopology.of(nimbus, OTHERS)
    experiment = as_found(load("quick", SHORT))
    kept = Run.create(tmp_path, experiment.name, files(experiment), campaigning.environment(experiment))
    campaigning.measure(experiment, kept, server_homes, unwatched, quiet)
    run = Run(kept.path)
    assert run.finished_steps == (0,)
    assert run.environment["cluster"]["storm"] == nimbus.cluster_summary().version
    quality = run.quality(0)
    assert quality.plan_as_asked.ok, quality.plan_as_asked.detail
    assert quality.ledger.balanced, quality.ledger.reason
    assert quality.metrics.ok, quality.metrics.detail
    assert not [said for said in caplog.messages if "was not tried" in said]
    require_untouched(nimbus, OTHERS, before)


def test_a_topology_is_left_there_and_given_another_plan(
    nimbus: Nimbus,
    server_homes: ServerHomes,
    influx_server: InfluxServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By command; the plan is kept, as nothing is slower than the model says."""
    before = SeenTopology.of(nimbus, OTHERS)
    (tmp_path / "guesses.py").write_text(GUESSES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INFLUXDB_TOKEN", secret_files.read(influx_server.token_file))
    jar = compiled("Foreign.java", server_homes, tmp_path)
    status, result, said = harness(*submission(jar, influx_server.url, tmp_path / "submitted"))
    assert status == 0, said
    kept = KeptTopology(SubmittedTopology(Path(str(result["submitted"]))), nimbus)
    assert kept.topology.facts.storm_version == nimbus.cluster_summary().version
    first = kept.counts()
    status, record, said = kept.apply(tmp_path, "{executors: {twice: 2}, workers: 2}", *CAUTIOUS, burn_in_s=5)
    assert (status, record["outcome"]) == (0, "kept"), said
    assert isinstance(record["before_ms"], float)
    assert isinstance(record["measured_ms"], float)
    assert kept.counts() == {**first, "twice": 2}
    nimbus.kill(NAME)
    require_untouched(nimbus, OTHERS, before)
