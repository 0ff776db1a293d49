"""A night of measurements, compared with the baseline."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import FilePath, RunPath, err, finish, json_option
from harness.commands.completing import RunFolder


@click.command()
@click.option(
    "--config",
    type=FilePath,
    default=Path("configs/nightly.yaml"),
    show_default=True,
    help="The night's file (docs/nightly.md).",
)
@click.option(
    "--runs", "given", type=RunFolder(), multiple=True, help="A finished run, instead of measuring."
)
@click.option("--baseline", type=FilePath, help="Instead of the file's.")
@click.option("--history", type=FilePath, help="Instead of the file's.")
@click.option("--page", type=RunPath, help="Instead of the file's.")
@json_option
def nightly(
    config: Path,
    given: tuple[Path, ...],
    baseline: Path | None,
    history: Path | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Measure the experiments of a night, compare them with the baseline, and write a page.

    Exit status: 0 no regression; 1 a regression, or nothing could be measured; 2 configuration; 4 not enough
    data to say.

    \b
    harness nightly --config configs/nightly.yaml
    harness nightly --runs runs/quick/20260102T030405Z
    """
    from harness.app.night import carry_out
    from harness.regression.nightly import read

    changed = {"baseline": baseline, "history": history, "page": page}
    settings = read(config).model_copy(update={k: v for k, v in changed.items() if v is not None})
    status = carry_out(
        settings, given, lambda line: err.print(line, highlight=False, markup=False), click.echo
    )
    finish(as_json, {"page": str(settings.page / "index.html")}, status)
