"""Named checks whether a run can be believed, over the campaign's records, and the verdict.

Pure: a run's small files and the counts of its samples in, results out. A check that crashes is
``unknown``, never a pass. A run is invalid when any check is, else unknown when any is, else valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from harness.analysis.judge import evidence
from harness.analysis.judge.samples import Outcome, Samples, StepCheck
from harness.analysis.judge.shedding import shed_load
from harness.analysis.spark.inputs import RunRecord, StepRecord
from harness.experiments.clusters import MEASURED_KINDS
from harness.experiments.precision import MOST_MISSED_FACTOR, precision_words
from harness.protocols import CheckResult, Verdict
from harness.quality import Finding
from harness.schemas import Measure

UNSTEADY = ("steady", "burn-in")
"""Checks whose failure makes a step's pairs ``unsteady``; any other failure makes them ``invalid``."""
MOST_ASTRAY_SHARE = 0.001
"""Share of the messages that may have been lost, failed, repeated or left without a child, all together. It
is a tenth of the last percent, so that missing messages do not decide the 99th percentile."""
ASTRAY = ("failed", "lost", "unconfirmed", "duplicates", "children_missing", "copies_missing")
"""Terms of the ledger that make it incomplete."""
FREE_HINT = "where a jar's topology filters, splits or adds messages, say topology.topics.outputs: any"
FREELY = ("without_output", "repeated", "foreign")
"""Terms that are told and not judged: of a jar that says that it drops and multiplies messages."""
MOST_ABSORBED_SHARE = 0.01
"""Share of the messages that windows may still hold at the end. They are in no mean, and they are those that
wait longest: above this the mean and the 99th percentile are of the quick windows only."""

MOST_NAMED = 5
"""Tasks or executors that one line names."""
DECLINED = "declined"
"""Stands for a step whose placement could not be had; the others are as good as without it."""
ADAPTS = "adapts"
"""Stands for a step whose plan changed while it was measured: it passes, and is no pair's."""
CHANGES = "changes"
"""Stands for a step whose rate changed while it was measured, in the same way."""
OF_SAMPLES = "samples"
"""The check that counts a step's rows."""
BACKLOG = "backlog"
"""The check that says whether a step kept up with its input."""
NO_EVIDENCE = "no evidence for models"
"""Said of a step with faults, unless its experiment asks to judge models by it."""

RunCheck = Callable[[RunRecord], Outcome]


def run_checks(run: RunRecord, samples: Mapping[int, Samples]) -> tuple[CheckResult, ...]:
    """Carry out every check.

    Parameters
    ----------
    run : RunRecord
        The run directory's small files.
    samples : mapping of int to Samples
        By step; a step that is not in it has no samples.
    """
    return tuple(_all(run, samples))


def _all(run: RunRecord, samples: Mapping[int, Samples]) -> Iterator[CheckResult]:
    for name, check in RUN_CHECKS.items():
        status, detail = _guarded(lambda check=check: check(run))  # type: ignore[misc]
        yield CheckResult(name, status, None, detail)
    for declined in run.declined:
        yield CheckResult(DECLINED, "valid", declined.step, declined.reason)
    shed = shed_load(run.steps)
    for step in run.steps:
        yield from _rate_changes(step)
        yield from _adaptation(step)
        counted = samples.get(step.index, Samples())
        for name, of_step in STEP_CHECKS.items():
            if name in step.absent:
                yield CheckResult(name, "valid", step.index, f"does not apply: {step.absent[name]}")
                continue
            status, detail = _guarded(lambda c=of_step, s=step, n=counted: c(s, n))  # type: ignore[misc]
            if name == BACKLOG and step.index in shed and not step.quality.saturated:
                status, detail = "unknown", shed[step.index]
            yield CheckResult(name, status, step.index, detail)


def _rate_changes(step: StepRecord) -> Iterator[CheckResult]:
    """Yield the note on a step whose rate changed; none of others."""
    if step.asked is not None and step.asked.step.changes:
        yield CheckResult(CHANGES, "valid", step.index, f"{step.asked.step.rate}: no source")


def _adaptation(step: StepRecord) -> Iterator[CheckResult]:
    """Yield the checks of a step that adapted its plan; none of others."""
    found = step.quality.adaptation
    if found is None:
        return
    yield CheckResult(ADAPTS, "valid", step.index, f"its plan changed {found.applied} times: no source")
    for name, finding in (
        ("plan-as-decided", found.plan_as_decided),
        ("losses-explained", found.losses_explained),
    ):
        yield CheckResult(name, "valid" if finding.ok else "invalid", step.index, finding.detail)


