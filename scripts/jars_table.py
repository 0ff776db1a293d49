"""Write ``reports/jars.md``: what came of the experiments on jars that nobody here wrote.

    python scripts/jars_table.py RUN... > reports/jars.md

Reads the runs' files only. An experiment of ``configs/experiments/jars`` that no run is given of is listed
as not run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.analysis.spark.inputs import read_raw
from harness.experiments.loading import load
from harness.runs import Run
from harness.schemas import Measure

EXPERIMENTS = Path(__file__).resolve().parent.parent / "configs" / "experiments" / "jars"
LATENCIES = {"ack": "emit to ack", "service": "none (no spout tracks its messages)"}
MEASURES = (
    Measure.ACK,
    Measure.COMPLETE,
    Measure.ARRIVALS,
    Measure.SERVICE,
    Measure.ROUTING,
)


def row(path: Path) -> Iterator[str]:
    """Yield a run's line of the table."""
    run, record = Run(path), read_raw(path)
    topology = record.experiment["topology"]
    steps = [(run.interval(s.index), run.quality(s.index)) for s in record.steps]
    kinds = sorted({LATENCIES[i.latency] for i, _ in steps})
    latencies = (
        ", ".join(f"{i.mean_ms:.3g}" for i, _ in steps) if "ack" in {i.latency for i, _ in steps} else "–"
    )
    fates = [q.tracked for _, q in steps if q.tracked is not None]
    acked, failed = (sum(getattr(t, name) for t in fates) for name in ("acked", "failed"))
    yield f"| {topology['main'].rpartition('.')[2]} "
    yield f"| {Path(topology['jar']).name} "
    yield f"| {', '.join(f'{i.rate_tps:.4g}' for i, _ in steps)} "
    yield f"| {'; '.join(kinds)} "
    yield f"| {latencies} "
    yield f"| {acked} + {failed} "
    yield f"| {run.verdict} "
    yield f"| {reasons(run.path, record.unwrapped)} |\n"


def reasons(path: Path, unwrapped: Mapping[str, str]) -> str:
    """Return what made the run invalid, and what could not be instrumented."""
    checks = json.loads((path / "verdict.json").read_text(encoding="utf-8"))["checks"]
    found = [f"step {c['step']}: {c['check']}: {c['detail']}" for c in checks if c["status"] != "valid"]
    found += [f"{name} is not instrumented: it {reason}" for name, reason in unwrapped.items()]
    return "; ".join(found)


def errors(path: Path) -> Iterator[str]:
    """Yield a run's lines of the table of errors: the median over the pairs, of each model."""
    summary: dict[str, Any] = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    by_model: dict[str, dict[str, float]] = {}
    for e in summary["errors"]:
        if e["protocol"] == "ours" and e["statistic"] == "mean" and e["median_abs_error_pct"] is not None:
            by_model.setdefault(e["model"], {})[e["measure"]] = e["median_abs_error_pct"]
    for model, found in sorted(by_model.items()):
        cells = [f"{found[m]:.1f}" if m in found else "–" for m in MEASURES]
        yield f"| {summary['experiment']} | {model} | {' | '.join(cells)} |\n"


def page(paths: list[Path]) -> Iterator[str]:
    """Yield the page."""
    yield "# Topologies that nobody here wrote\n\n"
    yield (
        "Made by `scripts/jars_table.py` from runs on the local cluster; the experiments are in"
        " `configs/experiments/jars/`, what is measured in [own-topology.md](../docs/own-topology.md)."
        " The jars are Storm's own examples, built unchanged from the tag v2.8.3 by"
        " `scripts/storm_examples.sh`: Maven Central has storm-starter up to 1.2.2 only.\n\n"
    )
    yield "| topology | jar | messages/s by step | latency measured | mean ms by step | acked + failed "
    yield "| verdict | reasons |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    for path in paths:
        yield from row(path)
    yield "\nMedian error in percent over the off-diagonal pairs:\n\n"
    yield f"| experiment | model | {' | '.join(MEASURES)} |\n| --- | --- |{' --- |' * len(MEASURES)}\n"
    for path in paths:
        yield from errors(path)
    tried = {Run(p).path.parent.name for p in paths}
    missing = [e.stem for e in sorted(EXPERIMENTS.glob("*.yaml")) if load(e).name not in tried]
    if missing:
        yield f"\nNot run: {', '.join(missing)}.\n"


if __name__ == "__main__":
    sys.stdout.writelines(page([Path(p) for p in sys.argv[1:]]))
