"""Effect of a slower network, measured and predicted."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import FilePath, RunPath, err, finish, json_option, relative, stop_as_by_ctrl_c
from harness.commands.completing import ExperimentName, RunFolder
from harness.errors import HarnessError, UsageError


@click.command()
@click.option("--delay-ms", type=click.FloatRange(0, min_open=True), default=5.0, show_default=True)
@click.option("--cluster", type=FilePath, metavar="FILE", help="Cluster on hosts of kind local.")
@click.option(
    "--experiment",
    type=ExperimentName(),
    metavar="NAME",
    default="slowed-link",
    show_default=True,
    help="A file, or a shipped one's name.",
)
@click.option(
    "--runs", type=RunPath, default=Path("runs"), show_default=True, help="Where run directories go."
)
@click.option(
    "--out", type=RunPath, default=Path("figures"), show_default=True, help="Where the figure goes."
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a key of the file.")
@click.option(
    "--draw", type=RunFolder(), nargs=2, metavar="FAST SLOW", help="Draw two runs instead of measuring."
)
@json_option
def slowed_link(  # noqa: PLR0913 (an argument an option)
    delay_ms: float,
    cluster: Path | None,
    experiment: str,
    runs: Path,
    out: Path,
    overrides: tuple[str, ...],
    draw: tuple[Path, Path] | None,
    as_json: bool,
) -> None:
    """Measure an experiment twice, with a slowed link between two hosts, beside the predicted effect (root).

    Hosts that it makes it takes away again; those that were provisioned before stay. Some 20 minutes.

    \b
    harness slowed-link --cluster configs/clusters/namespaces-4.yaml
    harness slowed-link --draw runs/slowed-link/20260102T030405Z runs/slowed-link/20260102T031405Z
    """
    from harness.analysis.figures.slowed_link import MODEL, publish
    from harness.runs import Run

    if draw is None:
        from harness.app.slowed_link import measure

        if cluster is None:
            raise UsageError("give --cluster FILE, or --draw FAST SLOW", "see harness slowed-link --help")
        stop_as_by_ctrl_c()
        draw = measure(
            experiment, cluster, delay_ms, runs, overrides, lambda line: err.print(line, highlight=False)
        )
    rows = publish(*draw, out)
    click.echo(rows.to_string(index=False, float_format="%.3g"))
    for run in draw:
        if (verdict := Run(run).verdict) != "valid":
            click.echo(f"{run}: its verdict is {verdict}")
    crossed = rows[rows["crossings"] > 0]
    if crossed.empty:
        raise HarnessError("no predicted step crosses the link")
    worst_pct = 100 * float(crossed["relative_error"].abs().max())
    click.echo(
        f"{MODEL}: the predicted effect is within {worst_pct:.1f} % of the measured one"
        f" in {len(crossed)} pairs; figure in {relative(out)}"
    )
    finish(as_json, {"runs": [str(run) for run in draw], "worst_pct": worst_pct})
