"""The run directory: its records as types, written whole or not at all, and read back whatever its age."""

from harness.runs.directory import (
    SEALED,
    Run,
    judged,
    judged_alone,
    read_adaptation,
    read_latency,
    read_plan,
    read_table,
    utc_now,
)
from harness.runs.records import (
    BurnInFound,
    CompleteLatency,
    DeclinedStep,
    FaultMade,
    Interval,
    Latency,
    Rejected,
    StepFiles,
    StepPlan,
    StepTuning,
    Submission,
)

__all__ = [
    "SEALED",
    "BurnInFound",
    "CompleteLatency",
    "DeclinedStep",
    "FaultMade",
    "Interval",
    "Latency",
    "Rejected",
    "Run",
    "StepFiles",
    "StepPlan",
    "StepTuning",
    "Submission",
    "judged",
    "judged_alone",
    "read_adaptation",
    "read_latency",
    "read_plan",
    "read_table",
    "utc_now",
]
