"""What is decided on a period whose key groups may move: on metrics that say all loads and traffic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from adapted_steps import move_rows
from keyed_periods import SENT_TPS, TABLES, keyed_period

from harness.app.adapting import StepAdapter
from harness.app.planning import check_placements
from harness.errors import UsageError
from harness.experiments.adapted_periods import PeriodDecision
from harness.experiments.adapting import PeriodSeen
from harness.experiments.loading import expand_steps, load
from harness.runs import Run
from harness.schemas import METRICS


def decided(
    tmp_path: Path,
    scheduler: str,
    improvement_pct: float = 0,
    sent_tps: Mapping[tuple[int, int, int], float] = SENT_TPS,
    moves: pa.Table | None = None,
) -> PeriodDecision:
    adapt = f"{{scheduler: {scheduler}, moves: key-groups, improvement_pct: {improvement_pct}}}"
    experiment = load("albic-live", [f"steps.plan=[{{executors: 4, workers: 4, adapt: {adapt}}}]"])
    run = Run.create(tmp_path, "quick", {"experiment.yaml": ""}, {"started": "2026-01-02T03:04:05"})
    source = keyed_period(sent_tps=sent_tps)
    rows = pa.Table.from_pandas(source.metrics, preserve_index=False).cast(METRICS)
    rows = rows if moves is None else pa.concat_tables([rows, moves])
    step = expand_steps(experiment)[0]
    return StepAdapter(experiment, run)(PeriodSeen(step, source.plan, 100.0, 0, 10_000, rows, tables=TABLES))


def test_key_groups_move_where_that_is_better(tmp_path: Path) -> None:
    """Group 0 of b, 30 of node-1's 70 points, goes to node-2, which has 20; its 30 tuples/s go there, too."""
    found = decided(tmp_path, "{name: balance, max_migration_cost: 1}")
    assert found.decision == "applied"
    assert found.reason.startswith(
        "traffic between nodes 30 -> 0 tuples/s; load distance 25.00 -> 5.00 points"
    )
    assert found.change is not None
    assert found.change.tables == {"b": (1, 1, 0), "c": (0, 1)}
    assert (found.change.placement, found.change.batching) == (None, None)
    assert found.figures["load_distance_pct"] == pytest.approx(25)
    assert found.figures["collocation_factor"] == pytest.approx(0.25)
    assert found.figures["executors_moved"] == 0


def test_key_groups_stay_where_the_gain_is_too_small(tmp_path: Path) -> None:
    """By 20 points, with no traffic between groups; more than 20 are asked for."""
    found = decided(tmp_path, "{name: balance, max_migration_cost: 1}", 20, sent_tps={})
    assert (found.decision, found.change) == ("stays", None)
    assert found.reason == "neither traffic between nodes nor load distance improves by 20"


def test_key_groups_stay_without_a_budget(tmp_path: Path) -> None:
    found = decided(tmp_path, "{name: balance, max_migration_cost: 0}")
    assert (found.decision, found.change) == ("stays", None)
    assert found.reason.startswith("every key group stays; load distance 25.00 -> 25.00 points")


def test_moves_of_the_step_say_what_a_state_costs(tmp_path: Path) -> None:
    """Three moves of 110 to 130 bytes paused for 7 ms each: in any state as long, so each group costs 1."""
    moves = move_rows(1, 2, 3, version=1)
    asked = "{name: balance, max_migration_cost: 1, migration_cost: state}"
    found = decided(tmp_path, asked, moves=moves)
    assert found.decision == "applied"
    assert found.reason.endswith(
        "a move pauses its group for 7 ms and 0 ms a MB, by 3 moves; a mean pause costs 1"
    )
    assert found.change is not None
    assert found.change.tables == {"b": (1, 1, 0), "c": (0, 1)}


def test_without_moves_each_group_costs_one_and_the_reason_says_so(tmp_path: Path) -> None:
    found = decided(tmp_path, "{name: balance, max_migration_cost: 1, migration_cost: state}")
    assert found.decision == "applied"
    assert found.reason.endswith("each move costs 1: 0 of 3 moves are there to measure alpha by")


def test_albic_live_has_the_groups_and_periods_that_its_page_says() -> None:
    """docs/key-groups.md."""
    made = load("albic-live")
    check_placements(made)
    assert sum(made.topology.key_groups.values()) == 60
    adapt = made.steps.plan[0].adapt
    assert adapt is not None
    assert made.measure.interval.most_s / adapt.period_s == 20
    assert len(made.input.keys) == 200


@pytest.mark.parametrize(
    ("experiment", "adapt", "said"),
    [
        ("albic-live", "{scheduler: even, moves: key-groups}", "even moves executors, no key groups"),
        (
            "albic-live",
            "{scheduler: {name: albic, resource: heap}, moves: key-groups}",
            "resource heap: the loads of key groups are of the CPU",
        ),
        ("albic-live", "{tuner: ds2, moves: key-groups}", "moves: key-groups needs a scheduler"),
        (
            "albic-live",
            "{scheduler: {name: albic, migration_cost: state}}",
            "migration_cost state: moving an executor costs 1; states are those of key groups",
        ),
        ("quick", "{scheduler: albic, moves: key-groups}", "adapt.moves: no component has role keyed"),
    ],
)
def test_only_some_schedulers_move_key_groups_and_only_where_there_are_any(
    experiment: str, adapt: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        check_placements(load(experiment, [f"steps.plan=[{{executors: 2, adapt: {adapt}}}]"]))