def first_fault(step: StepRecord, samples: Samples) -> str:
    """Return the first check that a step fails, of those that do not ask its latencies; empty for none."""
    for name, check in STEP_CHECKS.items():
        if name in step.absent or name == OF_SAMPLES:
            continue
        status, detail = _guarded(lambda check=check: check(step, samples))  # type: ignore[misc]
        if status == "invalid":
            return f"{name}: {detail}" if detail else name
    return "" if step.interval.evidence else f"faults: {_faults(step, samples)[1]}"


def _guarded(check: Callable[[], Outcome]) -> Outcome:
    try:
        return check()
    except Exception as error:  # a broken check must not look like a pass, nor end the report
        return "unknown", f"the check failed: {type(error).__name__}: {error}"


def verdict(results: Iterable[CheckResult]) -> Verdict:
    """Return the run's verdict: the worst of its checks, ``invalid`` before ``unknown``.

    Examples
    --------
    >>> verdict([CheckResult("a", "valid"), CheckResult("b", "unknown")])
    'unknown'
    """
    found = {r.status for r in results}
    return "invalid" if "invalid" in found else "unknown" if "unknown" in found or not found else "valid"


def unusable(results: Iterable[CheckResult], steps: Iterable[StepRecord] = ()) -> dict[int, tuple[str, str]]:
    """Return the verdict and reason of the pairs of steps that failed a check or are no evidence.

    Steps that are not of one experiment are none of them.
    """
    steps, results = tuple(steps), tuple(results)
    mixed = [r.detail for r in results if r.check == evidence.ONE_EXPERIMENT and r.status == "invalid"]
    if mixed:
        return {s.index: ("invalid", f"{evidence.ONE_EXPERIMENT}: {mixed[0]}") for s in steps}
    found: dict[int, tuple[str, str]] = {
        s.index: ("invalid", f"step {s.index}: faults: {_faults(s, Samples())[1]}")
        for s in steps
        if not s.interval.evidence
    }
    for r in results:
        if r.step is None or (r.status != "invalid" and r.check not in (ADAPTS, CHANGES)):
            continue
        kind = "unsteady" if r.check in UNSTEADY else "invalid"
        if r.step not in found or (found[r.step][0] == "unsteady" and kind == "invalid"):
            found[r.step] = kind, f"step {r.step}: {r.check}: {r.detail}"
    return found


def _ok(ok: bool, detail: str) -> Outcome:
    return ("valid" if ok else "invalid"), detail


def _cluster(run: RunRecord) -> Outcome:
    kind, asked = run.kinds
    if not kind:
        return "unknown", "environment.json does not say what kind of cluster was measured"
    if asked not in ("", kind) and kind in MEASURED_KINDS:
        return "invalid", f"cluster: {kind} in environment.json, and {asked} in experiment.yaml"
    simulated = "" if run.measured else "; not real servers, so nothing was measured"
    return _ok(run.measured, f"cluster: {kind}{simulated}")


def _all_steps(run: RunRecord) -> Outcome:
    found = len(run.steps)
    declined = [str(d.step) for d in run.declined]
    detail = f"{found} of {run.asked_steps} steps finished"
    if declined:
        detail += f", {len(declined)} declined ({', '.join(declined)})"
    return ("valid" if found + len(declined) == run.asked_steps else "unknown"), detail


def _plan_as_asked(step: StepRecord, _: Samples) -> Outcome:
    """Compare the applied plan with what was asked, and believe the campaign's finding too.

    Where a placement was asked, it is compared executor by executor.
    """
    asked, applied = step.plan.asked, step.plan.start.configuration()
    wrong = [
        f"{name}: {count} executors asked, {applied.executors.get(name, 0)} applied"
        for name, count in asked.executors.items()
        if applied.executors.get(name, 0) != count
    ]
    if applied.workers != asked.workers:
        wrong.append(f"{asked.workers} workers asked, {applied.workers} applied")
    if step.plan.placement is not None:
        wrong += step.plan.placement.differences(step.plan.start)[:MOST_NAMED]
    found = step.quality.plan_as_asked
    if not found.ok:
        wrong.append(found.detail or "the campaign found that it is not")
    return _ok(not wrong, "; ".join(wrong))


def _plan_unchanged(step: StepRecord, _: Samples) -> Outcome:
    found = step.quality.plan_unchanged
    moved = set(step.plan.start.executors) ^ set(step.plan.end.executors)
    labels = sorted({e.label for e in moved})
    detail = found.detail or (f"moved during the step: {', '.join(labels[:5])}" if labels else "")
    return _ok(found.ok and not moved, detail)


