"""Items packed into bins by pairs, those with most traffic first: both phases of Aniello's online scheduler.

Items are executors and bins are slots in phase I; items are slots and bins are nodes in phase II.
"""

from __future__ import annotations

import numpy as np

from harness.schedulers.loads import BoolArray, FloatArray, IntArray

SLACK = 1e-9
"""Relative difference below which traffic or load is the same: sums of rounded numbers."""


class PairPacking:
    """Bins while they fill.

    Parameters
    ----------
    traffic_tps : array (items, items)
        From item (row) to item (column).
    loads : array (items)
        Cores.
    most_items : array of int (bins)
        Items that a bin may hold. All bins together hold all items.
    most_load : array (bins)
        Cores that a bin may use; kept to where possible.
    capacity : array (bins)
        Cores by which loads of bins are compared.
    fills : bool
        Whether the load of an item that a bin holds counts when the next one comes.

    Attributes
    ----------
    bin_of : array of int (items)
        -1 where the item has no bin yet.
    exceeded : bool
        Whether an item found no bin within ``most_load``.
    stuck : bool
        Whether a pair found no bins within ``most_load``, as long as placed items stay where they are.
    """

    def __init__(
        self,
        traffic_tps: FloatArray,
        loads: FloatArray,
        most_items: IntArray,
        most_load: FloatArray,
        capacity: FloatArray,
        *,
        fills: bool = True,
    ) -> None:
        self.traffic = traffic_tps
        self.both_ways = traffic_tps + traffic_tps.T
        np.fill_diagonal(self.both_ways, 0.0)
        self.loads = loads
        self.most_items = most_items
        self.most_load = most_load * (1 + SLACK)
        self.capacity = capacity
        self.bin_of: IntArray = np.full(loads.size, -1, dtype=np.int64)
        self.number: IntArray = np.zeros(capacity.size, dtype=np.int64)
        self.load = np.zeros(capacity.size)
        self.towards = np.zeros((loads.size, capacity.size))
        self.fills = fills
        self.exceeded = self.stuck = False
        self.scale = SLACK * max(float(traffic_tps.sum()), 1.0)

    def pack(self) -> None:
        """Put every item into a bin: pairs by traffic, then items without traffic where the load is least."""
        first, second = np.nonzero(self.traffic > 0)
        keep = first != second
        first, second = first[keep], second[keep]
        for k in np.argsort(-self.traffic[first, second], kind="stable"):
            i, j = int(first[k]), int(second[k])
            if self.bin_of[i] < 0 and self.bin_of[j] < 0:
                self._put_new_pair(i, j)
            else:
                self._replace_pair(i, j)
        self.stuck |= self.exceeded
        for item in np.flatnonzero(self.bin_of < 0):
            self._put_alone(int(item))

    def spread(self, wanted: int) -> None:
        """Move single items to empty bins, each where it costs least traffic, until enough bins are used."""
        while (self.number > 0).sum() < wanted:
            best: tuple[float, int, int] | None = None
            for item in np.flatnonzero(self.number[self.bin_of] > 1):
                at = self._least_loaded(1, float(self.loads[item]), self.number == 0)
                cost = float(self.towards[item, self.bin_of[item]])
                if at >= 0 and (best is None or cost < best[0] - self.scale):
                    best = cost, int(item), at
            if best is None:
                return
            self._take(best[1])
            self._put(best[1], best[2])

    def _put(self, item: int, at: int) -> None:
        self.bin_of[item] = at
        self.number[at] += 1
        self.load[at] += self.loads[item] * self.fills
        self.towards[:, at] += self.both_ways[:, item]

    def _take(self, item: int) -> None:
        at = self.bin_of[item]
        if at < 0:
            return
        self.bin_of[item] = -1
        self.number[at] -= 1
        self.load[at] -= self.loads[item] * self.fills
        self.towards[:, at] -= self.both_ways[:, item]

    def _accepts(self, at: int, items: int, load: float) -> bool:
        fits = self.number[at] + items <= self.most_items[at]
        return bool(fits and self.load[at] + load <= self.most_load[at])

    def _least_loaded(self, items: int, load: float, among: BoolArray | None = None) -> int:
        """Return the least loaded bin that takes so many items of so much load; -1 where none does."""
        fits = (self.number + items <= self.most_items) & (self.load + load <= self.most_load)
        if among is not None:
            fits &= among
        if not fits.any():
            return -1
        share = np.where(fits, self.load / self.capacity, np.inf)
        return int(np.flatnonzero(share <= share.min() + SLACK)[0])

    def _put_alone(self, item: int) -> None:
        at = self._least_loaded(1, float(self.loads[item]))
        if at < 0:
            self.exceeded = True
            room = self.number < self.most_items
            share = np.where(room, (self.load + self.loads[item]) / self.capacity, np.inf)
            at = int(np.argmin(share))
        self._put(item, at)

    def _put_new_pair(self, i: int, j: int) -> None:
        at = self._least_loaded(2, float(self.loads[i] + self.loads[j]))
        if at >= 0:
            self._put(i, at)
            self._put(j, at)
            return
        self._put_alone(i)
        mine = int(self.bin_of[i])
        if self._accepts(mine, 1, float(self.loads[j])):
            self._put(j, mine)
        else:
            self._put_alone(j)

    def _replace_pair(self, i: int, j: int) -> None:
        """Put two items, at least one of them placed, where least traffic leaves bins."""
        candidates = sorted({int(b) for b in (self.bin_of[i], self.bin_of[j]) if b >= 0})
        extra = self._least_loaded(1, float(max(self.loads[i], self.loads[j])))
        if extra >= 0 and extra not in candidates:
            candidates.append(extra)
        before = int(self.bin_of[i]), int(self.bin_of[j])
        self._take(i)
        self._take(j)
        best: tuple[float, int, int] | None = None
        for a in candidates:
            if not self._accepts(a, 1, float(self.loads[i])):
                continue
            for b in candidates:
                together = a == b
                load = float(self.loads[j] + (self.loads[i] if together and self.fills else 0.0))
                if not self._accepts(b, 1 + together, load):
                    continue
                kept = float(self.towards[i, a] + self.towards[j, b] + together * self.both_ways[i, j])
                if best is None or kept > best[0] + self.scale:
                    best = kept, a, b
        if best is not None:
            self._put(i, best[1])
            self._put(j, best[2])
            return
        # No bin within the load's bound: what is placed stays.
        self.stuck = True
        for item, at in zip((i, j), before, strict=True):
            if at >= 0:
                self._put(item, at)
        for item, at in zip((i, j), before, strict=True):
            if at < 0:
                self._put_alone(item)
