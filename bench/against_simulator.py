"""How far the analytic solver is from the simulator over random networks, and how fast the simulator is.

    python bench/against_simulator.py --seeds 60

The generator is ``tests/support/random_networks.py``. Deviations are in percent, solver against
simulator; a simulation has noise of its own, about a percent of a mean and several of a p99, and deviations
hold it too. A simulation also draws once at which phases windows tick and sources of equal gaps send, which
the solver takes any way alike: with ``--draws`` each network is simulated several times, and compared with
the mean of each statistic. A simulation lasts ten times as long as the slowest window takes to be full: what
is not out at its end is in no mean. Networks with batches, which are not solved, are left out.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from random_networks import random_network

from harness.models.simulator.loads import loads
from harness.models.simulator.simulation import SimulatedRun, simulate
from harness.models.solver.solve import solve
from harness.schemas import PERCENTILES

VISITS = 400_000
LEAST_S, MOST_S = 20.0, 900.0
OUTCOMES = ("mean", *PERCENTILES, "complete", "ack")


def deviations(seed: int, draws: int = 1) -> dict[str, float]:
    """Return by how much the solver is off, in percent, of one random network; and what the network is."""
    net = random_network(seed)
    expected = loads(net)
    solution = solve(net)
    slowest_s = expected.slowest_window_s()
    length_s = float(np.clip(VISITS / max(expected.visits_per_s, 1.0), LEAST_S, MOST_S))
    begun = time.process_time()
    runs = [
        simulate(net, max(length_s, 10 * slowest_s), 2 + 3 * slowest_s, seed + 1000 * k) for k in range(draws)
    ]
    seconds = time.process_time() - begun
    found = {
        "seed": float(seed),
        "executors": float(len(net.layout)),
        "busiest": float(solution.loads.max()),
        "visits": float(sum(run.visits_played for run in runs)),
        "seconds": seconds,
    }
    mine = solution.ground_truth()[""]
    answers = (
        mine.mean_ms,
        *mine.percentiles_ms,
        solution.complete_mean_ms()[""],
        solution.ack()[""].mean_ms,
    )
    played = np.mean([_played(run) for run in runs], axis=0)
    found |= dict(zip(OUTCOMES, (answers / played).tolist(), strict=True))
    return {name: 100 * (v - 1) if name in OUTCOMES else v for name, v in found.items()}


def _played(run: SimulatedRun) -> list[float]:
    """Return what a simulation says of the outcomes."""
    times = run.latencies.ground_truth_ms
    levels = np.quantile(times, list(PERCENTILES.values()))
    return [times.mean(), *levels, np.nanmean(run.complete_latency_ms), np.nanmean(run.ack_latency_ms)]


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Sum deviations up."""
    numbers = rows[list(OUTCOMES)]
    size = numbers.abs()
    return pd.DataFrame(
        {"median": size.median(), "p95": size.quantile(0.95), "worst": size.max(), "bias": numbers.median()}
    )


@click.command()
@click.option("--first", default=0, show_default=True)
@click.option("--seeds", default=40, show_default=True)
@click.option("--draws", default=1, show_default=True, help="Simulations of each network.")
def main(first: int, seeds: int, draws: int) -> None:
    """Print every network's deviations, and their medians."""
    solved = [seed for seed in range(first, first + seeds) if not random_network(seed).batched]
    deviations(solved[0])  # what is compiled has been called before
    rows = pd.DataFrame([deviations(seed, draws) for seed in solved])
    click.echo(rows.round(1).to_string(index=False))
    click.echo(f"simulator: {rows['visits'].sum() / rows['seconds'].sum() / 1e6:.2f} M visits/s")
    click.echo(f"{len(rows)} networks without batches:\n{summary(rows).round(1).to_string()}")


if __name__ == "__main__":
    main()
