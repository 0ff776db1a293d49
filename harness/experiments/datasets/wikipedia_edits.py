"""Edits of Wikipedia: who edited which article from where, a stand-in for SNAP's parsed edit history.

The numbers are chosen, not fitted:

- a user by Zipf(1.2) of 50,000: the first makes a fifth of all edits, as a bot would
- a user's place: one of 200 cities by Zipf(1), and up to 0.05 degrees beside its middle, for good
- an article's rank by Zipf(1) of 100,000; each rank goes to another article every 600 s
- flash crowds: in each minute one begins with a chance of 0.1. An article then gets 5 to 20 % of all edits,
  falling to none within 2 to 10 minutes

Time is the message's number by the workload's rate. The day's rhythm is left to ``workload.changes``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from harness.experiments.datasets.dataset import zipf
from harness.experiments.draws import Floats, Ids, bits, uniform
from harness.topologies.dataset_rows import Fields

EDITS, PLACES, CITY_PLACES, TENURES, HOLDERS, CROWDS = range(101, 107)
"""Codes of draws, apart from those of the topologies."""
USERS, USER_EXPONENT = 50_000, 1.2
CITIES, CITY_EXPONENT = 200, 1.0
ARTICLES, ARTICLE_EXPONENT = 100_000, 1.0
BESIDE_DEG = 0.05
TENURE_S = 600.0
"""For so long an article has a rank."""
CROWD_SLOT_S, CROWD_CHANCE = 60.0, 0.1
CROWD_S = (120.0, 600.0)
CROWD_SHARE = (0.05, 0.2)
BLOCK_ROWS = 500
"""Rows that are drawn at a time."""


@dataclass(frozen=True)
class WikipediaEdits:
    """Edits of Wikipedia (a ``Dataset``).

    Parameters
    ----------
    seed : int
    rate_tps : float
        Messages for each second of ``at_s``.

    Examples
    --------
    >>> dict(WikipediaEdits(1, 100.0).row(150))["at_s"]
    '1.500'
    """

    seed: int
    rate_tps: float
    fields: ClassVar[Fields] = {
        "at_s": "number",
        "user": "text",
        "article": "text",
        "city": "text",
        "lat": "number",
        "lon": "number",
    }

    def row(self, message_id: int) -> Mapping[str, str]:
        """Return the edit that a message carries."""
        number, place = divmod(message_id, BLOCK_ROWS)
        return _block(self, number)[place]

    def articles(self, at_s: Floats, message_id: Ids) -> Ids:
        """Return the article of each edit."""
        rank = zipf(ARTICLES, ARTICLE_EXPONENT, uniform(self.seed, EDITS, message_id, 0, 0, 1))
        tenure = np.floor(at_s / TENURE_S + uniform(self.seed, TENURES, rank, 0, 0, 0)).astype(np.int64)
        usual = (bits(self.seed, HOLDERS, rank, tenure, 0, 0) % np.uint64(ARTICLES)).astype(np.int64)
        crowded = self.crowded(at_s, uniform(self.seed, EDITS, message_id, 0, 0, 2))
        return np.where(crowded < 0, usual, crowded)

    def crowded(self, at_s: Floats, drawn: Floats) -> Ids:
        """Return the article of each edit that a flash crowd makes, by a uniform number; -1 of the others."""
        found = np.full(at_s.shape, -1, dtype=np.int64)
        below = np.zeros(at_s.shape)
        newest = np.floor(at_s / CROWD_SLOT_S).astype(np.int64)
        for ago in range(int(CROWD_S[1] / CROWD_SLOT_S) + 1):
            slot = newest - ago
            begins, length, share = (uniform(self.seed, CROWDS, slot, 0, 0, i) for i in range(3))
            length_s = CROWD_S[0] + (CROWD_S[1] - CROWD_S[0]) * length
            age_s = at_s - slot * CROWD_SLOT_S
            left = np.maximum(1 - age_s / length_s, 0.0) * (begins < CROWD_CHANCE)
            now = left * (CROWD_SHARE[0] + (CROWD_SHARE[1] - CROWD_SHARE[0]) * share)
            article = (bits(self.seed, CROWDS, slot, 0, 0, 3) % np.uint64(ARTICLES)).astype(np.int64)
            found = np.where((below <= drawn) & (drawn < below + now), article, found)
            below += now
        return found

    def places(self, user: Ids) -> tuple[Ids, Floats, Floats]:
        """Return each user's city, latitude and longitude."""
        city = zipf(CITIES, CITY_EXPONENT, uniform(self.seed, PLACES, user, 0, 0, 0))
        north, east = (uniform(self.seed, CITY_PLACES, city, 0, 0, i) for i in range(2))
        aside = [BESIDE_DEG * (2 * uniform(self.seed, PLACES, user, 0, 0, i) - 1) for i in (1, 2)]
        return city, -50 + 115 * north + aside[0], -179 + 358 * east + aside[1]


@lru_cache(maxsize=4)
def _block(edits: WikipediaEdits, number: int) -> Sequence[Mapping[str, str]]:
    """Return a block of rows."""
    ids = np.arange(number * BLOCK_ROWS, (number + 1) * BLOCK_ROWS, dtype=np.int64)
    at_s = ids / edits.rate_tps
    user = zipf(USERS, USER_EXPONENT, uniform(edits.seed, EDITS, ids, 0, 0, 0))
    city, lat, lon = edits.places(user)
    columns = (at_s, user, edits.articles(at_s, ids), city, lat, lon)
    return [
        {
            "at_s": f"{t:.3f}",
            "user": f"u{u}",
            "article": f"a{a}",
            "city": f"c{c}",
            "lat": f"{y:.4f}",
            "lon": f"{x:.4f}",
        }
        for t, u, a, c, y, x in zip(*(column.tolist() for column in columns), strict=True)
    ]
