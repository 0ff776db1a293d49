"""Performance models: pure functions from an observation and a proposed plan to a prediction.

``MODELS`` holds the harness's own by name. Anybody else's is a callable with the signature of
``harness.protocols.Model``, registered under the entry point group ``harness.models`` or named as
``package.module:name``. A text attribute ``notes``, or else its docstring, is what the report shows of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from inspect import getdoc

from harness.errors import UsageError
from harness.models import linear as _linear
from harness.models import no_change as _no_change
from harness.models import storm_tracer as _storm_tracer
from harness.protocols import Model

MODELS: Mapping[str, Model] = {
    "storm-tracer": _storm_tracer.storm_tracer,
    "no-change": _no_change.no_change,
    "linear": _linear.linear,
}
"""The harness's own models."""

_NOTES = {
    _storm_tracer.storm_tracer: _storm_tracer.NOTES,
    _no_change.no_change: _no_change.NOTES,
    _linear.linear: _linear.NOTES,
}

GROUP = "harness.models"
"""Entry point group of users' models."""


def resolve(name: str) -> Model:
    """Return a model by name: the harness's own, a registered one, or ``package.module:name``.

    Raises
    ------
    UsageError
        When there is none of that name, or it cannot be loaded or called.

    Examples
    --------
    >>> resolve("no-change") is MODELS["no-change"]
    True
    """
    if name in MODELS:
        return MODELS[name]
    registered = {e.name: e for e in entry_points(group=GROUP)}
    try:
        if name in registered:
            model = registered[name].load()
        elif ":" in name:
            module, _, attribute = name.partition(":")
            model = getattr(import_module(module), attribute)
        else:
            known = ", ".join([*MODELS, *registered])
            raise UsageError(f"unknown model {name!r}", f"use one of {known}, or package.module:name")
    except (ImportError, AttributeError, ValueError) as why:
        raise UsageError(f"model {name!r} cannot be loaded: {why}", "check its module and name") from why
    if not callable(model):
        raise UsageError(f"model {name!r} is not callable", "see harness.protocols.Model")
    found: Model = model  # its signature is the user's promise
    return found


def describe(model: Model) -> str:
    """Return the text that the report shows of a model."""
    own = _NOTES.get(model)
    return own or str(getattr(model, "notes", "") or getdoc(model) or "")
