"""Synthetic run directories with a known truth, for the analysis' tests.

The files have the schemas of ``harness.schemas`` and the JSON of ``harness.runs``; the numbers are drawn
from distributions that a test chooses, so it knows what must come out. Nothing here was measured, and
``environment.json`` says so unless a test asks otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from made_records import interval, ledger, quality, step_plan

from harness.analysis.judge.predicted_with import stamp
from harness.experiments.clusters import Local
from harness.experiments.config import Experiment
from harness.experiments.loading import dump, expand_steps
from harness.experiments.precision import look
from harness.experiments.step_settings import Steps, StepSpec
from harness.experiments.workload_settings import Workload
from harness.plans import (
    ACKER,
    Executor,
    PhysicalPlan,
    QueryPlan,
    TopologyConfiguration,
    Window,
    Worker,
    WorkerNode,
)
from harness.quality import Backlog, Finding
from harness.runs import BurnInFound, CompleteLatency, Run
from harness.schemas import HOP, LATENCY, METRICS, PREDICTIONS, SCHEMA_VERSION
from harness.topologies import TOPOLOGIES
from harness.topologies.component_settings import Multiplier
from harness.topologies.test_topology import Topology

Draw = Callable[[np.random.Generator, int], np.ndarray]
EPOCH_MS = 1_700_000_000_000
BUCKET_MS = 2_000
PRECISION_PCT = 3.0
"""As experiments ask for that do not say."""


def lognormal(median_ms: float, sigma: float = 0.4) -> Draw:
    """Latencies with a known median and a tail."""
    return lambda rng, n: median_ms * np.exp(sigma * rng.standard_normal(n))


@dataclass(frozen=True)
class FakeStep:
    """One step: its executors a component, its latencies, and what its quality file says."""

    executors: int = 2
    seconds: float = 40.0
    rate_tps: float = 50.0
    latency_ms: Draw = field(default_factory=lambda: lognormal(10.0))
    burn_in_s: float = 10.0
    quality: dict[str, Any] = field(default_factory=dict)
    interval: dict[str, Any] = field(default_factory=dict)
    same_plan: bool = True
    empty: bool = False
    """Whether nothing reached a sink and no metric arrived."""


@dataclass(frozen=True)
class FakeRun:
    """A run of a topology on nodes with two workers each."""

    topology: str = "fields-to-fields"
    tasks: int = 4
    nodes: int = 2
    steps: Sequence[FakeStep] = (FakeStep(1), FakeStep(2), FakeStep(4))
    members: int = 1
    seed: int = 7
    cluster_kind: str = "local"
    models: Sequence[str] = ("no-change", "tenth-high")
    """What ``write_predictions`` knows: the source's own values, and the same made a tenth higher."""

    def query_plan(self) -> QueryPlan:
        """The topology's query plan with this run's tasks."""
        names = {
            "fields-to-fields": ("spout", "bolt-a", "bolt-b", "sender"),
            "windowed": ("spout", "window", "sender"),
            "multiplier": ("spout", "multiplier", "sender"),
            "all-in-one": ("spout", "multiplier", "window", "sender"),
            "join-split": ("spout", "json", "multiplier", "join", "sender-1", "sender-2"),
        }[self.topology]
        window = Window(kind="count", length=10, slide=10)
        return TOPOLOGIES[self.topology].query_plan(dict.fromkeys(names, self.tasks), window, {})


