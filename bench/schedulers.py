"""Load distances and times of balancing at the sizes of 003, and of ALBIC periods; medians of seeded series.

Loads are log-normal, balanced in the last period by placing the heaviest first, and each multiplied by a
log-normal factor of 0.25. A node's mean load is 60 points, and a migration costs 1. Times are CPU time.

Run it as

    python bench/schedulers.py [SERIES | guided | proved]

``guided`` times the search by the model only, on a made-up topology. ``proved`` solves the program for 20
nodes, 300 groups and 10 migrations to its end, over all moves from nodes above the mean to nodes below it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from time import process_time

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from balancing_baselines import both_choices_node_loads
from synthetic import Truth, deploy, fields_to_fields, observation

from harness.schedulers.balancing import balance_groups
from harness.schedulers.band_search import search_allocation
from harness.schedulers.cola import cola_allocation
from harness.schedulers.collocation import CollocationLimits, collocate_groups, collocation_factor
from harness.schedulers.flux import flux_allocation
from harness.schedulers.groups import GroupProblem, SendingGroups, distance_bound, equal_nodes
from harness.schedulers.milp import downhill_columns, solve_milp
from harness.schedulers.model_guided import ModelGuidedScheduler

SIZES = (
    (4, 60, 5),
    (4, 60, 15),
    (20, 300, 10),
    (20, 300, 20),
    (20, 300, 60),
    (60, 3000, 30),
    (60, 3000, 150),
)
"""Nodes, groups, migrations."""
LIMITS = CollocationLimits(score_factor=1.5, max_partition_load=30.0, max_load_distance=5.0)


def series(nodes: int, groups: int, budget: float, seed: int) -> GroupProblem:
    """Return one period's problem."""
    rng = np.random.default_rng(seed)
    loads = rng.lognormal(0, 0.9, groups)
    allocation, total = np.zeros(groups, dtype=np.int64), np.zeros(nodes)
    for group in np.argsort(-loads):
        allocation[group] = int(np.argmin(total))
        total[allocation[group]] += loads[group]
    loads = loads * rng.lognormal(0, 0.25, groups)
    return equal_nodes(loads * (60 * nodes / loads.sum()), allocation, nodes, budget)


def compare_balancing(number: int) -> None:
    """Print what search, search with program, and Flux come to."""
    search_allocation(series(4, 60, 5, 0))  # compiles
    click.echo("nodes groups moves | before bound | search   s | with program   s | flux")
    for nodes, groups, budget in SIZES:
        rows = []
        for seed in range(number):
            problem = series(nodes, groups, budget, seed)
            start = process_time()
            searched = search_allocation(problem)
            middle = process_time()
            balanced = balance_groups(problem)
            end = process_time()
            rows.append(
                (
                    problem.load_distance(problem.allocation),
                    distance_bound(problem),
                    problem.load_distance(searched),
                    middle - start,
                    balanced.load_distance,
                    end - middle,
                    problem.load_distance(flux_allocation(problem)),
                )
            )
        b, low, s, st, p, pt, f = np.median(rows, axis=0)
        click.echo(
            f"{nodes:5} {groups:6} {budget:5} | {b:6.2f} {low:5.2f} | {s:6.3f} {st:3.1f}"
            f" | {p:12.3f} {pt:3.1f} | {f:4.2f}",
        )


def prove_balancing(number: int) -> None:
    """Print what the program comes to within its limits, and what is best of all moves downhill."""
    distances = []
    for seed in range(number):
        problem = series(20, 300, 10, seed)
        balanced = balance_groups(problem)
        answer = solve_milp(
            problem,
            downhill_columns(problem, problem.loads.size * problem.capacity.size),
            balanced.allocation,
            w1=100.0,
            w2=1.0,
            most_nodes=100_000,
            most_iterations=2_000_000,
        )
        best = problem.load_distance(balanced.allocation if answer.allocation is None else answer.allocation)
        distances.append((balanced.load_distance, best))
        click.echo(
            f"series {seed}: {balanced.load_distance:.3f} within the limits, {best:.3f}"
            f" {'proved' if answer.proved else 'not proved'}"
        )
    click.echo("medians {:.3f} and {:.3f}".format(*np.median(distances, axis=0)))


