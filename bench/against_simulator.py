"""How far the analytic solver is from the simulator over random plans (generator: ``random_networks``).

    python bench/against_simulator.py --seeds 60

A simulation has noise of its own, about a percent of a mean and several of a p99; deviations hold it too.
"""

from __future__ import annotations

import click
import numpy as np
import pandas as pd

from harness.models.analytic.solve import LEVELS, solve
from harness.models.simulator.loads import loads
from harness.models.simulator.random_networks import random_network
from harness.models.simulator.simulation import simulate

VISITS = 400_000


def deviations(seed: int) -> dict[str, float]:
    """Return by how much the solver is off, in percent, of one random network."""
    net = random_network(seed)
    expected = loads(net)
    slowest_s = expected.slowest_window_s()
    length_s = float(np.clip(VISITS / max(expected.visits_per_s, 1.0), 20.0, 900.0))
    run = simulate(net, max(length_s, 10 * slowest_s), 2 + 3 * slowest_s, seed)
    solution = solve(net)
    found = {"seed": float(seed), "busiest": float(solution.loads.max()), "batch": float(net.batch)}
    found["far batch"] = float(net.transfer_batch)
    times = run.latencies.ground_truth_ms
    mine = solution.ground_truth()[""]
    found["mean"] = 100 * (mine.mean_ms / times.mean() - 1)
    for (name, level), value in zip(LEVELS.items(), mine.percentiles_ms, strict=True):
        found[name] = 100 * (value / float(np.quantile(times, level)) - 1)
    complete = run.complete_latency_ms
    complete = complete[~np.isnan(complete)]
    found["complete"] = 100 * (solution.complete_mean_ms()[""] / complete.mean() - 1)
    ack = run.ack_latency_ms
    found["ack"] = 100 * (solution.ack()[""].mean_ms / ack[~np.isnan(ack)].mean() - 1)
    return found


@click.command()
@click.option("--first", default=0, show_default=True)
@click.option("--seeds", default=40, show_default=True)
def main(first: int, seeds: int) -> None:
    """Print every plan's deviations, and their medians."""
    rows = pd.DataFrame([deviations(seed) for seed in range(first, first + seeds)])
    click.echo(rows.round(1).to_string(index=False))
    numbers = rows.drop(columns=["seed", "busiest", "batch", "far batch"])
    every = pd.DataFrame({"median": numbers.abs().median(), "p95": numbers.abs().quantile(0.95),
                          "worst": numbers.abs().max(), "bias": numbers.median()})  # fmt: skip
    click.echo(every.round(1).to_string())


if __name__ == "__main__":
    main()
