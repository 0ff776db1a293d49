"""Taking up a run again: what its finished steps hold is read before any server starts."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_runs import PLAN, placed, write_run

from harness.app import campaigning, clusters
from harness.errors import UsageError
from harness.experiments.loading import load
from harness.machine.servers import ServerHomes
from harness.runs import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """One finished step of messages 5, 9 and 7."""
    made = write_run(tmp_path, [placed(PLAN, 2)])
    table = pa.table(
        {"message_id": pa.array([5, 9, 7], pa.int64()), "child": pa.array([0, 0, 0], pa.int32())}
    )
    pq.write_table(table, made.step_path(0) / "latency.parquet")
    return made


def test_the_messages_of_a_resumed_run_are_numbered_above_all_that_were_sent(run: Run) -> None:
    # ten million: more than the step that was interrupted can have sent
    assert campaigning.first_free_id(run) == 9 + 10_000_000


def test_a_finished_step_that_was_cut_is_named_before_any_server_starts(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("servers were started")

    monkeypatch.setattr(clusters, "local_cluster", started)
    file = run.step_path(0) / "latency.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    experiment = load("quick")
    with pytest.raises(UsageError) as refused:
        campaigning.measure(experiment, run, ServerHomes(run.path / "none"), lambda _: None, lambda _: None)
    assert str(refused.value).startswith(f"{file}: damaged, or no Parquet file: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["v2.8-nightly", "a..b", "9a", "x" * 100])
def test_storm_takes_the_name_of_every_run(name: str, tmp_path: Path) -> None:
    """Utils.TOPOLOGY_NAME_REGEX of Storm 2.8.3, and Kafka's rule for topics: 249 characters at most."""
    experiment = load("quick", [f"name={name}"])
    named = campaigning.storm_name(experiment, Run.create(tmp_path, experiment.name, {}, {"resumed": [{}]}))
    assert re.fullmatch(r"[^/.:\\]+", named)
    assert re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", f"{named}-out")


def test_a_name_too_long_for_files_is_refused() -> None:
    with pytest.raises(UsageError, match="at most 100 characters"):
        load("quick", [f"name={'x' * 101}"])
