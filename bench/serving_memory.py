"""The memory of ``harness serve`` while its pages and questions are polled.

    python bench/serving_memory.py
    python bench/serving_memory.py --minutes 5 --runs reports/runs --out figures

All pages of the archived runs are asked for again and again, with questions to forecasters, to the models
and for a plan. A round asks for all addresses once; its memory is the mean of what is read after each answer.
A line goes through the second half of the rounds. Memory is flat where the 95 % interval of the line's gain
has 0 in it and ends below 5 % of the memory. It is drawn as ``serving-memory``. Needs no quiet machine.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import click
import httpx
import numpy as np
import psutil
from matplotlib.figure import Figure
from scipy import stats

from harness.analysis.figures import style

NAME = "serving-memory"
PAUSE_S = 0.2
"""Between two requests."""
REPORT_EVERY_S = 300.0
MOST_GAIN_PCT = 5.0
"""Of the memory, in the second half: the line's gain may be so much at most, by the end of its interval."""
MIB = 1 << 20
WITHIN_S = 300.0


def addresses(client: httpx.Client) -> list[str]:
    """Return the addresses of all pages and of questions of each topology."""
    runs = re.findall(r'href="(runs/([^/"]+)/[^/"]+)"', client.get("/").text)
    found = ["/", "/activity", "/builder?experiment=quick", "/topologies", "/health", "/jobs"]
    for run, topology in runs:
        found += [f"/{run}", f"/{run}/events", f"/{run}/steps", f"/{run}/plan/0"]
        found.append(f"/model/traffic/storm/{topology}?model=all&future_mins=0.5")
        found.append(f"/model/topology/storm/current/{topology}")
        found.append(f"/model/topology/storm/packingplan/{topology}/current")
    return found


def poll(client: httpx.Client, service: psutil.Process, minutes: float) -> list[tuple[float, float]]:
    """Ask for all addresses in turn; return minutes since the beginning and mean MiB of each round."""
    begun_s, reported_s, asked = time.monotonic(), -REPORT_EVERY_S, 0
    wanted, taken = addresses(client), []
    while (passed_s := time.monotonic() - begun_s) < 60 * minutes:
        read = []
        for address in wanted:
            status = client.get(address).status_code
            if status >= 500:
                raise click.ClickException(f"{address}: status {status}")
            asked += 1
            read.append(service.memory_info().rss / MIB)
            time.sleep(PAUSE_S)
        mib = float(np.mean(read))
        taken.append((passed_s / 60, mib))
        if passed_s - reported_s >= REPORT_EVERY_S:
            reported_s = passed_s
            click.echo(f"{passed_s / 60:5.1f} min  {asked:6d} requests  {mib:7.1f} MiB")
    return taken


def gain_pct(taken: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Return by how many percent of its mean a line through the second half rises, with its 95 % interval."""
    minutes, mib = np.array(taken[len(taken) // 2 :]).T
    line = stats.linregress(minutes, mib)
    scale = 100 * (minutes[-1] - minutes[0]) / mib.mean()
    half = float(stats.t.ppf(0.975, len(minutes) - 2) * line.stderr)
    return tuple(float(scale * slope) for slope in (line.slope, line.slope - half, line.slope + half))


def draw(taken: list[tuple[float, float]]) -> Figure:
    """Draw the memory over time, with a line through its second half."""
    figure, (axis,) = style.subplots(1, 1, style.COLUMN_IN, 2.2)
    minutes, mib = np.array(taken).T
    axis.plot(minutes, mib, color=style.COLOURS[0])
    half = minutes[len(taken) // 2 :]
    fitted = np.polynomial.Polynomial.fit(half, mib[len(taken) // 2 :], 1)
    line = "line through the second half"
    axis.plot(half, fitted(half), color=style.COLOURS[5], linestyle="--", label=line)
    axis.set(ylim=(0, None), xlabel="minutes of polling", ylabel="memory of the service, MiB")
    axis.legend(loc="lower right")
    return figure


def wait_until_ready(client: httpx.Client) -> None:
    """Wait until the service answers and has loaded its model."""
    limit = time.monotonic() + WITHIN_S
    while time.monotonic() < limit:
        try:
            if client.get("/health").json()["model"] == "ready":
                return
        except httpx.TransportError:
            pass
        time.sleep(PAUSE_S)
    raise click.ClickException(f"no service with its model within {WITHIN_S:g} s")


@click.command()
@click.option("--minutes", default=60.0, show_default=True, type=click.FloatRange(1))
@click.option(
    "--runs", type=click.Path(path_type=Path, exists=True), default=Path("reports/runs"), show_default=True
)
@click.option("--port", default=8181, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("figures"), show_default=True)
def main(minutes: float, runs: Path, port: int, out: Path) -> None:
    """Poll a service of its own, print its memory and draw it."""
    command = [sys.executable, "-m", "harness", "serve", "--runs", str(runs), "--port", str(port)]
    with subprocess.Popen([*command, "--jobs", "build/serving-jobs"]) as serving:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WITHIN_S) as client:
                wait_until_ready(client)
                taken = poll(client, psutil.Process(serving.pid), minutes)
        finally:
            serving.terminate()
    if len(taken) < 6:
        raise click.ClickException(f"{len(taken)} rounds are too few: poll for longer")
    out.mkdir(parents=True, exist_ok=True)
    with style.styled(style.STYLES["web"]):
        style.save(draw(taken), out, NAME)
    gain, low, high = gain_pct(taken)
    flat = "flat" if low <= 0 and high < MOST_GAIN_PCT else "not flat"
    first, last = taken[len(taken) // 2][1], taken[-1][1]
    click.echo(
        f"second half: {first:.1f} to {last:.1f} MiB, line {gain:+.2f} % ({low:+.2f} to {high:+.2f}): {flat},"
        f" {len(taken)} rounds"
    )


if __name__ == "__main__":
    main()
