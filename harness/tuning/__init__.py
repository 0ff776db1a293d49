"""Tuners: pure functions from a measured step and an input rate to executors and batch sizes.

``TUNERS`` holds the harness's own by name. Anybody else's is a class or function that takes its parameters by
keyword and returns a ``harness.protocols.Tuner``; it is registered under the entry point group
``harness.tuners`` or named as ``package.module:name``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from harness.errors import UsageError
from harness.protocols import Tuner
from harness.tuning.model_guided import ModelGuidedTuner
from harness.tuning.tuners import AeolusTuner, DS2Tuner

TUNERS: dict[str, Callable[..., Tuner]] = {
    "aeolus": AeolusTuner,
    "ds2": DS2Tuner,
    "model-guided": ModelGuidedTuner,
}
"""The harness's own tuners."""

GROUP = "harness.tuners"
"""Entry point group of users' tuners."""


def make_tuner(name: str, parameters: Mapping[str, object] | None = None) -> Tuner:
    """Return a tuner by its name, with its parameters.

    Raises
    ------
    UsageError
        When no tuner has that name, it cannot be loaded, or a parameter is unknown or out of its range.

    Examples
    --------
    >>> make_tuner("ds2", {"utilisation": 0.7}).utilisation
    0.7
    >>> make_tuner("ds2", {"utilization": 0.7})
    Traceback (most recent call last):
        ...
    harness.errors.UsageError: tuner ds2: unknown parameter 'utilization': see docs/tuning.md
    """
    factory = resolve_factory(name)
    try:
        tuner: Tuner = factory(**(parameters or {}))
    except ValidationError as why:
        first = why.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        wrong = f"{key}: {first['msg']} (it is {first['input']!r})"
        if first["type"] == "extra_forbidden":
            wrong = f"unknown parameter {key!r}"
        raise UsageError(f"tuner {name}: {wrong}", "see docs/tuning.md") from why
    except Exception as why:  # a user's class may fail in any way
        raise UsageError(f"tuner {name} cannot be made: {type(why).__name__}: {why}") from why
    if not callable(getattr(tuner, "propose", None)):
        raise UsageError(f"tuner {name} has no method propose", "see harness.protocols.Tuner")
    return tuner


def resolve_factory(name: str) -> Callable[..., Any]:
    """Return what makes a tuner: the harness's own, a registered one, or ``package.module:name``.

    Raises
    ------
    UsageError
        When no tuner has that name, or it cannot be loaded or called.
    """
    if name in TUNERS:
        return TUNERS[name]
    registered = {e.name: e for e in entry_points(group=GROUP)}
    if name not in registered and ":" not in name:
        known = ", ".join([*TUNERS, *registered])
        raise UsageError(f"unknown tuner {name!r}", f"use one of {known}, or package.module:name")
    try:
        if name in registered:
            factory = registered[name].load()
        else:
            module, _, attribute = name.partition(":")
            factory = getattr(import_module(module), attribute)
    except Exception as why:  # a user's module may fail in any way while it is imported
        problem = f"tuner {name!r} cannot be loaded: {type(why).__name__}: {why}"
        raise UsageError(problem, "check its module and name") from why
    if not callable(factory):
        raise UsageError(f"tuner {name!r} is not callable", "see docs/tuning.md")
    made: Callable[..., Any] = factory
    return made
