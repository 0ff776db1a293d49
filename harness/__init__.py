"""Experiment harness and validation platform for performance models of stream processing.

The public interface for notebooks and scripts:

>>> import harness
>>> run = harness.load_run("reports/runs/noise-floor/20261121T181833Z")
>>> run.verdict
'valid'

Runs are opened with ``load_run`` and listed, as a frame, with ``search_runs``. A model is asked about another
plan with ``predict``, and held against the rules of docs/write-a-model.md with ``assert_conforms``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from harness.machine.version import HARNESS_VERSION as __version__

if TYPE_CHECKING:
    from harness.app.conformance import assert_conforms
    from harness.app.opened_run import OpenedRun, load_run, predict, search_runs

__all__ = ["OpenedRun", "__version__", "assert_conforms", "load_run", "predict", "search_runs"]

_PLACES = dict.fromkeys(("OpenedRun", "load_run", "predict", "search_runs"), "harness.app.opened_run") | {
    "assert_conforms": "harness.app.conformance"
}
"""Modules by the names that are imported when first asked for: a command must not wait for pandas."""


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
