"""Machine code of the models, made while something else is waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from harness.errors import HarnessError
from harness.models import compiling as kept_code


@contextmanager
def compiling() -> Iterator[None]:
    """Compile the models beside the block, in processes of their own; nothing is done where that was done.

    One predicts, and compiles what it comes to. Where there is another core, a second one begins with what
    the first comes to last, so that they meet.

    Raises
    ------
    HarnessError
        When a prediction of the shipped example fails.
    """
    command = [sys.executable, "-m", __name__]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process,
        _from_the_end(command),
    ):
        yield
        _, said = process.communicate()
    if process.returncode != 0:
        last = said.strip().splitlines()[-1:]
        raise HarnessError(f"the models cannot be compiled: {''.join(last)}", "run harness conformance")


@contextmanager
def _from_the_end(command: list[str]) -> Iterator[None]:
    if len(os.sched_getaffinity(0)) == 1:
        yield
        return
    environment = {**os.environ, kept_code.AHEAD: "yes"}
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=silent, stderr=silent, env=environment) as process:
        try:
            yield
        finally:
            process.terminate()


def compile_models() -> None:
    """Predict the shipped example, which calls the compiled functions of every stage."""
    from harness.app.conformance import example  # noqa: PLC0415 (takes seconds)
    from harness.models import MODELS  # noqa: PLC0415

    case = example()
    MODELS["composite"](case.source, case.proposed, case.settings, case.rate_tps)


def compile_from_the_end() -> None:
    """Compile the functions that a prediction of the shipped example calls, the last first; call none."""
    with suppress(Exception):  # answers are made up: the functions until one is refused are enough
        compile_models()
    for compile_one in reversed(kept_code.noted):
        compile_one()


if __name__ == "__main__":
    if kept_code.AHEAD in os.environ:
        compile_from_the_end()
    else:
        compile_models()
