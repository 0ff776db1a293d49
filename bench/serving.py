"""The cost of watching: how busy a machine is with and without clients beside a running experiment.

    python bench/serving.py
    python bench/serving.py --pairs 8 --slice-s 15 --clients 50 --out figures

One step of a real experiment is measured on this machine, and its interval is cut into slices. In one slice
of each pair, first and second in turn, the clients load the run's page, follow its events and ask for the
drawn plan every five seconds, as browsers do, from a process of their own. The first seconds of each slice,
in which clients come and go, are not counted. Clients are usually elsewhere, so that the CPU time of theirs
and of the service is told apart. The differences are drawn as ``serving-watched``. The run is ended after
the last slice. For a quiet machine; under six minutes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import click
import httpx
import numpy as np
import psutil
from matplotlib.figure import Figure
from scipy import stats

from harness.analysis.figures import style
from harness.experiments.progress import ProgressReader
from harness.machine.readings import ThisMachine, shares
from harness.service.server import listen

EXPERIMENT = "quick"
NAME = "serving-watched"
PLAN_EVERY_S = 5.0
"""A page asks for the plan so often, as ``charts.js`` has it."""
COMING_S = 2.0
"""Time in which all clients come."""
SETTLING_S = 3.0
"""At the beginning of each slice, not counted."""
POLL_S = 0.2
ENDING_S = 120.0
LOADED_WITHIN_S = 300.0
LIMIT_POINTS = 3.0
"""What watching may cost at most, in points of the machine's busy share."""


