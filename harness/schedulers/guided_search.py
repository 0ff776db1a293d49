"""A search over placements by the composite model: moves of executors, moves of workers, swaps.

Moves of one executor are answered by the model's neighbourhood, a fraction of a prediction each. The best
ones that do not touch each other are then tried together, fewer and fewer until the whole is at least as good
as the best alone. Where no move helps, whole workers change their nodes, then two executors their places.
Everything that is taken has been solved in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from harness.errors import ModelDeclined
from harness.models.composite.neighbourhood import Neighbourhood
from harness.plans import PhysicalPlan, QueryPlan, Worker, WorkerNode
from harness.schedulers.guided_effort import move_effort
from harness.schedulers.guided_scoring import GuidedScore, PlanJudge, WorkerSets
from harness.schedulers.loads import FloatArray
from harness.schedulers.placement import UnplacedExecutor, join_slots, sort_slots

LEAST_STEP = 1e-3
"""Relative gain below which a step is not taken."""
MOST_MOVES = 600
"""Moves of a round up to which all are asked for; of more, a few for each executor."""
MOST_TOGETHER = 16
"""Moves that are tried together at first."""
MOST_SOLVED = 24
"""Changes of a kind that are solved in full in a round."""

Change = Mapping[int, Worker]
"""Another worker by executor's position."""


class Seated(NamedTuple):
    """A placement and what it is worth."""

    slots: tuple[Worker, ...]
    score: GuidedScore


