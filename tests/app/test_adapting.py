"""What is decided on a period: on metrics made so that all traffic and loads are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scheduling import nodes_of, observation, placed, topology

from harness.app.adapting import StepAdapter
from harness.app.planning import check_placements
from harness.app.simulated.campaign import carry_out
from harness.errors import UsageError
from harness.experiments.adapted_periods import NodeChange, PeriodDecision
from harness.experiments.adapting import NodesSeen, PeriodSeen
from harness.experiments.config import Experiment
from harness.experiments.loading import expand_steps, files, load
from harness.experiments.planned_rates import PlannedRate
from harness.machine.environment import describe
from harness.plans import BatchSize, TopologyConfiguration
from harness.runs import Run
from harness.schemas import METRICS

CHAINS = topology((("a", "b"), ("b", "c"), ("d", "e"), ("e", "f")))
NODES = nodes_of([1, 1])
WORKERS = ("node-1:6700", "node-2:6700")
LABELS = [f"{name}[{i}-{i}]" for i, name in enumerate("abcdef", start=1)]
TRAFFIC = {(1, 2): 50.0, (2, 3): 40.0, (4, 5): 60.0, (5, 6): 30.0}


def decided(
    tmp_path: Path,
    workers: list[str],
    scheduler: str,
    improvement_pct: float = 0,
    unchanged_s: float | None = None,
) -> PeriodDecision:
    experiment: Experiment = load(
        "quick",
        [
            f"steps.plan=[{{executors: 1, adapt: {{scheduler: {scheduler},"
            f" improvement_pct: {improvement_pct}}}}}]"
        ],
    )
    run = Run.create(tmp_path, "quick", {"experiment.yaml": ""}, {"started": "2026-01-02T03:04:05"})
    plan = placed(CHAINS, NODES, dict(zip(LABELS, workers, strict=True)))
    seen = observation(plan, TRAFFIC, dict.fromkeys(range(1, 7), 0.1))
    rows = pa.Table.from_pandas(seen.metrics, preserve_index=False).cast(METRICS)
    period = PeriodSeen(expand_steps(experiment)[0], plan, 100.0, 0, 10_000, rows)
    return StepAdapter(experiment, run)(period._replace(unchanged_s=unchanged_s))


def test_a_better_plan_is_applied_with_its_reason(tmp_path: Path) -> None:
    """In turn, all 180 tuples a second cross; METIS cuts the two chains apart, and none does."""
    found = decided(tmp_path, list(WORKERS) * 3, "traffic-cut")
    assert (found.decision, found.reason) == ("applied", "traffic between nodes 180 -> 0 tuples/s")
    assert found.change is not None
    assert found.change.placement is not None
    assert found.change.configuration == TopologyConfiguration(
        executors=dict.fromkeys("abcdef", 1), workers=2
    )
    workers = found.change.placement.workers
    assert {workers[label] for label in LABELS[:3]} != {workers[label] for label in LABELS[3:]}
    assert found.figures["between_nodes_tps"] == 180
    assert found.figures["collocation_factor"] == 0
    assert found.figures["load_cores"] == pytest.approx(0.6)
    assert found.figures["load_index_pct"] == 100


def test_the_bottleneck_is_found_each_period(tmp_path: Path) -> None:
    """0.6 of 4 cores; nothing says heap or bytes."""
    found = decided(tmp_path, list(WORKERS) * 3, "even")
    assert found.bottleneck == "cpu"
    assert found.figures["cpu_use_pct"] == pytest.approx(15.0)
    assert not {"heap_use_pct", "sent_use_pct"} & found.figures.keys()


def test_the_plan_in_force_stays_where_it_is_proposed(tmp_path: Path) -> None:
    apart = [WORKERS[0]] * 3 + [WORKERS[1]] * 3
    found = decided(tmp_path, apart, "traffic-cut")
    assert (found.decision, found.change) == ("stays", None)
    assert found.figures["collocation_factor"] == 1


def test_a_gain_that_is_too_small_moves_nothing(tmp_path: Path) -> None:
    """Of the chains only f is astray: 30 of 180 tuples cross, and even distances are equal by 20 points."""
    apart = [WORKERS[0]] * 3 + [WORKERS[1]] * 2 + [WORKERS[0]]
    assert decided(tmp_path, apart, "even", 50).decision == "stays"


@pytest.mark.parametrize(
    ("asked", "unchanged_s", "waits"),
    [
        ("aniello-online", None, False),  # as in the authors' code, the first change waits for nothing
        ("aniello-online", 179.9, True),  # their default is 180
        ("aniello-online", 180.0, False),
        ("{name: aniello-online, timeout_s: 0}", 1.0, False),
        ("{name: aniello-online, timeout_s: 60}", 59.0, True),
        ("traffic-cut", 1.0, False),
    ],
)
def test_a_scheduler_with_a_timeout_is_not_asked_before_it_is_over(
    tmp_path: Path, asked: str, unchanged_s: float | None, waits: bool
) -> None:
    found = decided(tmp_path, list(WORKERS) * 3, asked, unchanged_s=unchanged_s)
    assert found.decision == ("stays" if waits else "applied"), found.reason
    assert ("has timeout_s" in found.reason) == waits
    assert found.figures["between_nodes_tps"] == 180


WAITS = """\
name: waits
topology:
  name: fields-to-fields
  load_aware: false
  tasks: 4
  ackers: 1
  service:
    bolt-a: {kind: wait, distribution: constant, mean_ms: 9}
    bolt-b: {kind: wait, distribution: constant, mean_ms: 5.9}
