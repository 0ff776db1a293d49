"""Performance models: pure functions from an observation and a proposed plan to a prediction.

``MODELS`` holds the harness's own by name. Anybody else's is a callable with the signature of
``harness.protocols.Model``, registered under the entry point group ``harness.models`` or named as
``package.module:name``. The report shows a model's text attribute ``notes``, or else its docstring.
"""

from __future__ import annotations

from inspect import getdoc

from harness.machine.plug_ins import PlugIns
from harness.models.baselines import caladrius as _caladrius
from harness.models.baselines import jackson as _jackson
from harness.models.baselines import linear as _linear
from harness.models.baselines import no_change as _no_change
from harness.models.composite import model as _composite
from harness.models.thesis import model as _storm_tracer
from harness.protocols import Model

NO_CHANGE = "no-change"
"""The guess that nothing changes: it answers with the measured numbers of the source."""

MODELS: dict[str, Model] = {
    "composite": _composite.composite,
    "storm-tracer": _storm_tracer.storm_tracer,
    NO_CHANGE: _no_change.no_change,
    "caladrius": _caladrius.caladrius,
    "jackson": _jackson.jackson,
}
"""The harness's own models."""

FORMER: dict[str, Model] = {"linear": _linear.linear}
"""Models that files of before name; ``caladrius`` says the same below saturation, and more."""

_NOTES = {
    "composite": _composite.NOTES,
    "storm-tracer": _storm_tracer.NOTES,
    NO_CHANGE: _no_change.NOTES,
    "caladrius": _caladrius.NOTES,
    "linear": _linear.NOTES,
    "jackson": _jackson.NOTES,
}

_PLUG_INS = PlugIns("model", MODELS, "harness.models", "harness.protocols.Model")


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
    return FORMER[name] if name in FORMER else _PLUG_INS.resolve(name)


def describe(model: Model) -> str:
    """Return the text that the report shows of a model."""
    own = next((_NOTES[name] for name, known in (*MODELS.items(), *FORMER.items()) if known is model), "")
    return own or str(getattr(model, "notes", "") or getdoc(model) or "")
