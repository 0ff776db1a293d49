"""What the wrappers cost: throughput at saturation and latency, instrumented against bare, in pairs.

    make bench

One worker runs fields-to-fields with a given CPU time in each of its two bolts, wrapped and as it is, a
new submission each time. The order within pairs alternates, so that a slow change of the machine falls on
both. Each submission

- is given the same backlog, from one topic that was filled once, and works it off: the throughput is taken
  between a third and nine tenths of its outputs, by the broker's own counts. Nothing else runs then but
  the broker, and where it is wrapped the metrics receiver, whose work is part of the cost;
- then gets a few messages a second: the mean ground truth, from the hop records, which both have.

Prints one line, and writes reports/instrumentation.md and .json.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.stats import t as student

from harness.app.campaigning import environment, jars
from harness.backends.kafka.client import Topics
from harness.backends.local.cluster import LocalCluster
from harness.backends.local.opened import local_cluster
from harness.backends.metrics.receiver import MetricsReceiver
from harness.errors import ClusterError
from harness.experiments.config import Experiment
from harness.experiments.contracts import TopicNames
from harness.experiments.loading import expand_steps
from harness.experiments.schedule import Constant
from harness.machine import sandbox, servers
from harness.machine.whole_files import write_atomically
from harness.storm.deployment import StormDeployment, submitter_of
from harness.workload.generator import Generator
from harness.workload.receiver import Receiver
from harness.workload.wire import OwnWire

INPUT, OUTPUT = "bench-in", "bench-out"
FILL_TPS = 20_000.0
"""More than the generator can send: it sends as fast as it can."""
FROM, TO = 1 / 3, 0.9
"""Parts of the backlog between which the throughput is taken: after compilation, before the end."""
LATENCY_TPS, SETTLE_S, MEASURE_S = 200.0, 4.0, 14.0
STALLED_S = 60.0
"""Without an output for so long, with some missing, something is wrong."""
AIM = 0.97
REPORTS = Path(__file__).resolve().parent.parent / "reports"
console = Console(stderr=True)


@dataclass(frozen=True)
class Plan:
    """How one service time is measured."""

    service_ms: float
    pairs: int
    backlog: int


@dataclass(frozen=True)
class Found:
    """What was measured of one submission."""

    throughput_tps: float
    latency_ms: float


@dataclass(frozen=True)
class Mean:
    """A mean over pairs with its 95 % interval; no interval from a single pair."""

    value: float
    low: float | None
    high: float | None

    def text(self, form: str) -> str:
        """Return value and interval in a number format."""
        interval = "" if self.low is None else f" ({self.low:{form}} to {self.high:{form}})"
        return f"{self.value:{form}}{interval}"


@dataclass(frozen=True)
class Bench:
    """Where it is measured: the servers, the filled topic, and who sends to it."""

    cluster: LocalCluster
    metrics: MetricsReceiver
    topics: Topics
    generator: Generator
    input_topic: str = INPUT
    output_topic: str = OUTPUT

    def outputs(self) -> int:
        """Return how many records the output topic was ever given."""
        return int(self.topics.end_offsets(OUTPUT).sum())


def experiment(service_ms: float, *, instrument: bool) -> Experiment:
    """Return fields-to-fields on one worker with that service time in each bolt."""
    service = {"kind": "cpu", "distribution": "constant", "mean_ms": service_ms}
    return Experiment.model_validate(
        {
            "name": "bench",
            "topology": {
                "name": "fields-to-fields",
                "load_aware": False,
                "tasks": 4,
                "ackers": 1,
                "service": {"bolt-a": service, "bolt-b": service},
                "max_spout_pending": 2000,
                # batches, so that the broker takes as little of the cores as it can
                "producer": {"linger.ms": "5", "acks": "1"},
            },
            "workload": {"rate_tps": LATENCY_TPS},
            "cluster": {"nodes": 1, "slots_per_node": 1, "worker_heap_mb": 768},
            "measure": {"instrument": instrument},
            "steps": {"plan": [{"executors": 1}]},
        }
    )


def fill(bench: Bench, messages: int) -> None:
    """Send that many messages to the input topic, as fast as it goes."""
    bench.generator.start(Constant(FILL_TPS))
    while int(bench.topics.end_offsets(INPUT).sum()) < messages:
        bench.generator.poll()
        time.sleep(0.5)
    bench.generator.stop()


def one(bench: Bench, setup: Experiment, backlog: int, name: str) -> Found:
    """Submit, work off the backlog, measure the latency, and remove the topology again."""
    ends = bench.topics.end_offsets(INPUT)
    bench.topics.commit(name, INPUT, (ends - backlog // ends.size).clip(min=0))
    backlog = backlog // ends.size * ends.size
    before = bench.outputs()
    with tempfile.TemporaryDirectory() as folder:
        topics = TopicNames(dict.fromkeys(setup.topology.entrances, bench.input_topic), bench.output_topic)
        submitter = submitter_of(setup, name, bench.cluster.broker, topics, jars(), Path(folder))
        deployment = StormDeployment(setup, bench.cluster, submitter, bench.metrics, jars(), Path(folder))
        deployment.submit(expand_steps(setup)[0].configuration)
    throughput_tps = throughput(bench, before, backlog)
    latency_ms = latency(bench)
    bench.cluster.nimbus.kill(name)
    bench.metrics.store.forget(time.time_ns() // 1_000_000)
    return Found(throughput_tps, latency_ms)


def throughput(bench: Bench, before: int, backlog: int) -> float:
    """Wait until the backlog is worked off, and return outputs a second in its middle part."""
    seen = [(time.monotonic(), 0)]
    moved = time.monotonic()
    while seen[-1][1] < backlog:
        time.sleep(0.1)
        bench.cluster.check()
        seen.append((time.monotonic(), bench.outputs() - before))
        if seen[-1][1] > seen[-2][1]:
            moved = time.monotonic()
        elif time.monotonic() - moved > STALLED_S:
            raise ClusterError(f"{seen[-1][1]} outputs of {backlog} after {STALLED_S:g} s without any")
    when, done = np.array(seen, dtype=np.float64).T
    begun, ended = np.interp([FROM * backlog, TO * backlog], done, when)
    return float((TO - FROM) * backlog / (ended - begun))


def latency(bench: Bench) -> float:
    """Send a few messages a second and return their mean ground truth, without the first of them."""
    with Receiver(bench.cluster.bootstrap, OUTPUT, bench.topics.end_offsets(OUTPUT)) as receiver:
        first_id = bench.generator.next_id
        bench.generator.start(Constant(LATENCY_TPS))
        time.sleep(SETTLE_S + MEASURE_S)
        sent = bench.generator.stop()
        deadline = time.monotonic() + STALLED_S
        parts = [receiver.poll()]
        while sum(p.num_rows for p in parts) < sent.num_rows:
            if time.monotonic() > deadline:
                raise ClusterError(f"outputs of some of {sent.num_rows} messages are missing")
            parts.append(receiver.poll(0.2))
    settled_id = first_id + round(SETTLE_S * LATENCY_TPS)
    ids = np.concatenate([p["message_id"].to_numpy() for p in parts])
    took_ns = np.concatenate([p["left_ns"].to_numpy() - p["entered_ns"].to_numpy() for p in parts])
    return float(took_ns[ids >= settled_id].mean()) / 1e6


def mean(values: NDArray[np.float64]) -> Mean:
    """Return the mean of paired values with its 95 % interval."""
    if values.size < 2:
        return Mean(float(values.mean()), None, None)
    half = (
        float(student.ppf(0.975, values.size - 1)) * float(values.std(ddof=1)) / float(np.sqrt(values.size))
    )
    return Mean(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half)


def ratio(on: NDArray[np.float64], off: NDArray[np.float64]) -> Mean:
    """Return the geometric mean of the pairs' ratios with its 95 % interval."""
    logs = mean(np.log(on / off))
    ends = [None if end is None else float(np.exp(end)) for end in (logs.low, logs.high)]
    return Mean(float(np.exp(logs.value)), ends[0], ends[1])


