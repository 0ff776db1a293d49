"""Lists of what is here: experiments, models, runs, and this machine's tools and servers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
from rich.console import Console

from harness.commands.common import RunPath, err, finish, json_option, relative
from harness.errors import UsageError

out = Console(soft_wrap=True)


@click.command(name="list")
@click.option(
    "--runs", type=RunPath, default=Path("runs"), show_default=True, help="Where run directories are."
)
@json_option
def list_(runs: Path, as_json: bool) -> None:
    """List the shipped experiments, topologies, models, and the runs made here."""
    from harness.experiments.loading import shipped_folders
    from harness.models import MODELS
    from harness.runs import Run
    from harness.topologies import TOPOLOGIES

    names: list[str] = []
    for folder in shipped_folders():
        names = names or sorted(str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.yaml"))
    found = []
    for path in sorted(runs.glob("*/*/environment.json")):
        try:
            made = Run(path.parent)
            found.append(
                {"run": str(relative(made.path)), "steps": len(made.finished_steps), "verdict": made.verdict}
            )
        except UsageError as broken:  # one run that cannot be read hides no other
            found.append({"run": str(relative(path.parent)), "steps": 0, "verdict": str(broken)})
    click.echo(f"experiments: {', '.join(names)}")
    click.echo(f"topologies: {', '.join(TOPOLOGIES)}")
    click.echo(f"models: {', '.join(MODELS)}")
    for one in found:
        click.echo(f"{one['run']}: {one['steps']} steps, {one['verdict']}")
    finish(as_json, {"experiments": names, "models": list(MODELS), "runs": found})


@click.command()
@click.option(
    "--install",
    is_flag=True,
    help="Also fetch the servers' jars and compile the models, into the cache folder.",
)
@click.option("--optional", is_flag=True, help="With --install: InfluxDB (is built) and Neo4j, too.")
@json_option
def doctor(install: bool, optional: bool, as_json: bool) -> None:
    """Say what is missing on this machine, and the command that mends it."""
    from harness.app.compiled_models import compiling
    from harness.app.doctor import doctor as examine
    from harness.backends import optional_servers
    from harness.machine import servers

    findings = examine()
    for finding in findings:
        mark = "[green]ok[/]" if finding.ok else "[red]missing[/]" if finding.needed else "[yellow]absent[/]"
        out.print(
            f"{mark} {finding.name}: {finding.detail}" + (f" -> {finding.mend}" if finding.mend else "")
        )
    wanting = [f.name for f in findings if not f.ok and f.needed]
    if install and not wanting:
        with compiling(), err.status("fetching the servers' jars") as status:
            fetched = Counter[str]()

            def count(line: str) -> None:
                fetched[line.partition(" ")[0]] += 1
                status.update(f"fetching the servers' jars: {fetched.total()}")

            servers.install(progress=count)
        if fetched:
            err.print(f"fetched {fetched.total()} jars")
        if optional:
            optional_servers.install_possible(err.print)
    finish(as_json, {"missing": wanting}, 2 if wanting else 0)
