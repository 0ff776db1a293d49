"""Traces whose messages may have keys: a send time in seconds a line, and a key after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.experiments.schedule import Trace, trace_lines


@dataclass(frozen=True, eq=False)
class KeyedTrace:
    """A trace, and the key of each of its messages; without any where they have none."""

    trace: Trace
    keys: tuple[str, ...] = ()


def read_keyed(path: Path) -> KeyedTrace:
    r"""Read a trace file; after its send time, a line may have a key. No experiment sends such keys.

    Raises
    ------
    UsageError
        As ``Trace.read``; when some lines have a key and others do not.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "trace.txt"
    ...     _ = file.write_text("0.5 storm\n1.5 apache heron\n")
    ...     read_keyed(file).keys
    ('storm', 'apache heron')
    """
    lines = [(number, text.split(maxsplit=1)) for number, text in trace_lines(path)]
    trace = Trace.of_lines(path, [(number, parts[0]) for number, parts in lines])
    without = next((number for number, parts in lines if len(parts) == 1), None)
    keys = tuple(parts[1] for _, parts in lines if len(parts) > 1)
    if keys and without is not None:
        raise UsageError(
            f"trace {path}, line {without}: has no key, and others have one", "give each line one, or none"
        )
    return KeyedTrace(trace, keys)
