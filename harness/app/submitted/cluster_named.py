"""A cluster as a command names it: a file, or a mapping on the command line."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from harness.errors import UsageError, describe_fault, shortened
from harness.experiments.clusters import Running
from harness.experiments.loading import find
from harness.experiments.yaml_files import read_tree, read_value

EXAMPLE = "{kind: running, nimbus: HOST:PORT, kafka: HOST:PORT}"


def read_cluster(text: str) -> Running:
    """Return the cluster that a file or a mapping says.

    Parameters
    ----------
    text : str
        A YAML mapping, or the path of a file that holds one, by itself or as an experiment's key ``cluster``.

    Raises
    ------
    UsageError
        When it cannot be read, or is not a cluster that others run.

    Examples
    --------
    >>> read_cluster("{kind: running, nimbus: 'a:6627', kafka: 'b:9092'}").nimbus
    'a:6627'
    """
    where, hint = f"--cluster {shortened(text)}", f"give {EXAMPLE}, or a file with it"
    if text.lstrip().startswith("{"):
        try:
            given = read_value(text)
        except ValueError as error:
            raise UsageError(f"{where}: not readable as YAML: {error}", hint) from None
    else:
        given = read_tree(find(text), "safe")
        if isinstance(given, Mapping) and "cluster" in given:
            given = given["cluster"]
    if not isinstance(given, Mapping) or given.get("kind") != "running":
        raise UsageError(f"{where}: topologies are left on clusters that others run", hint)
    try:
        return Running.model_validate(given)
    except ValidationError as error:
        raise UsageError(f"{where}: {describe_fault(error)}", hint) from None