def measure(bench: Bench, plan: Plan, setups: Mapping[str, Experiment]) -> dict[str, Any]:
    """Measure pairs of two experiments, ``on`` and ``off``; which is first alternates."""
    found: dict[str, list[Found]] = {"on": [], "off": []}
    for pair in range(plan.pairs):
        for how in ("on", "off") if pair % 2 == 0 else ("off", "on"):
            name = f"bench-{plan.service_ms * 1000:g}us-{pair}-{how}"
            now = one(bench, setups[how], plan.backlog, name)
            found[how].append(now)
            console.print(
                f"{plan.service_ms:g} ms, pair {pair + 1}/{plan.pairs}, {how:3}:"
                f" {now.throughput_tps:6.0f} messages/s, {now.latency_ms:6.3f} ms",
                highlight=False,
            )
    rates = [np.array([f.throughput_tps for f in found[how]]) for how in ("on", "off")]
    times = [np.array([f.latency_ms for f in found[how]]) for how in ("on", "off")]
    return {
        "service_ms": plan.service_ms,
        "pairs": plan.pairs,
        "backlog": plan.backlog,
        "throughput_on_tps": rates[0].tolist(),
        "throughput_off_tps": rates[1].tolist(),
        "latency_on_ms": times[0].tolist(),
        "latency_off_ms": times[1].tolist(),
        "throughput_ratio": vars(ratio(*rates)),
        "latency_difference_ms": vars(mean(times[0] - times[1])),
    }


