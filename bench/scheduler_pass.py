"""A pass of the scheduler plug-in over 20 topologies of 100 executors, beside Storm's own scheduler's.

    python bench/scheduler_pass.py

Both schedule the same clusters in one JVM, in turns (``PassTimes`` among the instrumentation's tests). Prints
a Markdown table and the ratio. Half a minute.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import click

from harness.app.jars import jars
from harness.machine.servers import install

SOURCES = (
    Path(__file__).resolve().parent.parent
    / "storm-topologies/instrumentation/src/test/java/harness/storm/cluster"
)
PROGRAMS = ("SchedulerOracle.java", "PassTimes.java")
AIM_MS = 20
"""Of a pass."""
ERRORS_ONLY = '<Configuration><Loggers><Root level="error"/></Loggers></Configuration>'
"""Configuration of Storm's log, which has several lines for each topology that its own scheduler places."""


@click.command()
@click.option("--warm-up", default=500, show_default=True, help="Passes that are not counted.")
@click.option("--passes", default=500, show_default=True, type=click.IntRange(1))
def main(warm_up: int, passes: int) -> None:
    """Compile the program, and time passes."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as made:
        classes, plans = Path(made) / "classes", Path(made) / "plans"
        plans.mkdir()
        log = Path(made) / "log4j2.xml"
        log.write_text(ERRORS_ONLY)
        path = f"{install().storm}/lib/*:{jars() / 'instrumentation.jar'}"
        sources = [str(SOURCES / name) for name in PROGRAMS]
        subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(classes), *sources], check=True)
        java = ["java", "-Xmx512m", f"-Dlog4j.configurationFile={log}", "-cp", f"{classes}:{path}"]
        done = subprocess.run(
            [*java, "harness.storm.cluster.PassTimes", str(plans), str(warm_up), str(passes)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    click.echo(done.stdout.strip())
    click.echo(f"aim: {AIM_MS} ms; load before the start {load:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
