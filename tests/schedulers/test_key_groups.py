"""Key groups of a small topology: loads, places and traffic worked out by hand, and tables made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from keyed_periods import CORES, NODES, TABLES, TOPOLOGY, WALL_NS, WORKERS, keyed_period
from scheduling import observation, placed

from harness.errors import SchedulerDeclined
from harness.schedulers import make_scheduler
from harness.schedulers.executor_groups import BalanceTerms
from harness.schedulers.groups import SendingGroups, equal_nodes
from harness.schedulers.key_groups import GroupMover, KeyGroups, read_key_groups
from harness.schedulers.migration_costs import MadeMove, MigrationCost


def groups(max_migration_cost: float = 9) -> KeyGroups:
    return read_key_groups(keyed_period(), TABLES, BalanceTerms(max_migration_cost))


def mover(asked: str | dict[str, object]) -> GroupMover:
    made = make_scheduler(asked)
    assert isinstance(made, GroupMover)
    return made


def test_a_group_has_its_part_of_its_tasks_cpu_and_the_rest_stays_where_it_is() -> None:
    """Hundredths of a core; node-1 has task 1 of a beside."""
    found, sending = groups(), groups().sending
    assert found.names == (("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1))
    assert sending.problem.loads == pytest.approx([30, 10, 10, 10, 10, 20, 0])
    assert sending.problem.allocation.tolist() == [0, 1, 0, 0, 1, 0, 1]
    assert sending.problem.costs.tolist() == [1] * 5 + [np.inf] * 2
    assert sending.problem.node_loads(sending.problem.allocation) == pytest.approx([70, 20])
    assert sending.traffic_tps[0, 4] == pytest.approx(30)
    assert sending.traffic_tps[1, 4] == pytest.approx(10)
    assert sending.traffic_tps.sum() == pytest.approx(40)
    assert sending.downstream.tolist() == [2, 2, 2, 0, 0, 0, 0]
    assert sending.labels[0] == "b 0"


def test_a_group_that_moved_in_the_period_has_loads_of_both_tasks() -> None:
    """Group 2 of b took all of task 3's 0.1 cores but a half, beside its quarter of task 2's 0.4."""
    seen = keyed_period(wall_ns=WALL_NS | {(3, 2): 1e8})
    loads = read_key_groups(seen, {**TABLES, "b": (0, 1, 1)}, BalanceTerms(9)).sending.problem.loads
    assert loads == pytest.approx([30, 5, 10 + 5, 10, 10, 30, 0])


def test_balance_moves_the_groups_that_even_out_the_nodes() -> None:
    """70 and 20, mean 45: groups of 30, or of 10 and 10, come to node-2; a move of 30 leaves 40 and 50."""
    found = groups(1)
    allocation, (note,) = mover("balance").move_groups(found.sending)
    assert found.tables_of(allocation) == {"b": (1, 1, 0), "c": (0, 1)}
    assert "load distance 25.00 -> 5.00 points" in note


def test_flux_moves_the_largest_group_that_brings_the_pair_closer() -> None:
    """70 and 20: the 30 leaves 40 and 50, and then nothing brings node-2 and node-1 closer."""
    found = groups()
    allocation, (note,) = mover("flux").move_groups(found.sending)
    assert found.tables_of(allocation) == {"b": (1, 1, 0), "c": (0, 1)}
    assert "load distance 25.00 -> 5.00 points" in note


def test_cola_places_all_anew_and_counts_no_moves() -> None:
    """Both of b's groups that send to c's second are with it: no traffic is left between nodes."""
    found = groups(np.inf)
    cola = mover({"name": "cola", "slack": 0.7})
    assert cola.terms().max_migration_cost == np.inf
    allocation, notes = cola.move_groups(found.sending)
    tables = found.tables_of(allocation)
    assert tables["b"][0] == tables["b"][1] == tables["c"][1]
    assert notes[0].endswith("-> 100.0% of traffic stays on a node")


def test_the_mean_is_rounded_where_that_is_asked_for() -> None:
    """The paper's rounding, as with executors."""
    terms = mover({"name": "balance", "round_mean": True}).terms()
    assert terms.round_mean
    assert not mover("balance").terms().round_mean


def test_albic_brings_the_pair_with_most_traffic_together() -> None:
    """0 of b on node-1 sends 30 to 1 of c on node-2, which 1 of b sends 10 to."""
    found = groups(2)
    albic = mover({"name": "albic", "max_partition_load": 100, "max_load_distance": 40})
    allocation, notes = albic.move_groups(found.sending)
    tables = found.tables_of(allocation)
    assert tables["b"][0] == tables["c"][1]
    assert notes[0] == "brings together b 0 and c 1: 25.0% -> 100.0% of traffic stays on a node"


