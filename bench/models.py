"""How long the models take: one prediction at 1,000 executors, with intervals, one move, a whole evaluation.

    python bench/models.py [RUN]

RUN, a measured run, is asked for all of its pairs (without Spark). CPU time of one process; what is compiled
has been called before. Goals: issue of the embedded model, 'Where it has to get'.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from rivals import by_ciw, by_line, by_line_events, cpu_ms, line_network, stages  # noqa: E402
from simulated_networks import network, waiting  # noqa: E402
from simulated_networks import plan as line  # noqa: E402
from synthetic import SETTINGS, Truth, deploy, fields_to_fields, observation  # noqa: E402

from harness.analysis.judge.predicting import observation as observed  # noqa: E402
from harness.experiments.loading import load  # noqa: E402
from harness.models import MODELS  # noqa: E402
from harness.models.composite.neighbourhood import Neighbourhood  # noqa: E402
from harness.models.composite.plan.network_builder import build_network, network_builder  # noqa: E402
from harness.models.composite.proposal import examine, prepare  # noqa: E402
from harness.models.composite.source_estimates import SourceEstimates  # noqa: E402
from harness.models.composite.uncertainty import replicates  # noqa: E402
from harness.models.contract.layout import lay_out  # noqa: E402
from harness.models.simulator import simulate  # noqa: E402
from harness.models.simulator.distributions import exponential  # noqa: E402
from harness.models.solver.solve import Solution, solve  # noqa: E402
from harness.plans import PhysicalPlan  # noqa: E402
from harness.protocols import Observation, PreparingModel  # noqa: E402
from harness.runs import Run  # noqa: E402
from harness.schemas import Measure  # noqa: E402

ROUNDS = 7
MOVES = 5
"""Of executors of each component."""
CORES = 64.0
"""Of the host with 1,000 executors."""


def quickest_ms(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the CPU time of the quickest of several calls."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        call()
        found.append((time.process_time() - begun) * 1e3)
    return float(np.min(found))


def row(what: str, value_ms: float, goal_ms: float | None) -> None:
    """Print one figure beside its goal."""
    goal = "" if goal_ms is None else f" (goal {goal_ms:g}: {'reached' if value_ms <= goal_ms else 'missed'})"
    click.echo(f"{what}: {value_ms:.2f} ms{goal}")


def thousand() -> None:
    """Time predictions of a plan of 1,000 executors, from a source of as many tasks in 4 a component."""
    query_plan = fields_to_fields(tasks=240)
    truth = Truth.random(query_plan, 2000.0, 1, service_ms=0.2)
    source = observation(deploy(query_plan, 4, nodes=4, ackers=40), truth, buckets=4)
    prepared = prepare(source)
    plan = deploy(query_plan, 240, nodes=4, workers_per_node=4, ackers=40)
    # polling alone keeps more cores busy than the tests' small hosts have
    plan = plan.model_copy(update={"nodes": tuple(n.model_copy(update={"cores": CORES}) for n in plan.nodes)})
    layout = lay_out(plan)

    def whole() -> object:
        return solve(build_network(prepared, layout, SETTINGS, 2000.0)).ground_truth()

    def means() -> object:
        return solve(build_network(prepared, layout, SETTINGS, 2000.0)).stages

    others = replicates(examine(source))

    def intervals() -> object:
        return [solve(build_network(p, layout, SETTINGS, 2000.0)).ground_truth() for p in (prepared, *others)]

    whole()
    row(f"{len(plan.executors)} executors, laying out", quickest_ms(lambda: lay_out(plan)), None)
    row("  network alone", quickest_ms(lambda: build_network(prepared, layout, SETTINGS, 2000.0)), None)
    row("  network and all stages but latencies", quickest_ms(means), None)
    row("  one prediction with percentiles", quickest_ms(whole), 5)
    row(f"  with intervals ({len(others)} replicates)", quickest_ms(intervals, 3), 100)
    moves(prepared, plan)
    rivals(source, plan, solve(build_network(prepared, layout, SETTINGS, 2000.0)))


def rivals(source: Observation, plan: PhysicalPlan, solution: Solution) -> None:
    """Time what others take for the same plan, once: of latencies they tell means only."""
    for name in ("jackson", "storm-tracer"):
        begun = time.process_time()
        said = MODELS[name](source, plan, SETTINGS, 2000.0).estimates
        took = (time.process_time() - begun) * 1e3
        latency = next(e for e in said if e.measure == Measure.GROUND_TRUTH)
        row(f"  {name}, all that it answers (latency: {latency.status})", took, None)
    queues = stages(solution)
    row("  line-solver, its network", quickest_ms(lambda: line_network(queues), 1), None)
    model = line_network(queues)
    row("  line-solver (NC), mean latency", quickest_ms(lambda: by_line(model), 2), None)


def moves(prepared: SourceEstimates, plan: PhysicalPlan) -> None:
    """Time one executor's moves around a plan, some of each component, and say how far off they are."""

    def around() -> Neighbourhood:
        near = Neighbourhood(network_builder(prepared, lay_out(plan), SETTINGS, 2000.0))
        near.prepare()
        return near

    near, rng = around(), np.random.default_rng(1)
    layout, workers = near.layout, plan.workers
    took, off, solved = [], [], []
    for at in layout.of.values():
        for e in rng.integers(at.start, at.stop, MOVES).tolist():
            target = rng.choice([w for w in range(len(workers)) if w != layout.worker[e]])
            move = partial(near.moved, e, workers[target])
            full = partial(lambda *given: near.solve(*given).ground_truth(), e, workers[target])
            answer, expected = move()[""], full()[""]
            took.append(quickest_ms(move))
            solved.append(quickest_ms(full, 2))
            percentiles = np.abs(answer.percentiles_ms / expected.percentiles_ms - 1).max()
            off.append((abs(answer.mean_ms / expected.mean_ms - 1), percentiles))
    row("  around it", quickest_ms(around, 3), None)
    row("  one executor moved, laid out and solved again", float(np.median(solved)), None)
    row(f"  one executor moved, median of {len(took)} moves", float(np.median(took)), 0.5)
    row("    the slowest of them", max(took), None)
    mean, percentile = np.max(off, axis=0)
    click.echo(f"    off by at most: mean {mean:.1e}, percentiles {percentile:.1e} of themselves")


