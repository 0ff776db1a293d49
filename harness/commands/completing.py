"""Types of arguments that a shell completes: experiments, run directories, models and clusters.

``_HARNESS_COMPLETE=bash_source harness`` prints what bash has to know (docs/commands.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem


def _beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem[str]]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class ExperimentName(click.types.StringParamType):
    """A shipped experiment's name, or a file."""

    name = "experiment"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Return the shipped names and, of a path, the shell's own files."""
        from harness.experiments.loading import shipped_folders

        names = sorted(
            str(path.relative_to(folder).with_suffix(""))
            for folder in shipped_folders()[:1]
            for path in folder.rglob("*.yaml")
        )
        return [*_beginning(incomplete, names), CompletionItem(incomplete, type="file")]


class RunFolder(click.Path):
    """A run directory, completed from ``runs/`` and from below whatever folder is typed."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Return the run directories in ``runs/`` or in the typed folder, newest first."""
        typed = incomplete.rpartition("/")[0]
        folders = [Path(typed or "runs"), Path(typed).parent] if typed else [Path("runs")]
        found = {
            os.path.relpath(path.parent)
            for folder in folders
            for pattern in ("environment.json", "*/environment.json", "*/*/environment.json")
            for path in folder.glob(pattern)
        }
        newest = sorted(found, key=lambda path: Path(path).name, reverse=True)
        return _beginning(incomplete, newest) or [CompletionItem(incomplete, type="dir")]


class ModelName(click.types.StringParamType):
    """A shipped or registered model's name, or ``package.module:name``."""

    name = "text"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Return the names that need no import of a model, which takes seconds."""
        from importlib.metadata import entry_points

        from harness.experiments.config import Experiment

        registered = (entry.name for entry in entry_points(group="harness.models"))
        return _beginning(incomplete, [*Experiment.model_fields["models"].default, *registered])


class ClusterName(click.types.StringParamType):
    """A provisioned cluster's name."""

    name = "text"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Return the clusters there are, whole or half-provisioned."""
        from harness.backends.hosts.state import known

        return _beginning(incomplete, known())
