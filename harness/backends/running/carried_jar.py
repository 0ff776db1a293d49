"""A topology's jar with the instrumentation in it, for clusters whose class paths are not ours to change."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from harness.errors import UsageError

TOKEN_ENTRY = "harness/metrics-token"
"""Entry that holds the token of the metrics' receiver: who may read the topology's jar may read it."""
_SIGNATURE = re.compile(r"META-INF/[^/]+\.(SF|RSA|DSA|EC)$", re.IGNORECASE)
"""Signatures would not hold for what is added."""
_OF_A_JAR = re.compile(_SIGNATURE.pattern + r"|META-INF/MANIFEST\.MF$", re.IGNORECASE)
"""Beside a topology's own there is no second manifest."""


def carry(topology: Path, instrumentation: Path, token: str, target: Path) -> Path:
    """Write a jar that has all of a topology's jar, and the instrumentation's classes beside them.

    Parameters
    ----------
    topology, instrumentation : Path
        Jars; of an entry in both the topology's is kept.
    token : str
        Becomes the entry ``TOKEN_ENTRY``; left out when empty.
    target : Path
        The jar to write.

    Returns
    -------
    Path
        The target.

    Raises
    ------
    UsageError
        When one of them is no jar.
    """
    with ZipFile(target, "w", ZIP_DEFLATED) as merged:
        there = {TOKEN_ENTRY}
        for jar in (topology, instrumentation):
            left_out = _SIGNATURE if jar == topology else _OF_A_JAR
            try:
                with ZipFile(jar) as opened:
                    for entry in opened.infolist():
                        if entry.filename not in there and not left_out.match(entry.filename):
                            there.add(entry.filename)
                            merged.writestr(entry, opened.read(entry))
            except (OSError, BadZipFile) as error:
                raise UsageError(f"{jar} is not a jar: {error}") from error
        if token:
            merged.writestr(TOKEN_ENTRY, token)
    return target
