"""The commands, their exit statuses, and the only place that joins the parts and prints.

Exit status: 0 done and valid; 1 failed; 2 usage or configuration; 3 done but the measurement is
invalid; 4 validity unknown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from harness import __version__
from harness.errors import HarnessError, UsageError

VERDICT_STATUS = {"valid": 0, "invalid": 3, "unknown": 4}

err = Console(stderr=True, soft_wrap=True)


class Commands(click.Group):
    """A group whose commands end a HarnessError with one line and its exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except HarnessError as error:
            err.print(f"[bold red]error:[/] {_escape(str(error))}", highlight=False)
            if "--json" in sys.argv:
                click.echo(json.dumps({"status": "failed", "error": str(error)}))
            ctx.exit(error.exit_status)
        except KeyboardInterrupt:
            err.print("stopped")
            ctx.exit(1)


def _escape(text: str) -> str:
    return text.replace("[", r"\[")


def _json_option[F: Callable[..., Any]](command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="End with one machine-readable line.")(command)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="harness")
def main() -> None:
    """Measure stream processing topologies on a real cluster, and judge models of their performance."""


if __name__ == "__main__":
    main()
