"""What the rewriting layer costs where it does nothing: batches of one tuple and help that nobody asks for.

    python bench/layer.py                            # about 9 minutes
    python bench/layer.py --pairs 1 --backlog 20000  # a try, 2 minutes

A chain of two bolts with 50 us of CPU time each, shuffled, in one worker and instrumented. With the layer
all of its streams have batches of 1, and the second bolt may be helped by the first at a mark that no queue
comes to. New submissions in pairs as bench/instrumentation.py has them: the order alternates, each works off
the same backlog and then gets 200 messages/s. Prints the ratio of the throughputs.
"""

from __future__ import annotations

import sys

import click
from instrumentation import LATENCY_TPS, Mean, Plan, measure, opened

from harness.experiments.config import Experiment
from harness.machine import sandbox

SERVICE_MS = 0.05
PENDING = 2000
"""Messages under way, of which all could wait in one queue: far below its mark."""
AIM = 0.95
LAYERS = {
    "off": {},
    "on": {
        "batching": {"in": 1, "first": 1, "second": 1},
        "helping": {"second": {"delta": 0.1, "high_pct": 50, "low_pct": 10}},
    },
}
"""Storm's receive queues take 32,768 tuples."""


def chain(how: str) -> Experiment:
    """Return the chain with or without the layer."""
    service = {"kind": "cpu", "distribution": "constant", "mean_ms": SERVICE_MS}
    bolt = {"role": "json", "service": service}
    ways = [("in", "first"), ("first", "second"), ("second", "out")]
    return Experiment.model_validate(
        {
            "name": "layer",
            "topology": {
                "load_aware": False,
                "tasks": 1,
                "ackers": 1,
                "max_spout_pending": PENDING,
                "components": {
                    "in": {"role": "spout"},
                    "first": bolt,
                    "second": bolt,
                    "out": {"role": "sender"},
                },
                "streams": [{"from": a, "to": b, "grouping": "shuffle"} for a, b in ways],
                # batches, so that the broker takes as little of the cores as it can
                "producer": {"linger.ms": "5", "acks": "1"},
                **LAYERS[how],
            },
            "workload": {"rate_tps": LATENCY_TPS},
            "cluster": {"nodes": 1, "slots_per_node": 1, "worker_heap_mb": 768},
            "steps": {"plan": [{"executors": 1}]},
        }
    )


@click.command()
@click.option("--pairs", default=6, show_default=True, type=click.IntRange(1))
@click.option("--backlog", default=100_000, show_default=True, help="Messages to work off.")
def main(pairs: int, backlog: int) -> None:
    """Measure the layer's cost in interleaved pairs."""
    if not sandbox.inside() and sandbox.obstacle() is None:
        sandbox.enter([sys.executable, *sys.argv])
    setups = {how: chain(how) for how in LAYERS}
    with opened(setups["on"], backlog) as bench:
        found = measure(bench, Plan(SERVICE_MS, pairs, backlog), setups)
    throughput = Mean(**found["throughput_ratio"]).text(".3f")
    latency = Mean(**found["latency_difference_ms"]).text("+.3f")
    click.echo(
        f"layer with batches of 1 and help never used, {pairs} pairs: throughput x {throughput}, aim {AIM};"
        f" latency {latency} ms at {LATENCY_TPS:g} messages/s"
    )


if __name__ == "__main__":
    main()
