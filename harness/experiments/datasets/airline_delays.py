"""Flights with their delays, a stand-in for the airline on-time data of the US Department of Transportation.

The numbers are chosen, not fitted:

- 300 airports, airport i drawn with weight 1 / i^0.9; 20 carriers with 1 to 3 hubs each
- 4,000 planes, each of a carrier and at one of its hubs for good. A plane flies 2, 4, 6 or 8 legs a day, from
  its hub to an airport and back; so routes that follow each other share an airport
- a leg's own delay in minutes: N(0, 10) for 80 % of the legs, exponential with mean 45 for the others. A leg
  also has 0.6 of the delay of its plane's leg before; the day's first leg has none

Messages are flights in the order of departure. One day of flights stands for a year, which begin with 1987.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from harness.experiments.datasets.dataset import zipf
from harness.experiments.draws import Floats, Ids, normal, uniform
from harness.topologies.dataset_rows import Fields

CARRIER_HUBS, PLANE_HABITS, LEGS, ROTATIONS = range(111, 115)
"""Codes of draws, apart from those of the topologies."""
AIRPORTS, AIRPORT_EXPONENT = 300, 0.9
CARRIERS, MOST_HUBS = 20, 3
PLANES = 4000
MOST_ROTATIONS = 4
"""A rotation is the leg from the hub and the leg back."""
USUAL_SHARE, USUAL_SD_MIN, LATE_MEAN_MIN = 0.8, 10.0, 45.0
CARRIED_OVER = 0.6
FIRST_YEAR = 1987


class Fleet(NamedTuple):
    """The carrier, hub and legs a day of each plane."""

    carrier: Ids
    hub: Ids
    legs: Ids


class Day(NamedTuple):
    """A day's flights in the order of departure."""

    plane: Ids
    origin: Ids
    destination: Ids
    delay_min: Floats


@dataclass(frozen=True)
class AirlineDelays:
    """Flights with their delays (a ``Dataset``).

    Parameters
    ----------
    seed : int
    rate_tps : float
        Has no part in it: rows have no time.

    Examples
    --------
    >>> AirlineDelays(1, 100.0).row(0)["year"]
    '1987'
    """

    seed: int
    rate_tps: float
    fields: ClassVar[Fields] = {
        "tail": "text",
        "year": "number",
        "carrier": "text",
        "origin": "text",
        "destination": "text",
        "delay": "number",
    }

    def row(self, message_id: int) -> Mapping[str, str]:
        """Return the flight that a message carries."""
        fleet = fleet_of(self.seed)
        number, place = divmod(message_id, int(fleet.legs.sum()))
        day = day_of(self.seed, number)
        plane = int(day.plane[place])
        return {
            "tail": f"N{plane}",
            "year": str(FIRST_YEAR + number),
            "carrier": f"C{fleet.carrier[plane]}",
            "origin": f"P{day.origin[place]}",
            "destination": f"P{day.destination[place]}",
            "delay": str(round(float(day.delay_min[place]))),
        }


@lru_cache(maxsize=2)
def fleet_of(seed: int) -> Fleet:
    """Return the planes."""
    plane = np.arange(PLANES, dtype=np.int64)
    carrier = plane % CARRIERS
    hubs = 1 + np.floor(MOST_HUBS * uniform(seed, CARRIER_HUBS, carrier, 0, 0, 0))
    which, rotations = (uniform(seed, PLANE_HABITS, plane, 0, 0, i) for i in range(2))
    number = 1 + np.floor(hubs * which).astype(np.int64)
    hub = zipf(AIRPORTS, AIRPORT_EXPONENT, uniform(seed, CARRIER_HUBS, carrier, number, 0, 0))
    return Fleet(carrier, hub, 2 * (1 + np.floor(MOST_ROTATIONS * rotations).astype(np.int64)))


@lru_cache(maxsize=2)
def day_of(seed: int, number: int) -> Day:
    """Return the flights of a day."""
    fleet = fleet_of(seed)
    plane = np.repeat(np.arange(PLANES, dtype=np.int64), fleet.legs)
    leg = np.arange(plane.size) - np.repeat(np.cumsum(fleet.legs) - fleet.legs, fleet.legs)
    hub = fleet.hub[plane]
    spoke = zipf(AIRPORTS, AIRPORT_EXPONENT, uniform(seed, ROTATIONS, plane, leg // 2, number, 0))
    spoke = np.where(spoke == hub, (spoke + 1) % AIRPORTS, spoke)
    out = leg % 2 == 0
    departure = (leg + uniform(seed, LEGS, plane, leg, number, 5)) / fleet.legs[plane]
    order = np.argsort(departure, kind="stable")
    return Day(
        plane=plane[order],
        origin=np.where(out, hub, spoke)[order],
        destination=np.where(out, spoke, hub)[order],
        delay_min=_delays(seed, number)[plane, leg][order],
    )


def _delays(seed: int, number: int) -> Floats:
    """Return the delay of each plane's legs on a day in minutes (planes, legs)."""
    plane = np.arange(PLANES, dtype=np.int64)
    made = np.zeros((PLANES, 2 * MOST_ROTATIONS))
    carried = np.zeros(PLANES)
    for leg in range(made.shape[1]):
        usual = uniform(seed, LEGS, plane, leg, number, 0) < USUAL_SHARE
        late = -LATE_MEAN_MIN * np.log1p(-uniform(seed, LEGS, plane, leg, number, 1))
        around = USUAL_SD_MIN * normal(seed, LEGS, plane, leg, number, 1)
        made[:, leg] = carried = np.where(usual, around, late) + CARRIED_OVER * carried
    return made