Answer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def request(port: int, address: str) -> Answer:
    """Send a request for an address."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()
    return reader, writer


async def ask(port: int, address: str) -> None:
    """Ask for an address, and read what comes until it ends."""
    reader, writer = await request(port, address)
    try:
        if b" 200 " not in await reader.readline():
            raise click.ClickException(f"{address} was not answered")
        while await reader.read(65536):
            pass
    finally:
        writer.close()


async def watch(port: int, path: str, begin_s: float) -> None:
    """Load a run's page and follow it as its script does, until the task is cancelled."""
    await asyncio.sleep(begin_s)
    await ask(port, f"/runs/{path}")
    reader, writer = await request(port, f"/runs/{path}/events")
    drawn_ms = 0
    try:
        while await reader.read(65536):
            at_ms = int(1000 * PLAN_EVERY_S * (time.time() // PLAN_EVERY_S))
            if at_ms != drawn_ms:
                await ask(port, f"/runs/{path}/plan/0?view=whole&at={at_ms}")
            drawn_ms = at_ms
    finally:
        writer.close()


async def watch_when_told(port: int, path: str, clients: int) -> None:
    """Let clients watch from a line ``on`` of standard input to a line ``off``, until it closes."""
    loop = asyncio.get_running_loop()
    watching: list[asyncio.Task[None]] = []
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        if line.strip() == "on":
            begins_s = (COMING_S * number / clients for number in range(clients))
            watching = [asyncio.create_task(watch(port, path, begin_s)) for begin_s in begins_s]
        else:
            for task in watching:
                task.cancel()
            ended = await asyncio.gather(*watching, return_exceptions=True)
            if failed := [e for e in ended if not isinstance(e, asyncio.CancelledError)]:
                raise SystemExit(f"{len(failed)} of {clients} clients: {failed[0]!r}")


@contextmanager
def process(*command: str, **pipes: int) -> Iterator[psutil.Popen]:
    """Give a process for a block, and end it with the block."""
    started = psutil.Popen([sys.executable, *command], text=True, **pipes)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.terminate()
        started.wait(ENDING_S)


def free_port() -> int:
    """Return a port that is free now."""
    with listen(0) as listening:
        return int(listening.getsockname()[1])


def require_running(measured: psutil.Popen) -> None:
    """Raise where the experiment has ended too early, with what it said."""
    if measured.poll() is not None:
        raise click.ClickException(f"the run ended with status {measured.returncode}: see above")


def wait_for_interval(runs: Path, before: set[Path], measured: psutil.Popen) -> Path:
    """Wait until a new run is in its interval; return its folder."""
    while not (found := set(known_runs(runs)) - before):
        require_running(measured)
        time.sleep(POLL_S)
    (run,) = found
    reader = ProgressReader(run)
    while not any(event.phase == "measure" for event in reader.read()):
        require_running(measured)
        time.sleep(POLL_S)
    return run


def known_runs(runs: Path) -> list[Path]:
    """Return the runs that there are."""
    return [found.parent for found in (runs / EXPERIMENT).glob("*/experiment.yaml")]


def wait_for_model(port: int) -> None:
    """Wait until the service has loaded its model, which costs once and not by watching."""
    limit = time.monotonic() + LOADED_WITHIN_S
    while time.monotonic() < limit:
        with suppress(httpx.TransportError):
            if httpx.get(f"http://127.0.0.1:{port}/health").json()["model"] == "ready":
                return
        time.sleep(POLL_S)
    raise click.ClickException(f"no service with its model within {LOADED_WITHIN_S:g} s")


class Slice(NamedTuple):
    """Shares of the machine's CPU time in one slice, in percent."""

    busy_pct: float
    service_pct: float
    clients_pct: float


def cpu_s(process: psutil.Popen) -> float:
    """Return the CPU seconds that a process has taken."""
    times = process.cpu_times()
    return float(times.user + times.system)


def measure_slice(slice_s: float, service: psutil.Popen, clients: psutil.Popen) -> Slice:
    """Wait for a slice to pass; return what was busy in it."""
    machine = ThisMachine()
    time.sleep(SETTLING_S)
    before, served_s, asked_s = machine.cpu_times(), cpu_s(service), cpu_s(clients)
    time.sleep(slice_s - SETTLING_S)
    after = machine.cpu_times()
    whole_s = after.total_s - before.total_s
    taken_s = cpu_s(service) - served_s, cpu_s(clients) - asked_s
    return Slice(shares(before, after).busy_pct, *(100 * s / whole_s for s in taken_s))


def tell(clients: psutil.Popen, word: str) -> None:
    """Let the clients begin or end to watch."""
    clients.stdin.write(f"{word}\n")
    clients.stdin.flush()


def mean_with_half(values: list[float]) -> tuple[float, float]:
    """Return a mean and half of its 95 % interval."""
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values)), float(half)


def differences(pairs: list[tuple[Slice, Slice]]) -> dict[str, list[float]]:
    """Return what watching added to the machine's busy share and to the service's, in points a pair."""
    whole = [watched.busy_pct - alone.busy_pct for alone, watched in pairs]
    return {
        "with the clients": whole,
        "without the clients' own": [
            d - watched.clients_pct for d, (_, watched) in zip(whole, pairs, strict=True)
        ],
        "of the service alone": [watched.service_pct - alone.service_pct for alone, watched in pairs],
    }


def draw(pairs: list[tuple[Slice, Slice]]) -> Figure:
    """Draw each pair's differences, and their means with 95 % intervals."""
    figure, (axis,) = style.subplots(1, 1, style.COLUMN_IN, 2.2)
    found = differences(pairs)
    for place, values in enumerate(found.values()):
        look = style.look(place)
        beside = place + np.linspace(-0.2, 0.2, len(values))
        axis.plot(beside, values, linestyle="", marker=look.marker, color=look.colour, alpha=0.4)
        mean, half = mean_with_half(values)
        axis.errorbar(place + 0.33, mean, half, fmt=look.marker, color=style.INK, capsize=2)
    axis.axhline(LIMIT_POINTS, color=style.INK, linewidth=0.6, linestyle="--")
    axis.set_xticks(range(len(found)), [what.replace(" the ", " the\n", 1) for what in found])
    axis.set(ylabel="busy share by watching,\npoints of the machine")
    return figure