UNUSUAL: Mapping[str, FakeRun] = {
    "eight messages in a step": FakeRun(steps=[FakeStep(1, seconds=4, burn_in_s=4, rate_tps=2), FakeStep(2)]),
    "eight messages": FakeRun(steps=[FakeStep(1, seconds=4, burn_in_s=4, rate_tps=2)]),
    "nothing in a step": FakeRun(steps=[FakeStep(1, empty=True), FakeStep(2)]),
    "nothing at all": FakeRun(steps=[FakeStep(1, empty=True)]),
    "an unsteady step": FakeRun(
        steps=[
            FakeStep(1),
            FakeStep(2, quality={"steady": Finding(ok=False, detail="drift of 30 %")}),
            FakeStep(4),
        ]
    ),
    "one step": FakeRun(steps=[FakeStep(2)]),
    "thirteen steps": FakeRun(steps=[FakeStep(1 + i % 4, seconds=4, burn_in_s=2) for i in range(13)]),
    "two branches": FakeRun(topology="join-split", steps=[FakeStep(1, seconds=10), FakeStep(2, seconds=10)]),
    "not measured": FakeRun(steps=[FakeStep(1)], cluster_kind="simulator"),
    "markup in a text": FakeRun(
        steps=[FakeStep(1, quality={"steady": Finding(ok=False, detail="<script>alert(1)</script>")})]
    ),
}
"""Runs that the analysis must not stumble over, by what is unusual about them."""


def physical_plan(run: FakeRun, executors: int) -> PhysicalPlan:
    """Executors dealt round-robin over the workers, with one acker a worker."""
    plan = run.query_plan()
    nodes = tuple(
        WorkerNode(name=f"node-{i + 1}", address=f"127.0.0.{i + 2}", host="here", cores=2, slots=(6700, 6701))
        for i in range(run.nodes)
    )
    workers = [Worker(node=n.name, port=p) for p in (6700, 6701) for n in nodes]
    placed: list[Executor] = []
    task = 1
    for name, tasks, count in [
        (ACKER, len(workers), len(workers)),
        *((c.name, c.tasks, executors) for c in plan.components),
    ]:
        for part in np.array_split(np.arange(task, task + tasks), count):
            worker = workers[len(placed) % len(workers)]
            placed.append(
                Executor(component=name, first_task=int(part[0]), last_task=int(part[-1]), worker=worker)
            )
        task += tasks
    return PhysicalPlan(query_plan=plan, nodes=nodes, executors=tuple(placed))


def latency_table(run: FakeRun, step: FakeStep, plan: PhysicalPlan, start_ns: int, seed: int) -> pa.Table:
    """Rows of ``latency.parquet``: burn-in first, then the interval; hops evenly in time, 3/10 work."""
    rng = np.random.default_rng(seed)
    total_s = step.burn_in_s + step.seconds
    n = round(step.rate_tps * total_s)
    period_ns = round(1e9 / step.rate_tps)
    scheduled = start_ns - int(step.burn_in_s * 1e9) + np.arange(n, dtype=np.int64) * period_ns
    entered = scheduled + rng.integers(200_000, 1_200_000, n)  # the spout polls
    wanted_ns = np.round(step.latency_ms(rng, n) * 1e6).astype(np.int64)
    output = np.arange(n) // run.members
    left = entered + wanted_ns
    if run.members > 1:  # members of a window leave together, with the last of them
        left = pd.Series(left).groupby(output).transform("max").to_numpy()
    ground_ns = left - entered
    query = plan.query_plan
    chain = _chain(query, rng)
    tasks = np.stack(
        [
            rng.choice([t for e in plan.of(c) for t in e.tasks], n)
            if i == 0 or c not in query.sinks or run.members == 1
            else np.repeat(rng.choice([t for e in plan.of(c) for t in e.tasks], output[-1] + 1), run.members)[
                :n
            ]
            for i, c in enumerate(chain)
        ],
        axis=1,
    )
    fractions = np.linspace(0, 1, len(chain))
    received = entered[:, None] + (ground_ns[:, None] * fractions).astype(np.int64)
    received[:, 0] = entered
    emitted = received.copy()
    emitted[:, 1:-1] += (0.3 * np.diff(received, axis=1)[:, 1:]).astype(np.int64)
    emitted[:, -1] = left
    hops = pa.ListArray.from_arrays(
        pa.array(np.arange(0, n * len(chain) + 1, len(chain)), pa.int32()),
        pa.StructArray.from_arrays(
            [
                pa.array(tasks.ravel().astype(np.int32)),
                pa.array(received.ravel()),
                pa.array(emitted.ravel()),
            ],
            fields=list(HOP),
        ),
    )
    path = ["/".join(f"{c}:{t}" for c, t in zip(chain, row, strict=True)) for row in tasks]
    frame = pd.DataFrame({"output": output, "path": path, "entered": entered, "left": left})
    chosen = frame.groupby("output")["path"].transform("first")  # the thesis's random path: the first here
    entry = frame[frame["path"] == chosen].groupby("output")["entered"].mean().astype("int64")
    thesis_ms = (frame["left"] - frame["output"].map(entry)) / 1e6
    columns: dict[str, Any] = {
        "message_id": np.arange(n, dtype=np.int64),
        "child": np.zeros(n, np.int32),
        "in_interval": scheduled >= start_ns,
        "scheduled_ns": scheduled,
        "sent_ns": scheduled + 20_000,
        "entered_ns": entered,
        "left_ns": left,
        "ground_truth_ms": ground_ns / 1e6,
        "broker_ms": np.ceil(ground_ns / 1e6) + 2,
        "scheduled_ms": (left - scheduled) / 1e6,
        "thesis_ground_truth_ms": thesis_ms,
        "path": path,
        "sink": [chain[-1]] * n,
        "output_partition": (output % 16).astype(np.int32),
        "output_offset": output // 16,
        "hops": hops,
    }
    return pa.table({k: _column(v, LATENCY.field(k).type) for k, v in columns.items()}, schema=LATENCY)


