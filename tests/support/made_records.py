"""Records of a step with every key, of which a test says only what it is about."""

from __future__ import annotations

from typing import Any

from harness.plans import PhysicalPlan, Relief
from harness.quality import Finding, Ledger, Quality
from harness.runs import BurnInFound, Interval, StepPlan

S = 1_000_000_000
COUNTS = (
    *("sent", "unconfirmed", "received", "absorbed", "filtered", "failed", "lost", "without_output"),
    *("duplicates", "repeated", "overlapping", "foreign", "phantom", "earlier"),
    *("children_missing", "children_surplus", "copies_missing"),
)


def ledger(**given: Any) -> Ledger:
    """Return a ledger that balances, with no messages."""
    none: dict[str, Any] = dict.fromkeys(COUNTS, 0)
    none |= dict.fromkeys(("lost_ids", "phantom_ids", "problems"), ())
    return Ledger(**(none | {"balanced": True, "complete": True, "reason": ""} | given))


def quality(**given: Any) -> Quality:
    """Return the quality of a step of which nothing but the plan and its steadiness was looked at."""
    fine = Finding(ok=True)
    seen = dict.fromkeys(("plan_as_asked", "plan_unchanged", "steady", "errors_reported"), fine)
    unseen = dict.fromkeys(set(Quality.model_fields) - set(seen))
    return Quality(**{**unseen, **seen, "absent": {}, **given})


def interval(**given: Any) -> Interval:
    """Return a step that was asked for at 100 s, up at 107 s and measured from 127 to 167 s."""
    made: dict[str, Any] = {
        "step": 0,
        "configuration": "spec-0/1x1@1",
        "rate_tps": 1,
        "rebalance_start_ns": 100 * S,
        "up_ns": 107 * S,
        "start_ns": 127 * S,
        "end_ns": 167 * S,
        "settled_ns": 168 * S,
        "drained_ns": 170 * S,
        "done_ns": 172 * S,
        "overhead_s": 12.0,
        "start_epoch_ms": 0,
        "end_epoch_ms": 40_000,
        "burn_in": BurnInFound(found=True, seconds=20, reason="made"),
        "stop_reason": "precision",
        "mean_ms": 1,
        "half_width_ms": 0,
        "precision_pct_asked": 1,
        "precision_pct_reached": 0,
        "independent": True,
        "looks": 1,
        "latency": "ground-truth",
        "complete_latency_ms": {},
        "submission": "first",
        "attempt": 1,
        "rejected": (),
        "rejected_s": 0.0,
        "machine_busy_pct": None,
        "machine_steal_pct": None,
        "clock_offset_start_ns": None,
        "clock_offset_end_ns": None,
        "faults": (),
        "evidence": True,
    }
    return Interval(**(made | given))


def step_plan(start: PhysicalPlan, **given: Any) -> StepPlan:
    """Return a plan that is in force as asked, and stays."""
    asked = given.pop("asked", None) or start.configuration()
    made = {"start": start, "end": start, "placement": None, "batching": None, "relief": Relief()}
    return StepPlan(asked=asked, **(made | given))
