"""The input of an experiment: rate, schedule, keys and seed, and who gets how much of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from harness.machine.named_paths import file_at
from harness.plans import Frozen
from harness.topologies.bounds import Count, Weight

RateTps = Annotated[float, Field(ge=0.001, le=1e7, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]

KEY_NAMES = tuple("ABCDEFGHIJKLMNOP")
DEFAULT_KEYS: Mapping[str, float] = {k: float(len(KEY_NAMES) - i) for i, k in enumerate(KEY_NAMES)}
"""Weights 16, 15, ... 1 of the keys A to P, skewed to the lower alphabet as figure 5.5 is. The rarest key
(0.7 %) is still frequent enough to fill its windows in a short interval."""

DatasetName = Literal["wikipedia-edits", "airline-delays"]
"""Datasets whose rows messages may carry (``harness.experiments.datasets``)."""

MOST_PAYLOAD_BYTES = 1_000_000
"""Kafka takes messages of up to 1 MiB; the rest is for what is around the payload."""
MOST_TURNS = 1000
"""Messages of a round in which each spout gets its share."""


MOST_CHANGES = 1000
"""Most changes of the rate within one step."""


class RateChange(Frozen):
    """A change of the rate inside a step.

    Attributes
    ----------
    at_s : float
        When, in seconds of the interval.
    rate_tps : float
        Messages a second from then on.
    """

    at_s: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
    rate_tps: RateTps


def _rising(changes: tuple[RateChange, ...]) -> tuple[RateChange, ...]:
    for before, after in pairwise(changes):
        if after.at_s <= before.at_s:
            raise ValueError(f"at_s {after.at_s:g} does not come after {before.at_s:g}")
    return changes


RateChanges = Annotated[tuple[RateChange, ...], Field(max_length=MOST_CHANGES), AfterValidator(_rising)]


class Workload(Frozen):
    """The input: rate, schedule, keys and seed.

    Attributes
    ----------
    rate_tps : float
        Messages a second.
    changes : list of RateChange
        The rate changes inside each step: ``[{at_s: 60, rate_tps: 200}]``. The burn-in of such a step lasts
        ``measure.burn_in.most_s`` and its interval ``measure.interval.most_s``. It is measured once, and no
        source for models.
    arrivals : {'constant', 'poisson', 'trace'}
        Schedule of the messages; ``trace`` reads it from a file.
    trace : Path
        Only with ``arrivals: trace``: a file of send times beside the experiment's file. It has the
        rate that ``rate_tps`` names; the run keeps a copy.
    seed : int
        Everything random is a pure function of the seed and the message.
    keys : mapping
        Weight of each key. A to P have the weights 16, 15, ... 1 by default.
    payload_bytes : int
        Payload of a message in bytes, below Kafka's limit of 1 MiB a message.
    dataset : {'wikipedia-edits', 'airline-delays'}
        In place of a payload of ``payload_bytes``: a row of a seeded stand-in for published data
        (docs/key-groups.md).
    shares : mapping
        Messages of each round that come in by each spout, in whole numbers. All get the same by default.
    spread_pct : float
        In place of ``shares``, V of Aniello, Baldoni and Querzoni: the rates of the spouts, in their order,
        lie evenly from V percent below their mean to V percent above. The mean, their R, is ``rate_tps``
        divided by the number of spouts.
    """

    rate_tps: RateTps
    changes: RateChanges = ()
    arrivals: Literal["constant", "poisson", "trace"] = "constant"
    trace: Path | None = None
    seed: Seed = 1
    keys: Annotated[Mapping[str, Weight], Field(min_length=1)] = DEFAULT_KEYS
    payload_bytes: Annotated[int, Field(ge=0, le=MOST_PAYLOAD_BYTES)] = 64
    dataset: DatasetName | None = None
    shares: Mapping[str, Count] = {}
    spread_pct: Annotated[float, Field(ge=0, lt=100)] = 0.0

    @model_validator(mode="after")
    def _trace_file(self) -> Self:
        if (self.arrivals == "trace") != (self.trace is not None):
            raise ValueError("the key 'trace' (a file) goes with arrivals: trace, only there")
        if self.trace is not None and self.changes:
            raise ValueError("changes: a trace has its own rate: leave one of them out")
        if self.trace is not None and file_at(self.trace) is None:
            raise ValueError(f"trace: there is no file {self.trace}")
        return self

    @model_validator(mode="after")
    def _divided_one_way(self) -> Self:
        if self.shares and self.spread_pct:
            raise ValueError("shares and spread_pct: give one of them, as both say who gets how much")
        return self

    def shares_of(self, entrances: Sequence[str]) -> Mapping[str, int]:
        """Return the share of the messages that comes in by each of a topology's entrances.

        Raises
        ------
        ValueError
            Where the shares are not theirs, there is one entrance to spread rates over, or too many messages
            make a round.
        """
        if self.spread_pct:
            return dict(zip(entrances, self._spread(entrances), strict=True))
        if self.shares and set(self.shares) != set(entrances):
            raise ValueError(f"workload.shares must name each place of entry: {', '.join(entrances)}")
        if sum(self.shares.values()) > MOST_TURNS:
            raise ValueError(f"workload.shares: their sum is more than {MOST_TURNS}: take smaller numbers")
        return {name: self.shares.get(name, 1) for name in entrances}

    def _spread(self, entrances: Sequence[str]) -> Sequence[int]:
        if len(entrances) == 1:
            raise ValueError(
                f"workload.spread_pct: all messages come in by {entrances[0]}: leave it out, or add a spout"
            )
        found = spread_shares(len(entrances), self.spread_pct)
        if sum(found) > MOST_TURNS:
            raise ValueError(
                f"workload.spread_pct: {self.spread_pct:g} % among {len(found)} spouts takes rounds of"
                f" {sum(found)} messages, at most {MOST_TURNS} are possible: take a rounder number, or fewer"
                " spouts"
            )
        return found


def spread_shares(count: int, spread_pct: float) -> tuple[int, ...]:
    """Return the least whole shares that lie evenly about their mean.

    Parameters
    ----------
    count : int
        Number of shares, two or more.
    spread_pct : float
        How far the first is below the mean and the last above it, in percent of the mean.

    Examples
    --------
    80 : 120, and 80 : 93 1/3 : 106 2/3 : 120

    >>> spread_shares(2, 20), spread_shares(4, 20)
    ((2, 3), (6, 7, 8, 9))
    """
    most = Fraction(str(spread_pct)) / 100  # as the file has it, not the double that is nearest
    parts = [1 + most * (Fraction(2 * i, count - 1) - 1) for i in range(count)]
    whole = lcm(*(part.denominator for part in parts))
    counts = [int(part * whole) for part in parts]
    return tuple(each // gcd(*counts) for each in counts)