def _chain(query: QueryPlan, rng: np.random.Generator) -> list[str]:
    name = query.spouts[0]
    chain = [name]
    while query.outputs(name):
        name = query.outputs(name)[0].target
        chain.append(name)
    return chain


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)


def metrics_table(step: FakeStep, plan: PhysicalPlan, start_ms: int, seed: int) -> pa.Table:
    """Rows of ``metrics.parquet``: Poisson counts a task and bucket, with service and ack times."""
    rng = np.random.default_rng(seed + 1)
    first = start_ms - int(step.burn_in_s * 1000)
    ticks = range(first + BUCKET_MS, start_ms + int(step.seconds * 1000) + BUCKET_MS, BUCKET_MS)
    query = plan.query_plan
    rows: list[tuple[Any, ...]] = []
    for tick, component in product(ticks, query.components):
        executors = plan.of(component.name)
        inputs, outputs = query.inputs(component.name), query.outputs(component.name)
        for executor in executors:
            worker = executor.worker.label
            end = tick + 137 * executor.first_task % 900  # executors do not tick together
            for task in executor.tasks:
                count = int(rng.poisson(step.rate_tps * BUCKET_MS / 1000 / component.tasks))
                where = (end, component.name, task, worker)

                def add(
                    measurement: str,
                    name: str,
                    value: float,
                    stream: str | None = None,
                    peer: str | None = None,
                    where: tuple[Any, ...] = where,
                ) -> None:
                    rows.append((where[0], measurement, *where[1:], stream, peer, name, float(value)))

                if count == 0:
                    continue
                for s in inputs:
                    add("received", "count", count, s.stream, s.source)
                if inputs:
                    wall = rng.exponential(1.0, count) * 1e6
                    add("service", "count", count)
                    add("service", "wall_sum_ns", round(wall.sum()))
                    add("service", "wall_sumsq_ns2", round((wall**2).sum()))
                    add("service", "cpu_sum_ns", round(wall.sum() * 0.8))
                    _histogram(add, "service_hist", wall, "wall")
                else:
                    ack = step.latency_ms(rng, count) * 1.3e6
                    add("ack", "acked", count)
                    add("ack", "count", count)
                    add("ack", "sum_ns", round(ack.sum()))
                    _histogram(add, "ack_hist", ack, None)
                for s in outputs:
                    add("emitted", "count", count, s.stream)
                    targets = [t for e in plan.of(s.target) for t in e.tasks]
                    weights = np.arange(1, len(targets) + 1) / np.arange(1, len(targets) + 1).sum()
                    for target, sent in zip(targets, rng.multinomial(count, weights), strict=True):
                        if sent:
                            add("transferred", "count", sent, s.stream, str(target))
    columns = list(zip(*rows, strict=True)) if rows else [[] for _ in METRICS.names]
    return pa.table(
        {n: _column(list(c), METRICS.field(n).type) for n, c in zip(METRICS.names, columns, strict=True)},
        schema=METRICS,
    )


