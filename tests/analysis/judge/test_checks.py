"""The verdict: every check passes on a good run, and each kind of trouble is named by its own check."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.judge.checks import first_fault, run_checks, unusable, verdict
from harness.analysis.judge.samples import Samples
from harness.analysis.spark.distribution import MISSING, NEGATIVE, NOT_A_NUMBER, ZERO
from harness.analysis.spark.inputs import RunRecord, read_run
from harness.protocols import CheckResult
from harness.quality import Finding, Tracked
from harness.runs import BurnInFound, CompleteLatency, FaultMade, Rejected

LEDGER = {
    "sent": 100,
    "received": 99,
    "absorbed": 1,
    "failed": 0,
    "lost": 0,
    "unconfirmed": 0,
    "duplicates": 0,
    "children_missing": 0,
    "balanced": True,
}


def made(tmp_path: Path, **step: Any) -> RunRecord:
    steps = [FakeStep(1, seconds=4, burn_in_s=2), FakeStep(2, seconds=4, burn_in_s=2, **step)]
    return read_run(build(tmp_path / "run", FakeRun(steps=steps)))


def results(run: RunRecord, samples: Samples | None = None) -> dict[tuple[str, int | None], CheckResult]:
    counted = samples or Samples(values=100)
    found = run_checks(run, {s.index: counted for s in run.steps})
    return {(r.check, r.step): r for r in found}


def failed(run: RunRecord, samples: Samples | None = None) -> Mapping[tuple[str, int | None], str]:
    return {k: r.detail for k, r in results(run, samples).items() if r.status != "valid"}


def test_a_good_run_is_valid(tmp_path: Path) -> None:
    run = made(tmp_path)
    assert failed(run) == {}
    assert verdict(results(run).values()) == "valid"
    assert unusable(results(run).values()) == {}


@pytest.mark.parametrize(
    ("step", "check", "says"),
    [
        ({"quality": {"steady": Finding(ok=False, detail="drift of 14 %")}}, "steady", "drift of 14 %"),
        ({"quality": {"plan_as_asked": Finding(ok=False, detail="3 workers")}}, "plan-as-asked", "3 workers"),
        ({"quality": {"generator": Finding(ok=False, detail="late by 80 ms")}}, "generator", "late by 80 ms"),
        ({"quality": {"alone": Finding(ok=False, detail="a cluster came up")}}, "alone", "a cluster came up"),
        ({"quality": {"clocks": Finding(ok=False, detail="set by 6000 ms")}}, "clocks", "set by 6000 ms"),
        ({"quality": {"stolen": Finding(ok=False, detail="20 % was stolen")}}, "stolen", "20 % was stolen"),
        ({"quality": {"receiver": Finding(ok=False, detail="stopped")}}, "receiver", "stopped"),
        (
            {"quality": {"errors_reported": Finding(ok=False, detail="bolt-a: oom")}},
            "errors-reported",
            "bolt-a: oom",
        ),
        ({"same_plan": False}, "plan-unchanged", "bolt-a["),
        (
            {"interval": {"burn_in": BurnInFound(found=False, seconds=60, reason="drifts")}},
            "burn-in",
            "drifts",
        ),
        (
            {"interval": {"precision_pct_reached": 6.5}},
            "precision",
            "±6.5 % of the mean reached, ±3.0 % asked",
        ),
        ({"quality": {"ledger": LEDGER | {"lost": 1, "sent": 100}}}, "ledger", "accounted for 101"),
        (
            {"quality": {"ledger": LEDGER | {"balanced": False, "problems": ["2 phantoms"]}}},
            "ledger",
            "2 phantoms",
        ),
        (
            {"quality": {"ledger": LEDGER | {"lost": 3, "received": 96}}},
            "ledger",
            "of 100 messages: lost 3",
        ),
        ({"quality": {"ledger": LEDGER | {"duplicates": 1}}}, "ledger", "of 100 messages: duplicates 1"),
        ({"quality": {"ledger": LEDGER | {"children_missing": 7}}}, "ledger", "children missing 7"),
        ({"quality": {"ledger": LEDGER | {"copies_missing": 2}}}, "ledger", "copies missing 2"),
        (
            {"quality": {"ledger": LEDGER | {"absorbed": 2, "received": 98}}},
            "ledger",
            "windows still held 2 of 100 messages at the end, more than 1 %: the longest waits are cut off",
        ),
        (
            {"quality": {"began_empty": Finding(ok=False, detail="still coming")}},
            "began-empty",
            "still coming",
        ),
        ({"quality": {"metrics": Finding(ok=False, detail="no metrics arrived")}}, "metrics", "no metrics"),
    ],
)
def test_each_trouble_makes_its_step_invalid(
    tmp_path: Path, step: dict[str, Any], check: str, says: str
) -> None:
    run = made(tmp_path, **step)
    found = failed(run)
    assert set(found) == {(check, 1)}
    assert says in found[check, 1]
    assert verdict(results(run).values()) == "invalid"
    kind = "unsteady" if check in ("steady", "burn-in") else "invalid"
    assert unusable(results(run).values())[1][0] == kind


BALANCED = Tracked(emitted=1000, acked=995, failed=0, pending_before=2, pending=7, unnamed=0)


@pytest.mark.parametrize(
    ("tracked", "status", "says"),
    [
        (BALANCED, "valid", "2 pending + 1000 emitted = 995 acked + 0 failed + 7 pending"),
        (BALANCED.model_copy(update={"acked": 994, "failed": 1}), "valid", "1 failed"),
        (BALANCED.model_copy(update={"acked": 993, "failed": 2}), "invalid", "2 failed"),
        (BALANCED.model_copy(update={"pending": 8}), "invalid", "the two sides differ"),
        (
            Tracked(emitted=0, acked=0, failed=0, pending_before=0, pending=0, unnamed=9),
            "valid",
            "no spout tracks its messages: 9 messages without an identifier",
        ),
    ],
)
def test_messages_that_the_topology_made_are_added_up(
    tmp_path: Path, tracked: Tracked, status: str, says: str
) -> None:
    found = results(made(tmp_path, quality={"tracked": tracked}))["tracked", 1]
    assert found.status == status
    assert says in found.detail


def test_what_does_not_apply_is_no_failure_and_says_why(tmp_path: Path) -> None:
    absent = {"generator": "it makes its own", "ledger": "see tracked", "samples": "no ground truth"}
    quality = {"absent": absent, "generator": None, "ledger": None, "tracked": BALANCED}
    run = made(tmp_path, quality=quality, interval={"latency": "ack"})
    of_its_own = replace(run.steps[1].asked, sent=False) if run.steps[1].asked else None
    steps = (run.steps[0], replace(run.steps[1], asked=of_its_own))
    found = results(replace(run, steps=steps))
    for name, reason in absent.items():
        assert (found[name, 1].status, found[name, 1].detail) == ("valid", f"does not apply: {reason}")
    assert "ack_latency_ms" in found["measured-latency", 1].detail
    assert "ground truth" in found["measured-latency", 0].detail


def test_a_check_is_absent_only_where_it_can_be(tmp_path: Path) -> None:
    absent = {"steady": "it does not concern us", "agreement": "nor does this", "generator": "nor this"}
    quality = {"absent": absent, "steady": Finding(ok=False, detail="drift"), "generator": None}
    found = results(made(tmp_path, quality=quality))
    assert found["steady", 1].status == "invalid"
    assert found["generator", 1].status == "unknown"
    assert found["agreement", 1].detail == ""  # asked like any other


@pytest.mark.parametrize("name", ["began_empty", "alone", "clocks", "stolen"])
def test_evidence_that_other_steps_of_the_run_have_is_unknown_where_it_is_not_there(
    tmp_path: Path, name: str
) -> None:
    found = failed(made(tmp_path, quality={name: None}))
    assert found == {(name.replace("_", "-"), 1): "not recorded"}


@pytest.mark.parametrize(
    ("stop_reason", "says"),
    [("time-limit", "missed at the time limit"), ("precision", "missed by what came out last")],
)
def test_a_precision_missed_by_less_than_twice_is_noted(tmp_path: Path, stop_reason: str, says: str) -> None:
    run = made(tmp_path, interval={"precision_pct_reached": 5.9, "stop_reason": stop_reason})
    found = results(run)["precision", 1]
    assert found.status == "valid"
    assert says in found.detail


@pytest.mark.parametrize("check", ["ledger", "backlog", "metrics", "generator", "receiver"])
def test_what_was_not_recorded_is_unknown_and_never_a_pass(tmp_path: Path, check: str) -> None:
    run = made(tmp_path, quality={check: None})
    assert {where: r.status for where, r in results(run).items() if r.status != "valid"} == {
        (check, 1): "unknown"
    }
    assert verdict(results(run).values()) == "unknown"


def test_a_step_that_was_measured_twice_says_so_and_why(tmp_path: Path) -> None:
    rejected = (
        Rejected(reason="burn-in: drift of 14 %", mean_ms=9.0, half_width_ms=0.1, machine_busy_pct=50.0),
    )
    run = made(tmp_path, interval={"attempt": 2, "rejected": rejected})
    assert results(run)["attempts", 0].detail == ""
    found = results(run)["attempts", 1]
    assert (found.status, found.detail) == ("valid", "measured again; before: burn-in: drift of 14 %")


def test_one_lost_message_in_a_thousand_is_noted(tmp_path: Path) -> None:
    ledger = LEDGER | {"sent": 2000, "received": 1998, "lost": 1, "duplicates": 1}
    found = results(made(tmp_path, quality={"ledger": ledger}))["ledger", 1]
    assert found.status == "valid"
    assert "lost 1" in found.detail
    assert "duplicates 1" in found.detail


def test_what_a_jar_may_drop_and_repeat_is_told_and_not_judged(tmp_path: Path) -> None:
    ledger = LEDGER | {"received": 60, "absorbed": 0, "without_output": 40, "repeated": 7, "foreign": 3}
    found = results(made(tmp_path, quality={"ledger": ledger}, interval={"latency": "topics"}))
    assert found["ledger", 1].status == "valid"
    assert found["ledger", 1].detail.endswith("lost 0, without output 40; repeated 7, foreign 3")
    assert found["measured-latency", 1].detail.startswith("from the append to the input topic to the append")


def loaded(tmp_path: Path, without: tuple[int, ...]) -> dict[int, CheckResult]:
    """The check backlog of steps at 100, 200 and so on messages/s, 10,000 messages each."""
    kept = {"received": 10_000, "absorbed": 0, "sent": 10_000}
    steps = [
        FakeStep(
            n,
            seconds=4,
            burn_in_s=2,
            rate_tps=100 * n,
            quality={"ledger": LEDGER | kept | {"received": 10_000 - out, "without_output": out}},
            interval={"latency": "topics"},
        )
        for n, out in enumerate(without, start=1)
    ]
    found = results(read_run(build(tmp_path / "run", FakeRun(steps=steps))))
    return {step: found["backlog", step] for step in range(len(without))}


def test_a_jar_that_leaves_out_more_at_a_higher_rate_is_not_said_to_keep_up(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """A filter of one in ten, which sheds half of the load at 300 messages/s."""
    found = loaded(tmp_path, (1000, 1030, 5500))
    assert [found[n].status for n in range(3)] == ["valid", "valid", "unknown"]
    assert found[2].detail.startswith(
        "55.0 % of the messages have no output at 300 messages/s, 10.0 % in step 0 at 100:"
    )
    assert verdict(found.values()) == "unknown"
    figure(found[2].detail.partition(":")[0])


@pytest.mark.parametrize("without", [(0, 0, 0), (1000, 1110, 960), (0, 60, 90), (3334, 3300, 3390)])
def test_a_filter_that_leaves_out_the_same_share_is_none_that_sheds(
    tmp_path: Path, without: tuple[int, int, int]
) -> None:
    """The largest difference here, of 1.5 % of 10,000, is 3.5 standard errors; below 1 % none counts."""
    assert {r.status for r in loaded(tmp_path, without).values()} == {"valid"}


@pytest.mark.parametrize(("out", "status"), [(5500, "unknown"), (1000, "unknown"), (90, "valid")])
def test_a_jar_that_leaves_messages_out_at_one_load_only_is_not_said_to_keep_up(
    tmp_path: Path, out: int, status: str
) -> None:
    """One load tells a filter of one in ten as little as half that is shed; 1 % may go astray in any step."""
    found = loaded(tmp_path, (out,))
    assert found[0].status == status
    assert ("every step has the same load" in found[0].detail) == (status == "unknown")


@pytest.mark.parametrize(
    "wrong",
    [
        {"received": 60, "absorbed": 0, "lost": 40},
        {"duplicates": 7},
        {"balanced": False, "problems": ["3 records have no name"], "foreign": 3},
    ],
)
def test_a_jar_that_drops_and_repeats_without_saying_so_is_told_how(
    tmp_path: Path, wrong: Mapping[str, object]
) -> None:
    step: dict[str, Any] = {"quality": {"ledger": LEDGER | wrong}}
    found = results(made(tmp_path, **step, interval={"latency": "topics"}))["ledger", 1]
    assert found.status == "invalid"
    assert "say topology.topics.outputs: any" in found.detail
    own = results(made(tmp_path / "own", **step))["ledger", 1]
    assert own.status == "invalid"
    assert "topics" not in own.detail


def test_what_went_astray_counts_together(tmp_path: Path) -> None:
    """Each alone is one in a thousand, both are two."""
    ledger = LEDGER | {"sent": 1000, "received": 998, "lost": 1, "duplicates": 1}
    found = results(made(tmp_path, quality={"ledger": ledger}))["ledger", 1]
    assert (found.status, found.detail) == ("invalid", "of 1000 messages: lost 1, duplicates 1")


@pytest.mark.parametrize(("reached_pct", "status"), [(2.0, "valid"), (5.9, "valid"), (6.1, "invalid")])
def test_a_precision_from_dependent_batches_is_noted(tmp_path: Path, reached_pct: float, status: str) -> None:
    run = made(tmp_path, interval={"independent": False, "precision_pct_reached": reached_pct})
    found = results(run)["precision", 1]
    assert found.status == status
    assert "batches that depend on each other" in found.detail


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        (Samples(), "no latency"),
        (Samples(values=5, negative=1), "1 latencies are negative"),
        (Samples(values=5, not_a_number=2), "2 latencies are not numbers"),
        (Samples(values=5, outside=3), "3 rows are marked"),
        (Samples(values=5, missing=4), "4 latencies are missing"),
    ],
)
def test_odd_samples_are_an_error_to_explain(tmp_path: Path, samples: Samples, says: str) -> None:
    found = failed(made(tmp_path), samples)
    assert set(found) == {("samples", 0), ("samples", 1)}
    assert says in found["samples", 0]


def test_silent_tasks_are_named(tmp_path: Path) -> None:
    run = made(tmp_path)
    task = run.steps[0].plan.start.of("sender")[0].first_task
    assert f"sender:{task}" in failed(run, Samples(values=9, silent_tasks=(task,)))["metrics", 0]


def test_an_unfinished_run_is_unknown(tmp_path: Path) -> None:
    whole = made(tmp_path)
    run = replace(whole, steps=whole.steps[:1])
    assert failed(run) == {("all-steps", None): "1 of 2 steps finished"}
    assert verdict(results(run).values()) == "unknown"


def test_what_no_server_ran_was_not_measured(tmp_path: Path) -> None:
    steps = [FakeStep(1, seconds=4, burn_in_s=2)]
    run = read_run(build(tmp_path / "run", FakeRun(steps=steps, cluster_kind="simulator")))
    assert set(failed(run)) == {("real-cluster", None)}
    assert verdict(results(run).values()) == "invalid"


def test_a_crashed_check_is_unknown(tmp_path: Path) -> None:
    run = made(tmp_path)
    odd = run.steps[1].quality.model_copy(update={"generator": object()})
    run = replace(run, steps=(run.steps[0], replace(run.steps[1], quality=odd)))
    found = results(run)["generator", 1]
    assert found.status == "unknown"
    assert "AttributeError" in found.detail
    assert verdict(results(run).values()) == "unknown"


def test_invalid_goes_before_unknown_and_nothing_checked_is_unknown() -> None:
    assert (
        verdict([CheckResult("a", "unknown"), CheckResult("b", "invalid"), CheckResult("c", "valid")])
        == "invalid"
    )
    assert verdict([]) == "unknown"


def test_samples_are_counted_from_the_histogram() -> None:
    rows = [
        (0, 0, MISSING, 1),
        (0, 0, NOT_A_NUMBER, 2),
        (0, 0, NEGATIVE, 3),
        (0, 1, ZERO, 4),
        (0, 25, 900, 5),
        (1, 0, 7, 9),
    ]
    frame = pd.DataFrame(rows, columns=["step", "batch", "bin", "n"])
    assert Samples.of(frame, 0) == Samples(values=12, missing=1, not_a_number=2, negative=3, outside=5)
    assert Samples.of(frame, 3) == Samples()
    assert Samples.of(frame, 1).values == 9


@pytest.mark.parametrize(
    ("steal_pct", "status", "says"),
    [  # the limit is 10 %, of new runs and of those from before there was one
        (20.3, "invalid", "20.3 % of the CPU time was stolen in the interval, and at most 10 % are allowed"),
        (10.0, "valid", "10.0 % of the CPU time was stolen in the interval"),
        (None, "valid", "not recorded"),
    ],
)
def test_runs_from_before_there_was_a_limit_of_stolen_time_are_held_to_it(
    tmp_path: Path, steal_pct: float | None, status: str, says: str, figure: Callable[[str], None]
) -> None:
    run = made(tmp_path, interval={"machine_steal_pct": steal_pct})
    older = [replace(s, quality=s.quality.model_copy(update={"stolen": None})) for s in run.steps]
    run = replace(run, steps=tuple(replace(s, recorded=frozenset()) for s in older))
    assert set(failed(run)) == ({("stolen", 1)} if status == "invalid" else set())
    found = results(run)["stolen", 1]
    assert (found.status, found.detail) == (status, says)
    if status == "invalid":
        figure(says)
    assert results(run)["stolen", 0].detail == "not recorded"


def test_stolen_time_of_a_run_that_should_have_it_and_has_not_is_unknown(tmp_path: Path) -> None:
    run = made(tmp_path, interval={"machine_steal_pct": 1.0})
    older = [replace(s, quality=s.quality.model_copy(update={"stolen": None})) for s in run.steps]
    run = replace(run, steps=tuple(replace(s, recorded=frozenset({"stolen"})) for s in older))
    assert results(run)["stolen", 1].status == "unknown"


@pytest.mark.parametrize(
    ("problem", "status", "says"),
    [
        ("", "valid", "stop broker (process 7) at 20 s; no evidence for models"),
        ("gone", "invalid", "stop broker at 20 s was not made: gone; no evidence for models"),
    ],
)
def test_faults_are_told_and_no_model_is_judged_by_them(
    tmp_path: Path, problem: str, status: str, says: str
) -> None:
    fault = FaultMade(
        what="stop broker",
        asked_s=20,
        done="stop broker (process 7)",
        at_ns=None if problem else 1,
        until_ns=None,
        problem=problem,
    )
    run = made(tmp_path, interval={"faults": (fault,), "evidence": False})
    found = results(run)["faults", 1]
    assert (found.status, found.detail) == (status, says)
    assert unusable((), run.steps) == {1: ("invalid", f"step 1: faults: {says}")}
    assert first_fault(run.steps[1], Samples(values=100)) == f"faults: {says}"
    assert first_fault(run.steps[0], Samples(values=100)) == ""


def test_models_are_judged_by_a_step_with_faults_where_that_is_asked_for(tmp_path: Path) -> None:
    fault = FaultMade(
        what="stop broker", asked_s=20, done="stop broker (process 7)", at_ns=1, until_ns=None, problem=""
    )
    run = made(tmp_path, interval={"faults": (fault,)})
    assert results(run)["faults", 1].detail == "stop broker (process 7) at 20 s"
    assert unusable(results(run).values(), run.steps) == {}


def test_too_few_results_are_said_without_infinities(tmp_path: Path) -> None:
    found = results(made(tmp_path, interval={"precision_pct_reached": math.inf}))["precision", 1]
    assert found.status == "invalid"
    assert found.detail.startswith("too few results for a mean, ±")
    assert "inf" not in found.detail


@pytest.mark.parametrize(
    ("complete_ms", "says"),
    [
        # a spout that sleeps 2 s in nextTuple after a burst: acks wait for it
        (
            14.0,
            "; of its 2000.0 ms the spout's own calls hold acks back for 1986.0 ms:"
            " Storm's complete latency is 14.0",
        ),
        (1990.0, ""),
    ],
)
def test_acks_that_wait_for_their_spout_are_said(tmp_path: Path, complete_ms: float, says: str) -> None:
    quality = {"absent": {"samples": "none"}, "ledger": None, "tracked": BALANCED}
    complete = {
        "spout[1-1]": CompleteLatency(mean_ms=complete_ms - 1, acked=50),
        "spout[2-2]": CompleteLatency(mean_ms=complete_ms + 1, acked=50),
    }
    interval = {"latency": "ack", "mean_ms": 2000.0, "complete_latency_ms": complete}
    found = results(made(tmp_path, quality=quality, interval=interval))["measured-latency", 1]
    assert found.status == "valid"
    assert says in found.detail
    assert ("hold acks back" in found.detail) == bool(says)
