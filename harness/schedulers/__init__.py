"""Schedulers: pure functions from a topology, free slots and an observation to a physical plan.

``SCHEDULERS`` holds the harness's own by name. Anybody else's is a class or function that takes its
parameters by keyword and returns a ``harness.protocols.Scheduler``. It is registered under the entry point
group ``harness.schedulers`` or named as ``package.module:name``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, signature
from typing import Any

from pydantic import ValidationError

from harness.errors import UsageError
from harness.protocols import Scheduler
from harness.schedulers.albic import AlbicScheduler
from harness.schedulers.aniello_offline import AnielloOfflineCodeScheduler, AnielloOfflineScheduler
from harness.schedulers.aniello_online import AnielloOnlineScheduler
from harness.schedulers.balance import BalanceScheduler
from harness.schedulers.drawn import RandomScheduler
from harness.schedulers.even import EvenScheduler
from harness.schedulers.r_storm import RStormScheduler
from harness.schedulers.traffic_cut import TrafficCutScheduler

SCHEDULERS: dict[str, Callable[..., Scheduler]] = {
    "even": EvenScheduler,
    "aniello-offline": AnielloOfflineScheduler,
    "aniello-offline-code": AnielloOfflineCodeScheduler,
    "aniello-online": AnielloOnlineScheduler,
    "balance": BalanceScheduler,
    "albic": AlbicScheduler,
    "r-storm": RStormScheduler,
    "traffic-cut": TrafficCutScheduler,
    "random": RandomScheduler,
}
"""The harness's own schedulers."""

GROUP = "harness.schedulers"
"""Entry point group of users' schedulers."""


def make_scheduler(asked: str | Mapping[str, object]) -> Scheduler:
    """Return the scheduler that an experiment or a command line asks for.

    Parameters
    ----------
    asked : str or mapping
        A name, or a mapping with the key ``name`` and parameters beside it.

    Raises
    ------
    UsageError
        When no scheduler has that name, it cannot be loaded, or a parameter is unknown or out of its range.

    Examples
    --------
    >>> make_scheduler({"name": "random", "seed": 3})
    RandomScheduler(seed=3)
    >>> make_scheduler({"name": "random", "sead": 3})
    Traceback (most recent call last):
        ...
    harness.errors.UsageError: scheduler 'random' has no parameter 'sead': its parameters are seed
    """
    keys = {"name": asked} if isinstance(asked, str) else dict(asked)
    name = keys.pop("name", None)
    if not isinstance(name, str):
        raise UsageError(
            f"a scheduler has no name in {dict(keys)}", f"write name: one of {', '.join(SCHEDULERS)}"
        )
    factory = resolve_factory(name)
    parameters = _parameters(factory)
    for key in keys:
        if parameters is not None and key not in parameters:
            known = f"its parameters are {', '.join(parameters)}" if parameters else "it takes none"
            raise UsageError(f"scheduler {name!r} has no parameter {key!r}", known)
    try:
        scheduler: Scheduler = factory(**keys)
    except ValidationError as why:
        first = why.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        problem = (
            f"scheduler {name!r}: {key}: {first['msg']}" if key else f"scheduler {name!r}: {first['msg']}"
        )
        raise UsageError(problem, "see docs/schedulers.md for its parameters") from why
    except Exception as why:  # a user's class may fail in any way
        raise UsageError(f"scheduler {name!r} cannot be made: {type(why).__name__}: {why}") from why
    if not callable(getattr(scheduler, "propose", None)):
        raise UsageError(f"scheduler {name!r} has no method propose", "see harness.protocols.Scheduler")
    return scheduler


def resolve_factory(name: str) -> Callable[..., Any]:
    """Return what makes a scheduler: the harness's own, a registered one, or ``package.module:name``.

    Raises
    ------
    UsageError
        When none has that name, or it cannot be loaded or called.
    """
    if name in SCHEDULERS:
        return SCHEDULERS[name]
    registered = {e.name: e for e in entry_points(group=GROUP)}
    if name not in registered and ":" not in name:
        known = ", ".join([*SCHEDULERS, *registered])
        raise UsageError(f"unknown scheduler {name!r}", f"use one of {known}, or package.module:name")
    try:
        if name in registered:
            factory = registered[name].load()
        else:
            module, _, attribute = name.partition(":")
            factory = getattr(import_module(module), attribute)
    except Exception as why:  # a user's module may fail in any way while it is imported
        problem = f"scheduler {name!r} cannot be loaded: {type(why).__name__}: {why}"
        raise UsageError(problem, "check its module and name") from why
    if not callable(factory):
        raise UsageError(f"scheduler {name!r} is not callable", "see docs/schedulers.md")
    return factory  # type: ignore[no-any-return]


def _parameters(factory: Callable[..., Any]) -> tuple[str, ...] | None:
    """Names of its keyword parameters; None where it takes any."""
    try:
        taken = signature(factory).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is Parameter.VAR_KEYWORD for p in taken):
        return None
    return tuple(p.name for p in taken if p.kind is not Parameter.VAR_POSITIONAL)