@dataclass
class PlacementSearch:
    """Local search over the placements of given executors in given slots.

    Attributes
    ----------
    judge : PlanJudge
        Its effort ends the search.
    query_plan : QueryPlan
    nodes : tuple of WorkerNode
        With the slots that may be used.
    executors : tuple of UnplacedExecutor
        By first task.
    sets : WorkerSets
    traffic_tps : array (executors, executors)
        From executor to executor; which moves of many are asked for.
    looked_at : int
        Placements that were scored.
    """

    judge: PlanJudge
    query_plan: QueryPlan
    nodes: tuple[WorkerNode, ...]
    executors: tuple[UnplacedExecutor, ...]
    sets: WorkerSets
    traffic_tps: FloatArray
    looked_at: int = field(default=0, init=False)

    def plan(self, slots: Sequence[Worker]) -> PhysicalPlan:
        """Return a placement as a plan."""
        return join_slots(self.query_plan, self.nodes, self.executors, slots)

    def seated(self, slots: Sequence[Worker]) -> Seated:
        """Score a placement."""
        self.looked_at += 1
        restarts = self.sets.restarted(self.sets.masks(slots))
        return Seated(tuple(slots), self.judge.of_plan(self.plan(slots), restarts))

    def improve(self, start: Seated) -> Seated:
        """Return the best placement that is reached from one; as many workers as there."""
        best = start
        while self.judge.effort.allows():
            near = self.judge.around(self.plan(best.slots))
            moves = self._moves(best, near)
            found = self._together(best, moves)
            if not _better(found, best):
                found = self._best(best, self._regroupings(best))
            if not _better(found, best):
                found = self._best(best, self._swaps(best, moves))
            if not _better(found, best):
                return best
            best = found
        return best

    def _moves(self, best: Seated, near: Neighbourhood) -> list[tuple[GuidedScore, Change]]:
        """Return moves of one executor with their scores, best first.

        Those that the neighbourhood does not answer are solved in full, the first few of them.
        """
        masks = self.sets.masks(best.slots)
        restarted = self.sets.restarted(masks)
        position = {label: i for i, label in enumerate(near.layout.labels)}
        number = {place: i for i, place in enumerate(near.layout.workers)}
        alone = {w for w, mask in masks.items() if mask.bit_count() == 1}
        saturated, move = bool(near.solution.overloaded), move_effort(near.solution)
        scored: list[tuple[GuidedScore, Change]] = []
        unanswered: list[Change] = []
        for i, worker in self._candidates(best.slots, few=saturated):
            if not self.judge.effort.allows():
                break
            at = position.get(self.executors[i].label)
            if best.slots[i] in alone or at is None:
                continue
            self.judge.effort.spend(move)
            found = None if saturated else near.quick(at, number[worker.node, worker.port])
            if found is None:
                unanswered.append({i: worker})
                continue
            self.looked_at += 1
            after = self.sets.restarted_after(masks, restarted, i, best.slots[i], worker)
            scored.append((self.judge.of_latency(found[""], after), {i: worker}))
        for change in unanswered[:MOST_SOLVED]:
            if not self.judge.effort.allows():
                break
            if (seated := self._changed(best, change)) is not None:
                scored.append((seated.score, change))
        return sorted(scored, key=lambda s: s[0])

    def _candidates(self, slots: Sequence[Worker], few: bool) -> Iterator[tuple[int, Worker]]:
        """Yield moves, those of the fullest workers first: all, or to a few workers where they are many.

        The few are the two that an executor speaks with most, and the emptiest.
        """
        workers = sorted(set(slots), key=lambda w: (w.node, w.port))
        number = len(self.executors)
        if len(workers) == 1:
            return
        at = np.array([workers.index(w) for w in slots])
        held = np.eye(len(workers))[at]
        filled = held.sum(axis=0)
        fullest_first = np.argsort(-filled[at], kind="stable").tolist()
        if not few and number * (len(workers) - 1) <= MOST_MOVES:
            yield from ((i, w) for i in fullest_first for w in workers if w != slots[i])
            return
        spoken = (self.traffic_tps + self.traffic_tps.T) @ held
        spoken[np.arange(number), at] = -1.0
        emptiest = int(np.argmin(filled))
        targets = np.argsort(-spoken, axis=1, kind="stable")[:, :2]
        for i in fullest_first:
            chosen = dict.fromkeys([*targets[i].tolist(), emptiest])
            yield from ((i, workers[w]) for w in chosen if w != at[i])

    def _together(self, best: Seated, moves: Sequence[tuple[GuidedScore, Change]]) -> Seated:
        """Try the best moves of different executors together, then half of them, until that is better."""
        helpful: list[Change] = []
        touched: set[int] = set()
        for score, change in moves:
            if score < best.score and not touched & change.keys():
                helpful.append(change)
                touched |= change.keys()
        size = min(len(helpful), MOST_TOGETHER)
        while size >= 1:
            changes = {i: w for change in helpful[:size] for i, w in change.items()}
            found = self._changed(best, changes)
            if found is not None and _better(found, best) and (size == 1 or found.score <= moves[0][0]):
                return found
            size //= 2
        return best

    def _best(self, best: Seated, changes: Iterator[Change]) -> Seated:
        """Solve the first changes in full, and return the best placement."""
        for _, change in zip(range(MOST_SOLVED), changes, strict=False):
            if not self.judge.effort.allows():
                break
            found = self._changed(best, change)
            if found is not None and found.score < best.score:
                best = found
        return best

    def _regroupings(self, best: Seated) -> Iterator[Change]:
        """Yield whole workers elsewhere: in a free slot of another node, or in turn with one of another."""
        held: dict[Worker, list[int]] = {}
        for i, w in enumerate(best.slots):
            held.setdefault(w, []).append(i)
        used = sorted(held, key=lambda w: (w.node, w.port))
        free: dict[str, Worker] = {}
        for w in sort_slots(self.nodes):
            if w not in held:
                free.setdefault(w.node, w)
        for worker in used:
            for node, slot in sorted(free.items()):
                if node != worker.node:
                    yield dict.fromkeys(held[worker], slot)
        for a, one in enumerate(used):
            for other in used[a + 1 :]:
                if one.node != other.node:
                    yield dict.fromkeys(held[one], other) | dict.fromkeys(held[other], one)

    def _swaps(self, best: Seated, moves: Sequence[tuple[GuidedScore, Change]]) -> Iterator[Change]:
        """Yield exchanges of two executors, in the order of what both moves come to by themselves."""
        value = {(i, w): score.value for score, move in moves for i, w in move.items() if not score.saturated}
        pairs = []
        for (i, there), own in value.items():
            for j in (k for k, w in enumerate(best.slots) if w == there and k > i):
                back = value.get((j, best.slots[i]))
                if back is not None:
                    pairs.append((own + back, i, j))
        for _, i, j in sorted(pairs):
            yield {i: best.slots[j], j: best.slots[i]}

    def _changed(self, best: Seated, change: Change) -> Seated | None:
        slots = list(best.slots)
        for i, worker in change.items():
            slots[i] = worker
        if len(set(slots)) != len(set(best.slots)):
            return None
        try:
            return self.seated(slots)
        except ModelDeclined:
            return None


def _better(found: Seated, best: Seated) -> bool:
    """Return whether a placement is better by enough to go on from it."""
    if found.score.saturated or best.score.saturated:
        return found.score < best.score
    return found.score.value < best.score.value * (1 - LEAST_STEP)
