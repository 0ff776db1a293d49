"""Forecasts of traffic: pure functions from a history of rates to quantiles by time.

``FORECASTERS`` holds the harness's own by name. Anybody else's is a callable with the signature of
``harness.protocols.Forecaster``, registered under the entry point group ``harness.forecasts`` or named as
``package.module:name``.
"""

from __future__ import annotations

from harness.forecasts import fourier_ar as _fourier_ar
from harness.forecasts import mstl as _mstl
from harness.forecasts import prophet as _prophet
from harness.forecasts import seasonal_naive as _seasonal_naive
from harness.forecasts import stats_summary as _stats_summary
from harness.machine.plug_ins import PlugIns
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

_PLUG_INS = PlugIns("forecaster", FORECASTERS, "harness.forecasts", "harness.protocols.Forecaster")


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
    return _PLUG_INS.resolve(name)
