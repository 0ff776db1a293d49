"""The baseline file: the scores of the valid nights that later ones are compared with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from harness.analysis.judge.scores import RunScores
from harness.errors import UsageError, describe_fault
from harness.machine.whole_files import write_atomically

KIND = "harness-baseline"
VERSION = 5
TABLES = {
    "steps": ("label",),
    "measured": ("protocol", "measure", "statistic", "subject"),
    "accuracy": ("model", "protocol", "measure", "subjects", "statistic"),
}
"""Keys of a night that are lists of mappings with the same keys, each with those that its rows are nested by.

As tables in which nothing is said twice they take less room."""
ERRORS = "errors_pct"
ERRORS_KEPT = "errors_hundredths_pct"
"""Errors are whole hundredths of a percentage point in the file, without their diagonal, which is empty."""
SETTINGS = "settings"
"""A night has those that differ from the first night's: one key of many, as a rule."""
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
        usual = content[SETTINGS]
        return tuple(RunScores.model_validate(_untabled(night, usual)) for night in content["nights"])
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

    Errors are kept to a hundredth of a percentage point, how far anything moves by chance to three digits.
    """
    write_atomically(path, dumps(nights))


def dumps(nights: Sequence[RunScores]) -> str:
    """Return the baseline's text."""
    usual = nights[0].model_dump(mode="json")[SETTINGS] if nights else {}
    out = [f'{{"kind": "{KIND}", "version": {VERSION},', f'"{SETTINGS}":{_json(usual)},', '"nights": [']
    out.append(",\n".join(_night(night, usual) for night in nights))
    out.append("]}\n")
    return "\n".join(out)


def _night(night: RunScores, usual: object) -> str:
    fields = []
    for key, value in night.model_dump(mode="json").items():
        if key in TABLES:
            fields.append(f'"{key}":{_table(value, TABLES[key])}')
        elif key == SETTINGS:
            fields.append(f'"{key}":{_json(_difference(value, usual))}')
        else:
            fields.append(f'"{key}":{_json(value)}')
    return "{" + ",\n ".join(fields) + "}"


def _table(items: Sequence[Mapping[str, object]], keys: Sequence[str]) -> str:
    """Return the text of a table: its columns, and its rows nested by ``keys``."""
    columns = [column for column in (items[0] if items else ()) if column not in keys]
    named = _json([ERRORS_KEPT if column == ERRORS else column for column in columns])
    return f'{{"columns":{named},"rows":{_rows(items, keys, columns)}}}'


def _rows(items: Sequence[Mapping[str, object]], keys: Sequence[str], columns: Sequence[str]) -> str:
    """Return the text of rows, each of them a line, nested by the keys that are left."""
    if not keys:
        (item,) = items
        return _json([_kept(column, item[column]) for column in columns])
    key, *rest = keys
    by_key: dict[object, list[Mapping[str, object]]] = {}
    for item in items:
        by_key.setdefault(item[key], []).append(item)
    inner = (f"{_json(value)}:{_rows(mine, rest, columns)}" for value, mine in by_key.items())
    return "{" + ",\n  ".join(inner) + "}"


def _kept(column: str, value: object) -> object:
    """Return a value with the digits that comparing needs."""
    if isinstance(value, list) and column == ERRORS:
        return [[_hundredths(x) for j, x in enumerate(row) if j != i] for i, row in enumerate(value)]
    if isinstance(value, list):
        return [_kept(column, each) for each in value]
    if isinstance(value, float) and column in BY_CHANCE:
        return float(f"{value:.3g}")
    return value


def _hundredths(points: float | None) -> int | None:
    return None if points is None else round(100 * points)


def _difference(value: object, usual: object) -> object:
    """Return how a value differs from the usual, by key; a list has one value that replaces it, or none."""
    if isinstance(value, dict) and isinstance(usual, dict):
        gone: dict[str, object] = {key: [] for key in usual.keys() - value.keys()}
        other = {k: _difference(v, usual.get(k)) for k, v in value.items() if k not in usual or v != usual[k]}
        return dict(sorted((gone | other).items()))
    return [value] if isinstance(value, dict | list) else value


def _differing(difference: object, usual: object) -> object:
    """Return the value that ``_difference`` was taken of."""
    if isinstance(difference, dict):
        known = dict(usual) if isinstance(usual, dict) else {}
        found = {key: _differing(inner, known.get(key)) for key, inner in difference.items() if inner != []}
        return {key: inner for key, inner in known.items() if key not in difference} | found
    return difference[0] if isinstance(difference, list) else difference


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _untabled(night: Mapping[str, object], usual: object) -> dict[str, object]:
    """Return a night as it was before ``_night`` wrote it shorter."""
    tables = {key: _listed(night[key], keys) for key, keys in TABLES.items() if key in night}
    return {**night, **tables, SETTINGS: _differing(night.get(SETTINGS, {}), usual)}


def _listed(table: object, keys: Sequence[str]) -> list[dict[str, object]]:
    if not isinstance(table, dict):
        raise TypeError(table)
    columns = [ERRORS if column == ERRORS_KEPT else column for column in table["columns"]]
    return list(_items(table["rows"], keys, columns))


def _items(rows: object, keys: Sequence[str], columns: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield what ``_rows`` wrote, item by item."""
    if keys and isinstance(rows, dict):
        key, *rest = keys
        for value, inner in rows.items():
            yield from ({key: value, **item} for item in _items(inner, rest, columns))
    elif not keys and isinstance(rows, list):
        item = dict(zip(columns, rows, strict=True))
        yield item | {ERRORS: _points(item[ERRORS])} if ERRORS in item else item
    else:
        raise TypeError(rows)


def _points(hundredths: object) -> list[list[float | None]]:
    """Return errors in percent, with an empty diagonal."""
    if not isinstance(hundredths, list):
        raise TypeError(hundredths)
    points = [[None if x is None else x / 100 for x in row] for row in hundredths]
    return [[*row[:i], None, *row[i:]] for i, row in enumerate(points)]
