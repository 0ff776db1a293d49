"""Performance models: pure functions from an observation and a proposed plan to a prediction.

``MODELS`` holds the harness's own by name. Anybody else's is a callable with the signature of
``harness.protocols.Model``, registered under the entry point group ``harness.models`` or named as
``package.module:name``. A text attribute ``notes``, or else its docstring, is what the report shows of it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from inspect import getdoc

from harness.errors import UsageError
from harness.models.baselines import caladrius as _caladrius
from harness.models.baselines import jackson as _jackson
from harness.models.baselines import no_change as _no_change
from harness.models.composite import model as _composite
from harness.models.thesis import model as _storm_tracer
from harness.protocols import Model

MODELS: dict[str, Model] = {
    "composite": _composite.composite,
    "storm-tracer": _storm_tracer.storm_tracer,
    "no-change": _no_change.no_change,
    "caladrius": _caladrius.caladrius,
    "jackson": _jackson.jackson,
}
"""The harness's own models."""

_NOTES = {
    "composite": _composite.NOTES,
    "storm-tracer": _storm_tracer.NOTES,
    "no-change": _no_change.NOTES,
    "caladrius": _caladrius.NOTES,
    "jackson": _jackson.NOTES,
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
    if name not in registered and ":" not in name:
        known = ", ".join([*MODELS, *registered])
        raise UsageError(f"unknown model {name!r}", f"use one of {known}, or package.module:name")
    try:
        if name in registered:
            model = registered[name].load()
        else:
            module, _, attribute = name.partition(":")
            model = getattr(import_module(module), attribute)
    except Exception as why:  # a user's module may fail in any way while it is imported
        problem = f"model {name!r} cannot be loaded: {type(why).__name__}: {why}"
        raise UsageError(problem, "check its module and name") from why
    if not callable(model):
        raise UsageError(f"model {name!r} is not callable", "see harness.protocols.Model")
    found: Model = model  # its signature is the user's promise
    return found


def describe(model: Model) -> str:
    """Return the text that the report shows of a model."""
    own = next((_NOTES[name] for name, known in MODELS.items() if known is model), "")
    return own or str(getattr(model, "notes", "") or getdoc(model) or "")
