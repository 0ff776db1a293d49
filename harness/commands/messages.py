"""Cost of a message on this machine, measured for tuners."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from harness.commands.common import (
    RunPath,
    err,
    finish,
    json_option,
    relative,
    require_tools,
    shared_loopback_option,
    stop_as_by_ctrl_c,
)
from harness.commands.running import CHECKED, in_its_place, measure_steps
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.runs import Run


@click.command("measure-messages")
@click.option("--batches", default="1,10,100,1000", show_default=True, help="Tuples in a message.")
@click.option("--sizes", default="8,100,1000", show_default=True, help="Bytes of a tuple's payload.")
@click.option("--work-us", default="0", show_default=True,
              help="User code in the sender, microseconds a tuple.")  # fmt: skip
@click.option(
    "--rounds", default=4, show_default=True, help="Phases of each batch size, tuple size and time."
)
@click.option("--phase-s", default=5, show_default=True, help="Seconds of a phase.")
@click.option("--jit", type=click.Choice(["c1", "full"]), default="c1", show_default=True,
              help="Compiler of the workers, as cluster.worker_jit.")  # fmt: skip
@click.option(
    "--runs", type=RunPath, default=Path("runs"), show_default=True, help="Where run directories go."
)
@click.option("--from", "measured", type=RunPath, metavar="RUN", help="Fit an earlier measurement again.")
@click.option("--wait", is_flag=True, help="Wait for another run of this machine, instead of being refused.")
@shared_loopback_option
@json_option
def measure_messages(  # noqa: PLR0913 (an argument an option)
    batches: str,
    sizes: str,
    work_us: str,
    rounds: int,
    phase_s: int,
    jit: str,
    runs: Path,
    measured: Path | None,
    wait: bool,
    shared_loopback: bool,
    as_json: bool,
) -> None:
    """Measure what a message costs its sender on this machine: n, s a byte, and a tuple's own time.

    A sender that is never short of input sends to a receiver in another worker, tracked, with every batch and
    tuple size in turn. The fit is kept for this machine and these settings, where 'harness tune' finds it.
    One with --work-us is not: user code hides what a message costs.

    \b
    harness measure-messages
    harness measure-messages --batches 1,5,20,100 --rounds 8
    harness measure-messages --batches 1,100 --work-us 0,10,100,1000
    harness measure-messages --from runs/message-costs/20260102T030405Z
    """
    from harness.app.message_costs import fit_streams, keep, lost_streams, measured_streams
    from harness.runs import Run

    if measured is None:
        cells = (_numbers("--batches", batches), _numbers("--sizes", sizes), _numbers("--work-us", work_us))
        run = _measure(cells, rounds, phase_s, jit, runs, wait, shared_loopback)
    else:
        run = Run(measured)
    streams = measured_streams(run)
    fit = fit_streams(streams)
    path = keep(run, fit)
    table = Table(box=None, pad_edge=False)
    for column in (
        "batch",
        "payload",
        "bytes a tuple",
        "user code, us",
        "phases",
        "tuples/s, least to most",
        "fitted",
    ):
        table.add_column(column, justify="right")
    for s in streams:
        rates = s.throughputs_tps
        table.add_row(
            str(s.batch),
            str(s.payload_bytes),
            f"{s.tuple_bytes:.1f}",
            str(s.work_us),
            str(len(rates)),
            f"{min(rates):,.0f} to {max(rates):,.0f}",
            f"{fit.throughput_tps(s.batch, s.tuple_bytes, s.work_us):,.0f}",
        )
    Console(width=max(110, err.width)).print(table)
    if lost := lost_streams(run, streams):
        click.echo(f"no whole bucket of {', '.join(lost)}: give more --rounds, or a longer --phase-s")
    for name, unit, cost in (
        ("n, a message", "us", fit.overhead_us),
        ("s, a byte", "ns", fit.per_byte_ns),
        ("ppt, a tuple", "us", fit.ppt_us),
    ):
        click.echo(f"{name}: {cost.value:.3g} {unit}, 95 % {cost.low:.3g} to {cost.high:.3g}")
    where = f"kept in {path}" if path else "not kept for tuners, as there was user code"
    click.echo(f"the fit is off by {fit.worst_error_pct:.0f} % at most; {where}")
    rows = [s._asdict() for s in streams]
    kept = str(path) if path else None
    finish(as_json, {"run": str(relative(run.path)), "kept": kept, **fit.as_json(), "measured": rows})


def _numbers(option: str, listed: str) -> list[int]:
    try:
        return [int(number) for number in listed.split(",")]
    except ValueError:
        raise UsageError(f"{option} {listed}: expected whole numbers and commas", "e.g. 1,10,100") from None


def _measure(
    cells: tuple[list[int], list[int], list[int]],
    rounds: int,
    phase_s: int,
    jit: str,
    runs: Path,
    wait: bool,
    shared_loopback: bool,
) -> Run:
    from harness.app import campaigning
    from harness.app.jars import jars
    from harness.app.message_costs import message_experiment
    from harness.experiments.loading import files
    from harness.runs import Run
    from harness.storm import capturing

    stop_as_by_ctrl_c()
    experiment = message_experiment(*cells, rounds, phase_s, {"worker_jit": jit})
    if os.environ.pop(CHECKED, None) is None:  # in the sandbox this function is run once more
        require_tools()
        campaigning.require_room(runs, experiment)
    with in_its_place(experiment, shared_loopback, wait=wait) as (homes, alone):
        known = capturing.known(experiment, homes, jars())
        run = Run.create(runs, known.name, files(known), campaigning.environment(known))
        err.print(f"run directory {relative(run.path)}")
        with run.exclusively():
            measure_steps(known, run, homes, alone)
        return run
