"""``progress.jsonl``: lines of a real campaign's events, read while they are written, and made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from harness.app.simulated.campaign import carry_out
from harness.errors import HarnessError
from harness.experiments.contracts import Phase, Progress
from harness.experiments.loading import dump, load
from harness.experiments.progress import PROGRESS, ProgressFile, ProgressReader, being_measured
from harness.experiments.step_progress import recorded_progress
from harness.machine.environment import describe
from harness.runs import Run

ARCHIVED = next((Path(__file__).resolve().parents[2] / "reports/runs/noise-floor").iterdir())
KEYS = {
    *("time", "event", "step", "steps", "phase", "label", "rate_tps", "latency_ms", "ledger", "left_s"),
    *("machine_busy_pct", "machine_steal_pct", "detail"),
}


def moment(ms: int, phase: Phase = "measure", **more: object) -> Progress:
    return Progress(0, 2, phase, "a:1", epoch_ms=ms, **more)  # type: ignore[arg-type]


def lines(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / PROGRESS).read_text().splitlines()]


def test_a_line_a_second_within_a_phase_and_every_new_phase_at_once(tmp_path: Path) -> None:
    with ProgressFile(tmp_path, 2) as file:
        for ms in (0, 400, 999, 1000, 1500, 2100):
            file(moment(ms, rate_tps=10.0, ledger={"sent": ms}))
        file(moment(2101, "drain"))
        assert [line["event"] for line in lines(tmp_path)] == [
            *("begin", "phase", "progress", "progress", "phase")
        ]  # flushed: it is all there before the file is closed
    told = lines(tmp_path)
    assert [line["ledger"] for line in told[1:4]] == [{"sent": ms} for ms in (0, 1000, 2100)]
    assert [line["step"] for line in told] == [None, 0, 0, 0, 0, None]
    assert told[-1]["detail"] == "finished"
    assert all(line.keys() == KEYS for line in told)


def test_the_use_of_the_machine_is_in_its_lines_and_none_in_those_of_before(tmp_path: Path) -> None:
    used = {"machine_busy_pct": 44.5, "machine_steal_pct": 1.5}
    with ProgressFile(tmp_path, 1) as file:
        file(moment(0, **used))
    (line,) = [line for line in lines(tmp_path) if line["step"] == 0]
    assert {key: line[key] for key in used} == used
    (event,) = [e for e in ProgressReader(tmp_path).read() if e.progress]
    assert event.progress == moment(0, **used)
    before = {key: value for key, value in line.items() if key not in used}
    (tmp_path / PROGRESS).write_text(f"{json.dumps(before)}\n")
    (old,) = ProgressReader(tmp_path).read()
    assert old.progress == moment(0)


def test_how_measuring_ended_is_the_last_line_without_secrets(tmp_path: Path) -> None:
    with pytest.raises(HarnessError), ProgressFile(tmp_path, 1, lambda t: t.replace("hush", "<secret>")):
        raise HarnessError("refused hush")
    with pytest.raises(KeyboardInterrupt), ProgressFile(tmp_path, 1):
        raise KeyboardInterrupt("SIGTERM")
    ended = [line["detail"] for line in lines(tmp_path) if line["event"] == "end"]
    assert ended == ["failed: refused <secret>", "stopped"]


def test_a_reader_gets_whole_lines_once_and_passes_over_what_is_none(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path)
    assert reader.read() == []
    with ProgressFile(tmp_path, 1):
        assert [e.event for e in reader.read()] == ["begin"]
    with (tmp_path / PROGRESS).open("a") as file:
        file.write('no event\n{"time": "2026-01-02T03:04:05Z", "eve')  # a harness killed at its line
    assert [e.event for e in reader.read()] == ["end"]
    with ProgressFile(tmp_path, 1):
        pass
    assert [e.event for e in reader.read()] == ["begin", "end"]


def test_a_disk_that_is_full_stops_no_campaign(tmp_path: Path) -> None:
    (tmp_path / PROGRESS).symlink_to("/dev/full")
    with ProgressFile(tmp_path, 1) as file:
        file(moment(0))


def test_a_run_is_being_measured_while_its_lock_is_held(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "a", {"experiment.yaml": ""}, {})
    with run.exclusively():
        assert being_measured(run.path)
    assert not being_measured(run.path)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Run:
    short = ("measure.burn_in.least_s=4", "measure.burn_in.most_s=6")
    span = ("measure.interval.least_s=10", "measure.interval.most_s=10")
    plan = "steps.plan=[{executors: 1}, {executors: 2}]"
    experiment = load("fields-to-fields", ("cluster.kind=simulator", *short, *span, plan))
    folder = tmp_path_factory.mktemp("runs")
    files = {"experiment.yaml": dump(experiment)}
    run = Run.create(folder, "fields-to-fields", files, describe("simulator", {"storm": "2.8.3"}))
    carry_out(experiment, run, lambda _: None)
    return run


def test_a_simulated_run_tells_its_steps_on_its_own_clock(simulated: Run) -> None:
    events = ProgressReader(simulated.path).read()
    for step in (0, 1):
        mine = [e for e in events if e.step == step]
        phases = list(dict.fromkeys(e.phase for e in mine))
        assert phases[1:] == ["burn-in", "measure", "drain", "done"]
        interval, quality = simulated.interval(step), simulated.quality(step)
        watched = [e for e in mine if e.phase == "measure"]
        gaps = [(b.time - a.time).total_seconds() for a, b in pairwise(watched)]
        assert all(1.0 <= gap <= 2.0 for gap in gaps)
        assert len(watched) >= 9
        # 10 s of Poisson arrivals at the step's rate: five seconds of them err by 10 % in two sigma
        assert watched[-1].rate_tps == pytest.approx(interval.rate_tps, rel=0.25)
        assert watched[-1].latency_ms == pytest.approx(interval.mean_ms, rel=0.5)
        assert [e.plan for e in mine if e.plan] == [simulated.plan(step).start]
        assert mine[-1].ledger == quality.ledger_counts
        began = datetime.fromtimestamp(interval.start_epoch_ms / 1000, UTC)
        assert abs((watched[0].time - began).total_seconds()) <= 1.001
        assert [e.left_s for e in mine] == sorted((e.left_s or 0.0 for e in mine), reverse=True)


def test_a_run_of_before_is_told_again_from_what_was_measured() -> None:
    run = Run(ARCHIVED)
    events = recorded_progress(run)
    done = [e for e in events if e.phase == "done"]
    assert [e.step for e in done] == list(run.finished_steps)
    assert [e.ledger["lost"] for e in done] == [0, 0, 0, 0]
    # It was archived with the latencies of the intervals only: nothing is known before.
    assert {e.rate_tps for e in events if e.phase == "burn-in"} == {None}
    assert [e for e in events if e.phase == "measure" and e.ledger] == []
    rates = [e.rate_tps for e in events if e.phase == "measure" and e.rate_tps is not None]
    assert sum(rates) / len(rates) == pytest.approx(run.interval(0).rate_tps, rel=0.02)
    means = [e.latency_ms for e in events if e.step == 0 and e.phase == "measure" and e.latency_ms]
    assert sum(means) / len(means) == pytest.approx(run.interval(0).mean_ms, rel=0.1)


def watched(run: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", "watch", str(run), "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_shows_a_run_that_has_ended(simulated: Run) -> None:
    for run, state in ((simulated.path, "finished"), (ARCHIVED, "4 finished steps, made again")):
        shown = watched(run)
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout.splitlines()[-1])["state"].startswith(state)
        assert "step 1/" in shown.stderr
        assert "done: mean" in shown.stderr


def test_the_command_follows_a_run_that_another_process_measures(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "a", {"experiment.yaml": ""}, {})
    command = [sys.executable, "-m", "harness", "watch", str(run.path)]
    with run.exclusively(), ProgressFile(run.path, 2) as file:
        file(moment(0, "submit"))
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as shown:
            assert shown.stderr is not None
            assert "submit" in shown.stderr.readline()
            file(moment(5000, "measure", rate_tps=50.0, latency_ms=12.5))
            assert "measure, 50/s, 12.5 ms" in shown.stderr.readline()
            os.kill(shown.pid, signal.SIGTERM)
            assert shown.wait(timeout=30) == 1


def test_the_command_says_what_is_no_run(tmp_path: Path) -> None:
    shown = watched(tmp_path)
    assert shown.returncode == 2
    assert len(shown.stderr.splitlines()) <= 2
