"""Forecasts of traffic: pure functions from a history of rates to quantiles by time.

``FORECASTERS`` holds the harness's own by name. Anybody else's is a callable with the signature of
``harness.protocols.Forecaster``, registered under the entry point group ``harness.forecasts`` or named as
``package.module:name``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from harness.errors import UsageError
from harness.forecasts import fourier_ar as _fourier_ar
from harness.forecasts import mstl as _mstl
from harness.forecasts import prophet as _prophet
from harness.forecasts import seasonal_naive as _seasonal_naive
from harness.forecasts import stats_summary as _stats_summary
from harness.protocols import Forecaster

DEFAULT = "fourier-ar"

FORECASTERS: dict[str, Forecaster] = {
    "fourier-ar": _fourier_ar.fourier_ar,
    "seasonal-naive": _seasonal_naive.seasonal_naive,
    "stats-summary": _stats_summary.stats_summary,
    "mstl": _mstl.mstl,
    "prophet": _prophet.prophet,
}
"""The harness's own forecasters."""

NOTES = {
    "fourier-ar": _fourier_ar.NOTES,
    "seasonal-naive": _seasonal_naive.NOTES,
    "stats-summary": _stats_summary.NOTES,
    "mstl": _mstl.NOTES,
    "prophet": _prophet.NOTES,
}
"""Descriptions of the harness's own forecasters."""

GROUP = "harness.forecasts"
"""Entry point group of users' forecasters."""


def resolve_forecaster(name: str) -> Forecaster:
    """Return a forecaster by name: the harness's own, a registered one, or ``package.module:name``.

    Raises
    ------
    UsageError
        When no forecaster has that name, or it cannot be loaded or called.

    Examples
    --------
    >>> resolve_forecaster("fourier-ar") is FORECASTERS["fourier-ar"]
    True
    """
    if name in FORECASTERS:
        return FORECASTERS[name]
    registered = {e.name: e for e in entry_points(group=GROUP)}
    if name not in registered and ":" not in name:
        known = ", ".join([*FORECASTERS, *registered])
        raise UsageError(f"unknown forecaster {name!r}", f"use one of {known}, or package.module:name")
    try:
        if name in registered:
            forecaster = registered[name].load()
        else:
            module, _, attribute = name.partition(":")
            forecaster = getattr(import_module(module), attribute)
    except Exception as why:  # a user's module may fail in any way while it is imported
        problem = f"forecaster {name!r} cannot be loaded: {type(why).__name__}: {why}"
        raise UsageError(problem, "check its module and name") from why
    if not callable(forecaster):
        raise UsageError(f"forecaster {name!r} is not callable", "see harness.protocols.Forecaster")
    answering: Forecaster = forecaster  # its signature is the user's promise
    return answering