def _histogram(add: Callable[..., None], measurement: str, values: np.ndarray, peer: str | None) -> None:
    """Eight bins an octave, each named by its upper bound in ns."""
    bounds, counts = np.unique(np.ceil(np.log2(values) * 8), return_counts=True)
    for bound, count in zip(bounds, counts, strict=True):
        add(measurement, str(round(2 ** (bound / 8))), count, None, peer)


def build(path: Path, run: FakeRun) -> Path:
    """Write a whole run directory but for what the analysis writes itself."""
    steps = path / "steps"
    steps.mkdir(parents=True)
    now = 1_000_000_000_000
    plans = []
    labels = [s.label for s in expand_steps(experiment(run))]
    for index, step in enumerate(run.steps):
        folder = steps / f"{index:02d}"
        folder.mkdir()
        plan = physical_plan(run, step.executors)
        plans.append(plan)
        up_ns = now + 8_000_000_000
        start_ns = up_ns + int(step.burn_in_s * 1e9)
        end_ns = start_ns + int(step.seconds * 1e9)
        start_ms = EPOCH_MS + start_ns // 1_000_000
        latency = latency_table(run, step, plan, start_ns, run.seed + 100 * index)
        metrics = metrics_table(step, plan, start_ms, run.seed + 100 * index)
        if step.empty:
            latency, metrics = latency.slice(0, 0), metrics.slice(0, 0)
        pq.write_table(latency, folder / "latency.parquet")
        pq.write_table(metrics, folder / "metrics.parquet")
        counts = {"__acker": len([e for e in plan.executors if e.component == ACKER])}
        counts |= {c.name: step.executors for c in plan.query_plan.components}
        asked = TopologyConfiguration(executors=counts, workers=len(plan.workers))
        end = plan if step.same_plan else physical_plan(run, max(1, step.executors - 1))
        _json(folder / "plan.json", step_plan(plan, asked=asked, end=end))
        inside = latency.filter(latency["in_interval"])
        seen = look(
            (inside["scheduled_ns"].to_numpy() - start_ns) / 1e9,
            inside["ground_truth_ms"].to_numpy(),
            start_s=0.0,
            end_s=step.seconds,
            precision_pct=PRECISION_PCT,
            looks=4,
        )
        mean = seen.mean
        found = interval(
            step=index,
            configuration=labels[index],
            rate_tps=step.rate_tps,
            rebalance_start_ns=now,
            up_ns=up_ns,
            start_ns=start_ns,
            end_ns=end_ns,
            settled_ns=None,
            drained_ns=None,
            overhead_s=None,
            done_ns=end_ns + 1_000_000_000,
            start_epoch_ms=start_ms,
            end_epoch_ms=start_ms + int(step.seconds * 1000),
            burn_in=BurnInFound(found=True, seconds=step.burn_in_s, reason="steady"),
            stop_reason="precision",
            mean_ms=mean,
            half_width_ms=seen.half_width,
            precision_pct_asked=PRECISION_PCT,
            precision_pct_reached=seen.precision_pct,
            looks=2,
            complete_latency_ms={
                e.label: CompleteLatency(mean_ms=1.2 * mean + i, acked=1000 + i)
                for i, e in enumerate(plan.of("spout"))
            },
            submission="rebalance" if index else "first",
        )
        _json(folder / "interval.json", found.model_copy(update=step.interval))
        sent = int((np.asarray(latency["in_interval"]) & (np.asarray(latency["child"]) == 0)).sum())
        findings: dict[str, Any] = {
            k: Finding(ok=True)
            for k in (*("generator", "receiver", "metrics"), *("began_empty", "alone", "clocks", "stolen"))
        }
        findings["ledger"] = {"sent": sent, "received": sent}
        findings["backlog"] = Backlog(
            growth_tps=0.0,
            growth_error_tps=0.1,
            throughput_tps=step.rate_tps,
            throughput_error_tps=0.1,
            saturated=False,
        )
        findings |= step.quality
        if findings["ledger"] is not None:
            findings["ledger"] = ledger(**findings["ledger"])
        _json(folder / "quality.json", quality(**findings))
        now = end_ns + 1_000_000_000
    environment = {
        "schema": SCHEMA_VERSION,
        "cluster_kind": run.cluster_kind,
        "cluster": {"storm": "2.8.3", "kafka": "4.1.0"},
        "machine": {"cores": 2, "kernel": "none: synthetic data"},
        "commit": "0000000",
        "started": "2026-01-01T00:00:00Z",
    }
    (path / "environment.json").write_text(json.dumps(environment))
    (path / "experiment.yaml").write_text(dump(experiment(run)))
    write_predictions(path, run)
    return path


