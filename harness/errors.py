"""One family of exceptions: each names the thing that is wrong and what to do about it."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every command imports this module, and few read anything that pydantic checks
    from pydantic import ValidationError

MOST_CHARACTERS = 2000
"""Most characters of a message or a hint: the list of all figures fits, and a file may have any number of
them in a name."""
SHOWN = 100
"""Characters of a value that a message shows."""


def one_line(text: str) -> str:
    """Return text in which nothing ends the line or steers a terminal, whatever a user's file put there.

    Examples
    --------
    >>> one_line("unknown key 'a" + chr(10) + "b'")
    "unknown key 'a b'"
    """
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}..."
    if text.isprintable():
        return text
    spaced = text.replace("\r\n", " ").replace("\n", " ").replace("\t", " ")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in spaced)


def shortened(text: str) -> str:
    """Return as much of a text as a message shows."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def describe_fault(error: ValidationError, tags: Container[int | str] = ()) -> str:
    """Return the first thing that pydantic found wrong: its key, the reason, and the value that was given.

    Parameters
    ----------
    error : ValidationError
    tags : container
        Parts of keys that no file has: pydantic names the alternative there that it took.

    Examples
    --------
    >>> from pydantic import BaseModel, ValidationError
    >>> class Shape(BaseModel, extra="forbid"):
    ...     nodes: int
    >>> for given in ({"nodes": "two"}, {"nodes": 1, "node": 2}, {}):
    ...     try:
    ...         Shape.model_validate(given)
    ...     except ValidationError as error:
    ...         print(describe_fault(error))
    nodes: Input should be a valid integer, unable to parse string as an integer (it is 'two')
    unknown key 'node'
    the key 'nodes' is missing
    """
    fault = error.errors()[0]
    key = shortened(".".join(str(part) for part in fault["loc"] if part not in tags))
    if fault["type"] == "extra_forbidden":
        return f"unknown key {key!r}"
    if fault["type"] == "missing":
        return f"the key {key!r} is missing"
    reason = str(fault["msg"]).removeprefix("Value error, ")
    says_it = fault["type"] in ("value_error", "json_invalid") or isinstance(fault["input"], dict)
    value = "" if says_it else f" (it is {shortened(repr(fault['input']))})"
    return f"{key}: {reason}{value}" if key else f"{reason}{value}"


class HarnessError(Exception):
    """Anything that ends a command with one clear line.

    Parameters
    ----------
    message : str
        One line: the thing (file, key, server, step) and what is wrong with it.
    hint : str, optional
        What to do about it.
    log : str, optional
        Path of a log file to read, when there is one.
    excerpt : str, optional
        The lines of that log that matter, shown below the message.

    Examples
    --------
    >>> str(HarnessError("nimbus stopped", "start it again", "/tmp/nimbus.log"))
    'nimbus stopped: start it again (log: /tmp/nimbus.log)'
    """

    exit_status = 1

    def __init__(self, message: str, hint: str = "", log: str = "", excerpt: str = "") -> None:
        self.message = one_line(message)
        self.hint = one_line(hint)
        super().__init__(self.message)
        self.log = log
        self.excerpt = excerpt

    def __str__(self) -> str:
        text = self.message
        if self.hint:
            text += f": {self.hint}"
        if self.log:
            text += f" (log: {self.log})"
        return text


class UsageError(HarnessError):
    """A mistake in an experiment's file, a command line or a run directory; nothing was started."""

    exit_status = 2


class MissingTool(UsageError):
    """The machine lacks something that the command needs."""


class ClusterError(HarnessError):
    """A server or a worker did not come up, or died."""


class StepInvalid(HarnessError):
    """The measurements of a step cannot be used."""


class NoOutput(HarnessError):
    """A jar's topology writes nothing to its output topic that could be told, so nothing can be measured."""


class ModelDeclined(HarnessError):
    """A model cannot answer for this plan; the message is the reason shown in the matrix."""


class ForecastDeclined(HarnessError):
    """A forecaster cannot answer for this history; the message is the reason shown instead of a forecast."""


class SchedulerDeclined(HarnessError):
    """A scheduler has no plan for this question; the message is the reason shown beside other proposals."""


class MeasurementsNeeded(SchedulerDeclined):
    """A scheduler was asked without the measured step that it reads."""


class StepDeclined(HarnessError):
    """The placement that a step asks for cannot be had; the message is the reason kept in the run."""
