"""Paths that users named, in files and in the environment: whatever the name, an answer and no traceback."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UsageError

MOST_NAME_BYTES, MOST_PATH_BYTES = 255, 4000
"""Longest name and path that Linux takes, less the part that is put below such a folder."""


def file_at(path: Path) -> Path | None:
    """Return the file that a path leads to, home folder and links resolved; None where none can be.

    Examples
    --------
    >>> file_at(Path("a" * 5000)), file_at(Path("~nobody-of-that-name/x"))
    (None, None)
    """
    try:
        resolved = path.expanduser().resolve()
        return resolved if resolved.is_file() else None
    except (OSError, RuntimeError, ValueError):  # too long, of an unknown user, with a NUL in it
        return None


def user_folder(variable: str, default: str) -> Path:
    """Return the folder that a variable of the environment names, else one in the user's home.

    Raises
    ------
    UsageError
        When no folder can have the name, or it depends on the folder that a command is started in.
    """
    named = os.environ.get(variable, "")
    if not named:
        return Path.home() / default
    name_bytes = [len(os.fsencode(part)) for part in Path(named).parts]
    if max(name_bytes, default=0) > MOST_NAME_BYTES or sum(name_bytes) > MOST_PATH_BYTES:
        raise UsageError(f"{variable}: no folder can have so long a name")
    if not Path(named).is_absolute():
        raise UsageError(f"{variable}: {named!r} is no absolute path", "begin it with /")
    return Path(named)
