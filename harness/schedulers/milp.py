"""The mixed-integer linear program of Madsen, Zhou and Cao (III.B.1), constraints (1) to (5), by HiGHS.

A variable x_ik of the paper is written as a move: y_kj is 1 if group k goes from its node to node j. A group
that goes nowhere stays. So (1) is ``sum_j y_kj <= 1`` and (2) has no constants.

The print leaves out the domains: d, d_u and d_l are not negative, and w1 > 2 w2. Otherwise, raising d by one
would gain 2 w2, and the program had no minimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from highspy._core import _Highs

from harness.schedulers.groups import GroupProblem
from harness.schedulers.loads import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class MilpAnswer:
    """Allocation and bound that a solver came to within its limits.

    Attributes
    ----------
    allocation : array of int (groups), optional
        None where no allocation was reached; with ``infeasible`` none exists.
    infeasible : bool
    bound : float
        No allocation made of the columns offered has a smaller objective.
    proved : bool
        Whether the allocation is the best of those.
    """

    allocation: IntArray | None
    infeasible: bool
    bound: float
    proved: bool


@dataclass(frozen=True)
class MoveColumns:
    """Moves that a program may choose from.

    Attributes
    ----------
    groups, targets : array of int (moves)
    """

    groups: IntArray
    targets: IntArray


def downhill_columns(problem: GroupProblem, most: int) -> MoveColumns:
    """Return the moves from nodes above the mean, or leaving, to nodes below it that stay.

    Where these are more than ``most``, the moves between the nodes furthest from the mean. Exact where the
    budget is small; two groups cannot change places by them.
    """
    off = problem.node_loads(problem.allocation) - problem.mean
    above = (off > 0) | problem.leaving
    below = (off < 0) & ~problem.leaving
    sending = above[problem.allocation] & _payable(problem)
    groups, targets = np.nonzero(sending[:, None] & below[None, :])
    if groups.size > most:
        far = off[problem.allocation[groups]] - off[targets]
        keep = np.sort(np.argsort(-far, kind="stable")[:most])
        groups, targets = groups[keep], targets[keep]
    return MoveColumns(groups.astype(np.int64), targets.astype(np.int64))


def _payable(problem: GroupProblem) -> BoolArray:
    return np.asarray(problem.costs <= problem.max_migration_cost * (1 + 1e-9))


def solve_milp(
    problem: GroupProblem,
    columns: MoveColumns,
    start: IntArray | None,
    *,
    w1: float,
    w2: float,
    most_nodes: int,
    most_iterations: int,
) -> MilpAnswer:
    """Solve the program over some columns.

    Parameters
    ----------
    start : array of int (groups), optional
        A feasible allocation to begin with; used where the columns contain it.
    w1, w2 : float
        Weights of the load distance and of tightening both bounds.
    most_nodes, most_iterations : int
        Limits of the search, in branches and simplex iterations, so that an answer does not depend on the
        machine.
    """
    solver = _Highs()  # the class that highspy.Highs wraps: making a wrapper prints a banner
    solver.setOptionValue("output_flag", False)
    # Heuristics and presolve take longer than all else here, and the start is as good as what they find.
    solver.setOptionValue("mip_heuristic_effort", 0.0)
    solver.setOptionValue("mip_detect_symmetry", False)
    solver.setOptionValue("presolve", "off")
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_max_nodes", most_nodes)
    solver.setOptionValue("simplex_iteration_limit", most_iterations)
    solver.setOptionValue("mip_rel_gap", 1e-4)
    solver.setOptionValue("mip_abs_gap", 1e-4 * w1)
    solver.passModel(_model(problem, columns, w1, w2))
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = _values(problem, columns, start).tolist()
        solver.setSolution(solution)
    solver.run()
    status = solver.getModelStatus()
    info = solver.getInfo()
    infeasible = status == highspy.HighsModelStatus.kInfeasible
    values = np.array(solver.getSolution().col_value)
    if infeasible or info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return MilpAnswer(None, infeasible, float(info.mip_dual_bound), infeasible)
    allocation = problem.allocation.copy()
    chosen = values[: columns.groups.size] > 0.5
    allocation[columns.groups[chosen]] = columns.targets[chosen]
    proved = status == highspy.HighsModelStatus.kOptimal
    return MilpAnswer(allocation, False, float(info.mip_dual_bound), proved)


def _values(problem: GroupProblem, columns: MoveColumns, allocation: IntArray) -> FloatArray:
    moves = (allocation[columns.groups] == columns.targets).astype(np.float64)
    above, below = problem.deviations(allocation)
    distance = max(above, below, 0.0)
    return np.concatenate([moves, [distance, distance - above, distance - below]])


def _model(problem: GroupProblem, columns: MoveColumns, w1: float, w2: float) -> highspy.HighsLp:
    """Build the program; columns are the moves, then d, d_u and d_l."""
    moves = columns.groups.size
    number_groups, number_nodes = problem.loads.size, problem.capacity.size
    now = problem.node_loads(problem.allocation)
    mean = problem.mean
    group_rows = np.unique(columns.groups)
    row_of_group = np.full(number_groups, -1, dtype=np.int64)
    row_of_group[group_rows] = np.arange(group_rows.size)
    budget_row = group_rows.size
    top = budget_row + 1 + np.arange(number_nodes)
    bottom = np.full(number_nodes, -1, dtype=np.int64)
    staying = np.flatnonzero(~problem.leaving)
    bottom[staying] = budget_row + 1 + number_nodes + np.arange(staying.size)
    rows = budget_row + 1 + number_nodes + staying.size
    source = problem.allocation[columns.groups]
    load = problem.loads[columns.groups]
    comes, goes = load / problem.capacity[columns.targets], load / problem.capacity[source]
    at = np.arange(moves)
    d, du, dl = moves, moves + 1, moves + 2
    triples = [
        (row_of_group[columns.groups], at, np.ones(moves)),  # eq. 1
        (np.full(moves, budget_row), at, problem.costs[columns.groups]),  # eq. 2
        (top[columns.targets], at, comes),  # eq. 3
        (top[source], at, -goes),
        (bottom[columns.targets], at, comes),  # eq. 4
        (bottom[source], at, -goes),
        (top, np.full(number_nodes, d), np.full(number_nodes, -1.0)),
        (top, np.full(number_nodes, du), np.ones(number_nodes)),
        (bottom[staying], np.full(staying.size, d), np.ones(staying.size)),
        (bottom[staying], np.full(staying.size, dl), np.full(staying.size, -1.0)),
    ]
    row = np.concatenate([t[0] for t in triples])
    column = np.concatenate([t[1] for t in triples])
    value = np.concatenate([t[2] for t in triples])
    keep = row >= 0
    row, column, value = row[keep], column[keep], value[keep]
    order = np.lexsort((row, column))
    row, column, value = row[order], column[order], value[order]
    lower, upper = np.full(rows, -highspy.kHighsInf), np.full(rows, highspy.kHighsInf)
    upper[: budget_row + 1] = 1.0
    upper[budget_row] = problem.max_migration_cost
    upper[top] = mean - now
    lower[bottom[staying]] = mean - now[staying]
    least, most = np.zeros(moves + 3), np.ones(moves + 3)
    most[d] = mean  # eq. 5
    most[[du, dl]] = highspy.kHighsInf
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = moves + 3, rows
    model.col_cost_ = np.concatenate([np.zeros(moves), [w1, -w2, -w2]])
    model.col_lower_, model.col_upper_ = least, most
    model.row_lower_, model.row_upper_ = lower, upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=moves + 3))])
    model.a_matrix_.index_ = row
    model.a_matrix_.value_ = value
    model.integrality_ = [highspy.HighsVarType.kInteger] * moves + [highspy.HighsVarType.kContinuous] * 3
    return model
