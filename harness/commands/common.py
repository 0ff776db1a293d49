"""Parts that the commands share: how they end, how they name an error, the types of their arguments.

A command ends with one of these exit statuses:

- 0: done and valid
- 1: failed
- 2: usage or configuration
- 3: done, but the measurement is invalid
- 4: validity unknown
- 5: a forecast above the limit of an alert
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from types import FrameType
from typing import TYPE_CHECKING, Never

import click
from rich.console import Console

from harness.errors import HarnessError, MissingTool, UsageError

if TYPE_CHECKING:
    from harness.protocols import Observation

err = Console(stderr=True, soft_wrap=True)

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a command to end: Ctrl-C, a service manager's, a closed terminal's."""
MOST_REASON = 200
"""Characters of a reason that are shown."""
ONE_WISH_S = 1.0
"""Who signals a whole process group reaches the command several times, by the processes that hand it on."""


class Commands(click.Group):
    """A group whose commands end an error with one line and its exit status."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 (the command line always ends here)
        windows_expand_args: bool = True,
        **extra: object,
    ) -> Never:
        """Parse a command line, run its command and exit; ``--json`` gets its last line in any case."""
        given = sys.argv[1:] if args is None else list(args)

        def failed(what: str, status: int) -> Never:
            finish("--json" in given, {"status": "failed", "error": what}, status)

        try:
            status = super().main(
                given,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except HarnessError as error:
            show_error(error, str(error), error.excerpt)
            failed(str(error), error.exit_status)
        except click.ClickException as error:  # usage
            error.show()
            failed(error.format_message(), error.exit_code)
        except OSError as error:  # a full disk, a folder that may not be written to
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            show_error(error, what)
            failed(what, 1)
        except click.Abort as error:  # what click makes of Ctrl-C
            stop = error.__cause__ or KeyboardInterrupt()
            show_error(stop, f"stopped by {stop}" if str(stop) else "stopped")
            finish("--json" in given, {"status": "stopped"}, 1)
        else:
            sys.exit(status if isinstance(status, int) else 0)


def stop_as_by_ctrl_c() -> None:
    """Let every signal that asks the command to end raise KeyboardInterrupt, which clears up after itself."""
    told_s = -math.inf

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal told_s
        before_s, told_s = told_s, time.monotonic()
        if told_s - before_s > ONE_WISH_S:
            raise KeyboardInterrupt(signal.Signals(number).name)

    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, stop)


def show_error(error: BaseException, what: str, excerpt: str = "") -> None:
    """Show one line that says what is wrong, a log's last lines, and what can be done now."""
    if isinstance(error, Exception):
        err.print("[bold red]error:[/] ", end="")
    err.print(what, markup=False, highlight=False)
    for line in excerpt.splitlines():
        err.print(f"    {line}", markup=False, highlight=False, style="dim")
    for note in getattr(error, "__notes__", ()):
        err.print(note, markup=False, highlight=False)


def finish(as_json: bool, result: Mapping[str, object], status: int = 0) -> Never:
    """End a command, with its machine-readable last line where that was asked."""
    if as_json:
        click.echo(json.dumps({"exit_status": status, **result}))
    sys.stdout.flush()
    sys.exit(status)


json_option = click.option("--json", "as_json", is_flag=True, help="End with one machine-readable line.")
master_option = click.option(
    "--master",
    metavar="URL",
    help="Spark master, e.g. spark://HOST:7077 (default: local[2], or what SPARK_REMOTE names).",
)
shared_loopback_option = click.option(
    "--shared-loopback",
    is_flag=True,
    envvar="HARNESS_SHARED_LOOPBACK",
    show_envvar=True,
    help="Without a private network, run all the same: every user of this machine can reach Nimbus.",
)
step_option = click.option(
    "--step",
    type=int,
    metavar="N",
    help="The measured step to start from (default: the one nearest to what is proposed).",
)
"""This option and ``rate_option`` are of ``open_measured_step``."""
rate_option = click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="R",
    help="Messages a second to propose for (default: the step's).",
)

