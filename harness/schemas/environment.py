"""Keys of ``environment.json``: the machine and the software that a run was measured with.

Older runs lack some of them.
"""

from __future__ import annotations

from typing import TypedDict


class MachineFacts(TypedDict, total=False):
    """The machine that measured, as the run began."""

    cores: int
    memory_bytes: int
    memory_available_bytes: int
    cpu: str
    kernel: str
    system: str
    load_1min: float


class Resumption(TypedDict):
    """A time at which a run was taken up again, with what may differ from its start."""

    started: str
    commit: str
    harness: str
    cluster: dict[str, object]
    load_1min: float


class Environment(TypedDict, total=False):
    """``environment.json`` of a run."""

    schema: int
    sealed: bool
    """Every step of the run has a seal."""
    cluster_kind: str
    cluster: dict[str, object]
    """By each kind of cluster: versions of servers, isolation, hosts and their clocks."""
    harness: str
    commit: str
    python: str
    packages: dict[str, str]
    machine: MachineFacts
    started: str
    arguments: list[str]
    resumed: list[Resumption]
    archived: str
    """The part of its rows that an archived run has."""
    resampled: int
    """The seed by which the run was drawn from another."""
