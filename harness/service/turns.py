"""Turns of models: on a small machine two of them are slower than one after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import HarnessError

PATIENCE_S = 10.0
"""A question that waits for longer is refused, and leaves its thread to pages."""


class ModelsBusy(HarnessError):
    """Models have been at work on other questions for so long that this one was not begun."""


class ModelTurns:
    """One turn at a time; who has waited for long is refused.

    Parameters
    ----------
    patience_s : float
        The longest wait for a turn.

    Raises
    ------
    ModelsBusy
        When a block is entered and there was no turn in that time.

    Examples
    --------
    >>> turns = ModelTurns(patience_s=0.01)
    >>> with turns:
    ...     try:
    ...         with turns:
    ...             pass
    ...     except ModelsBusy as refusal:
    ...         print(refusal)
    models have been at work on other questions for 0.01 s: ask again later, or let a job propose (POST /jobs)
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._turn = threading.Lock()
        self._loaded = threading.Event()
        self._loaded.set()

    def __enter__(self) -> None:
        self._loaded.wait()
        if not self._turn.acquire(timeout=self._patience_s):
            raise ModelsBusy(
                f"models have been at work on other questions for {self._patience_s:g} s",
                "ask again later, or let a job propose (POST /jobs)",
            )

    def __exit__(self, *_: object) -> None:
        self._turn.release()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Take a turn in which models are loaded, which all questions wait for, however long it takes."""
        self._loaded.clear()
        try:
            with self._turn:
                yield
        finally:
            self._loaded.set()