def paired_groups(nodes: int, per_node: int) -> SendingGroups:
    """Return groups that pair up, as in the second experiment of 003, each pair on two nodes."""
    rng = np.random.default_rng(1)
    half = nodes * per_node
    loads = rng.lognormal(0, 0.3, 2 * half)
    loads *= 60 * nodes / loads.sum()
    places = np.concatenate([np.arange(half) % nodes, (np.arange(half) + 1) % nodes])
    traffic = np.zeros((2 * half, 2 * half))
    traffic[np.arange(half), half + np.arange(half)] = rng.lognormal(2, 0.3, half)
    downstream = np.concatenate([np.full(half, half), np.zeros(half)]).astype(np.int64)
    labels = tuple(f"group {i}" for i in range(2 * half))
    return SendingGroups(equal_nodes(loads, places, nodes, 10.0), traffic, downstream, labels)


def run_albic(nodes: int, per_node: int, periods: int) -> None:
    """Print ALBIC periods on groups that pair up."""
    groups = paired_groups(nodes, per_node)
    problem, traffic, downstream = groups.problem, groups.traffic_tps, groups.downstream
    cola = cola_allocation(problem, traffic)
    click.echo(
        f"COLA: collocation {collocation_factor(traffic, cola):.2f},"
        f" distance {problem.load_distance(cola):.2f},"
        f" migrations {problem.migration_cost(cola):.0f}"
    )
    for period in range(periods):
        start = process_time()
        outcome = collocate_groups(problem, traffic, downstream, LIMITS)
        took = process_time() - start
        moved = problem.migration_cost(outcome.allocation)
        problem = replace(problem, allocation=outcome.allocation)
        factor = collocation_factor(traffic, problem.allocation)
        click.echo(
            f"period {period}: collocation {factor:.3f}, distance {outcome.load_distance:.2f},"
            f" migrations {moved:.0f}, {took:.1f} s",
        )


def show_both_choices() -> None:
    """Print the spread of PoTC's load distance where merges cost a tenth of the load, over draws of nodes."""
    distances = []
    for seed in range(20):
        problem = series(20, 300, 0, seed)
        loads = both_choices_node_loads(problem.loads, problem.loads / 10, 20, seed=seed)
        distances.append(np.abs(loads - loads.mean()).max())
    click.echo(
        f"PoTC: load distance {min(distances):.2f} to {max(distances):.2f}, median {np.median(distances):.2f}"
    )


def search_by_the_model(tasks: int, nodes: int, rate_tps: float, cores: float) -> None:
    """Print what the guided search takes and finds, from a plan dealt in turn on hosts of their own."""
    query_plan = fields_to_fields(tasks=tasks)
    hosts = [f"host-{i}" for i in range(nodes)]
    plan = deploy(
        query_plan, tasks, nodes=nodes, workers_per_node=50 // nodes if nodes > 4 else 2, hosts=hosts
    )
    plan = plan.model_copy(update={"nodes": tuple(n.model_copy(update={"cores": cores}) for n in plan.nodes)})
    truth = Truth.random(query_plan, rate_tps, 1, service_ms=0.2)
    source = replace(observation(plan, truth, buckets=4), hop_records=False)
    for objective in ("mean", "p95"):
        scheduler = ModelGuidedScheduler(objective=objective)
        start = process_time()
        proposal = scheduler.propose(query_plan, plan.configuration(), plan.nodes, source)
        took = process_time() - start
        click.echo(
            f"model-guided, {objective}: {len(plan.executors)} executors on {len(plan.workers)} workers,"
            f" {took:.1f} s; {'; '.join(proposal.notes)}"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["proved"]:
        prove_balancing(20)
        sys.exit()
    search_by_the_model(tasks=4, nodes=2, rate_tps=100.0, cores=8.0)  # compiles
    search_by_the_model(tasks=14, nodes=4, rate_tps=500.0, cores=8.0)
    search_by_the_model(tasks=249, nodes=10, rate_tps=2000.0, cores=16.0)
    if sys.argv[1:] == ["guided"]:
        sys.exit()
    compare_balancing(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    show_both_choices()
    run_albic(nodes=20, per_node=5, periods=5)
    run_albic(nodes=60, per_node=25, periods=2)
