"""Clusters on hosts of their own: ``provision``, ``deprovision`` and ``cluster status NAME``."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import FilePath, err, finish, json_option
from harness.commands.completing import ClusterName
from harness.errors import UsageError


@click.command()
@click.argument("cluster_file", metavar="CLUSTER.yaml", type=FilePath)
@json_option
def provision(cluster_file: Path, as_json: bool) -> None:
    """Make a cluster on hosts of its own, or the parts that it lacks; once whole, it stays as it is.

    \b
    harness provision configs/clusters/namespaces-3.yaml
    """
    from harness.app.jars import jars
    from harness.backends.hosts.provision import provision as make
    from harness.commands.console import HostsDisplay
    from harness.experiments.cluster_file import load

    wanted = load(cluster_file)
    instrumentation = jars() / "instrumentation.jar"
    with HostsDisplay(err) as display:
        played = make(wanted, instrumentation, display.say, display)
    for host, tasks in sorted(played.ok.items()):
        click.echo(f"{host}: {tasks} tasks, changed={played.changed.get(host, 0)}")
    changed = sum(played.changed.values())
    click.echo(f"{wanted.name}: ready, changed={changed}")
    finish(as_json, {"cluster": wanted.name, "changed": changed, "log": str(played.log)})


@click.command()
@click.argument("name", type=ClusterName())
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def deprovision(name: str, yes: bool, as_json: bool) -> None:
    """Take the cluster NAME down, with its hosts and all that is on them.

    \b
    harness deprovision namespaces-3 --yes
    """
    from harness.backends.hosts.provision import deprovision as take_down
    from harness.backends.hosts.state import ProvisionedState
    from harness.commands.console import HostsDisplay

    there = ProvisionedState(name).record().cluster.hosts
    machines = ", ".join(m.name for m in there.machines)
    what = "remove the software from" if there.kind == "existing" else "destroy"
    if not yes and not click.confirm(f"{what} {len(there.machines)} hosts of {name} ({machines})?", err=True):
        raise UsageError(f"{name} is left as it is", "--yes does not ask")
    with HostsDisplay(err) as display:
        take_down(name, display.say, display)
    click.echo(f"{name}: gone")
    finish(as_json, {"cluster": name})


def status_of(name: str, as_json: bool) -> None:
    """Tell what a provisioned cluster's hosts and servers say of themselves, and end the command."""
    from harness.backends.hosts.provision import status as ask

    now = ask(name)
    click.echo(f"{name}: {now.phase if now.phase == 'ready' else 'half-provisioned'}")
    for host in now.hosts:
        running = ", ".join(f"{s} {'runs' if runs else 'does not run'}" for s, runs in host.services.items())
        free = f"; {host.disk_free_mb} MB free" if host.disk_free_mb is not None else ""
        click.echo(
            f"  {host.name}: {running or 'no services'}{free}"
            if host.reachable
            else f"  {host.name}: unreachable"
        )
    if now.storm:
        click.echo(f"  storm {now.storm}: {now.supervisors} supervisors")
    for topology, state in now.topologies.items():
        click.echo(f"  topology {topology}: {state}")
    for problem in now.problems:
        click.echo(f"  problem: {problem}")
    finish(as_json, now.as_json(), 1 if now.problems else 0)