def show(pairs: list[tuple[Slice, Slice]]) -> None:
    """Print the busy share of each pair's slices, and the mean difference with its 95 % interval."""
    click.echo(
        "| pair | busy alone, % | busy watched, % | service alone, % | service watched, % | clients, % |"
    )
    click.echo("| --- | --- | --- | --- | --- | --- |")
    for number, (alone, watched) in enumerate(pairs, 1):
        values = (
            alone.busy_pct,
            watched.busy_pct,
            alone.service_pct,
            watched.service_pct,
            watched.clients_pct,
        )
        click.echo(f"| {number} | {' | '.join(f'{value:.1f}' for value in values)} |")
    click.echo(f"\nall figures are of the machine's CPU time; {len(pairs)} pairs, 95 % intervals")
    for what, values in differences(pairs).items():
        mean, half = mean_with_half(values)
        kept = "below" if mean + half < LIMIT_POINTS else "not surely below"
        click.echo(f"difference {what}: {mean:+.2f} ± {half:.2f} points, {kept} {LIMIT_POINTS:g}")


@click.command()
@click.option("--pairs", default=8, show_default=True, type=click.IntRange(2))
@click.option("--slice-s", default=15.0, show_default=True, type=click.FloatRange(2 * SETTLING_S))
@click.option("--clients", default=50, show_default=True, type=click.IntRange(1))
@click.option("--runs", type=click.Path(path_type=Path), default=Path("build/serving"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("figures"), show_default=True)
@click.option("--watch", "path", hidden=True)
@click.option("--port", type=int, hidden=True)
def main(
    pairs: int, slice_s: float, clients: int, runs: Path, out: Path, path: str | None, port: int | None
) -> None:
    """Measure what watching costs."""
    if path is not None and port is not None:
        asyncio.run(watch_when_told(port, path, clients))
        return
    runs.mkdir(parents=True, exist_ok=True)
    chosen, before = free_port(), set(known_runs(runs))
    length_s = 2 * pairs * slice_s + 60
    settings = (
        "steps.plan=[{executors: 1, workers: 1}]",
        "measure.burn_in.most_s=20",
        f"measure.interval.least_s={length_s:g}",
        f"measure.interval.most_s={length_s:g}",
        "measure.interval.looks=1",
    )
    measure = [
        "-m",
        "harness",
        "run",
        EXPERIMENT,
        "--runs",
        str(runs),
        "--wait",
        *(a for s in settings for a in ("--set", s)),
    ]
    taken: list[tuple[Slice, Slice]] = []
    with (
        process("-m", "harness", "serve", "--runs", str(runs), "--port", str(chosen)) as service,
        process(*measure, stdout=subprocess.DEVNULL) as measured,
    ):
        wait_for_model(chosen)
        run = wait_for_interval(runs, before, measured)
        address = f"{EXPERIMENT}/{run.name}"
        asking = [__file__, "--watch", address, "--port", str(chosen), "--clients", str(clients)]
        with process(*asking, stdin=subprocess.PIPE) as watching:
            for pair in range(pairs):
                found: dict[str, Slice] = {}
                for word in ("off", "on") if pair % 2 == 0 else ("on", "off"):
                    tell(watching, word)
                    found[word] = measure_slice(slice_s, service, watching)
                    require_running(measured)
                    if watching.poll() is not None:
                        raise click.ClickException("the clients have ended: see above")
                tell(watching, "off")
                taken.append((found["off"], found["on"]))
            watching.stdin.close()
            if watching.wait(ENDING_S) != 0:
                raise click.ClickException("the clients have failed: see above")
    show(taken)
    out.mkdir(parents=True, exist_ok=True)
    with style.styled(style.STYLES["web"]):
        style.save(draw(taken), out, NAME)


if __name__ == "__main__":
    main()
