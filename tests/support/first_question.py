"""A process that loads the service's model, then asks; prints what only the question loaded or compiled."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import pyarrow.compute as pc
from left_running import STEP, archived, left_running
from numba.core.dispatcher import Dispatcher

from harness.app.submitted.live_rows import LiveRows
from harness.app.submitted.observing import RowSpan
from harness.app.submitted.plan_file import labels
from harness.runs import read_table
from harness.service.answers import ProposalAsked
from harness.service.application import create_application
from harness.service.model_loading import load_model


def compiled() -> set[str]:
    """Return every compiled function with the types that it is compiled for."""
    found = (thing for thing in gc.get_objects() if isinstance(thing, Dispatcher))
    return {f"{one.py_func.__qualname__}{signature}" for one in found for signature in one.signatures}


def main(folder: Path) -> None:
    """Ask what ``AskingScheduler`` asks of a submitted topology."""
    create_application([folder])
    load_model()
    modules, functions = set(sys.modules), compiled()
    run = archived()
    interval, plan = run.interval(STEP), run.plan(STEP).start
    topology = left_running(folder)
    rows = read_table(run.step_path(STEP) / "metrics.parquet")
    rows = rows.filter(pc.less_equal(rows["bucket_end_ms"], interval.end_epoch_ms))
    live = LiveRows(rows, RowSpan(interval.start_epoch_ms - 60_000, interval.end_epoch_ms))
    from harness.service.proposals import predict_left  # noqa: PLC0415 (after the model is loaded)

    asked = ProposalAsked.model_validate({"from": labels(plan), "placement": labels(plan)})
    answer = predict_left(topology, live, asked)
    assert answer["proposed"]["status"] == "ok", answer  # type: ignore[index]
    loaded = set(sys.modules) - modules
    told = {
        "loaded": sorted(loaded),
        "packages": sorted(name for name in loaded if "." not in name),
        "compiled": sorted(compiled() - functions),
        "compiled_before": len(functions),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
