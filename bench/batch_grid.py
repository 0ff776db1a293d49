"""Aeolus's batch sizes and executors against a measured grid of both, and latency with and without batches.

    harness measure-messages            # n and s of this machine, 4 minutes; else the shipped ones are used
    python bench/batch_grid.py          # 13 minutes
    python bench/batch_grid.py --little-code    # where messages cost as much as user code
    python bench/batch_grid.py --short  # a try, 5 minutes
    python bench/batch_grid.py --from RUN RUN

`fan` waits 8 ms and makes 20 tuples of a message, `pick` waits for each and passes one on. With little code
`fan` waits 2.5 ms and makes 100, and `pick` does not wait. In a first run one executor of `fan` has more
messages than it can take, with batches of all that it makes. Emits are part of ppt, and there they have the
least of n. From this step Aeolus proposes for half as much again as the executor was done with.

A second run measures all combinations at that rate, each submitted anew, then the proposal. At half the rate
it measures the proposal's executors with these batches and without. Throughput is what fan was done with,
messages a second.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import click
import pyarrow.parquet as pq
import yaml
from carried_out import carry_out_experiment

from harness.experiments.loading import load
from harness.runs import Run
from harness.schemas import Metric, MetricField


class Chain(NamedTuple):
    """What is measured: how many tuples fan makes of a message, services, and the grid.

    Attributes
    ----------
    overload_tps : float
        More than an executor of fan could take if it did nothing but wait.
    pending : int
        Messages that a spout may have under way.
    """

    fan_out: int
    fan_ms: float
    pick_ms: float
    overload_tps: float
    pending: int
    picks: tuple[int, ...]
    batches: tuple[int, ...]


USUAL = Chain(20, 8.0, 0.3, overload_tps=150.0, pending=60, picks=(1, 2, 3), batches=(1, 20))
LITTLE_CODE = Chain(100, 2.5, 0.0, overload_tps=480.0, pending=200, picks=(1, 2), batches=(1, 20, 100))
MORE = 1.5
"""Of what one executor of fan takes: two are busy for three quarters of the time."""
FLUSH_MS = 20
NOISE = 0.01
"""Of throughputs between which nothing is chosen but the executors."""
WITHIN = 0.05
Cell = tuple[int, int, int]
"""Executors of fan, executors of pick, batch size of what fan sends."""


class Measured(NamedTuple):
    """What was measured of one step."""

    executors: Mapping[str, int]
    batching: Mapping[str, int]
    throughput_tps: float
    mean_ms: float
    half_width_ms: float

    @property
    def all(self) -> int:
        """Executors of all components."""
        return sum(self.executors.values())

    def __str__(self) -> str:
        counts = " ".join(f"{name}:{n}" for name, n in self.executors.items())
        sizes = " ".join(f"{name}:{size}" for name, size in self.batching.items() if size > 1)
        return f"{counts}, batches {sizes or 'none'}"


def experiment(
    chain: Chain, steps: Sequence[Mapping[str, Any]], rate_tps: float, short: bool
) -> dict[str, Any]:
    """Return the experiment with these steps, each submitted anew."""
    made = {"min": chain.fan_out, "max": chain.fan_out, "mean": chain.fan_out, "sd": 0}
    burn_in_s, interval_s = (6, 6) if short else (14, 10)
    return {
        "name": "batch-grid",
        "topology": {
            "load_aware": False,
            "ackers": 1,
            "max_spout_pending": chain.pending,
            "spout": {"poll_timeout_ms": 5},
            "waiting": {"strategy": "progressive", "level1_count": 1, "level2_count": 1, "sleep_ms": 2},
            "components": {
                "in": {"role": "spout", "tasks": 1},
                "fan": {
                    "role": "multiplier",
                    "tasks": 2,
                    "multiplier": made,
                    **waiting(chain.fan_ms),
                },
                "pick": {
                    "role": "filter",
                    "tasks": max(chain.picks),
                    "keep": 1 / chain.fan_out,
                    **waiting(chain.pick_ms),
                },
                "out": {"role": "sender", "tasks": 1},
            },
            "streams": [
                {"from": a, "to": b, "grouping": "shuffle"}
                for a, b in (("in", "fan"), ("fan", "pick"), ("pick", "out"))
            ],
        },
        "workload": {"rate_tps": rate_tps, "arrivals": "constant", "seed": 27},
        "cluster": {"kind": "local", "nodes": 2, "slots_per_node": 1},
        "measure": {
            "bucket_s": 1,
            "attempts": 1,
            "burn_in": {"least_s": burn_in_s, "most_s": burn_in_s, "drift_pct": 1000},
            "interval": {"precision_pct": 1000, "least_s": interval_s, "most_s": interval_s, "looks": 1},
        },
        "steps": {"plan": [{"workers": 2, "fresh": True, **step} for step in steps]},
        "models": ["no-change"],
    }


def waiting(mean_ms: float) -> dict[str, Any]:
    """Return a component's key for a constant wait; nothing where it has none."""
    return {"service": {"kind": "wait", "distribution": "constant", "mean_ms": mean_ms}} if mean_ms else {}


