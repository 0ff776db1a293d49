"""What others take for the plans that ``models.py`` times: line-solver and ciw."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Sequence

import ciw
import line_solver as line
import numpy as np

from harness.models.network import Atoms
from harness.models.solver.solve import Solution

Stage = Sequence[tuple[float, float]]
"""Arrival rate (a ms) and mean service (ms) of each of a component's executors."""


def cpu_ms(call: Callable[[], object], rounds: int = 1) -> float:
    """Return the CPU time of the quickest of several calls; that of processes that it starts included."""
    found = []
    for _ in range(rounds):
        begun = os.times()
        call()
        now = os.times()
        found.append(sum(now[:4]) - sum(begun[:4]))
    return float(np.min(found)) * 1e3


def stages(solution: Solution) -> list[Stage]:
    """Return the bolts of a solved plan, downstream: the queues of a line of components."""
    layout, service = solution.network.layout, solution.service
    bolts = [name for name in layout.order if layout.plan.query_plan.inputs(name)]
    return [
        [(float(service.rate[e]), float(service.hold[e, 0])) for e in range(*layout.of[name].indices(10**9))]
        for name in bolts
    ]


def line_network(of: Sequence[Stage]) -> line.Network:
    """Return a line of components as line-solver's open network of queues, with exponential times."""
    model = line.Network("plan")
    source, sink = line.Source(model, "in"), line.Sink(model, "out")
    tuples = line.OpenClass(model, "tuples")
    source.set_arrival(tuples, line.Exp(sum(rate for rate, _ in of[0])))
    queues = []
    for c, stage in enumerate(of):
        mine = []
        for e, (_, mean_ms) in enumerate(stage):
            queue = line.Queue(model, f"{c}-{e}", line.SchedStrategy.FCFS)
            queue.set_service(tuples, line.Exp(1 / mean_ms))
            mine.append(queue)
        queues.append(mine)
    routing = model.init_routing_matrix()
    for senders, stage, mine in zip([[source], *queues], [*of, ()], [*queues, [sink]], strict=True):
        total = sum(rate for rate, _ in stage)
        shares = [rate / total for rate, _ in stage] or [1.0]
        for sender in senders:
            for share, queue in zip(shares, mine, strict=True):
                routing.set(tuples, tuples, sender, queue, share)
    model.link(routing)
    return model


def by_line(model: line.Network) -> float:
    """Return the mean time through a network by line-solver's product-form solver (NC), in ms."""
    return _through(line.NC(model))


def by_line_events(model: line.Network, events: int) -> float:
    """Return the same by line-solver's simulator (LDES), a program of its own."""
    return _through(line.LDES(model, samples=events, seed=1))


def _through(solver: line.Solver) -> float:
    with contextlib.redirect_stdout(io.StringIO()):
        table = solver.avg_table()
    queues = table[~table["Station"].isin(["in", "out"])]
    return float(queues["ResidT"].sum())


def by_ciw(service: Atoms, seconds: float) -> None:
    """Play three components of four executors each with ciw: a node an executor."""
    nodes, executors = 12, 4
    routing = [[0.0] * nodes for _ in range(nodes)]
    for i in range(nodes - executors):
        after = i // executors * executors + executors
        routing[i][after : after + executors] = [1 / executors] * executors
    served = ciw.dists.Pmf(service.values_ms.tolist(), service.probabilities.tolist())
    first = [ciw.dists.Exponential(rate=1.0 / executors)] * executors
    queues = ciw.create_network(
        arrival_distributions=[*first, *[None] * (nodes - executors)],
        service_distributions=[served] * nodes,
        routing=routing,
        number_of_servers=[1] * nodes,
    )
    ciw.seed(1)
    ciw.Simulation(queues).simulate_until_max_time(1000 * seconds)