@contextmanager
def opened(shape: Experiment, backlog: int) -> Iterator[Bench]:
    """Start the servers of an experiment's cluster, and fill the input topic."""
    with (
        tempfile.TemporaryDirectory() as home,
        local_cluster(shape.cluster, servers.install(), Path(home), jars(), lambda _: None) as cluster,
        MetricsReceiver(hand_out=cluster.hand_out) as metrics,
        Topics(cluster.bootstrap) as topics,
    ):
        for topic in (INPUT, OUTPUT):
            topics.create(topic)
        with Generator(cluster.bootstrap, {INPUT: 1}, OwnWire("x" * 64)) as generator:
            bench = Bench(cluster, metrics, topics, generator)
            fill(bench, backlog)
            yield bench


def page(results: Sequence[dict[str, Any]], where: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    machine = where["machine"]
    lines = [
        "# What the instrumentation costs",
        "",
        "Written by `make bench`. fields-to-fields in one worker, that much CPU time in each of two bolts,"
        " wrapped against bare in interleaved pairs of new submissions; 95 % intervals over the pairs.",
        "",
        "| service time | pairs | bare, messages/s | throughput on / off | bare, ms | on - off, ms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for r in results:
        throughput_ratio, difference = Mean(**r["throughput_ratio"]), Mean(**r["latency_difference_ms"])
        bare_tps, bare_ms = np.mean(r["throughput_off_tps"]), np.mean(r["latency_off_ms"])
        lines.append(
            f"| {r['service_ms'] * 1000:g} µs | {r['pairs']} | {bare_tps:.0f} |"
            f" {throughput_ratio.text('.3f')} | {bare_ms:.3f} | {difference.text('+.3f')} |"
        )
    lines += [
        "",
        f"Throughput at saturation, aim at least {AIM}; mean ground truth at {LATENCY_TPS:g} messages/s."
        f" Commit {where['commit'] or 'unknown'}, {machine['cores']} cores ({machine['cpu']}),"
        f" Storm {where['cluster']['storm']}, load before the start {machine['load_1min']}.",
        "",
    ]
    return "\n".join(lines)


@click.command()
@click.option("--pairs", default=5, show_default=True, help="Of 50 µs; of 200 µs there are two fewer.")
@click.option("--backlog", default=100_000, show_default=True, help="Messages to work off at 50 µs.")
@click.option("--out", type=click.Path(path_type=Path), default=REPORTS, show_default=True)
def main(pairs: int, backlog: int, out: Path) -> None:
    """Measure the wrappers' cost in interleaved pairs; about 13 minutes."""
    if not sandbox.inside() and sandbox.obstacle() is None:
        sandbox.enter([sys.executable, *sys.argv])
    # the longer service time needs fewer messages for as long a measurement
    plans = [Plan(0.05, pairs, backlog), Plan(0.2, max(pairs - 2, 1), backlog * 2 // 5)]
    where = environment()
    with opened(experiment(0.05, instrument=True), backlog) as bench:
        results = [
            measure(
                bench,
                plan,
                {how: experiment(plan.service_ms, instrument=how == "on") for how in ("on", "off")},
            )
            for plan in plans
        ]
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(
        out / "instrumentation.json", json.dumps({"environment": where, "results": results}, indent=1) + "\n"
    )
    write_atomically(out / "instrumentation.md", page(results, where))
    first = Mean(**results[0]["throughput_ratio"]).text(".3f")
    difference = Mean(**results[0]["latency_difference_ms"]).text("+.3f")
    click.echo(
        f"instrumentation at 50 µs: throughput x {first}, latency {difference} ms;"
        f" {out / 'instrumentation.md'}"
    )


if __name__ == "__main__":
    main()