def evaluation(path: Path) -> None:
    """Time all pairs of a run, by model; reading the files is not in it."""
    run = Run(path)
    experiment = load(run.path / "experiment.yaml")
    seen = [observed(run, experiment, step) for step in run.finished_steps]
    for name, model in MODELS.items():

        def ask(model: object = model) -> None:
            for source in seen:
                if isinstance(model, PreparingModel):
                    answer = model.prepare(source).predict
                else:
                    answer = lambda *given: model(source, *given)  # type: ignore[operator]  # noqa: B023, E731
                for proposed in seen:
                    answer(proposed.plan, proposed.settings, proposed.rate_tps)

        goal = 2000.0 if name == "composite" else None
        row(f"{name}, {len(seen)} x {len(seen)} pairs of {path.parent.name}", quickest_ms(ask, 2), goal)


def simulators() -> None:
    """Time the same queues, three components of four executors each, by our simulator and by others'."""
    service, executors, rate_tps = exponential(1.0), 4, 1000.0
    edges = [("spout", "a"), ("a", "b"), ("b", "c")]
    made = network(line(edges, {"spout": 1, **dict.fromkeys("abc", executors)}), rate_tps,
                   dict.fromkeys("abc", waiting(service)))  # fmt: skip
    simulate(made, 1.0, 0.0, 1)
    seconds, visits = 100.0, 4 * rate_tps * 100.0  # with the spout's
    row(
        f"simulator, {visits:,.0f} tuple visits",
        quickest_ms(lambda: simulate(made, seconds, 0.0, 1), 3),
        None,
    )
    events = 1_000_000  # of line-solver each is a message that comes, or a visit that ends
    queues = line_network([[(0.25, service.mean_ms)] * executors] * len(edges))
    row(
        f"line-solver (LDES), {events:,} tuple visits",
        cpu_ms(lambda: by_line_events(queues, events), 3),
        None,
    )
    theirs = 2.0
    row(
        f"ciw, {3 * rate_tps * theirs:,.0f} tuple visits",
        quickest_ms(lambda: by_ciw(service, theirs), 1),
        None,
    )


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path, exists=True))
def main(run: Path | None) -> None:
    """Print the figures."""
    thousand()
    simulators()
    if run is not None:
        evaluation(run)


if __name__ == "__main__":
    main()
