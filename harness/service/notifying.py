"""Alerts of submitted topologies, posted to an address once an event."""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit

from harness.app.submitted.folder import known, now_ms
from harness.app.submitted.live_rows import LiveMetrics
from harness.errors import HarnessError, UsageError
from harness.service.live_topology import PressureAlert, view_live
from harness.service.questions import computing

logger = logging.getLogger(__name__)

EVERY_S = 10.0
"""Time between two looks at topologies."""
OVER_S = 60.0
"""An event is over when its alert has been away for so long."""
ANSWER_WITHIN_S = 5.0


class OpenAlerts:
    """Tells alerts that are new from those that go on.

    Examples
    --------
    >>> alerts, full = OpenAlerts(), PressureAlert("sum", 0.0, 1.0)
    >>> [len(alerts.new("words", found, now_s)) for now_s, found in ((0, [full]), (10, [full]), (20, []))]
    [1, 0, 0]
    """

    def __init__(self) -> None:
        self._seen_s: dict[tuple[str, str], float] = {}

    def new(self, topology: str, alerts: Sequence[PressureAlert], now_s: float) -> list[PressureAlert]:
        """Return the alerts that no open event has; to be asked with all alerts of a topology each time.

        Parameters
        ----------
        now_s : float
            On a clock that only goes forward.
        """
        self._seen_s = {key: at_s for key, at_s in self._seen_s.items() if now_s - at_s < OVER_S}
        fresh = []
        for alert in alerts:
            key = topology, alert.component
            if key not in self._seen_s:
                fresh.append(alert)
            self._seen_s[key] = now_s
        return fresh

    def forget(self, topology: str, alert: PressureAlert) -> None:
        """Take an alert as not told yet: it is new once more."""
        self._seen_s.pop((topology, alert.component), None)


class Notifier:
    """Looks at all submitted topologies from time to time, and posts what is new.

    Parameters
    ----------
    url : str
        Gets a JSON object an event: ``topology``, ``component``, ``ahead_s``, ``probability``, ``text``,
        ``at_epoch_ms``.
    folder : Path
        Of submitted topologies.
    metrics : LiveMetrics
        Shared with the pages.

    Raises
    ------
    UsageError
        When the address is none of http.
    """

    def __init__(self, url: str, folder: Path, metrics: LiveMetrics) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"--notify {url}: not an address", "write http://HOST:PORT/PATH")
        self._url = url
        self._folder = folder
        self._metrics = metrics
        self._open = OpenAlerts()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="notifier", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is being posted is waited for."""
        self._ended.set()
        self._thread.join(2 * ANSWER_WITHIN_S)

    def look(self, now_s: float) -> int:
        """Look at every topology once; return how many alerts were posted."""
        posted = 0
        for name, topology in known(self._folder).items():
            try:
                rows, past = self._metrics.rows(topology), self._metrics.past(topology)
                with computing:
                    alerts = view_live(topology, rows, past).alerts
            except HarnessError as why:
                logger.warning("%s: no alerts can be given: %s", name, why)
                continue
            for alert in self._open.new(name, alerts, now_s):
                if self._post(name, alert):
                    posted += 1
                else:
                    self._open.forget(name, alert)
        return posted

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
