"""A world in which time passes only while somebody waits, for measurements of one step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from harness.experiments.contracts import WorkerSeen
from harness.experiments.watching import View
from harness.machine.readings import CpuTimes

EPOCH_NS = 1_700_000_000 * 10**9


class World:
    """Time that passes only while somebody waits, messages every 10 ms of it, and fed readings."""

    by_message = True
    lag_s = 0.0
    latency = "ground-truth"
    reports_s = 1.0

    def __init__(self, moved_ms: float = 0.0, late_ms: float = 0.0) -> None:
        self._now_ns = 10**12
        self._moved_ns = round(moved_ms * 1e6)
        self._late_ms = late_ms
        self._asked = 0
        self.beside: list[int] = []
        self.view_s = 0.0
        self.silent_from_s = self.again_from_s = math.inf
        self.stolen_s = (math.inf, math.inf)

    def monotonic_ns(self) -> int:
        return self._now_ns

    def time_ns(self) -> int:
        return EPOCH_NS + self._now_ns

    def sleep(self, seconds: float) -> None:
        self._now_ns += round(seconds * 1e9)

    def clock_offset_ns(self) -> int:
        self._asked += 1
        return EPOCH_NS + (self._moved_ns if self._asked > 1 else 0)

    def cpu_times(self) -> CpuTimes:
        """Of two cores: one is used throughout, the other is taken away in ``stolen_s``."""
        age_s = self._age_s()
        since_s, until_s = self.stolen_s
        steal_s = max(min(age_s, until_s) - since_s, 0.0)
        return CpuTimes(age_s, age_s - steal_s, steal_s)

    def came_up(self, start_ns: int, end_ns: int) -> list[int]:
        assert end_ns - start_ns == 20 * 10**9
        return self.beside

    def view(self, rows: int | None = None) -> View:
        del rows
        self.sleep(self.view_s)
        at = np.arange(10**12, self._now_ns, 10_000_000, dtype=np.int64)
        latency = np.full(at.size, 5.0 + self._late_ms) + (at // 10_000_000) % 3
        return View(at, at, latency, latency, np.ones(at.size), np.arange(at.size))

    def _age_s(self) -> float:
        return (self._now_ns - 10**12) / 1e9

    def ledger(self) -> dict[str, int]:
        return {}

    def due_s(self, since_ns: int) -> np.ndarray:
        return (self.view().at_ns - since_ns) / 1e9

    def silence(self) -> str:
        return ""

    def check(self) -> None:
        pass

    def workers(self) -> Mapping[str, WorkerSeen]:
        """One that reports now and then, until it is silent; its successor is there some time later."""
        age_s = self._age_s()
        if age_s >= self.again_from_s:
            return {"node:1": WorkerSeen(int(self.again_from_s), int(age_s - self.again_from_s))}
        return {"node:1": WorkerSeen(0, self._reported_s(min(age_s, self.silent_from_s)))}

    def reports_every_s(self) -> float:
        return self.reports_s

    def _reported_s(self, age_s: float) -> int:
        return int(age_s // self.reports_s * self.reports_s)

    def complete_latency(self) -> Mapping[str, tuple[float, int]]:
        return {"spout[1-1]": (5.0, 100 * self._reported_s(self._age_s()))}
