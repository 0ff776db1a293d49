"""The command ``harness``: all commands of the modules in ``harness.commands``, under one name."""

from __future__ import annotations

import os
import sys

import click

from harness.commands import (
    archiving,
    calibrating,
    cluster,
    evaluating,
    exporting,
    forecasting,
    helping,
    hosts,
    links,
    machine,
    messages,
    nights,
    plans,
    regression,
    running,
    scheduling,
    schemas,
    serving,
    submitting,
    tuning,
    watching,
)
from harness.commands.common import Commands
from harness.machine.version import HARNESS_VERSION


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(HARNESS_VERSION, prog_name="harness")
def main() -> None:
    """Measure stream processing topologies on a real cluster, and judge models of their performance."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a user's model.py beside the experiment is found


for command in (
    running.run,
    running.check,
    running.predict,
    running.report,
    watching.watch,
    schemas.schema,
    evaluating.figures,
    evaluating.compare,
    evaluating.accuracy,
    evaluating.conformance,
    exporting.export,
    archiving.archive,
    archiving.rescore,
    forecasting.forecast,
    scheduling.schedule,
    scheduling.advise,
    serving.serve,
    submitting.submit,
    submitting.apply,
    regression.regress,
    regression.bundle,
    regression.verify,
    nights.nightly,
    calibrating.calibrate,
    links.slowed_link,
    helping.helping_gain,
    plans.plans,
    tuning.tune,
    messages.measure_messages,
    machine.list_,
    machine.doctor,
    cluster.cluster,
    hosts.provision,
    hosts.deprovision,
):
    main.add_command(command)

if __name__ == "__main__":
    main()