def _ledger(step: StepRecord, _: Samples) -> Outcome:
    """Add up the fates again, sent = received + absorbed + filtered + failed + lost; see what went astray.

    A jar that may leave messages out has them without output, instead of lost.
    """
    ledger = step.quality.ledger
    if ledger is None:
        return "unknown", "the step has no ledger"
    counts = ledger.counts
    fates = {k: counts[k] for k in ("received", "absorbed", "failed", "lost")}
    if ledger.filtered:
        fates["filtered"] = ledger.filtered
    freely = {k.replace("_", " "): counts[k] for k in FREELY if counts[k]}
    fates |= {k: n for k, n in freely.items() if k == "without output"}
    sent = ledger.sent
    counted = ", ".join(f"{k} {v}" for k, v in fates.items())
    detail = f"sent {sent} = {counted}"
    hint = f"; {FREE_HINT}" if step.interval.by_broker else ""
    if not ledger.balanced or sum(fates.values()) != sent:
        said = "; ".join(ledger.problems) or f"sent {sent}, accounted for {sum(fates.values())} ({counted})"
        return "invalid", said + (hint if ledger.foreign else "")
    astray = {k.replace("_", " "): counts[k] for k in ASTRAY if counts[k]}
    if astray:
        detail = f"of {sent} messages: " + ", ".join(f"{k} {v}" for k, v in astray.items())
    wrong = sum(astray.values()) > MOST_ASTRAY_SHARE * sent
    if wrong:
        detail += hint
    if told := ", ".join(f"{k} {n}" for k, n in freely.items() if k != "without output"):
        detail += f"; {told}"
    if (held := fates["absorbed"]) > MOST_ABSORBED_SHARE * sent:
        wrong = True
        detail += (
            f"; windows still held {held} of {sent} messages at the end, more than"
            f" {100 * MOST_ABSORBED_SHARE:g} %: the longest waits are cut off"
        )
    return _ok(not wrong, detail)


def _tracked(step: StepRecord, _: Samples) -> Outcome:
    """Add up the fates of the messages that a topology made itself; few may fail."""
    found = step.quality.tracked
    if found is None:
        return "valid", "the harness sends the messages: see the check ledger"
    if not found.balanced:
        return "invalid", f"{found}: the two sides differ"
    unnamed = f"{found.unnamed} messages without an identifier, whose fate nobody knows"
    if not found.emitted:
        return "valid", f"no spout tracks its messages: {unnamed}"
    detail = f"{found}" + (f"; {unnamed}" if found.unnamed else "")
    return _ok(found.failed <= MOST_ASTRAY_SHARE * found.emitted, detail)


MEASURED = {
    "ground-truth": "from the spout's emit to the sink's send (ground truth)",
    "topics": "from the append to the input topic to the append to the output topic (ground truth; in whole"
    " milliseconds)",
    "ack": f"from the spout's emit to the ack ({Measure.ACK}); there is no ground truth",
    "service": "none: no spout tracks its messages and there is no ground truth; judged are rates, routing,"
    " I/O ratios and service times",
}
"""Meaning of a step's latency, by its kind."""


LEAST_HELD_MS = 20.0
"""By so much, and by half of all, an ack waits for its spout before it is said."""


def _measured_latency(step: StepRecord, _: Samples) -> Outcome:
    """Say which latency was measured, and how much of one from emit to ack is the spout's own."""
    said, interval = MEASURED[step.interval.latency], step.interval
    found = [c for c in interval.complete_latency_ms.values() if c.mean_ms is not None and c.acked > 0]
    if interval.latency != "ack" or not found:
        return "valid", said
    complete_ms = sum(c.acked * (c.mean_ms or 0.0) for c in found) / sum(c.acked for c in found)
    held_ms = interval.mean_ms - complete_ms
    if held_ms >= LEAST_HELD_MS and held_ms >= complete_ms:
        said += (
            f"; of its {interval.mean_ms:.1f} ms the spout's own calls hold acks back for {held_ms:.1f} ms:"
            f" Storm's complete latency is {complete_ms:.1f} ms"
        )
    return "valid", said


def _backlog(step: StepRecord, _: Samples) -> Outcome:
    """Say whether the topology kept up; a saturated step is a result, and no mistake."""
    found = step.quality.backlog
    if found is None:
        return "unknown", "not recorded"
    return "valid", step.quality.saturated or f"kept up: {found}"


def _unless_saturated(check: StepCheck) -> StepCheck:
    """Pass a step whose backlog grew: its latency drifts, and has no mean to be precise about."""

    def of(step: StepRecord, samples: Samples) -> Outcome:
        return ("valid", step.quality.saturated) if step.quality.saturated else check(step, samples)

    return of


def _attempts(step: StepRecord, _: Samples) -> Outcome:
    """Say that a step was measured again, and why, which is never how large its latency is."""
    return "valid", step.interval.measured_again


def _steady(step: StepRecord, _: Samples) -> Outcome:
    return _ok(step.quality.steady.ok, step.quality.steady.detail)


def _burn_in(step: StepRecord, _: Samples) -> Outcome:
    found = step.interval.burn_in
    return _ok(found.found, f"{found.seconds:.0f} s" + (f", {found.reason}" if found.reason else ""))


