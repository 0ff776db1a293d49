"""The service's own share of its machine's CPU time: now, and while no page was open."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

WINDOW_S = 10.0
"""The share now is of so long."""
LEAST_S = 3.0
"""A shorter time says more of one request than of an open page."""
APART_S = 1.0
"""Readings that are kept are so far apart, however many events there are."""
QUIET_S = 10.0
"""When nobody asked for so long, no page was open: an open one asks, or is sent events, every 5 s."""
LITTLE_PCT = 0.1


class OwnReading(NamedTuple):
    """CPU seconds that this process has taken, all its threads', at a moment of a clock that is never set."""

    at_s: float
    used_s: float


def read_own() -> OwnReading:
    """Take a reading of this process."""
    return OwnReading(time.monotonic(), time.process_time())


class OwnLoad:
    """The service's share of its machine's CPU time, from readings when requests and events come.

    To be used by one thread, but for ``rest`` and ``words``.

    Parameters
    ----------
    read : callable
        Takes a reading.
    cores : int, optional
        Of the machine; by default this one's.

    Examples
    --------
    >>> readings = iter([OwnReading(0, 0.0), OwnReading(60, 0.6), OwnReading(64, 1.4)])
    >>> load = OwnLoad(lambda: next(readings), cores=2)
    >>> load.rest()
    >>> load.begin()
    >>> load.words
    "Of the machine's CPU time this service took 0.5 % while no page was open."
    >>> load.sample()
    >>> load.words
    "This service takes 10.0 % of the machine's CPU time; 0.5 % while no page was open."
    """

    def __init__(self, read: Callable[[], OwnReading] = read_own, cores: int | None = None) -> None:
        self._read = read
        self._cores = cores or os.cpu_count() or 1
        self._open = 0
        self._recent: deque[OwnReading] = deque()
        self._last: OwnReading | None = None
        self._resting = False
        self._alone = OwnReading(0.0, 0.0)
        self.now_pct: float | None = None
        self.alone_pct: float | None = None

    def rest(self) -> None:
        """Say that the service has nothing more to do of itself: its model is loaded."""
        self._last = self._read()
        self._resting = True

    def begin(self) -> None:
        """Take a reading as a request comes; where none came for long, no page was open until now."""
        now = self._read()
        if self._resting and not self._open and self._last and now.at_s - self._last.at_s >= QUIET_S:
            self._alone = OwnReading(
                self._alone.at_s + now.at_s - self._last.at_s,
                self._alone.used_s + now.used_s - self._last.used_s,
            )
            self.alone_pct = self._pct(OwnReading(0.0, 0.0), self._alone)
        self._open += 1
        self._keep(now)

    def end(self) -> None:
        """Take a reading when a request is answered; for a stream of events, when it ends."""
        self._open -= 1
        self.sample()

    def sample(self) -> None:
        """Take a reading, as events are sent."""
        self._keep(self._read())

    @property
    def words(self) -> str:
        """The shares that have been measured so far, in a sentence; empty where none has."""
        now, alone = self.now_pct, self.alone_pct
        if now is None:
            if alone is None:
                return ""
            return f"Of the machine's CPU time this service took {_said(alone)} while no page was open."
        rest = "" if alone is None else f"; {_said(alone)} while no page was open"
        return f"This service takes {_said(now)} of the machine's CPU time{rest}."

    def _keep(self, now: OwnReading) -> None:
        if self._last and now.at_s - self._last.at_s >= QUIET_S:
            self._recent.clear()
        self._last = now
        if not self._recent or now.at_s - self._recent[-1].at_s >= APART_S:
            self._recent.append(now)
        while len(self._recent) > 2 and self._recent[1].at_s <= now.at_s - WINDOW_S:
            self._recent.popleft()
        oldest = self._recent[0]
        self.now_pct = self._pct(oldest, now) if now.at_s - oldest.at_s >= LEAST_S else None

    def _pct(self, since: OwnReading, until: OwnReading) -> float:
        return 100 * (until.used_s - since.used_s) / ((until.at_s - since.at_s) * self._cores)


def _said(share_pct: float) -> str:
    return f"less than {LITTLE_PCT:g} %" if share_pct < LITTLE_PCT else f"{share_pct:.1f} %"


class CountedRequests:
    """Tells the load of every request, from its begin to its end.

    Parameters
    ----------
    application : callable
        An ASGI application.
    load : OwnLoad
    """

    def __init__(self, application: ASGIApp, load: OwnLoad) -> None:
        self._application = application
        self._load = load

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        self._load.begin()
        try:
            await self._application(scope, receive, send)
        finally:
            self._load.end()
