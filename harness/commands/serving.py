"""Pages of runs and questions over HTTP."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from harness.commands.common import RunPath, err
from harness.errors import UsageError

ARCHIVE = Path("reports/runs")


@click.command()
@click.option(
    "--runs", "folders", type=RunPath, multiple=True, metavar="DIR",
    help="Where run directories are (repeatable; default: runs and reports/runs).",
)  # fmt: skip
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="On loopback; 0: a free one.",
)
@click.option(
    "--jobs", type=RunPath, metavar="DIR", help="Where jobs are kept (default: .jobs in the first)."
)
@click.option(
    "--submitted",
    type=RunPath,
    default=Path("submitted"),
    show_default=True,
    help="Where folders of submitted topologies are.",
)
@click.option(
    "--cluster",
    "cluster_named",
    metavar="FILE|MAPPING",
    help="{kind: running, ...}: its Nimbus is asked for plans in force, and who nobody here knows.",
)
@click.option("--notify", metavar="URL", help="Gets each alert of a submitted topology, once an event.")
@click.option("--demo", is_flag=True, help="A simulated run, live, beside the runs that there are.")
def serve(
    folders: tuple[Path, ...],
    port: int,
    jobs: Path | None,
    submitted: Path,
    cluster_named: str | None,
    notify: str | None,
    demo: bool,
) -> None:
    """Serve pages of runs, live and ended, and questions about their topologies as REST, on loopback only.

    The address that it prints ends in a token: a page that was opened by it may start runs, schedulers and
    tuners, each in a process of its own. They end with the service, which Ctrl-C, SIGTERM
    and a closed terminal end.

    \b
    harness serve
    harness serve --runs runs --port 9000
    harness serve --cluster cluster.yaml
    harness serve --demo
    """
    for folder in folders:  # before imports that take seconds
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder", "run directories are in runs/ and reports/runs/")
    from harness.machine.freed_memory import return_freed_memory

    return_freed_memory()
    from harness.service.server import HOST, leave, listen
    from harness.service.server import serve as serve_until_told

    cluster = None
    if cluster_named is not None:
        from harness.app.submitted.asked_cluster import AskedCluster
        from harness.app.submitted.cluster_named import read_cluster

        cluster = AskedCluster(read_cluster(cluster_named))
    given = list(folders) or [Path("runs"), ARCHIVE]
    with ExitStack() as stack:
        listening = stack.enter_context(listen(port))
        from harness.service.application import create_application
        from harness.service.demonstration import demonstration

        if demo:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-demo-")))
            stack.enter_context(demonstration(place))
            given.append(place)
        address = f"http://{HOST}:{listening.getsockname()[1]}/"

        application = create_application(given, jobs, submitted=submitted, cluster=cluster)
        if notify is not None:
            from harness.service.notifying import Notifier

            notifier = Notifier(notify, submitted, application.state.live)
            application.state.ending.append(notifier.stop)
            notifier.start()

        def ready() -> None:
            opened = f"{address}#token={application.state.token}"
            err.print(f"serving {', '.join(map(str, given))} at {opened} ; Ctrl-C ends it", highlight=False)

        serve_until_told(application, listening, ready)
    leave()
