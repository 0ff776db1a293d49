"""Machine code of the models, made while something else is waited for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import HarnessError


@contextmanager
def compiling() -> Iterator[None]:
    """Compile the models beside the block, in a process of its own; nothing is done where they are compiled.

    Raises
    ------
    HarnessError
        When a prediction of the shipped example fails.
    """
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        yield
        _, said = process.communicate()
    if process.returncode != 0:
        last = said.strip().splitlines()[-1:]
        raise HarnessError(f"the models cannot be compiled: {''.join(last)}", "run harness conformance")


def compile_models() -> None:
    """Predict the shipped example, which calls every compiled function."""
    from harness.app.conformance import example  # noqa: PLC0415 (takes seconds)
    from harness.models import MODELS  # noqa: PLC0415

    case = example()
    MODELS["composite"](case.source, case.proposed, case.settings, case.rate_tps)


if __name__ == "__main__":
    compile_models()