def experiment(run: FakeRun) -> Experiment:
    """The experiment that such a run would have come from."""
    multiplied = run.topology in ("multiplier", "all-in-one", "join-split")
    windowed = run.topology in ("windowed", "all-in-one", "join-split")
    return Experiment(
        name=f"synthetic-{run.topology}",
        topology=Topology(
            name=run.topology,
            load_aware=False,
            tasks=run.tasks,
            window=Window(kind="count", length=10, slide=10) if windowed else None,
            multiplier=Multiplier(min=1, max=20, mean=10, sd=1) if multiplied else None,
            routing="one-per-window" if run.topology == "join-split" else None,
        ),
        workload=Workload(rate_tps=run.steps[0].rate_tps),
        cluster=Local(nodes=run.nodes, slots_per_node=2),
        steps=Steps(plan=tuple(StepSpec(executors=s.executors, rate_tps=s.rate_tps) for s in run.steps)),
        models=tuple(run.models),
    )


def _json(path: Path, model: Any) -> None:
    path.write_text(model.model_dump_json(indent=1))


def write_predictions(path: Path, run: FakeRun) -> None:
    """Two models: the source step's own mean and percentiles, and the same made ten per cent higher."""
    rows = []
    truth = {}
    for index in range(len(run.steps)):
        table = pq.read_table(path / "steps" / f"{index:02d}" / "latency.parquet")
        values = table.filter(table["in_interval"])["ground_truth_ms"].drop_null().to_numpy()
        values = values[~np.isnan(values)]
        if values.size:
            q = np.quantile(values, [0.5, 0.9, 0.95, 0.99])
            truth[index] = dict(zip(("mean", "p50", "p90", "p95", "p99"), (values.mean(), *q), strict=True))
    for model, source, proposed in product(run.models, range(len(run.steps)), range(len(run.steps))):
        factor = 1.1 if model == "tenth-high" else 1.0
        for statistic in ("mean", "p50", "p90", "p95", "p99"):
            value = truth.get(source, {}).get(statistic)
            ok = value is not None
            rows.append(
                {
                    "model": model,
                    "source_step": source,
                    "proposed_step": proposed,
                    "measure": "ground_truth_latency_ms",
                    "subject": "",
                    "statistic": statistic,
                    "value": value * factor if value is not None else None,
                    "low": value * factor * 0.9 if value is not None else None,
                    "high": value * factor * 1.1 if value is not None else None,
                    "status": "ok" if ok else "declined",
                    "reason": "" if ok else "the source step has no samples",
                }
            )
    table = pa.Table.from_pylist(rows, schema=PREDICTIONS)
    stamped = table.replace_schema_metadata(stamp(Run(path), run.models))
    pq.write_table(stamped, path / "predictions.parquet")
