"""A change that lasts while a block does, kept by a shell: it is undone however this process ends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import ClusterError


@contextmanager
def kept(make: str, undo: str, *words: str, otherwise: str) -> Iterator[None]:
    """Make a change for a block, and undo it at the block's end, or when this process is killed.

    Parameters
    ----------
    make, undo : str
        Commands of a shell; the change is undone also where it could not be made.
    *words : str
        What they call ``$1`` and so on.
    otherwise : str
        What is said when it cannot be made, before what the shell says.

    Raises
    ------
    ClusterError
        When it cannot be made.

    Examples
    --------
    >>> with kept("kill -STOP $1", "kill -CONT $1", "17", otherwise="it runs on"):  # doctest: +SKIP
    ...     wait()
    """
    with subprocess.Popen(
        ["sh", "-c", f"{make} && echo made && cat > /dev/null; {undo}", "sh", *words],
        stdin=subprocess.PIPE,  # the shell goes on when it ends: with the block, or with this process
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # what ends who asks must not end it in the middle
    ) as shell:
        assert shell.stdout is not None
        assert shell.stderr is not None
        if shell.stdout.readline() != "made\n":
            raise ClusterError(f"{otherwise}: {shell.stderr.readline().strip()}")
        yield
