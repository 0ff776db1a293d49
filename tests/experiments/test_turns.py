"""Which input each message goes to."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.experiments.turns import Turns


@given(st.lists(st.integers(1, 20), min_size=1, max_size=4), st.integers(1, 16))
def test_each_input_has_its_share_and_all_its_partitions_alike(shares: list[int], partitions: int) -> None:
    turns, ids = Turns(shares), np.arange(sum(shares) * partitions)
    taken = turns.input_of(ids)
    assert np.bincount(taken).tolist() == [share * partitions for share in shares]
    for i in range(len(shares)):
        assert turns.before(ids[taken == i]).tolist() == list(range(shares[i] * partitions))
    places = np.bincount(turns.partition_of(ids, partitions), minlength=len(shares) * partitions)
    assert places.tolist() == [share for share in shares for _ in range(partitions)]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_the_turns_of_an_input_are_as_far_apart_as_its_share_allows(shares: list[int]) -> None:
    """After any number of messages each input has what is due to it, within a message for each input."""
    ids = np.arange(sum(shares))
    taken = Turns(shares).input_of(ids)
    for i, share in enumerate(shares):
        due = (ids + 1) * share / sum(shares)
        assert (abs((taken == i).cumsum() - due) < len(shares)).all()


def test_one_input_gets_all_in_turn() -> None:
    ids = np.arange(40)
    assert Turns([7]).partition_of(ids, 16).tolist() == (ids % 16).tolist()
