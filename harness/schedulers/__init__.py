"""Schedulers: pure functions from a topology, free slots and an observation to a physical plan.

``SCHEDULERS`` holds the harness's own by name. Anybody else's is a class or function that takes its
parameters by keyword and returns a ``harness.protocols.Scheduler``. It is registered under the entry point
group ``harness.schedulers`` or named as ``package.module:name``.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import UsageError
from harness.machine.plug_ins import PlugIns, make
from harness.protocols import Scheduler
from harness.schedulers.albic import AlbicScheduler
from harness.schedulers.aniello_offline import AnielloOfflineCodeScheduler, AnielloOfflineScheduler
from harness.schedulers.aniello_online import AnielloOnlineCodeScheduler, AnielloOnlineScheduler
from harness.schedulers.balance import BalanceScheduler
from harness.schedulers.cola import ColaScheduler
from harness.schedulers.drawn import RandomScheduler
from harness.schedulers.even import EvenScheduler
from harness.schedulers.flux import FluxScheduler
from harness.schedulers.model_guided import ModelGuidedScheduler
from harness.schedulers.numbered import NumberedScheduler
from harness.schedulers.r_storm import RStormScheduler
from harness.schedulers.traffic_cut import TrafficCutScheduler

SCHEDULERS: dict[str, type[Scheduler]] = {
    "even": EvenScheduler,
    "aniello-offline": AnielloOfflineScheduler,
    "aniello-offline-code": AnielloOfflineCodeScheduler,
    "aniello-online": AnielloOnlineScheduler,
    "aniello-online-code": AnielloOnlineCodeScheduler,
    "balance": BalanceScheduler,
    "albic": AlbicScheduler,
    "flux": FluxScheduler,
    "cola": ColaScheduler,
    "r-storm": RStormScheduler,
    "traffic-cut": TrafficCutScheduler,
    "model-guided": ModelGuidedScheduler,
    "random": RandomScheduler,
}
"""The harness's own schedulers, whose parameters all have defaults."""

BY_NUMBER: dict[str, type[Scheduler]] = {"numbered": NumberedScheduler}
"""The harness's own that propose nothing unless a number is given: lists of proposals leave them out."""

_PLUG_INS = PlugIns("scheduler", {**SCHEDULERS, **BY_NUMBER}, "harness.schedulers", "docs/schedulers.md")


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
    return make(_PLUG_INS, name, keys)
