"""Fourier terms of each season, with autoregressive errors: the default forecaster.

The rate, or its square root or logarithm, is a constant, harmonics of each season, and an error that depends
on the three errors before it. The scale is the one under which the history is most likely (Box and Cox 1964).
Traffic that varies more at higher rates is steady on the scale of the root or of the logarithm.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import numpy as np
import numpy.typing as npt
from scipy import stats

from harness.errors import ForecastDeclined
from harness.forecasts.answers import FloatArray, answer_with, require_history
from harness.protocols import RateForecast, RateHistory

NOTES = """\
Dynamic harmonic regression: a constant and up to twelve harmonics of each season, with autoregressive errors
of order 3. The scale (rate, its square root, its logarithm) and the number of harmonics are those which the
history supports best (Bayesian information criterion). No trend: a level that moves is left to the errors.
Without a season, or where none is seen, it is an autoregression around a mean. Intervals are of Student's t
and in closed form, parameters' errors included."""

ORDER = 3
HARMONICS = (0, 1, 2, 3, 4, 6, 8, 12)
POWERS = (1.0, 0.5, 0.0)
"""Rate, square root, logarithm."""
LEAST = 12
_NOTHING = 1e-10
"""Share of the values below which residuals are rounding, and no errors."""


def fourier_ar(
    history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
) -> RateForecast:
    """Forecast by harmonics of the seasons and autoregressive errors.

    Parameters
    ----------
    history : RateHistory
        At least twelve buckets, and two of each season.
    horizon_s : float
        How far ahead.
    season_s : sequence of float
        Periods; they need not be multiples of the bucket. May be empty.
    levels : sequence of float
        Quantiles, rising, between 0 and 1.

    Examples
    --------
    >>> past = RateHistory(100 + 50 * np.sin(2 * np.pi * np.arange(48) / 12), bucket_s=1.0)
    >>> fourier_ar(past, 4.0, (12.0,), (0.5,)).rate_tps.round(3).ravel().tolist()
    [100.0, 125.0, 143.301, 150.0]
    """

    def quantiles(ahead: int) -> FloatArray:
        require_history(history, season_s, LEAST)
        fit = _choose(history, tuple(season_s))
        mean, spread = fit.ahead(ahead)
        z = mean[:, None] + np.outer(spread, stats.t.ppf(levels, fit.freedom))
        return _rates(z, fit.power)

    return answer_with(history, horizon_s, levels, quantiles)


@dataclass(frozen=True, eq=False)
class _Fit:
    """One regression, fitted.

    Attributes
    ----------
    power : float
        Scale of the values, see ``POWERS``.
    cost : float
        Bayesian information criterion of the rates, for all scales alike.
    errors : ndarray, shape (ORDER,)
        The latest errors, the last one last.
    """

    power: float
    seasons: tuple[float, ...]
    harmonics: int
    buckets: int
    coefficients: FloatArray
    covariance: FloatArray
    memory: FloatArray
    variance: float
    errors: FloatArray
    freedom: float
    cost: float

    def ahead(self, buckets: int) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations of the next buckets, on the fit's own scale."""
        terms = _terms(np.arange(self.buckets, self.buckets + buckets), self.seasons, self.harmonics)
        errors = list(self.errors)
        for _ in range(buckets):
            errors.append(float(self.memory @ np.array(errors[: -ORDER - 1 : -1])))
        # The error h buckets ahead is a sum of h innovations, weighted by the moving-average form.
        process = import_module("statsmodels.tsa.arima_process")
        weights = process.arma2ma(np.r_[1.0, -self.memory], [1.0], buckets)
        of_errors = self.variance * np.cumsum(weights**2)
        of_terms = np.einsum("ij,jk,ik->i", terms, self.covariance, terms)
        return terms @ self.coefficients + errors[ORDER:], np.sqrt(of_errors + np.maximum(of_terms, 0.0))


