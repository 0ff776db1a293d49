"""The shipped example of an observation, and a user's model run through the conformance checks on it.

The example is a few seconds of one measured step of all-in-one (a multiplier and windows, keyed streams), and
another plan of that topology. Both are cut from an archived run by `scripts/example.py`.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pyarrow.parquet as pq

from harness.models.contract.conformance import Case, conform
from harness.plans import PhysicalPlan
from harness.protocols import Model, Observation, Settings


def example() -> Case:
    """Return the shipped question: the observation of one step, and another plan to predict.

    Examples
    --------
    >>> case = example()
    >>> case.proposed == case.source.plan
    False
    """
    folder = Path(str(resources.files("harness"))) / "assets" / "example"
    said = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    settings = Settings(said["storm"], said["version"], said["poll_timeout_ms"])
    source = Observation(
        plan=PhysicalPlan.model_validate(said["source_plan"]),
        settings=settings,
        rate_tps=said["rate_tps"],
        interval_s=said["interval_s"],
        metrics=pq.read_table(folder / "metrics.parquet").to_pandas(),
        latency=pq.read_table(folder / "latency.parquet").to_pandas(),
        complete_latency_ms=said["complete_latency_ms"],
    )
    proposed = PhysicalPlan.model_validate(said["proposed_plan"])
    return Case(source, proposed, settings, said["rate_tps"])


def assert_conforms(model: Model, case: Case | None = None) -> None:
    """Raise AssertionError with every check that a model fails; for a model's own tests.

    Parameters
    ----------
    model : Model
    case : Case, optional
        The question to ask; the shipped example by default.
    """
    failed = [f"{o.check}: {o.problem}" for o in conform(model, case or example()) if o.problem]
    if failed:
        raise AssertionError("; ".join(failed))
