"""Times of a member's output and ack by its window, in arrivals or time after the member's own arrival.

Storm's ``WindowManager`` fires a count window at every ``slide``-th arrival at its task. When the window
fires, it evicts, and so acks, members older than ``length`` arrivals. So as not to grow too long, it also
evicts them at arrivals 99, 199, 299, ... since it last fired (``EXPIRE_EVENTS_THRESHOLD`` = 100). A time
window's reference time moves only when the window fires, so it evicts only then.

Take a member for which the arrival ``length`` arrivals later falls at place r = 1 .. slide of a slide. The
last window that has the member fires length - r arrivals after it. The member is acked at the first chance at
or after r, counted from that firing. All r are alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.plans import Window

THRESHOLD = 100
"""``WindowManager.EXPIRE_EVENTS_THRESHOLD``."""


class Chances(NamedTuple):
    """Chances to be acked after a firing, for places 1 to 99, 100 to 199 ... of a slide.

    Attributes
    ----------
    first, last : array
        Places (arrivals into the slide).
    chance : array
        Arrivals after the firing at which members of those places are acked.
    """

    first: FloatArray
    last: FloatArray
    chance: FloatArray


def chances(slide: int) -> Chances:
    """Return when members of a count window are acked.

    Examples
    --------
    >>> chances(200).chance
    array([ 99., 199., 200.])
    """
    last = np.append(np.arange(THRESHOLD - 1, slide, THRESHOLD), slide).astype(np.float64)
    return Chances(np.append(1.0, last[:-1] + 1), last, last)


def mean_residence(window: Window) -> float:
    """Return the mean time from a member's arrival to its ack, in arrivals (count) or ms (time).

    Examples
    --------
    >>> mean_residence(Window(kind="count", length=200, slide=200))
    249.005
    """
    if window.kind == "time":
        return window.length + window.slide / 2
    acked = chances(window.slide)
    places = acked.last - acked.first + 1
    return float(window.length + places @ (acked.chance - (acked.first + acked.last) / 2) / window.slide)
