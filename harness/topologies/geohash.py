"""The cell of a place by the public-domain code of G. Niemeyer (geohash.org), as ``Geohash.java`` has it."""

from __future__ import annotations

DIGITS = "0123456789bcdefghjkmnpqrstuvwxyz"
"""Five bits a character."""


def geohash(lat: float, lon: float, characters: int) -> str:
    """Return the cell of a place.

    Each bit halves a range of degrees, longitude first, and says in which half the place is. The upper half
    has the middle.

    Parameters
    ----------
    lat, lon : float
        In degrees.
    characters : int
        Length of the cell's name: four are cells of 0.18 by 0.35 degrees.

    Examples
    --------
    The example of Wikipedia's article "Geohash":

    >>> geohash(57.64911, 10.40744, 11)
    'u4pruydqqvj'
    """
    ranges = [[-180.0, 180.0], [-90.0, 90.0]]
    bits = 0
    for i in range(5 * characters):
        low, high = ranges[i % 2]
        middle = (low + high) / 2
        upper = (lon, lat)[i % 2] >= middle
        ranges[i % 2] = [middle, high] if upper else [low, middle]
        bits = bits << 1 | upper
    return "".join(DIGITS[bits >> 5 * i & 31] for i in reversed(range(characters)))
