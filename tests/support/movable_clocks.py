"""Whether this machine has what moves the clock of a worker."""

from __future__ import annotations

from harness.backends import worker_clocks
from harness.errors import MissingTool


def clocks_obstacle() -> str:
    """Why no clock can be moved here; empty when one can."""
    try:
        worker_clocks.library()
    except MissingTool as missing:
        return str(missing)
    return ""
