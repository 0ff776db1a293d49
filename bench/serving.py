"""The cost of watching: how busy a machine is with and without clients beside a running experiment.

    python bench/serving.py --pairs 4 --clients 50

A real experiment of two steps a pair, all of one configuration, is measured on this machine. Beside every
second step the clients follow the run's events and ask for its page again and again, from a process of their
own. Each step's interval says how busy the machine was. Clients are usually elsewhere, so that the CPU time
of theirs and of the service is told apart. For a quiet machine; about three minutes a pair.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import numpy as np
import psutil
from scipy import stats

from harness.experiments.progress import ProgressReader
from harness.runs import Run
from harness.service.server import listen

EXPERIMENT = "quick"
ASK_EVERY_S = 5.0
"""A client loads the run's page anew so often."""
POLL_S = 0.5
BEGINS_WITHIN_S = 600.0


async def watch(port: int, path: str) -> None:
    """Follow a run's events and load its page from time to time, until this process is ended."""

    async def ask(address: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        with suppress(ConnectionError):
            while await reader.read(65536):
                pass
        writer.close()

    events = asyncio.create_task(ask(f"/runs/{path}/events"))
    while True:
        await ask(f"/runs/{path}")
        await asyncio.sleep(ASK_EVERY_S)
        if events.done():
            events = asyncio.create_task(ask(f"/runs/{path}/events"))


async def watch_together(port: int, path: str, clients: int) -> None:
    """Let clients watch, begun at moments of their own."""

    async def one(number: int) -> None:
        await asyncio.sleep(ASK_EVERY_S * number / clients)
        await watch(port, path)

    await asyncio.gather(*(one(number) for number in range(clients)))


@contextmanager
def process(*command: str) -> Iterator[psutil.Popen]:
    """Give a process for a block."""
    started = psutil.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    try:
        yield started
    finally:
        if started.is_running():
            started.terminate()
        started.wait(60)


def free_port() -> int:
    """Return a port that is free now."""
    with listen(0) as listening:
        return int(listening.getsockname()[1])


def known_runs(runs: Path) -> set[Path]:
    """Return the runs that there are."""
    return {found.parent for found in (runs / EXPERIMENT).glob("*/experiment.yaml")}


def new_run(runs: Path, before: set[Path]) -> Path:
    """Wait for the run that has begun."""
    deadline = time.monotonic() + BEGINS_WITHIN_S
    while time.monotonic() < deadline:
        if found := known_runs(runs) - before:
            return found.pop()
        time.sleep(POLL_S)
    raise click.ClickException(f"no run began below {runs}")


class Watchers:
    """Clients beside every second step, and the CPU seconds that the service and they took in each step."""

    def __init__(self, run: Path, port: int, clients: int, service: psutil.Popen) -> None:
        path = f"{EXPERIMENT}/{run.name}"
        self._command = [
            sys.executable,
            __file__,
            "--watch",
            path,
            "--port",
            str(port),
            "--clients",
            str(clients),
        ]
        self._service = service
        self._watching: psutil.Popen | None = None
        self._begun_s = 0.0
        self._step: int | None = None
        self.service_s: dict[int, float] = {}
        self.clients_s: dict[int, float] = {}

    def enter(self, step: int | None) -> None:
        """Let a step begin; none after the last."""
        now_s = cpu_s(self._service)
        if self._step is not None:
            self.service_s[self._step] = now_s - self._begun_s
            self.clients_s[self._step] = 0.0 if self._watching is None else cpu_s(self._watching)
        if self._watching is not None:
            self._watching.terminate()
            self._watching.wait(60)
            self._watching = None
        self._step, self._begun_s = step, now_s
        if step is not None and step % 2:
            self._watching = psutil.Popen(self._command)

    def follow(self, run: Path, measured: psutil.Popen) -> None:
        """Go from step to step until measuring has ended."""
        reader = ProgressReader(run)
        try:
            while measured.poll() is None:
                for event in reader.read():
                    if event.event == "end":
                        return
                    if event.step is not None and event.step != self._step:
                        self.enter(event.step)
                time.sleep(POLL_S)
        finally:
            self.enter(None)


def cpu_s(process: psutil.Popen) -> float:
    """Return the CPU seconds that a process has taken."""
    times = process.cpu_times()
    return float(times.user + times.system)


def show(run: Run, watchers: Watchers) -> None:
    """Print the busy share of each pair's steps, and the mean difference with its 95 % interval."""
    columns = (
        "pair",
        "busy alone, %",
        "busy watched, %",
        "service alone, s",
        "service watched, s",
        "clients, s",
    )
    click.echo(f"| {' | '.join(columns)} |")
    click.echo(f"| {' | '.join('---' for _ in columns)} |")
    differences = []
    for step in run.finished_steps:
        if step % 2 == 0 or step - 1 not in run.finished_steps:
            continue
        alone, watched = run.interval(step - 1).machine_busy_pct, run.interval(step).machine_busy_pct
        if alone is None or watched is None:
            continue
        differences.append(watched - alone)
        taken = (watchers.service_s[step - 1], watchers.service_s[step], watchers.clients_s[step])
        cells = [f"{value:.1f}" for value in (alone, watched, *taken)]
        click.echo(f"| {step // 2} | {' | '.join(cells)} |")
    if len(differences) < 2:
        raise click.ClickException("fewer than two pairs were measured")
    mean, n = float(np.mean(differences)), len(differences)
    half = float(stats.t.ppf(0.975, n - 1) * np.std(differences, ddof=1) / np.sqrt(n))
    click.echo(f"\ndifference: {mean:+.2f} points of the machine (95 % interval ± {half:.2f}, {n} pairs)")


@click.command()
@click.option("--pairs", default=4, show_default=True, type=click.IntRange(1))
@click.option("--clients", default=50, show_default=True, type=click.IntRange(1))
@click.option("--runs", type=click.Path(path_type=Path), default=Path("build/serving"), show_default=True)
@click.option("--watch", "path", hidden=True)
@click.option("--port", type=int, hidden=True)
def main(pairs: int, clients: int, runs: Path, path: str | None, port: int | None) -> None:
    """Measure what watching costs."""
    if path is not None and port is not None:
        asyncio.run(watch_together(port, path, clients))
        return
    runs.mkdir(parents=True, exist_ok=True)
    chosen = free_port()
    steps = "steps.plan=[{executors: 1, workers: 1}]"
    measure = ["-m", "harness", "run", EXPERIMENT, "--runs", str(runs), "--set", steps]
    with process("-m", "harness", "serve", "--runs", str(runs), "--port", str(chosen)) as service:
        before = known_runs(runs)
        with process(*measure, "--set", f"steps.repeats={2 * pairs}") as measured:
            run = new_run(runs, before)
            watchers = Watchers(run, chosen, clients, service)
            watchers.follow(run, measured)
            measured.wait()
    show(Run(run), watchers)


if __name__ == "__main__":
    main()
