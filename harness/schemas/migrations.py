"""Records of older runs, made into what today's are: a function a kind of record that ever changed.

Run directories are never rewritten. Records of an older schema number go through here when they are read, so
that every type of a record is total. A key that older runs lack has the value that says so.

Schema 1 was never raised while records grew, so its records have any of these shapes, and each change is made
where a key is missing. From schema 2 on every key is always there, ``null`` where there is nothing to say.
Schema 2 was not raised while ``adaptation.parquet`` got columns. From schema 4 on each of them is there.
Until schema 4 the check ``metrics`` was said not to apply to steps that adapt; it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pydantic import JsonValue

from harness.schemas.tables import ADAPTATION

FIRST, SECOND, THIRD = 1, 2, 3
"""The number of every run directory from before schema 2, of those from before schema 3, and so on."""

LATER_IN_PLAN: Mapping[str, JsonValue] = {"placement": None, "batching": None, "relief": {}}
LATER_IN_INTERVAL: Mapping[str, JsonValue] = {
    "settled_ns": None,
    "drained_ns": None,
    "overhead_s": None,
    "independent": True,
    "latency": "ground-truth",  # no jar could be measured
    "attempt": 1,
    "rejected": [],
    "rejected_s": 0.0,
    "machine_busy_pct": None,
    "machine_steal_pct": None,
    "clock_offset_start_ns": None,
    "clock_offset_end_ns": None,
    "faults": [],
    "evidence": True,
}
LATER_IN_ATTEMPT: Mapping[str, JsonValue] = {
    "mean_ms": None,
    "half_width_ms": None,
    "machine_busy_pct": None,
}
LATER_IN_FAULT: Mapping[str, JsonValue] = {"done": "", "at_ns": None, "until_ns": None, "problem": ""}
LATER_IN_QUALITY: Mapping[str, JsonValue] = {
    "generator": None,
    "receiver": None,
    "ledger": None,
    "tracked": None,
    "absent": {},
    "metrics": None,
    "backlog": None,
    "began_empty": None,
    "clocks": None,
    "stolen": None,
    "alone": None,
    "adaptation": None,
}
LATER_IN_LEDGER: Mapping[str, JsonValue] = {
    # no topology could filter, drop, repeat or copy messages, nor send records of its own
    "filtered": 0,
    "without_output": 0,
    "repeated": 0,
    "foreign": 0,
    "copies_missing": 0,
}


def migrate_plan(version: int, found: JsonValue) -> JsonValue:
    """Return ``plan.json`` as it is today.

    Parameters
    ----------
    version : int
        The schema number of its run.
    found : JSON value
        As it was read. What is no record at all is returned as it is: whoever makes a type of it says so.

    Examples
    --------
    >>> migrate_plan(1, {"asked": 1, "batching": {}})
    {'placement': None, 'batching': {}, 'relief': {}, 'asked': 1}
    """
    return _completed(found, LATER_IN_PLAN) if version <= FIRST else found


def migrate_interval(version: int, found: JsonValue) -> JsonValue:
    """Return ``interval.json`` as it is today; parameters are those of ``migrate_plan``.

    Of an attempt that was not kept, the first runs have the reason alone, as a text.

    Examples
    --------
    >>> migrate_interval(1, {"rejected": ["a worker died"]})["rejected"]
    [{'mean_ms': None, 'half_width_ms': None, 'machine_busy_pct': None, 'reason': 'a worker died'}]
    """
    if version > FIRST:
        return found
    whole = _completed(found, LATER_IN_INTERVAL)
    if isinstance(whole, dict):
        whole["rejected"] = _each(whole["rejected"], _attempt)
        whole["faults"] = _each(whole["faults"], lambda fault: _completed(fault, LATER_IN_FAULT))
    return whole


def migrate_quality(version: int, found: JsonValue) -> JsonValue:
    """Return ``quality.json`` as it is today; parameters are those of ``migrate_plan``.

    Examples
    --------
    >>> migrate_quality(1, {"ledger": {"sent": 3}})["ledger"]["filtered"]
    0
    >>> migrate_quality(3, {"adaptation": {}, "absent": {"metrics": "it adapts"}})["absent"]
    {}
    """
    if version > THIRD or not isinstance(found, dict):
        return found
    whole: dict[str, JsonValue] = {**LATER_IN_QUALITY, **found} if version <= FIRST else dict(found)
    if version <= FIRST:
        whole["ledger"] = _completed(whole["ledger"], LATER_IN_LEDGER)
    if whole.get("adaptation") is not None and isinstance(absent := whole.get("absent"), dict):
        whole["absent"] = {name: why for name, why in absent.items() if name != "metrics"}
    return whole


def migrate_adaptation(version: int, found: pa.Table) -> pa.Table:
    """Return ``adaptation.parquet`` as it is today, with nulls in the columns that came later.

    Parameters
    ----------
    version : int
        The schema number of its run.
    found : pyarrow.Table
        As it was read.

    Examples
    --------
    >>> migrate_adaptation(2, pa.table({"period": [0]})).column("planned_tps").to_pylist()
    [None]
    """
    if version > THIRD:
        return found
    for field in ADAPTATION:
        if field.name not in found.column_names:
            found = found.append_column(field, pa.nulls(len(found), field.type))
    return found


def _attempt(found: JsonValue) -> JsonValue:
    return _completed({"reason": found} if isinstance(found, str) else found, LATER_IN_ATTEMPT)


def _completed(found: JsonValue, later: Mapping[str, JsonValue]) -> JsonValue:
    """Return a record with the keys that came later, where it lacks them."""
    return {**later, **found} if isinstance(found, dict) else found


def _each(found: JsonValue, migrate: Callable[[JsonValue], JsonValue]) -> JsonValue:
    return [migrate(part) for part in found] if isinstance(found, list) else found
