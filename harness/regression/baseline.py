"""The baseline file: the scores of the valid nights that later ones are compared with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from harness.analysis.judge.scores import RunScores
from harness.errors import UsageError, describe_fault
from harness.machine.whole_files import write_atomically

KIND = "harness-baseline"
VERSION = 4
TABLES = ("steps", "measured", "accuracy")
"""Keys of a night that are lists of mappings with the same keys: kept as tables, which take less room."""
BY_CHANCE = ("within", "carriers", "grown_points", "spread_points")
"""Columns that say how far something moves by chance."""
MEND = "make it with: harness regress RUN... --update"


def read(path: Path) -> tuple[RunScores, ...]:
    """Read a baseline's nights.

    Raises
    ------
    UsageError
        When the file is missing, unreadable, something else, or of a newer version.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such baseline", MEND) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not readable as JSON", str(error).splitlines()[0]) from None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise UsageError(f"{path}: not a baseline", MEND)
    version = content.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise UsageError(
            f"{path}: version {version!r} is newer than this harness reads ({VERSION})", "update the harness"
        )
    if version < VERSION:
        raise UsageError(
            f"{path}: version {version} is older than this harness reads ({VERSION})",
            f"move it away and {MEND}",
        )
    try:
        return tuple(RunScores.model_validate(_untabled(night)) for night in content["nights"])
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        fault = describe_fault(error) if isinstance(error, ValidationError) else "its nights cannot be read"
        raise UsageError(f"{path}: {fault}", MEND) from None


def updated(nights: Sequence[RunScores], now: Sequence[RunScores]) -> tuple[RunScores, ...]:
    """Return the baseline with new nights in it; the same run scored again replaces its older scores.

    Raises
    ------
    UsageError
        When a run is not valid: a baseline is made of what can be used.
    """
    refuse_invalid((run.experiment, run.run, run.verdict) for run in now)
    kept = {(r.experiment, r.run): r for r in (*nights, *now)}
    return tuple(kept[key] for key in sorted(kept))


def refuse_invalid(runs: Iterable[tuple[str, str, str]]) -> None:
    """Refuse runs, each an experiment, a name and a verdict, that no baseline can be made of.

    Raises
    ------
    UsageError
        Naming the first that is not valid.
    """
    for experiment, name, verdict in runs:
        if verdict != "valid":
            raise UsageError(
                f"{experiment} {name}: its verdict is {verdict}",
                "a baseline is made of valid runs only: leave it out",
            )


def write(path: Path, nights: Sequence[RunScores]) -> None:
    """Write a baseline whole; one line a statistic, so that a change can be read as a difference.

    Errors are kept to a hundredth of a percentage point, and how far anything moves by chance to four digits.
    """
    write_atomically(path, dumps(nights))


def dumps(nights: Sequence[RunScores]) -> str:
    """Return the baseline's text."""
    out = [f'{{"kind": "{KIND}", "version": {VERSION}, "nights": [']
    out.append(",\n".join(map(_night, nights)))
    out.append("]}\n")
    return "\n".join(out)


def _night(night: RunScores) -> str:
    fields = []
    for key, value in night.model_dump(mode="json").items():
        if key in TABLES:
            rows = ",\n  ".join(_json([_kept(*column) for column in item.items()]) for item in value)
            columns = _json(list(value[0]) if value else [])
            fields.append(f'"{key}":{{"columns":{columns},"rows":[\n  {rows}]}}')
        else:
            fields.append(f'"{key}":{_json(value)}')
    return "{" + ",\n ".join(fields) + "}"


def _kept(column: str, value: object) -> object:
    """Return a value with the digits that comparing needs."""
    if isinstance(value, list):
        return [_kept(column, each) for each in value]
    if isinstance(value, float) and column == "errors_pct":
        return round(value, 2)
    if isinstance(value, float) and column in BY_CHANCE:
        return float(f"{value:.4g}")
    return value


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _untabled(night: Mapping[str, object]) -> dict[str, object]:
    """Return a night as it was before ``_night`` made tables of its lists."""
    return {key: _listed(value) if key in TABLES else value for key, value in night.items()}


def _listed(table: object) -> list[dict[str, object]]:
    if not isinstance(table, dict):
        raise TypeError(table)
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
