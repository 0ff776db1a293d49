"""Plug-ins of one kind (models, schedulers, tuners, forecasters): the harness's own and users', by name.

Anybody else's is registered under the kind's entry point group or named as ``package.module:name``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, signature
from typing import Generic, TypeVar

from pydantic import ValidationError

from harness.errors import UsageError, describe_fault

P = TypeVar("P")


@dataclass(frozen=True)
class PlugIns(Generic[P]):
    """Callables that go by one noun, such as model, and the way from a name to its callable.

    Attributes
    ----------
    noun : str
        What one is called in messages.
    own : mapping of str to P
        The harness's own by name; they go before registered ones of the same name.
    group : str
        Entry point group of users' own.
    described : str
        Where its contract is described, as a message ends.

    Examples
    --------
    >>> PlugIns("model", {"guess": len}, "harness.models", "harness.protocols.Model").resolve("gues")
    Traceback (most recent call last):
        ...
    harness.errors.UsageError: unknown model 'gues': use one of guess, or package.module:name
    """

    noun: str
    own: Mapping[str, P]
    group: str
    described: str

    def resolve(self, name: str) -> P:
        """Return the harness's own, a registered one, or ``package.module:name``.

        Raises
        ------
        UsageError
            When none has that name, or it cannot be loaded or called.
        """
        if name in self.own:
            return self.own[name]
        registered = {e.name: e for e in entry_points(group=self.group)}
        if name not in registered and ":" not in name:
            known = ", ".join([*self.own, *registered])
            raise UsageError(f"unknown {self.noun} {name!r}", f"use one of {known}, or package.module:name")
        try:
            if name in registered:
                loaded = registered[name].load()
            else:
                module, _, attribute = name.partition(":")
                loaded = getattr(import_module(module), attribute)
        except Exception as why:  # a user's module may fail in any way while it is imported
            problem = f"{self.noun} {name!r} cannot be loaded: {type(why).__name__}: {why}"
            raise UsageError(problem, "check its module and name") from why
        if not callable(loaded):
            raise UsageError(f"{self.noun} {name!r} is not callable", f"see {self.described}")
        answering: P = loaded  # its signature is the user's promise
        return answering


def make(plug_ins: PlugIns[type[P]], name: str, parameters: Mapping[str, object]) -> P:
    """Return the object, with a method ``propose``, that the callable of that name makes from parameters.

    Raises
    ------
    UsageError
        When none has that name, it cannot be loaded, or a parameter is unknown or out of its range.
    """
    factory: object = plug_ins.resolve(name)  # a user's: no type says what parameters it takes
    assert callable(factory)
    called, see = f"{plug_ins.noun} {name!r}", f"see {plug_ins.described}"
    known = _keyword_parameters(factory)
    for key in parameters:
        if known is not None and key not in known:
            hint = f"its parameters are {', '.join(known)}" if known else "it takes none"
            raise UsageError(f"{called} has no parameter {key!r}", hint)
    try:
        made: P = factory(**parameters)
    except ValidationError as why:
        raise UsageError(f"{called}: {describe_fault(why)}", see) from why
    except Exception as why:  # a user's class may fail in any way
        raise UsageError(f"{called} cannot be made: {type(why).__name__}: {why}", see) from why
    if not callable(getattr(made, "propose", None)):
        raise UsageError(f"{called} has no method propose", see)
    return made


def _keyword_parameters(factory: object) -> tuple[str, ...] | None:
    """Names of its parameters; None where it takes any."""
    assert callable(factory)
    try:
        taken = signature(factory).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is Parameter.VAR_KEYWORD for p in taken):
        return None
    return tuple(p.name for p in taken if p.kind is not Parameter.VAR_POSITIONAL)
