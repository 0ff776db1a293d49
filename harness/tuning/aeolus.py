"""Batch sizes and executors that maximise throughput: Aeolus.

Sax, Castellanos, Chen and Hsu, *Aeolus: An Optimizer for Distributed Intra-Node-Parallel Streaming Systems*,
equations 2 to 4 and algorithm 1.

Deviations, each of which is the paper's own case where it does not apply:

- A fan-out f other than 1: one processed tuple costs ppt + f t s + f n / b; several links add up.
- Where a grouping fixes the receiving task, each receiving task has a batch of its own. A batch that is not
  full after ``flush_ms`` leaves with what is in it, so a rare key's batches cost more for each tuple.
- Executors beyond a component's tasks are impossible on Storm; the output rate is then that of its tasks.
- Where no batch size keeps up, the paper's b is B_max. Here the least size is taken that passes as much on.

As in the paper, every tuple costs a message, also one that stays in its worker process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

from harness.plans import BatchSize
from harness.protocols import Scalar, TuningDecision
from harness.tuning.bounds import MOST_BATCH_BYTES, batch_bound, bounded_by_tasks
from harness.tuning.dataflow import DataflowLink, DataflowNode, MessageCost, producers_first


def required_executors(ppt_s: Fraction, rate_tps: Fraction) -> int:
    """Return the least parallelism that does not overload a consumer (eq. 2).

    Parameters
    ----------
    ppt_s : Fraction
        Pure processing time of one tuple.
    rate_tps : Fraction
        Tuples that arrive a second.

    Examples
    --------
    >>> required_executors(Fraction(25, 100_000), Fraction(10_000))
    3
    """
    return floor(ppt_s * rate_tps) + 1  # eq. 2: dop > ppt r_i


def required_batch(gap_s: Fraction, ppt_s: Fraction, overhead_s: Fraction, sending_s: Fraction) -> int | None:
    """Return the least batch size that lets an executor keep up with its input (eq. 4).

    Parameters
    ----------
    gap_s : Fraction
        Time between two tuples that arrive at the executor: the paper's l_i.
    overhead_s, sending_s : Fraction
        f n and f t s for one processed tuple.

    Returns
    -------
    int or None
        None where no batch size does: processing and bytes alone take as long as the gap, or longer.
    """
    left_s = gap_s - ppt_s - sending_s
    if left_s <= 0:
        return None
    return max(ceil(overhead_s / left_s), 1)  # eq. 4


@dataclass(frozen=True)
class TunedNode:
    """Executors, batch size and rates of one node.

    Attributes
    ----------
    executors : int
    batch : int
        1 where tuples are sent one by one.
    input_tps, processed_tps : Fraction
        Tuples that arrive, and that the executors get through.
    """

    executors: int
    batch: int
    input_tps: Fraction
    processed_tps: Fraction


@dataclass(frozen=True)
class Optimizer:
    """Algorithm 1 with its constants.

    Attributes
    ----------
    message : MessageCost
        n and s.
    flush_s : Fraction, optional
        After which a batch leaves that is not full; None where it waits until it is full, as in the paper.
    most_bytes : int
        B_max in bytes.
    """

    message: MessageCost
    flush_s: Fraction | None = None
    most_bytes: int = MOST_BATCH_BYTES

    def tune(self, nodes: Iterable[DataflowNode]) -> OptimizedDataflow:
        """Decide on every node, producers before consumers (algorithm 1).

        Raises
        ------
        CyclicDataflow
            When nodes feed one another in a circle.
        ValueError
            When batches leave after a time and a sending node has no number of tasks, each with its batches.
        """
        order = producers_first(nodes)
        if self.flush_s is not None and (bare := [n.name for n in order if n.links and n.tasks is None]):
            raise ValueError(f"{bare[0]}: its batches fill by task, and its number of tasks is not given")
        targets = {link.target for node in order for link in node.links}
        arriving = {node.name: node.rate_tps for node in order}
        done: dict[str, TunedNode] = {}
        decisions: list[TuningDecision] = []
        for node in order:  # line 2; a node comes up when r_o of all its producers is known (line 12)
            step = NodeStep(self, node, arriving[node.name], node.name not in targets, decisions)
            tuned = step.decide()
            done[node.name] = tuned
            for link in node.links:
                arriving[link.target] += tuned.processed_tps * link.fan_out
        return OptimizedDataflow(done, tuple(decisions))


@dataclass(frozen=True)
class OptimizedDataflow:
    """The outcome of algorithm 1: nodes in the order of their decisions, and a record of each decision."""

    nodes: Mapping[str, TunedNode]
    decisions: tuple[TuningDecision, ...]

    def batching(self, flush_ms: int) -> dict[str, BatchSize]:
        """Return the batch sizes above 1 as an experiment's ``topology.batching`` says them."""
        return {
            name: BatchSize(size=node.batch, flush_ms=flush_ms)
            for name, node in self.nodes.items()
            if node.batch > 1
        }


