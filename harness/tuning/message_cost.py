"""A message's cost as a parameter of tuners: n and s, and where they come from."""

from __future__ import annotations

from harness.models.contract.message_costs import SHIPPED_TIMES
from harness.plans import Frozen, NotNegative
from harness.tuning.dataflow import MessageCost, rational


class GivenMessageCost(Frozen):
    """Time that a message takes its sender, n + bytes s.

    Attributes
    ----------
    n_us : float
        A message's own time.
    s_ns_per_byte : float
        Each byte's time.
    origin : str
        Where the two come from, as records say it.
    """

    n_us: NotNegative
    s_ns_per_byte: NotNegative
    origin: str = "given by message"

    @property
    def cost(self) -> MessageCost:
        """The two in seconds."""
        return MessageCost(rational(self.n_us) / 10**6, rational(self.s_ns_per_byte) / 10**9, self.origin)


SHIPPED = GivenMessageCost(**SHIPPED_TIMES._asdict())
"""Used until n and s are measured on the machine (``harness.models.contract.message_costs``)."""