def _precision(step: StepRecord, _: Samples) -> Outcome:
    asked, reached = step.interval.precision_pct_asked, step.interval.precision_pct_reached
    detail = f"{precision_words(reached)}, ±{asked:.1f} % asked"
    if not reached >= 0:
        return "unknown", "no precision was computed"
    if not step.interval.independent:  # the half-width was widened for it, by an estimate
        detail += ", from batches that depend on each other"
    if reached <= asked:
        return "valid", detail
    # a look ends the interval as soon as it is precise enough; what came out after it is in what was reached
    when = "at the time limit" if step.interval.stop_reason == "time-limit" else "by what came out last"
    return _ok(reached <= MOST_MISSED_FACTOR * asked, f"{detail}, missed {when}")


def _found(finding: Finding | None) -> Outcome:
    return _ok(finding.ok, finding.detail) if finding is not None else ("unknown", "not recorded")


def _faults(step: StepRecord, _: Samples) -> Outcome:
    """Say which faults were made; one that was not made leaves the step without what it was measured for."""
    made = step.interval.faults
    detail = "; ".join([*map(str, made), *(() if step.interval.evidence else (NO_EVIDENCE,))])
    return _ok(not any(fault.problem for fault in made), detail)


def _generator(step: StepRecord, _: Samples) -> Outcome:
    return _found(step.quality.generator)


def _receiver(step: StepRecord, _: Samples) -> Outcome:
    return _found(step.quality.receiver)


def _errors_reported(step: StepRecord, _: Samples) -> Outcome:
    return _ok(step.quality.errors_reported.ok, step.quality.errors_reported.detail)


def _samples(step: StepRecord, samples: Samples) -> Outcome:
    """Look for latencies that are negative, not numbers, missing, or not there at all."""
    wrong = []
    if samples.values == 0:
        wrong.append("no latency was measured in the interval")
    if samples.negative:
        wrong.append(f"{samples.negative} latencies are negative")
    if samples.not_a_number:
        wrong.append(f"{samples.not_a_number} latencies are not numbers")
    if samples.outside:
        wrong.append(f"{samples.outside} rows are marked as in the interval and were scheduled outside it")
    hosts = {n.host for n in step.plan.start.nodes}
    if samples.missing and len(hosts) == 1:
        wrong.append(f"{samples.missing} latencies are missing though all nodes share one clock")
    detail = f"{samples.values} latencies"
    if samples.missing and len(hosts) > 1:
        detail += f"; {samples.missing} between hosts that share no clock"
    return _ok(not wrong, "; ".join(wrong) or detail)


def _metrics(step: StepRecord, samples: Samples) -> Outcome:
    """Require metrics of every task of the topology, in buckets that tile the interval, and none lost.

    Not of a run that was not instrumented.
    """
    found = step.quality.metrics
    if found is not None and not found.ok:
        return "invalid", found.detail
    if step.metrics_rows == 0:
        return ("unknown", "no metrics, and no word on why") if found is None else ("valid", found.detail)
    if silent := [f"{step.plan.start.by_task[t].component}:{t}" for t in samples.silent_tasks]:
        return "invalid", f"no metrics in the interval from {', '.join(silent[:5])}"
    if samples.untiled:
        more = f", and of {rest} more tasks" if (rest := len(samples.untiled) - MOST_NAMED) > 0 else ""
        return "invalid", f"buckets do not tile the interval: {'; '.join(samples.untiled[:MOST_NAMED])}{more}"
    return ("unknown", "whether any was lost is not recorded") if found is None else ("valid", "")


RUN_CHECKS: Mapping[str, RunCheck] = {
    "real-cluster": _cluster,
    "all-steps": _all_steps,
    evidence.ONE_EXPERIMENT: evidence.one_experiment,
}
STEP_CHECKS: Mapping[str, StepCheck] = {
    "plan-as-asked": _plan_as_asked,
    "plan-unchanged": _plan_unchanged,
    "measured-latency": _measured_latency,
    "ledger": _ledger,
    "tracked": _tracked,
    "attempts": _attempts,
    BACKLOG: _backlog,
    "steady": _unless_saturated(_steady),
    "burn-in": _unless_saturated(_burn_in),
    "precision": _unless_saturated(_precision),
    "faults": _faults,
    "began-empty": evidence.began_empty,
    "alone": evidence.alone,
    "clocks": evidence.clocks,
    "stolen": evidence.stolen,
    "generator": _generator,
    "receiver": _receiver,
    "errors-reported": _errors_reported,
    OF_SAMPLES: _samples,
    "metrics": _metrics,
    evidence.AGREEMENT: evidence.agreement,
    evidence.SEAL: evidence.seal,
}