@dataclass
class NodeStep:
    """One node's part of algorithm 1."""

    optimizer: Optimizer
    node: DataflowNode
    input_tps: Fraction
    is_source: bool
    decisions: list[TuningDecision]
    executors: int = field(default=1, init=False)

    def decide(self) -> TunedNode:
        """Return the node's executors, batch size and rates; the decisions are noted."""
        node, batch = self.node, 1
        self.executors = node.executors
        if self.is_source:
            self._note("dop given", {}, node.executors, "A source keeps the executors that it has.")
        else:
            self._require_executors()  # lines 13 to 15
        if node.links and self.input_tps > 0:
            batch = self._choose_batch()
        processed_tps = self.capacity(batch)
        if node.links:
            self._note_output(batch, processed_tps)
        return TunedNode(self.executors, batch, self.input_tps, processed_tps)

    @property
    def gap_s(self) -> Fraction:
        """Time between two tuples that arrive at one executor: l_i."""
        return self.executors / self.input_tps

    def capacity(self, batch: int) -> Fraction:
        """Return how many of the arriving tuples the executors get through, a second."""
        if not self.input_tps:
            return Fraction(0)
        return self.executors / max(self.gap_s, self.tuple_s(batch))  # eq. 3

    def tuple_s(self, batch: int) -> Fraction:
        """Return the time that one tuple takes its executor: ppt + f t s + f n / b."""
        node, message = self.node, self.optimizer.message
        messages = sum((link.fan_out * self.messages(link, batch) for link in node.links), Fraction(0))
        return node.ppt_s + node.sending_s(message) + messages * message.overhead_s

    def messages(self, link: DataflowLink, batch: int) -> Fraction:
        """Return messages for each tuple sent on a link: 1 / b where all batches are full when they leave."""
        flush_s = self.optimizer.flush_s
        if batch == 1 or flush_s is None:
            return Fraction(1, batch)
        waiting = self._buffer_tps(link) * flush_s
        filled = [min(Fraction(batch), max(share * waiting, Fraction(1))) for share in link.key_shares]
        shares = zip(link.key_shares, filled, strict=True)
        return sum((share / tuples for share, tuples in shares), Fraction(0))

    def _buffer_tps(self, link: DataflowLink) -> Fraction:
        """Tuples a second that one sending task has for a link; batches are gathered by task."""
        return self.input_tps * link.fan_out / (self.node.tasks or self.executors)

    def _require_executors(self) -> None:
        node = self.node
        values = {**self._processing(), "r_i_tps": float(self.input_tps)}
        wanted = required_executors(node.ppt_s, self.input_tps)
        self.executors = wanted
        self._note("min dop > ppt r_i (eq. 2)", values, wanted, "So many executors are not overloaded.")
        self._cap()

    def _choose_batch(self) -> int:
        node, gap_s = self.node, self.gap_s
        if self.tuple_s(1) <= gap_s:  # line 4
            values = {**self._costs(), "l_i_ms": _ms(gap_s), "actual_ms": _ms(self.tuple_s(1))}
            why = "A tuple is processed and sent before the next one arrives: batches would only delay."
            self._note("ppt + f t s + f n <= l_i (line 4)", values, 1, why)
            return 1
        most = batch_bound(node.largest_tuple_bytes, self.optimizer.most_bytes)
        batch = self._least_batch(most)  # line 5
        if batch is None:  # lines 6 and 7
            largest = self._first_batch(1, most, self.tuple_s(most))
            why = f"No batch of at most {most} tuples keeps up with the input: {_bound(largest, most)}"
            self._note_batch(largest, why)
            if self.is_source:
                return largest  # it keeps its executors, and r_o is what (3) says
            wanted = ceil(self.input_tps * self.tuple_s(largest))
            values = {**self._costs(), "b": largest, "r_i_tps": float(self.input_tps)}
            self.executors = wanted
            formula = "min dop >= r_i (ppt + f t s + f n / b) (lines 6, 7)"
            self._note(formula, values, wanted, "More executors leave each one more time for a tuple.")
            self._cap()
            batch = self._least_batch(most)
            if batch is None:
                return largest
        self._note_batch(batch, "The least batch with which the executors keep up with their input.")
        return batch

    def _least_batch(self, most: int) -> int | None:
        """Return the least batch size, at most so large, that lets the executors keep up with the input."""
        node, message = self.node, self.optimizer.message
        least = required_batch(
            self.gap_s, node.ppt_s, node.fan_out * message.overhead_s, node.sending_s(message)
        )
        if least is None or least > most or self.tuple_s(most) > self.gap_s:
            return None
        return self._first_batch(least, most, self.gap_s)

    def _first_batch(self, least: int, most: int, within_s: Fraction) -> int:
        """Return the least size between two at which a tuple takes no longer; at the larger one it does not.

        A larger size never costs more, but it may cost as much where batches leave before they are full.
        """
        while least < most:
            middle = (least + most) // 2
            if self.tuple_s(middle) <= within_s:
                most = middle
            else:
                least = middle + 1
        return least

    def _cap(self) -> None:
        self.executors, bound = bounded_by_tasks(self.node.name, self.executors, self.node.tasks)
        self.decisions += bound

    def _note_batch(self, batch: int, why: str) -> None:
        values = {
            **self._costs(),
            "l_i_ms": _ms(self.gap_s),
            "b_max": batch_bound(self.node.largest_tuple_bytes, self.optimizer.most_bytes),
        }
        self._note("min b >= f n / (l_i - ppt - f t s) (eq. 4)", values, batch, why)

    def _note_output(self, batch: int, processed_tps: Fraction) -> None:
        node = self.node
        output_tps = processed_tps * node.fan_out
        values: dict[str, Scalar] = {**self._costs(), "b": batch, "dop": self.executors}
        if self.input_tps:
            values["l_i_ms"] = _ms(self.gap_s)
        if batch > 1:
            values |= self._filling(batch)
        why = "All that arrives is passed on."
        if processed_tps < self.input_tps:
            kept = float(processed_tps / self.input_tps)
            why = f"Only {100 * kept:.1f} % of what arrives is passed on: the executors are saturated."
        formula = "r_o = dop f / max(l_i, ppt + f t s + f n / b) (eq. 3)"
        self._note(formula, values, float(output_tps), why)

    def _filling(self, batch: int) -> dict[str, Scalar]:
        """Return how long the batches of the most frequent and of the rarest receiver take to fill."""
        times = [
            batch / (self._buffer_tps(link) * share)
            for link in self.node.links
            for share in link.key_shares
            if link.fan_out and share
        ]
        if not times:
            return {}
        values: dict[str, Scalar] = {"fill_least_ms": _ms(min(times)), "fill_most_ms": _ms(max(times))}
        if self.optimizer.flush_s is not None:
            sent = sum(link.fan_out * self.messages(link, batch) for link in self.node.links)
            values["flush_ms"] = _ms(self.optimizer.flush_s)
            values["tuples_per_message"] = float(self.node.fan_out / sent)
        return values

    def _processing(self) -> dict[str, Scalar]:
        return {"ppt_ms": _ms(self.node.ppt_s), "ppt_from": self.node.ppt_origin}

    def _costs(self) -> dict[str, Scalar]:
        node, message = self.node, self.optimizer.message
        return {
            **self._processing(),
            "f": float(node.fan_out),
            "t_bytes": float(node.bytes_sent / node.fan_out) if node.fan_out else 0.0,
            "t_from": "; ".join(dict.fromkeys(link.bytes_origin for link in node.links)),
            "n_us": float(message.overhead_s * 10**6),
            "s_ns_per_byte": float(message.per_byte_s * 10**9),
            "n_s_from": message.origin,
        }

    def _note(self, formula: str, values: Mapping[str, Scalar], result: Scalar, why: str) -> None:
        self.decisions.append(
            TuningDecision(node=self.node.name, formula=formula, values=values, result=result, why=why)
        )


def _bound(largest: int, most: int) -> str:
    """Say which batch size is taken where none keeps up."""
    if largest == most:
        return "b = B_max."
    return f"with {largest} as much goes through as with more, since batches leave before they are full."


def _ms(seconds: Fraction) -> float:
    return float(seconds * 1000)
