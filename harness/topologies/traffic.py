"""The three ways in which messages go through a topology, each with what follows from it.

The harness's own topologies record the hops of messages that the harness sends (``HopTraffic``). A jar's may
carry such messages from one Kafka topic to another without any record of their way (``TopicTraffic``), or
make messages of its own, which nobody else sees (``OwnTraffic``). A topology says once which
(``topology.traffic()``); what an experiment may ask for, how a step is watched, judged and accounted for are
attributes and methods of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Accounting:
    """Deviations that the ledger of a step may forgive.

    Attributes
    ----------
    free : bool
        The topology may leave messages out and give several outputs for one, or outputs of its own.
    retried : bool
        Its spouts may send a message again that failed.
    reads_others : bool
        Its spouts may read more than the harness sends: failures of that are its own affair.
    """

    free: bool = False
    retried: bool = False
    reads_others: bool = False


class _Sent:
    """Traits that all messages share that the harness sends."""

    sent: ClassVar[bool] = True

    def check_input(self, *, workload: bool, rates: Sequence[bool]) -> None:
        """Raise ValueError where an experiment gives no workload.

        Parameters
        ----------
        workload : bool
            Whether it gives one.
        rates : sequence of bool
            Whether each of its steps gives a rate.
        """
        del rates
        if not workload:
            raise ValueError("workload: the key is missing")


@dataclass(frozen=True)
class HopTraffic(_Sent):
    """Messages that the harness sends, whose every hop the topology records."""

    hop_records: ClassVar[bool] = True
    """True if the tuples' hops are recorded: then it is known how many members of a message come out."""
    takes_are_told: ClassVar[bool] = True
    """True if the spouts tell what they have read, so that quiet means that all is out."""
    named_by: ClassVar[str] = ""
    """The part of a record that names its message, where that is not the harness's own format."""
    accounting: ClassVar[Accounting] = Accounting()

    def consumer_group(self, name: str) -> str:
        """Return the spouts' Kafka consumer group for a submission's name; empty for one not known."""
        return name


@dataclass(frozen=True)
class TopicTraffic(_Sent):
    """Messages that the harness sends, of which a topology carries nothing but the name.

    Attributes
    ----------
    header : str, optional
        The header that names a message, in place of the record's key.
    value : str
        Template of the input records' values.
    free : bool
        Whether messages may be left out, and come out several times.
    """

    hop_records: ClassVar[bool] = False
    takes_are_told: ClassVar[bool] = False

    header: str | None
    value: str
    free: bool

    @property
    def named_by(self) -> str:
        """The part of a record that names its message."""
        return "key" if self.header is None else f"header {self.header}"

    @property
    def accounting(self) -> Accounting:
        """Deviations that the ledger may forgive: a jar's spouts may read other topics, and read again."""
        return Accounting(free=self.free, retried=True, reads_others=True)

    def consumer_group(self, name: str) -> str:
        """Return nothing: its spouts have a group of their own."""
        del name
        return ""


@dataclass(frozen=True)
class OwnTraffic:
    """Messages that a topology makes itself: only its wrappers report of them."""

    sent: ClassVar[bool] = False
    hop_records: ClassVar[bool] = False

    def check_input(self, *, workload: bool, rates: Sequence[bool]) -> None:
        """Raise ValueError where an experiment says what is to be sent."""
        if workload:
            raise ValueError(
                "workload: the topology of a jar makes its own messages; leave the key out, or give"
                " topology.topics"
            )
        for i, given in enumerate(rates):
            if given:
                raise ValueError(
                    f"steps.plan.{i}: rate_tps has no meaning: the topology makes its own messages"
                )


SentTraffic = HopTraffic | TopicTraffic
Traffic = HopTraffic | TopicTraffic | OwnTraffic
