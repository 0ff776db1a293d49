"""What the wrappers cost: throughput at saturation and latency, instrumented against bare, in pairs.

Each pair submits fields-to-fields twice, once wrapped and once as it is, in alternating order, so that
a slow change of the machine falls on both. Saturation: the input topic is filled first, then the time
is taken from a fifth to nine tenths of the outputs, by the broker's own counts. Latency: the mean
ground truth at a steady rate, which the hop records give with and without the wrappers.

Run by ``make bench``; prints one table and writes it as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

from harness.backends import sandbox, servers
from harness.backends.kafka import Topics
from harness.backends.local import LocalCluster
from harness.backends.metrics_receiver import MetricsReceiver
from harness.campaigning import jars
from harness.deployment import StormDeployment, local_cluster
from harness.experiments.config import Experiment
from harness.experiments.loading import expand_steps
from harness.experiments.measuring import view
from harness.experiments.schedule import Constant
from harness.workload.load import KafkaLoad

FILL_TPS = 20_000.0
SETTLE_S, MEASURE_S = 20.0, 20.0


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
            },
            "workload": {"rate_tps": 200},
            "cluster": {"nodes": 1, "slots_per_node": 1, "worker_heap_mb": 768},
            "measure": {"instrument": instrument},
            "steps": {"plan": [{"executors": 1}]},
        }
    )


def submit(
    setup: Experiment, cluster: LocalCluster, load: KafkaLoad, metrics: MetricsReceiver, name: str
) -> StormDeployment:
    """Submit and return when every executor is up."""
    with tempfile.TemporaryDirectory() as folder:
        deployment = StormDeployment(setup, cluster, name, load, metrics, jars(), Path(folder))
        deployment.submit(expand_steps(setup)[0].configuration)
    cluster.nimbus.wait_active(name, check=cluster.check)
    return deployment


def one(
    cluster: LocalCluster, metrics: MetricsReceiver, messages: int, service_ms: float, *, instrument: bool
) -> tuple[float, float]:
    """Return throughput at saturation (messages/s) and mean ground truth at 200/s (ms)."""
    setup = experiment(service_ms, instrument=instrument)
    name = f"bench-{time.monotonic_ns()}"
    with Topics(cluster.bootstrap) as topics:
        topics.create(f"{name}-in")
        topics.create(f"{name}-out")
    with KafkaLoad(cluster.bootstrap, f"{name}-in", f"{name}-out", Constant, "x" * 64) as load:
        load.start(FILL_TPS)
        while load.counts()[0] < messages:
            time.sleep(0.2)
        load.stop()
        filled = load.counts()[0]
        submit(setup, cluster, load, metrics, name)
        seen: list[tuple[float, int]] = []
        while not seen or seen[-1][1] < 0.9 * filled:
            cluster.check()
            seen.append((time.monotonic(), load.counts()[1]))
            time.sleep(0.1)
        done = np.array([c for _, c in seen], dtype=float)
        at = np.interp([0.2 * filled, 0.9 * filled], done, [when for when, _ in seen])
        throughput = 0.7 * filled / float(at[1] - at[0])
        while load.counts()[1] < filled:
            time.sleep(0.2)
        load.catch_up()
        load.begin_step()
        load.start(setup.workload.rate_tps)
        time.sleep(SETTLE_S + MEASURE_S)
        load.stop()
        load.catch_up()
        now = view(load)
        inside = now.scheduled_ns > now.scheduled_ns.max() - MEASURE_S * 1e9
        latency_ms = float(now.ground_truth_ms[inside].mean())
    cluster.nimbus.kill(name)
    metrics.store.forget(time.time_ns() // 1_000_000)
    return throughput, latency_ms


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return mean and 95 % interval of paired values."""
    half = (
        float(student.ppf(0.975, values.size - 1)) * float(values.std(ddof=1)) / float(np.sqrt(values.size))
    )
    mean = float(values.mean())
    return mean, mean - half, mean + half


@click.command()
@click.option("--pairs", default=4, show_default=True)
@click.option("--messages", default=100_000, show_default=True)
@click.option("--service-ms", default=0.05, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("reports/bench-instrumentation.json"))
def main(pairs: int, messages: int, service_ms: float, out: Path) -> None:
    """Measure the wrappers' cost in interleaved pairs."""
    if not sandbox.inside() and sandbox.obstacle() is None:
        sandbox.enter([sys.executable, *sys.argv])
    rows: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    shape = experiment(service_ms, instrument=True)
    with (
        tempfile.TemporaryDirectory() as home,
        local_cluster(shape, servers.install(), Path(home), jars(), lambda _: None) as cluster,
        MetricsReceiver() as metrics,
    ):
        for pair in range(pairs):
            for instrument in (pair % 2 == 0, pair % 2 != 0):
                found = one(cluster, metrics, messages, service_ms, instrument=instrument)
                rows[instrument].append(found)
                click.echo(
                    f"pair {pair} {'on' if instrument else 'off':3} {found[0]:8.0f}/s {found[1]:7.3f} ms",
                    err=True,
                )
    on, off = np.array(rows[True]), np.array(rows[False])
    ratio = [float(np.exp(v)) for v in interval(np.log(on[:, 0] / off[:, 0]))]
    difference = interval(on[:, 1] - off[:, 1])
    table = Table("instrumentation on against off", "value", "95 % interval")
    table.add_row("throughput ratio at saturation", f"{ratio[0]:.3f}", f"{ratio[1]:.3f} to {ratio[2]:.3f}")
    table.add_row(
        "mean ground truth difference, ms",
        f"{difference[0]:+.3f}",
        f"{difference[1]:+.3f} to {difference[2]:+.3f}",
    )
    Console().print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "service_ms": service_ms,
        "messages": messages,
        "on": on.tolist(),
        "off": off.tolist(),
        "throughput_ratio": ratio,
        "latency_difference_ms": list(difference),
    }
    out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