def _terms(buckets: npt.NDArray[np.int_], seasons: Sequence[float], harmonics: int) -> FloatArray:
    """Return a constant and each season's sines and cosines; ``seasons`` are in buckets."""
    columns = [np.ones(len(buckets))]
    for season in seasons:
        for k in range(1, min(harmonics, _most_harmonics(season)) + 1):
            angle = 2 * np.pi * k * buckets / season
            columns += [np.sin(angle), np.cos(angle)]
    return np.column_stack(columns)


def _most_harmonics(season: float) -> int:
    """Return how many harmonics a season of so many buckets can have below the Nyquist frequency."""
    return max(1, int(np.ceil(season / 2)) - 1)


def _values(rates: FloatArray, power: float) -> FloatArray:
    return np.asarray(np.log(rates) if power == 0 else rates**power, dtype=float)


def _rates(values: FloatArray, power: float) -> FloatArray:
    return np.exp(values) if power == 0 else np.maximum(values, 0.0) ** (1 / power)


def _choose(history: RateHistory, season_s: tuple[float, ...]) -> _Fit:
    """Return the likeliest scale's regression with as many harmonics as pay for themselves."""
    rates = history.rate_tps
    seasons = tuple(s / history.bucket_s for s in season_s)
    most = max((_most_harmonics(s) for s in seasons), default=1)
    # A regression needs more buckets than terms by far, or its errors are too small.
    room = max(1, (len(rates) // 3 - 1) // max(1, 2 * len(seasons)))
    harmonics = [k for k in HARMONICS if k <= min(most, room)] if seasons else [0]
    powers = POWERS if (rates > 0).all() else POWERS[:1]
    fits = [_fit(rates, power, seasons, k) for power in powers for k in harmonics]
    return min(fits, key=lambda fit: fit.cost)


def _fit(rates: FloatArray, power: float, seasons: tuple[float, ...], harmonics: int) -> _Fit:
    values = _values(rates, power)
    n = len(values)
    terms = _terms(np.arange(n), seasons, harmonics)
    regression = _regression()
    memory = _memory(values, regression.OLS(values, terms).fit().resid)
    whitened = regression.GLSAR(values, terms, rho=memory).fit()
    errors = values - terms @ whitened.params
    variance = max(float(whitened.scale), _floor(values))
    # The density of a rate is that of its value times the slope of the scale at that rate.
    slopes = 0.0 if power == 1 else (power - 1) * np.log(rates).sum() + n * np.log(power or 1.0)
    likelihood = -n / 2 * np.log(2 * np.pi * variance) - n / 2 + slopes
    return _Fit(
        power=power,
        seasons=seasons,
        harmonics=harmonics,
        buckets=n,
        coefficients=np.asarray(whitened.params),
        covariance=np.asarray(whitened.cov_params()),
        memory=memory,
        variance=float(whitened.scale),
        errors=errors[-ORDER:],
        freedom=float(whitened.df_resid),
        cost=terms.shape[1] * np.log(n) - 2 * likelihood,
    )


def _regression() -> ModuleType:
    try:
        return import_module("statsmodels.regression.linear_model")
    except ImportError:
        raise ForecastDeclined(
            "statsmodels is missing: pip install 'storm-harness[forecast]', or make setup-dev in a checkout"
        ) from None


def _floor(values: FloatArray) -> float:
    return max(float(np.mean(values**2)) * _NOTHING**2, float(np.finfo(float).tiny))


def _memory(values: FloatArray, residuals: FloatArray) -> FloatArray:
    """Return the errors' autoregression by Yule and Walker, which is stationary; zero without any error."""
    if float(np.mean(residuals**2)) <= _floor(values):
        return np.zeros(ORDER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the kind of tuple that is returned will change
        memory, _ = _regression().yule_walker(residuals, ORDER, method="mle", demean=False)
    return np.asarray(memory, dtype=float)
