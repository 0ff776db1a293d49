"""The simulator beside ``ciw``, a simulator of other people's making, on the same network of queues."""

from __future__ import annotations

import ciw
import numpy as np
import pytest
from simulated_networks import Interval, batch_means, in_order, network, plan, waiting

from harness.models.simulator import simulate
from harness.models.simulator.distributions import lognormal, uniform

pytestmark = pytest.mark.deep

UNTIL_S = 25.0


def test_a_network_that_splits_and_joins() -> None:
    """Poisson messages, a's lognormal service, then one of b's two executors (0.7, 0.3), then c.

    Neither side is exact: the difference of the means is within the intervals' root of squares.
    """
    a, b, c = lognormal(1.5, 1.2), uniform(0.5, 3.5), lognormal(1.0, 0.5)
    made = network(
        plan([("spout", "a"), ("a", "b"), ("b", "c")], {"spout": 1, "a": 1, "b": 2, "c": 1}),
        400,
        {"a": waiting(a), "b": waiting(b), "c": waiting(c)},
        routing={("a", "b"): np.array([0.7, 0.3])},
    )
    run = simulate(made, 500, 20, seed=1)
    ours = batch_means(in_order(run))

    def served(atoms: object) -> ciw.dists.Distribution:
        return ciw.dists.Pmf(
            atoms.values_ms.tolist(),
            atoms.probabilities.tolist(),  # type: ignore[attr-defined]
        )

    nodes = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=0.4), None, None, None],
        service_distributions=[served(a), served(b), served(b), served(c)],
        routing=[[0.0, 0.7, 0.3, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]],
        number_of_servers=[1, 1, 1, 1],
    )
    ciw.seed(1)
    simulation = ciw.Simulation(nodes)
    simulation.simulate_until_max_time(1000 * UNTIL_S)
    records = simulation.get_all_records()
    arrived: dict[int, float] = {}
    left: dict[int, float] = {}
    for r in records:
        arrived[r.id_number] = min(arrived.get(r.id_number, r.arrival_date), r.arrival_date)
        if r.node == 4:
            left[r.id_number] = r.exit_date
    order = sorted((arrived[i], left[i] - arrived[i]) for i in left if arrived[i] > 5000)
    theirs: Interval = batch_means(np.array([t for _, t in order]))
    assert abs(ours.mean - theirs.mean) <= np.hypot(ours.half_width, theirs.half_width)
    assert ours.precision < 0.03
    assert theirs.precision < 0.2
