"""Alerts of submitted topologies, posted to an address once an event; why there may be none, logged once."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar
from urllib.error import URLError
from urllib.parse import urlsplit

from harness.app.submitted.folder import known, now_ms
from harness.app.submitted.live_rows import LiveMetrics
from harness.errors import HarnessError, UsageError
from harness.service.live_forecast import require_live_forecasts
from harness.service.live_topology import view_live
from harness.service.pressure import PressureAlert
from harness.service.questions import computing

logger = logging.getLogger(__name__)

EVERY_S = 10.0
"""Time between two looks at topologies."""
OVER_S = 60.0
"""An event is over when it has been away for so long."""
ANSWER_WITHIN_S = 5.0
_NUMBERS = re.compile(r"\d[\d.,]*")
T = TypeVar("T")


class OpenEvents(Generic[T]):
    """Tells events that are new from those that go on.

    Examples
    --------
    >>> full, alerts = PressureAlert("sum", 0.0, 1.0), OpenEvents[PressureAlert]()
    >>> [len(alerts.new("words", found, now_s)) for now_s, found in ((0, {"sum": full}), (10, {"sum": full}))]
    [1, 0]
    """

    def __init__(self) -> None:
        self._seen_s: dict[tuple[str, str], float] = {}

    def new(self, topology: str, events: Mapping[str, T], now_s: float) -> list[T]:
        """Return those that are not open; to be asked with all events of a topology each time.

        Parameters
        ----------
        events : mapping
            By what makes them the same.
        now_s : float
            On a clock that only goes forward.
        """
        self._seen_s = {key: at_s for key, at_s in self._seen_s.items() if now_s - at_s < OVER_S}
        fresh = [event for name, event in events.items() if (topology, name) not in self._seen_s]
        self._seen_s |= {(topology, name): now_s for name in events}
        return fresh

    def forget(self, topology: str, name: str) -> None:
        """Take an event as not told yet: it is new once more."""
        self._seen_s.pop((topology, name), None)


class Notifier:
    """Looks at all submitted topologies from time to time, and posts what is new.

    Parameters
    ----------
    url : str
        Gets a JSON object an event: ``topology``, ``component``, ``ahead_s``, ``probability``, ``rule``,
        ``text``, ``at_epoch_ms``.
    folder : Path
        Of submitted topologies.
    metrics : LiveMetrics
        Shared with the pages.

    Raises
    ------
    UsageError
        When the address is none of http, or nothing can be foreseen here.
    """

    def __init__(self, url: str, folder: Path, metrics: LiveMetrics) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"--notify {url}: not an address", "write http://HOST:PORT/PATH")
        try:
            require_live_forecasts()
        except UsageError as why:
            raise UsageError(f"--notify: {why.message}", why.hint) from None
        self._url = url
        self._folder = folder
        self._metrics = metrics
        self._alerts = OpenEvents[PressureAlert]()
        self._troubles = OpenEvents[str]()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="notifier", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is being posted is waited for, as long as an address may take to answer."""
        self._ended.set()
        self._thread.join(ANSWER_WITHIN_S)

    def look(self, now_s: float) -> int:
        """Look at every topology once; return how many alerts were posted."""
        posted = 0
        for name, topology in known(self._folder).items():
            try:
                rows, past = self._metrics.rows(topology), self._metrics.past(topology)
                with computing:
                    view = view_live(topology, rows, past)
                alerts, troubles = view.alerts, view.troubles
            except HarnessError as why:
                alerts, troubles = (), (str(why),)
            self._tell(name, troubles, now_s)
            for alert in self._alerts.new(name, {a.component: a for a in alerts}, now_s):
                if self._post(name, alert):
                    posted += 1
                else:
                    self._alerts.forget(name, alert.component)
        return posted

    def _tell(self, topology: str, troubles: Sequence[str], now_s: float) -> None:
        """Log each trouble once; where only its numbers change, as of a time that grows, it goes on."""
        by_words = {_NUMBERS.sub("", trouble): trouble for trouble in troubles}
        for trouble in self._troubles.new(topology, by_words, now_s):
            logger.warning("%s: alerts may be missing: %s", topology, trouble)

    def _go_on(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                self.look(time.monotonic())
            except Exception:  # a folder that is taken away meanwhile must not end the alerts of others
                logger.exception("alerts were not looked for")

    def _post(self, topology: str, alert: PressureAlert) -> bool:
        said = {**vars(alert), "topology": topology, "text": alert.text, "at_epoch_ms": now_ms()}
        request = urllib.request.Request(
            self._url, json.dumps(said).encode(), {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S):
                return True
        except (URLError, OSError) as why:
            logger.warning("%s did not take an alert of %s: %s", self._url, topology, why)
            return False