workload: {rate_tps: 60}
cluster: {kind: simulator, nodes: 2, slots_per_node: 2}
measure:
  burn_in: {least_s: 4, most_s: 4, drift_pct: 90}
  interval: {least_s: 20, most_s: 20, looks: 1, precision_pct: 50}
steps:
  plan:
    - {executors: 1, workers: 1}
"""


def played(folder: Path, *settings: str) -> Run:
    (folder / "waits.yaml").write_text(WAITS)
    experiment = load(folder / "waits.yaml", list(settings))
    run = Run.create(folder / "runs", "waits", files(experiment), describe("simulator", {"storm": "2.8.3"}))
    carry_out(experiment, run, lambda _: None)
    return run


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One executor of each component at 60 messages/s, played: 9 ms a tuple in bolt-a, 5.9 ms in bolt-b."""
    return played(tmp_path_factory.mktemp("waits"))


def answered(
    run: Run, rate_tps: float, adapt: str, batching: Mapping[str, BatchSize] | None = None
) -> PeriodDecision:
    """Return the decision on the played step's interval, were so many messages due."""
    option = f"steps.plan=[{{executors: 1, workers: 1, adapt: {adapt}}}]"
    experiment = load(run.path / "experiment.yaml", [option, "cluster={nodes: 2, slots_per_node: 2}"])
    at, rows = run.interval(0), pq.read_table(run.step_path(0) / "metrics.parquet")
    period = PeriodSeen(
        expand_steps(experiment)[0], run.plan(0).start, rate_tps, at.start_epoch_ms, at.end_epoch_ms, rows
    )
    if batching:
        period = period._replace(batching=batching)
    return StepAdapter(experiment, run)(period)


@pytest.mark.parametrize(
    ("tuner", "rate_tps", "executors", "reason"),
    [
        # a played execute takes 0.1 ms beside its wait: 130 x 0.0091 = 1.19 and 130 x 0.006 = 0.78 are busy
        ("ds2", 130, (2, 1), "bolt-a 1 -> 2 for 130.0 messages/s"),
        # 1.70 and 1.12 at 0.7
        (
            "flink",
            130,
            (2, 2),
            "bolt-a 1 -> 2, bolt-b 1 -> 2 for 130.0 messages/s; bolt-a would be busy 1.19 of the time",
        ),
        # 0.91 and 0.60: within 0.4 to 1, though 0.91 / 0.7 would be 2
        ("flink", 100, None, "the numbers in force for 100.0 messages/s; within its bounds: bolt-a"),
        ("ds2", 60, None, "the numbers in force for 60.0 messages/s"),
    ],
)
def test_a_tuner_s_numbers_are_asked_for_where_they_are_others(
    waits: Run, tuner: str, rate_tps: float, executors: tuple[int, int] | None, reason: str
) -> None:
    found = answered(waits, rate_tps, f"{{tuner: {tuner}}}")
    assert found.reason == reason
    assert found.decision == ("stays" if executors is None else "applied")
    if executors is None:
        assert found.change is None
        return
    assert found.change is not None
    assert found.change.placement is None
    counts = {"spout": 1, "bolt-a": executors[0], "bolt-b": executors[1], "sender": 1}
    assert found.change.configuration == TopologyConfiguration(executors=counts, workers=1)


MESSAGE = "message: {n_us: 20000, s_ns_per_byte: 0}"
"""A message costs its sender 20 ms, and one comes every 7.7 ms at 130/s: 3 of them have to share it."""


def test_batch_sizes_stay_where_streams_are_not_batched(waits: Run) -> None:
    found = answered(waits, 130, f"{{tuner: {{name: aeolus, flush_ms: 1000, {MESSAGE}}}}}")
    assert found.decision == "applied", found.reason
    assert "batch sizes stay: " in found.reason
    assert "spout" in found.reason.rpartition("batch sizes stay: ")[2]
    assert found.change is not None
    assert found.change.batching is None


