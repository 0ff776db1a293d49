"""A child process that hands over more than a pipe holds; spawned children import it by name."""

from __future__ import annotations

from harness.workload.process import Inbox, Outbox, Ready

RESULTS = 50
SIZE_BYTES = 200_000  # three times what a pipe holds


def hand_over_much(_inbox: Inbox, results: Outbox, _settings: None) -> None:
    results.put(Ready())
    for number in range(RESULTS):
        results.put((number, b"x" * SIZE_BYTES))
