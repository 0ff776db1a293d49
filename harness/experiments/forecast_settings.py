"""Forecasts by which a step that adapts plans ahead, as its file asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from harness.machine.named_paths import file_at
from harness.plans import Frozen, PositiveFloat

LATEST = "the last period"
"""Stands for the rate that is planned for without a forecast."""


class ForecastSettings(Frozen):
    """The traffic that plans are made for: the last period's, or a forecast.

    Attributes
    ----------
    forecast : str
        A forecaster (docs/forecasts.md): plans are made for the highest rate that it foresees until
        ``horizon_s``, instead of the last period's rate. For tuners, and for schedulers that plan for a rate.
    horizon_s : float
        With ``forecast``: seconds after the decision, ``period_s`` or more.
    quantile : float
        With ``forecast``: the quantile of the rate that is planned for.
    season_s : list of float
        With ``forecast``: lengths of seasons, the first of which is a day; none by default.
    bucket_s : float
        With ``forecast``: length of the buckets in which traffic is counted, at most ``period_s``.
    history : Path
        With ``forecast``: a trace file beside the experiment's file, with the traffic up to the interval's
        begin: its last message is taken to be sent there. The run keeps a copy. By default only the
        interval's own past is known.
    """

    forecast: str | None = None
    """None plans for the last period's rate."""
    horizon_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.95
    season_s: Annotated[tuple[PositiveFloat, ...], Field(max_length=5)] = ()
    bucket_s: Annotated[float, Field(ge=0.5, le=3600)] = 5.0
    history: Path | None = None

    @property
    def planned_for(self) -> str:
        """The rate that is planned for in words.

        Examples
        --------
        >>> ForecastSettings().planned_for
        'the last period'
        >>> ForecastSettings(forecast="fourier-ar", horizon_s=30).planned_for
        'fourier-ar: 0.95 quantile of the next 30 s'
        """
        if self.forecast is None:
            return LATEST
        return f"{self.forecast}: {self.quantile:g} quantile of the next {self.horizon_s:g} s"

    @model_validator(mode="after")
    def _beside_a_forecast(self) -> Self:
        if self.forecast is None:
            fields = ForecastSettings.model_fields
            given = (key for key in fields if key != "forecast" and getattr(self, key) != fields[key].default)
            if key := next(given, ""):
                raise ValueError(f"{key}: give forecast beside it, or the last period's rate is planned for")
            return self
        if self.horizon_s is None:
            raise ValueError("forecast: give horizon_s beside it, a period and the time that a plan takes")
        if self.history is not None and file_at(self.history) is None:
            raise ValueError(f"history: there is no file {self.history}")
        return self
