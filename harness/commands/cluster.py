"""A cluster that stays up between runs."""

from __future__ import annotations

import json
import shutil

import click

from harness.commands.common import (
    err,
    finish,
    json_option,
    require_private_network,
    require_tools,
    shared_loopback_option,
    stop_as_by_ctrl_c,
)
from harness.commands.completing import ClusterName
from harness.commands.hosts import status_of
from harness.errors import UsageError
from harness.machine.server_config import MOST_NODES, MOST_SLOTS


@click.group()
def cluster() -> None:
    """Keep a real cluster up between runs, in a private network of its own."""


@cluster.command()
@click.option(
    "--nodes", type=click.IntRange(1, MOST_NODES), default=2, show_default=True, help="Worker nodes."
)
@click.option(
    "--slots-per-node",
    type=click.IntRange(1, MOST_SLOTS),
    default=2,
    show_default=True,
    help="Workers a node.",
)
@click.option(
    "--worker-heap-mb", type=click.IntRange(64), default=256, show_default=True, help="Heap of a worker."
)
@shared_loopback_option
@json_option
def up(nodes: int, slots_per_node: int, worker_heap_mb: int, shared_loopback: bool, as_json: bool) -> None:
    """Start ZooKeeper, Nimbus, supervisors and Kafka, and leave them running."""
    from harness.app.jars import jars
    from harness.backends.local import daemon as cluster_daemon
    from harness.machine import servers

    stop_as_by_ctrl_c()
    require_tools()
    require_private_network(shared_loopback)
    shape = cluster_daemon.Shape(
        nodes=nodes,
        slots_per_node=slots_per_node,
        worker_heap_mb=worker_heap_mb,
        extlib=(jars() / "instrumentation.jar",),
    )
    state = cluster_daemon.up(servers.install(progress=err.print), shape, err.print)
    click.echo(f"up: {nodes} nodes with {slots_per_node} slots each, logs in {state.home / 'logs'}")
    finish(as_json, {"state": json.loads(state.model_dump_json())})


@cluster.command()
@json_option
def down(as_json: bool) -> None:
    """End the cluster that is up, every server and worker of it."""
    from harness.backends.local import daemon as cluster_daemon

    ended = cluster_daemon.down()
    click.echo("down" if ended else "no cluster was up")
    finish(as_json, {"ended": ended})


@cluster.command()
@click.argument("name", type=ClusterName(), required=False)
@json_option
def status(name: str | None, as_json: bool) -> None:
    """Ask every server of the cluster that is up, or of the provisioned cluster NAME.

    \b
    harness cluster status
    harness cluster status namespaces-3
    """
    from harness.backends.local import daemon as cluster_daemon

    if name is not None:
        status_of(name, as_json)
    now = cluster_daemon.status()
    if now.state is None:
        click.echo("no cluster is up")
    else:
        log = f" (log: {now.state.log})" if now.state.log else ""
        click.echo(f"{now.state.phase} {now.state.detail}{log}".strip())
        for line in now.state.excerpt.splitlines():
            click.echo(f"    {line}")
        for server, answers in now.answering.items():
            click.echo(f"  {server}: {'answers' if answers else 'does not answer'}")
        for topology, said in now.topologies.items():
            click.echo(f"  topology {topology}: {said}")
    finish(as_json, json.loads(now.model_dump_json()), 0 if now.up else 1)


@cluster.command(name="exec", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(command: tuple[str, ...]) -> None:
    """Run a COMMAND in the network of the cluster that is up: nothing outside reaches its servers.

    \b
    harness cluster exec bash
    """
    from harness.backends.local import daemon as cluster_daemon

    if shutil.which(command[0]) is None:
        raise UsageError(f"there is no program {command[0]}")
    cluster_daemon.join(list(command))
