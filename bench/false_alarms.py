"""How often `harness regress` finds something in nights that differ from the baseline by chance alone.

    python bench/false_alarms.py reports/runs/all-in-one/20260102T030405Z --nights 200
    python bench/false_alarms.py reports/runs/all-in-one/20260102T030405Z --nights 50 --slower 1.3
    python bench/false_alarms.py reports/runs/all-in-one/20260102T030405Z --nights 50 --fault 1.3

Every night is the run's raw data drawn again in blocks of time and scored in full (docs/regression.md). It
is compared with the run itself and with the resampled night before it: then both sides differ by chance, as
two measured nights do. Beside the rate with the limits as they are stands that of the bare tests: no change
is too small for them, and nothing but the interval's own noise is allowed for. With a change put into every
night, the figures against the run are the power to find it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
from scipy import stats

from harness.analysis.judge.raw_steps import RawStep
from harness.analysis.judge.rescoring import Scorer
from harness.analysis.judge.scores import RunScores
from harness.analysis.spark.inputs import read_raw
from harness.errors import UsageError
from harness.models import MODELS, resolve
from harness.plans import PhysicalPlan
from harness.protocols import Model, Observation, Prediction, Settings
from harness.regression import baseline
from harness.regression.outcomes import Limits
from harness.regression.regress import regress
from harness.schemas import LATENCIES

Existing = click.Path(path_type=Path, exists=True)
BARE = Limits(mean_points=0, step_pct=0, noise_factor=1, seconds_factor=1, between_pct=0)
AS_THEY_ARE = "as they are"
FAULTY = "storm-tracer"


def slower(step: RawStep, factor: float) -> RawStep:
    """Make every ground truth of a step longer."""
    table = step.latency
    columns = {
        k: pa.array(table[k].to_numpy() * factor) for k in ("ground_truth_ms", "thesis_ground_truth_ms")
    }
    took = table["left_ns"].to_numpy() - table["entered_ns"].to_numpy()
    columns["left_ns"] = pa.array(
        table["left_ns"].to_numpy() + np.round((factor - 1) * took).astype(np.int64)
    )
    for name, column in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return replace(step, latency=table)


def faulty(model: Model, factor: float) -> Model:
    """Give a model whose latencies are off by a factor."""

    def wrong(source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
        found = model(source, proposed, settings, rate_tps).estimates
        return Prediction(
            tuple(
                replace(e, value=e.value * factor) if e.measure in LATENCIES and e.value is not None else e
                for e in found
            )
        )

    return wrong


def learnt(night: RunScores, of: RunScores) -> RunScores:
    """Give a night what the baseline knows of how far its run moves by chance."""
    measured = {m.key: {"within": m.within, "carriers": m.carriers} for m in of.measured}
    moves = {
        a.key: {"grown_points": a.grown_points, "spread_points": a.spread_points, "silent": a.silent}
        for a in of.accuracy
    }
    return night.model_copy(
        update={
            "measured": tuple(m.model_copy(update=measured.get(m.key, {})) for m in night.measured),
            "accuracy": tuple(a.model_copy(update=moves.get(a.key, {})) for a in night.accuracy),
        }
    )


@click.command()
@click.argument("run_path", type=Existing)
@click.option("--baseline", "file", type=Existing, default=Path("reports/baseline.json"), show_default=True)
@click.option("--nights", default=200, show_default=True)
@click.option("--seed", default=1000, show_default=True, help="Of the first night; the others follow.")
@click.option("--slower", "factor", default=1.0, help="Make one step's latencies so many times as long.")
@click.option("--step", default=1, show_default=True, help="Which step.")
@click.option("--fault", default=1.0, help=f"Let {FAULTY} predict latencies so many times as long.")
def main(run_path: Path, file: Path, nights: int, seed: int, factor: float, step: int, fault: float) -> None:
    """Count nights with a finding."""
    known = [n for n in baseline.read(file) if n.run == run_path.resolve().name]
    if not known:
        raise UsageError(f"{file}: has no scores of {run_path}")
    models = {name: resolve(name) for name in MODELS}
    if fault != 1:
        models[FAULTY] = faulty(models[FAULTY], fault)
    scorer = Scorer(read_raw(run_path), models)
    rules = {AS_THEY_ARE: Limits(), "bare": BARE}
    alarms: Counter[tuple[str, str]] = Counter()
    named: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    before = known
    begun = time.monotonic()
    for night in range(seed, seed + nights):
        raw = scorer.night(night)
        if factor != 1:
            raw[step] = slower(raw[step], factor)
        scored = scorer.score(raw).model_copy(update={"run": f"resampled-{night}"})
        for other, base in (("the run", known), ("another night", before)):
            for rule, limits in rules.items():
                found = regress(base, [scored], limits)
                alarms[other, rule] += bool(found.worse)
                named[other, rule].update(f"{o.family}: {o.name}" for o in found.worse)
                if rule == AS_THEY_ARE:
                    for outcome in found.worse:
                        click.echo(f"night {night} against {other}: {outcome.line}")
        before = [learnt(scored, known[0])]
    seconds = (time.monotonic() - begun) / nights
    click.echo(
        f"{run_path}: {nights} nights from seed {seed}, {found.tested} tests each, {seconds:.1f} s a night"
    )
    for (other, rule), count in alarms.items():
        share = stats.binomtest(count, nights).proportion_ci(0.95, "exact")
        click.echo(
            f"against {other}, limits {rule}: {count} of {nights} nights with a finding, {count / nights:.3f}"
            f" (95 % interval {share.low:.3f} to {share.high:.3f})"
        )
        for name, times in named[other, rule].most_common(8):
            click.echo(f"  {times} x {name}")


if __name__ == "__main__":
    main()