STATE_BYTES = {(2, 0): 6e6, (2, 2): 1e6, (3, 1): 1e6, (4, 0): 1e6, (5, 1): 1e6}
"""By task and group: group 0 of b has six times the others'."""
IN_PROPORTION = [MadeMove(1e6, 0.02), MadeMove(2e6, 0.04), MadeMove(4e6, 0.08)]


def test_a_large_state_is_left_where_it_is_when_states_are_counted() -> None:
    """Sizes are 10 MB in five groups, so group 0 of b costs 3 and each of the others a half.

    Counted as groups, one move takes it to node-2 (70 and 20 become 40 and 50). A budget of 1 by states has
    room for two others of 10 points each instead: 50 and 40.
    """
    source = keyed_period(state_bytes=STATE_BYTES)
    terms = BalanceTerms(1, migration_cost=MigrationCost.STATE)
    found = read_key_groups(source, TABLES, terms, IN_PROPORTION)
    assert found.sending.problem.costs.tolist() == pytest.approx([3, 0.5, 0.5, 0.5, 0.5, np.inf, np.inf])
    allocation, _ = mover("balance").move_groups(found.sending)
    assert found.tables_of(allocation) == {"b": (0, 1, 1), "c": (1, 1)}
    assert found.notes == (
        "a move pauses its group for 0 ms and 20 ms a MB, by 3 moves; a mean pause costs 1",
    )
    assert read_key_groups(source, TABLES, BalanceTerms(1), IN_PROPORTION).notes == ()


def test_a_state_has_the_size_that_it_was_last_reported_with() -> None:
    source = keyed_period(state_bytes=STATE_BYTES)
    older = source.metrics[source.metrics["field"] == "state_bytes"].assign(bucket_end_ms=500, value=9e9)
    both = replace(source, metrics=pd.concat([source.metrics, older], ignore_index=True))
    terms = BalanceTerms(1, migration_cost=MigrationCost.STATE)
    costs = read_key_groups(both, TABLES, terms, IN_PROPORTION).sending.problem.costs
    assert costs[:2].tolist() == pytest.approx([3, 0.5])


def test_executors_have_no_states_to_count() -> None:
    source = keyed_period()
    plan = source.plan
    with pytest.raises(SchedulerDeclined, match="migration_cost state: moving an executor costs 1"):
        make_scheduler({"name": "balance", "migration_cost": "state"}).propose(
            plan.query_plan, plan.configuration(), plan.nodes, source
        )


def test_a_node_without_a_task_of_a_keyed_component_is_named() -> None:
    workers = {**WORKERS, "c[5-5]": "node-1:6700"}
    with pytest.raises(SchedulerDeclined, match="node-2 has no task of c: its key groups could not go there"):
        read_key_groups(keyed_period(workers), TABLES, BalanceTerms(9))


def test_a_marked_node_has_to_be_there() -> None:
    with pytest.raises(SchedulerDeclined, match="node-3 is marked for removal and is no worker node"):
        read_key_groups(keyed_period(), TABLES, BalanceTerms(9, leaving=("node-3",)))


@pytest.mark.parametrize(("allocation", "table"), [([1, 1, 0], (2, 1, 0)), ([1, 1, 1], (2, 1, 1))])
def test_a_group_that_comes_gets_the_task_with_the_least_load(
    allocation: list[int], table: tuple[int, ...]
) -> None:
    """Tasks 1 and 2 are on the second node, where group 1 is on task 1 with a load of 10; others have 20."""
    problem = equal_nodes(np.array([20.0, 10.0, 20.0]), np.array([0, 1, 0]), 2, 9.0)
    sending = SendingGroups(problem, np.zeros((3, 3)), np.zeros(3, dtype=np.int64), ("b 0", "b 1", "b 2"))
    names = (("b", 0), ("b", 1), ("b", 2))
    found = KeyGroups(names, sending, {"b": (0, 1, 0)}, {"b": np.array([0, 1, 1])})
    assert found.tables_of(np.array(allocation)) == {"b": table}


def test_a_period_without_the_groups_loads_is_declined() -> None:
    bare = observation(placed(TOPOLOGY, NODES, WORKERS), {}, CORES)
    with pytest.raises(SchedulerDeclined, match=r"metric key_group.wall_sum_ns is missing"):
        read_key_groups(bare, TABLES, BalanceTerms(9))
