"""Numbers and values of an experiment's file, within what can work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag
from pydantic_core import PydanticCustomError

Count = Annotated[int, Field(ge=1, le=10_000)]
"""Number of tasks, executors or workers that one topology may have."""
COUNTS_TAGS = ("one-count-for-all", "counts-by-component", "as-many-as-tasks")
"""Stand in the places of errors."""
ALL_TASKS: Literal["tasks"] = "tasks"
"""Asks for as many executors of each component as it has tasks."""
AskedExecutors = int | Mapping[str, int] | Literal["tasks"]
"""One number of executors for all components, one by component, or as many as each has tasks."""


def _kind_of_counts(given: object) -> str:
    return COUNTS_TAGS[isinstance(given, Mapping)]


def _kind_of_executors(given: object) -> str:
    return COUNTS_TAGS[2] if given == ALL_TASKS else _kind_of_counts(given)


Counts = Annotated[
    Annotated[Count, Tag(COUNTS_TAGS[0])] | Annotated[Mapping[str, Count], Tag(COUNTS_TAGS[1])],
    Discriminator(_kind_of_counts),
]
"""One number for all components, or one by component: a mistake is named with its component."""
Executors = Annotated[
    Annotated[Count, Tag(COUNTS_TAGS[0])]
    | Annotated[Mapping[str, Count], Tag(COUNTS_TAGS[1])]
    | Annotated[Literal["tasks"], Tag(COUNTS_TAGS[2])],
    Discriminator(_kind_of_executors),
]
"""The same of executors, or as many of each component as it has tasks."""
Seconds = Annotated[float, Field(ge=0, le=604_800, allow_inf_nan=False)]
"""A week at most."""
Percent = Annotated[float, Field(ge=1e-6, le=1000, allow_inf_nan=False)]
"""So small at least that the messages which a precision needs are a number."""
Milliseconds = Annotated[int, Field(ge=1, le=3_600_000)]
"""An hour at most."""
SkewS = Annotated[int, Field(ge=-3600, le=3600)]
"""Skew of a clock: an hour at most, either way."""
DelayMs = Annotated[float, Field(gt=0, le=10_000)]
"""Delay of packets on a link: ten seconds at most."""
Weight = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)]
HeapMb = Annotated[int, Field(ge=64, le=1 << 20)]
Cores = Annotated[float, Field(ge=0.01, le=1024, allow_inf_nan=False)]
LARGEST = 2**63 - 1
"""Magnitude of a number that Storm's settings can hold."""


def storm_value(value: object) -> object:
    """Return a value if a Storm setting can have it: plain, with finite numbers of 64 bits.

    Raises
    ------
    PydanticCustomError
        For any other.

    Examples
    --------
    >>> storm_value({"a": [1, 2.5, None, True, "x"]})
    {'a': [1, 2.5, None, True, 'x']}
    """
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise PydanticCustomError("storm_value", "every key below a Storm setting must be a text")
        for inner in value.values():
            storm_value(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            storm_value(inner)
    elif isinstance(value, int | float):
        if not (math.isfinite(value) and abs(value) <= LARGEST):
            raise PydanticCustomError("storm_value", "a number of a Storm setting must lie within ±2^63")
    elif not (value is None or isinstance(value, str)):
        raise PydanticCustomError(
            "storm_value", "a Storm setting must be a text, a number, true, false, null, a list or a mapping"
        )
    return value


_Plain = str | int | float | bool | list[object] | dict[str, object] | None
StormValue = Annotated[_Plain, PlainValidator(storm_value, json_schema_input_type=_Plain)]
"""Value of a setting of Storm's."""