RunPath = click.Path(path_type=Path, file_okay=False)
FilePath = click.Path(path_type=Path, dir_okay=False)
SeasonLength = click.FloatRange(0, 366 * 86_400, min_open=True)
"""In seconds, at most a year."""


def require_private_network(shared_loopback: bool) -> None:
    """Check that no other user of this machine can reach the servers, or that this was allowed.

    Nimbus has no authentication, and runs as the harness's user whatever it is sent.

    Raises
    ------
    UsageError
        When there can be no private network, and nobody allowed to do without.
    """
    from harness.machine import sandbox

    if sandbox.inside() or not (reason := sandbox.obstacle()):
        return
    who = "every user of this machine can reach Nimbus, which runs what it is sent as you"
    if not shared_loopback:
        hint = (
            "harness doctor says what allows one; or give --shared-loopback on a machine that is yours alone"
        )
        raise UsageError(f"no private network here ({reason}): {who}", hint)
    err.print(
        f"[yellow]warning:[/] no private network here ({reason}): {who}; the servers listen on loopback"
        " addresses, the workers on every address but protected by a secret"
    )


def require_tools() -> None:
    """Raise for a tool that every run needs and this machine lacks."""
    from harness.app.doctor import doctor as examine

    for finding in examine():
        if finding.needed and not finding.ok:
            raise MissingTool(f"{finding.name}: {finding.detail}", finding.mend)


@dataclass(frozen=True)
class OpenedStep:
    """A measured step that proposals start from.

    Attributes
    ----------
    number : int
    source : Observation
        The step as a model sees it.
    rate_tps : float
        Messages a second to propose for.
    worker_heap_mb : float
        Heap of a worker of the run.
    chosen : mapping, optional
        How it was chosen, as ``--json`` has it; None where it was asked for.
    """

    number: int
    source: Observation
    rate_tps: float
    worker_heap_mb: float
    chosen: Mapping[str, object] | None


def open_measured_step(
    path: Path, step: int | None, rate: float | None, workers: int | None = None
) -> OpenedStep:
    """Return the step of a run that proposals start from; where it is chosen here, it is named.

    Parameters
    ----------
    path : Path
        Run directory.
    step : int, optional
        Default: the one nearest to what is proposed, the first of several.
    rate : float, optional
        Messages a second; default: the step's.
    workers : int, optional
        That are proposed.

    Raises
    ------
    UsageError
        When it is no run, no step or not that one is finished, or the rate is no number.
    """
    from harness.app.nearest_step import choose_step, usable_steps
    from harness.app.opened_run import load_run
    from harness.schedulers.plan_distance import PlanWanted

    if rate is not None and not math.isfinite(rate):
        raise UsageError(f"--rate {rate}: not a number of messages a second")
    run = load_run(path)
    if run.steps.empty:
        raise UsageError(f"{path}: no finished step", "measure it with harness run --resume")
    chosen = None
    if step is None:
        wanted = PlanWanted(workers=workers, rate_tps=rate)
        choice = choose_step(run.run, dict.fromkeys(usable_steps(run.run), wanted))
        err.print(choice.text, highlight=False, soft_wrap=True)
        step, chosen = choice.step, choice.as_json()
    source = run.observation(step)
    rate_tps = source.rate_tps if rate is None else rate
    return OpenedStep(step, source, rate_tps, run.worker_heap_mb, chosen)


def rounded(value: float | None) -> str:
    """Return a number as it stands in a table."""
    return "-" if value is None else f"{value:.1f}"


def shortened(reason: str) -> str:
    """Return a reason's first characters, as a line shows it; the last line of ``--json`` has all of it."""
    return shorten(reason, MOST_REASON, placeholder=" ...")


def relative(path: Path) -> Path:
    """Return a path as seen from the working directory."""
    return Path(os.path.relpath(path))
