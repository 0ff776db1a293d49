"""Clocks of hosts: what exchanges tell, and what this machine's own tell when asked the same way."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.backends.hosts.clocks import READER, ClockTimes, Exchange, ask, compared
from harness.errors import ClusterError

WAYS_NS = st.integers(0, 10**8)
EXCHANGES = st.lists(st.tuples(st.integers(0, 10**12), WAYS_NS, WAYS_NS), min_size=1, max_size=30)
"""When a question is asked, and how long it and its answer are under way, ns."""


def exchanges(asked: list[tuple[int, int, int]], of_day: int, monotonic: int) -> list[Exchange]:
    """What is read of a host whose clocks are ahead of ours by so much."""
    return [
        Exchange(
            ClockTimes(at, at),
            ClockTimes(at + there + of_day, at + there + monotonic),
            ClockTimes(at + there + back, at + there + back),
        )
        for at, there, back in asked
    ]


@given(EXCHANGES, st.integers(-(10**12), 10**12))
def test_the_offset_is_known_to_half_of_the_shortest_exchange(
    asked: list[tuple[int, int, int]], offset_ns: int
) -> None:
    found = compared(exchanges(asked, offset_ns, 0), one_kernel=True)
    shortest_ns = min(there + back for _, there, back in asked)
    assert found.uncertainty_ms == pytest.approx(shortest_ns / 2e6, abs=1e-4)
    apart_ms = abs(found.offset_ms - offset_ns / 1e6) - found.uncertainty_ms
    assert apart_ms <= 1e-4 + 1e-9  # both are rounded to 0.1 us, and no float is exact


@given(EXCHANGES, st.integers(-(10**9), 10**9), st.booleans())
def test_a_clock_is_shared_when_no_reading_lies_outside_its_exchange(
    asked: list[tuple[int, int, int]], ahead_ns: int, one_kernel: bool
) -> None:
    found = compared(exchanges(asked, 0, ahead_ns), one_kernel=one_kernel)
    inside = all(-there <= ahead_ns <= back for _, there, back in asked)
    assert found.shared == (one_kernel and inside)


def test_this_machine_shares_its_clock_with_itself() -> None:
    found = ask("here", ["/bin/sh", "-c", READER])
    assert found.shared
    assert abs(found.offset_ms) <= found.uncertainty_ms


def test_a_clock_of_its_own_on_the_same_kernel_is_seen() -> None:
    """A time namespace whose monotonic clock is ahead by a second, more than any exchange takes that ends."""
    ahead = ["unshare", "--user", "--map-root-user", "--time", "--fork", "--monotonic", "1000"]
    if subprocess.run([*ahead, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespaces here")
    found = ask("there", [*ahead, "/bin/sh", "-c", READER])
    assert not found.shared
    assert abs(found.offset_ms) <= found.uncertainty_ms  # the time of day is the machine's


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("echo no route to host >&2; exit 255", "node-1 does not tell its time: no route to host"),
        ("echo an-identifier; read line; echo half", "node-1 does not tell its time: it hung up"),
        ("exit 0", "node-1 does not tell its time: it hung up"),
    ],
)
def test_a_host_that_does_not_answer_is_named(answer: str, said: str) -> None:
    with pytest.raises(ClusterError) as raised:
        ask("node-1", ["/bin/sh", "-c", answer])
    assert raised.value.message == said