def test_batch_sizes_and_executors_change_where_both_are_others(waits: Run) -> None:
    """By hand, from ppt of about 9.1 and 6 ms and n = 20 ms: eq. 2 has 2 and 1 executors at 130/s.

    The spout's one executor needs b >= 20 / 7.69, so 3. Each of bolt-a's two has a tuple every 15.4 ms, of
    which 6.3 ms are left: 20 / 6.3, so 4. bolt-b's has 1.7 ms left: 12, or a few more, as its 16 batches fill
    at 8 tuples/s each on average and the slowest may leave before.
    """
    tuner = f"{{tuner: {{name: aeolus, flush_ms: 3000, {MESSAGE}}}}}"
    names = [f"{s.source}:{s.stream}" for s in waits.plan(0).start.query_plan.streams]
    alone = dict.fromkeys(names, BatchSize(size=1, flush_ms=3000))
    found = answered(waits, 130, tuner, alone)
    assert found.decision == "applied"
    assert found.change is not None
    assert found.change.batching is not None
    assert found.change.configuration.executors["bolt-a"] == 2
    sizes = [b.size for b in found.change.batching.values()]
    assert sizes[:2] == [3, 4]
    assert 12 <= sizes[2] <= 16
    assert f"batches of {names[0]} 1 -> 3/3000 ms" in found.reason
    again = answered(waits, 130, tuner, found.change.batching)
    assert again.change is not None
    assert again.change.batching is None, again.reason


def test_a_tuner_that_keeps_batches_keeps_those_in_force(waits: Run) -> None:
    names = [f"{s.source}:{s.stream}" for s in waits.plan(0).start.query_plan.streams]
    found = answered(waits, 60, "{tuner: ds2}", {names[0]: BatchSize(size=7, flush_ms=3)})
    assert (found.decision, found.change) == ("stays", None)


def test_a_scheduler_with_a_target_chooses_numbers_and_places_them(waits: Run) -> None:
    """At 130/s one executor of bolt-a is too few; at 60/s the plan in force keeps the target."""
    adapt = "{scheduler: {name: model-guided, objective: {p95_ms: 200}}, improvement_pct: 5}"
    found = answered(waits, 130, adapt)
    assert found.decision == "applied", found.reason
    assert found.change is not None
    assert found.change.configuration.executors["bolt-a"] >= 2
    assert found.change.configuration.workers == 1
    assert found.change.placement is not None
    assert found.change.placement.by == "model-guided"
    assert "for 130.0 messages/s; keeps a p95 of 200 ms" in found.reason
    assert answered(waits, 60, adapt).decision == "stays"


def test_whoever_plans_for_a_rate_says_whether_a_gain_is_worth_it(tmp_path: Path) -> None:
    """Executors dealt in turn to two workers: other places are quicker, by less traffic, but not by 99 %."""
    run = played(tmp_path, "steps.plan=[{executors: 1, workers: 2}]")
    found = answered(run, 60, "{scheduler: model-guided, improvement_pct: 99}")
    assert found.decision == "applied", found.reason
    assert found.change is not None
    assert found.change.configuration == TopologyConfiguration(
        executors=dict.fromkeys(("spout", "bolt-a", "bolt-b", "sender"), 1), workers=2
    )
    assert "executors move for 60.0 messages/s; " in found.reason
    of_traffic = answered(run, 60, "{scheduler: traffic-cut, improvement_pct: 99}")
    assert (of_traffic.decision, of_traffic.change) == ("stays", None)


@pytest.mark.parametrize("by", ["tuner: ds2", "scheduler: {name: model-guided, objective: {p95_ms: 200}}"])
def test_a_plan_is_made_for_the_traffic_that_is_foreseen(waits: Run, tmp_path: Path, by: str) -> None:
    """60 messages/s were due, and the earlier traffic has 130 all the time: two executors of bolt-a."""
    (tmp_path / "earlier.txt").write_text("\n".join(f"{i / 130:.9f}" for i in range(130 * 100)) + "\n")
    foreseen = f"{by}, forecast: stats-summary, horizon_s: 60, history: '{tmp_path / 'earlier.txt'}'"
    found = answered(waits, 60, f"{{{foreseen}}}")
    assert found.planned is not None
    assert (found.planned.forecast, found.planned.declined) == ("stats-summary", "")
    assert found.planned.rate_tps == pytest.approx(130, rel=0.01)
    assert found.decision == "applied", found.reason
    assert found.change is not None
    assert found.change.configuration.executors["bolt-a"] == 2
    assert f"for {found.planned.rate_tps:.1f} messages/s" in found.reason


