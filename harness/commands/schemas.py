"""JSON Schemas of the files that users write."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("kind", type=click.Choice(["experiment", "cluster", "nightly"]))
def schema(kind: str) -> None:
    """Print the JSON Schema of an experiment's, a cluster's or a night's file, for editors.

    \b
    harness schema experiment > experiment.schema.json
    """
    from harness.app.file_schemas import SCHEMAS

    click.echo(json.dumps(SCHEMAS[kind](), indent=2))
