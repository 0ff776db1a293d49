"""Figures 1 to 3 of 003 from loads that ``bench/schedulers.py`` makes: no cluster is behind them.

In each period every group's load is its base load times a new log-normal factor. Each balancer begins with
the allocation that it came to in the period before. Figure 3 has no load index here: made loads do not tell
the cost of a tuple between nodes.

Run it as

    python bench/balancing_figures.py [FOLDER]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from schedulers import LIMITS, paired_groups, series

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from balancing_baselines import both_choices_node_loads

from harness.analysis.figures import style
from harness.analysis.figures.period_figures import (
    COLLOCATION,
    DISTANCE,
    MIGRATIONS,
    PeriodLine,
    draw_periods,
)
from harness.schedulers.balancing import balance_groups
from harness.schedulers.cola import cola_allocation
from harness.schedulers.collocation import collocate_groups, collocation_factor
from harness.schedulers.flux import flux_allocation
from harness.schedulers.groups import GroupProblem
from harness.schedulers.loads import FloatArray, IntArray

NODES, GROUPS, BUDGET, PERIODS = 20, 300, 20, 30
SPREAD = 0.25
"""Of the log-normal factors; a third of it where pairs are to come together."""
PAIRED_PERIODS = 100
"""ALBIC brings one pair together in a period, and there are so many."""
NOTE = "Made, not measured: loads drawn from a seed, no cluster."


def loads_by_period(base: FloatArray, periods: int, spread: float, seed: int) -> Iterator[FloatArray]:
    """Yield the loads of each period, whose sum stays."""
    rng = np.random.default_rng(seed)
    for _ in range(periods):
        loads = base * rng.lognormal(0, spread, base.size)
        yield loads * (base.sum() / loads.sum())


def line(
    name: str,
    first: GroupProblem,
    decide: Callable[[GroupProblem], IntArray],
    periods: list[FloatArray],
    traffic: FloatArray | None = None,
) -> PeriodLine:
    """Let one decide period by period; return what he came to, directly after the migrations."""
    problem, rows = first, []
    for loads in periods:
        problem = replace(problem, loads=loads)
        allocation = decide(problem)
        factor = np.nan if traffic is None else 100 * collocation_factor(traffic, allocation)
        rows.append(
            (factor, problem.load_distance(allocation), float((allocation != problem.allocation).sum()))
        )
        problem = replace(problem, allocation=allocation)
    return PeriodLine(name, dict(zip((COLLOCATION, DISTANCE, MIGRATIONS), np.array(rows).T, strict=True)))


def balancing_lines(periods: int = PERIODS, seed: int = 0) -> list[PeriodLine]:
    """Return what the program, Flux and the power of both choices come to: figures 1 and 2."""
    first = series(NODES, GROUPS, BUDGET, seed)
    loads = list(loads_by_period(first.loads, periods, SPREAD, seed))
    of_nodes = [both_choices_node_loads(each, each / 10, NODES, seed=seed) for each in loads]
    distances = np.array([np.abs(each - each.mean()).max() for each in of_nodes])
    return [
        line("search and program", first, lambda p: balance_groups(p).allocation, loads),
        line("Flux", first, flux_allocation, loads),
        PeriodLine("both choices (nothing moves)", {DISTANCE: distances}),
    ]


def collocation_lines(periods: int = PAIRED_PERIODS, seed: int = 0) -> list[PeriodLine]:
    """Return what ALBIC and COLA come to on groups that pair up: figure 3."""
    groups = paired_groups(nodes=NODES, per_node=5)
    traffic, downstream = groups.traffic_tps, groups.downstream
    loads = list(loads_by_period(groups.problem.loads, periods, SPREAD / 3, seed))
    return [
        line(
            "ALBIC",
            groups.problem,
            lambda p: collocate_groups(p, traffic, downstream, LIMITS).allocation,
            loads,
            traffic,
        ),
        line("COLA", groups.problem, lambda p: cola_allocation(p, traffic), loads, traffic),
    ]


def main(folder: Path) -> None:
    """Draw both figures and print medians."""
    folder.mkdir(parents=True, exist_ok=True)
    with style.styled(style.STYLES["screen"]):
        for name, lines in (("made-balancing", balancing_lines()), ("made-collocation", collocation_lines())):
            style.save(draw_periods(lines, NOTE), folder, name)
            for each in lines:
                said = [
                    f"{quantity} {values[0]:.4g}, at last {values[-1]:.4g}, median {np.median(values):.4g}"
                    f" ({values.min():.4g} to {values.max():.4g})"
                    for quantity, values in each.values.items()
                    if np.isfinite(values).all()
                ]
                click.echo(f"{name}, {each.name}: {'; '.join(said)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "figures"))