def step_of(cell: Cell) -> dict[str, Any]:
    """Return a cell's step."""
    fan, pick, batch = cell
    batches = {"fan": {"size": batch, "flush_ms": FLUSH_MS}}
    return {"executors": {"in": 1, "fan": fan, "pick": pick, "out": 1}, "batching": batches}


def run_of(chain: Chain, steps: Sequence[Mapping[str, Any]], rate_tps: float, runs: Path, short: bool) -> Run:
    """Measure steps at a rate."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "batch-grid.yaml"
        file.write_text(yaml.safe_dump(experiment(chain, steps, rate_tps, short), sort_keys=False))
        return Run(carry_out_experiment(str(file), runs, simulated=False))


def measured(run: Run) -> list[Measured]:
    """Return what was measured of each step.

    Raises
    ------
    ClickException
        When a step is missing.
    """
    planned = len(load(run.path / "experiment.yaml").steps.plan)
    if len(run.finished_steps) < planned:
        reasons = "; ".join(step.reason for step in run.declined_steps.values())
        raise click.ClickException(f"{run.path}: {planned} steps are not all measured {reasons}")
    found = []
    for index in run.finished_steps:
        plan, interval = run.plan(index), run.interval(index)
        sizes = {name: rule.size for name, rule in (plan.batching or {}).items()}
        executors = {name: n for name, n in plan.asked.executors.items() if not name.startswith("__")}
        throughput_tps = done_tps(run, index, "fan")
        found.append(Measured(executors, sizes, throughput_tps, interval.mean_ms, interval.half_width_ms))
    return found


def done_tps(run: Run, index: int, component: str) -> float:
    """Return tuples a second that a component was done with, from whole buckets."""
    table = pq.read_table(run.step_path(index) / "metrics.parquet").to_pandas()
    rows = table[
        (table["measurement"] == Metric.SERVICE)
        & (table["component"] == component)
        & (table["field"] == MetricField.COUNT)
    ]
    rates = []
    for _, of_task in rows.sort_values("bucket_end_ms").groupby("task", observed=True):
        ends = of_task["bucket_end_ms"].to_numpy()
        if ends.size > 1:  # of the first bucket nothing says when it began
            rates.append(1000 * float(of_task["value"].to_numpy()[1:].sum()) / float(ends[-1] - ends[0]))
    return sum(rates)


def proposal(run: Run, rate_tps: float) -> dict[str, Any]:
    """Return what Aeolus proposes for a rate from the run's step."""
    asked = ["tune", str(run.path), "--step", "0", "--tuner", "aeolus", "--rate", f"{rate_tps:.6g}"]
    command = [sys.executable, "-m", "harness", *asked, "--set", f"aeolus.flush_ms={FLUSH_MS}", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    (said,) = json.loads(done.stdout.splitlines()[-1])["proposals"]
    if said["status"] == "declined":
        raise click.ClickException(f"aeolus declined: {said['reason']}")
    return dict(said)


def show(first: Run, second: Run) -> None:
    """Print the grid, and the row for reports/headlines.md."""
    (source,) = measured(first)
    *cells, ours, with_batches, without = measured(second)
    rate_tps = second.interval(0).rate_tps
    click.echo(f"one executor of fan takes {source.throughput_tps:.1f}/s; {rate_tps:.1f}/s are sent\n")
    click.echo("| executors | batch | messages/s | mean ms |\n| --- | ---: | ---: | ---: |")
    for cell in cells:
        counts = " ".join(f"{name}:{n}" for name, n in cell.executors.items())
        click.echo(f"| {counts} | {cell.batching['fan']} | {cell.throughput_tps:.1f} | {cell.mean_ms:.2f} |")
    top_tps = max(cell.throughput_tps for cell in cells)
    best = min(
        (cell for cell in cells if cell.throughput_tps >= (1 - NOISE) * top_tps),
        key=lambda cell: (cell.all, -cell.throughput_tps),
    )
    origin = {d["values"].get("n_s_from") for d in proposal(first, rate_tps)["decisions"]} - {None}
    share = ours.throughput_tps / top_tps
    met = share >= 1 - WITHIN and ours.all <= best.all
    click.echo(f"\nn, s: {'; '.join(map(str, origin)) or 'no batches were considered'}")
    click.echo(f"best of the grid: {top_tps:.1f}/s; fewest executors within {NOISE:.0%} of it: {best}")
    click.echo(f"aeolus: {ours}: {ours.throughput_tps:.1f}/s\n")
    click.echo("| at /s | best of the grid | its executors | aeolus | executors | % of the best | met |")
    click.echo("| ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    click.echo(
        f"| {rate_tps:.1f} | {top_tps:.1f} | {best.all} | {ours.throughput_tps:.1f} | {ours.all} |"
        f" {100 * share:.1f} | {'yes' if met else 'no'} |"
    )
    click.echo(f"\n| at {rate_tps / 2:.1f}/s | mean ms |\n| --- | ---: |")
    batched = f"its executors, batches of {with_batches.batching['fan']}"
    for name, step in ((batched, with_batches), ("without", without)):
        click.echo(f"| {name} | {step.mean_ms:.2f} +- {step.half_width_ms:.2f} |")


@click.command()
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--little-code", is_flag=True, help="Messages cost as much as user code.")
@click.option("--short", is_flag=True, help="Fewer cells, of six seconds each.")
@click.option(
    "--from", "before", nargs=2, type=click.Path(path_type=Path, exists=True), help="Runs of before."
)
def main(runs: Path, little_code: bool, short: bool, before: tuple[Path, Path] | None) -> None:
    """Measure the grid, and print how far Aeolus's proposal is from its best cell."""
    if before is not None:
        show(*map(Run, before))
        return
    chain = LITTLE_CODE if little_code else USUAL
    all_at_once = chain.fan_out
    first = run_of(chain, [step_of((1, max(chain.picks), all_at_once))], chain.overload_tps, runs, short)
    rate_tps = round(MORE * measured(first)[0].throughput_tps, 1)
    said = proposal(first, rate_tps)
    ours = {"executors": said["executors"], "batching": said["batching"]}
    cells = product((1, 2), (2,) if short else chain.picks, chain.batches)
    half = {"executors": said["executors"], "rate_tps": rate_tps / 2}
    pair = [{**half, "batching": step_of((1, 1, all_at_once))["batching"]}, {**half, "batching": {}}]
    steps = [*map(step_of, cells), ours, *pair]
    show(first, run_of(chain, steps, rate_tps, runs, short))


if __name__ == "__main__":
    main()