def test_a_plan_is_made_for_the_last_period_s_rate_where_no_forecast_is_had(waits: Run) -> None:
    found = answered(waits, 60, "{tuner: ds2, forecast: stats-summary, horizon_s: 60}")
    assert found.decision == "stays"
    assert found.planned == PlannedRate(
        60.0, "stats-summary", 0.95, 60.0, "the history has 0 buckets, 8 are needed"
    )
    plain = answered(waits, 60, "{tuner: ds2}")
    assert plain.planned == PlannedRate(60.0)
    assert plain.reason == found.reason


@pytest.mark.parametrize(
    ("adapt", "words"),
    [
        ("{tuner: {name: 'made_tuners:OwnTuner', mood: bad}}", "failed with ZeroDivisionError: no luck"),
        ("{tuner: {name: ds2, ppt_ms: {nowhere: 1}}}", "ppt_ms names 'nowhere'"),
    ],
)
def test_a_tuner_that_fails_declines_the_period(waits: Run, adapt: str, words: str) -> None:
    found = answered(waits, 130, adapt)
    assert (found.decision, found.change) == ("declined", None)
    assert words in found.reason
    assert found.figures["load_index_pct"] == 100


def test_a_scheduler_that_fails_declines_the_period(tmp_path: Path) -> None:
    found = decided(tmp_path, list(WORKERS) * 3, "'faulty_schedulers:Raising'")
    assert (found.decision, found.change) == ("declined", None)
    assert "ZeroDivisionError" in found.reason


def scaled(
    tmp_path: Path, cores: float, nodes: NodesSeen, adapt: str = "scheduler: balance"
) -> PeriodDecision:
    """Six executors that use so many cores each, half of them on each of two nodes of two cores."""
    option = f"steps.plan=[{{executors: 1, workers: 2, adapt: {{{adapt}, nodes: [1, 3]}}}}]"
    experiment = load("quick", [option])
    run = Run.create(tmp_path, "quick", {"experiment.yaml": ""}, {"started": "2026-01-02T03:04:05"})
    plan = placed(CHAINS, NODES, dict(zip(LABELS, list(WORKERS) * 3, strict=True)))
    seen = observation(plan, TRAFFIC, dict.fromkeys(range(1, 7), cores))
    rows = pa.Table.from_pandas(seen.metrics, preserve_index=False).cast(METRICS)
    period = PeriodSeen(expand_steps(experiment)[0], plan, 100.0, 0, 10_000, rows, nodes)
    return StepAdapter(experiment, run)(period)


THREE = nodes_of([1, 1, 1])


def test_a_node_comes_where_the_potential_plan_overloads_one(tmp_path: Path) -> None:
    """6 x 0.6 of 4 cores are 90 % each; of 6 cores 60 %. Two executors a node move there."""
    found = scaled(tmp_path, 0.6, NodesSeen(THREE[:2], (), THREE[2:]))
    assert found.decision == "applied", found.reason
    assert "node-1 would be at 90 %, above 80: node-3 comes" in found.reason
    assert found.nodes == NodeChange(added=("node-3",))
    assert found.change is not None
    assert found.change.placement is not None
    assert list(found.change.placement.workers.values()).count("node-3:6700") == 2
    assert found.change.configuration.workers == 3
    assert (found.bottleneck, found.figures["executors_moved"]) == ("cpu", 2)


def test_a_marked_node_that_is_empty_is_ended_though_the_plan_stays(tmp_path: Path) -> None:
    found = scaled(tmp_path, 0.4, NodesSeen(THREE, ("node-3",), ()))
    assert (found.decision, found.change) == ("stays", None)
    assert found.nodes == NodeChange(removed=("node-3",))
    assert found.reason.startswith("node-3 is empty and ends")


def test_a_node_is_marked_and_its_executors_leave_it(tmp_path: Path) -> None:
    """6 x 0.1 of 4 cores are 15 %, and 30 % of one node."""
    found = scaled(tmp_path, 0.1, NodesSeen(THREE[:2], (), THREE[2:]))
    assert found.decision == "applied", found.reason
    assert found.reason == "mean 15 %, below 50: node-2 is to leave; executors leave a node that is to go"
    assert found.nodes == NodeChange(marked=("node-2",))
    assert found.change is not None
    assert found.change.configuration.workers == 1


def test_a_scheduler_that_declines_changes_no_node(tmp_path: Path) -> None:
    nodes = NodesSeen(THREE[:2], (), THREE[2:])
    found = scaled(tmp_path, 0.6, nodes, "scheduler: 'faulty_schedulers:Raising'")
    assert (found.decision, found.nodes) == ("declined", NodeChange())


def test_a_scheduler_that_chooses_numbers_is_refused_beside_nodes() -> None:
    option = "steps.plan=[{executors: 1, adapt: {scheduler: model-guided, nodes: [1, 3]}}]"
    with pytest.raises(UsageError, match=r"steps\.plan\.0: adapt: model-guided may choose numbers"):
        check_placements(load("quick", [option]))
