"""The history of nights: one row a number, appended whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.analysis.judge.scores import RunScores
from harness.errors import UsageError
from harness.regression.regress import noise_pct

VERSION = 1
_TEXTS = (
    "night",
    "experiment",
    "run",
    "commit",
    "machine",
    "verdict",
    "noisy",
    "family",
    "model",
    "protocol",
    "measure",
    "statistic",
    "subject",
    "step",
)
HISTORY = pa.schema(
    [*((name, pa.string()) for name in _TEXTS), ("value", pa.float64())],
    metadata={"harness-history": str(VERSION)},
)
"""``noisy`` says why a night is noisy, and is empty where it is not. ``value``'s unit ends ``measure``."""


def rows(night: str, run: RunScores, noisy: Sequence[str]) -> pa.Table:
    """Return a run's rows: errors, measured values, noise and times."""
    of_run = {
        "night": night,
        "experiment": run.experiment,
        "run": run.run,
        "commit": run.commit,
        "machine": run.machine,
        "verdict": run.verdict,
        "noisy": "; ".join(noisy),
    }
    empty = dict.fromkeys(("model", "protocol", "measure", "statistic", "subject", "step"), "")
    found = [{**of_run, **empty, **row} for row in _numbers(run)]
    return pa.Table.from_pylist(found, schema=HISTORY)


def _numbers(run: RunScores) -> Iterator[dict[str, object]]:
    for a in run.accuracy:
        errors = [abs(x) for row in a.errors_pct for x in row if x is not None]
        if errors:
            yield {
                "family": "accuracy",
                "model": a.model,
                "protocol": a.protocol,
                "measure": a.measure,
                "statistic": a.statistic,
                "value": float(np.median(errors)),
            }
    for m in run.measured:
        for label, value in zip(run.labels, m.values, strict=True):
            if value is not None:
                yield {
                    "family": "measured",
                    "protocol": m.protocol,
                    "measure": m.measure,
                    "statistic": m.statistic,
                    "subject": m.subject,
                    "step": label,
                    "value": value,
                }
    noise = noise_pct(run)
    if noise is not None:
        yield {"family": "quality", "measure": "noise_pct", "value": noise}
    for step in run.steps:
        for name, seconds in step.seconds.items():
            yield {"family": "speed", "measure": name, "step": step.label, "value": seconds}
    for model, times in run.predict_ms.items():
        yield {"family": "speed", "model": model, "measure": "predict_ms", "value": float(np.mean(times))}


def read(path: Path) -> pa.Table:
    """Read the history; an empty one where there is no file yet.

    Raises
    ------
    UsageError
        When the file is cut short, something else, or of a newer version.
    """
    if not path.exists():
        return HISTORY.empty_table()
    try:
        found = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path}: not a whole Parquet file ({str(error).splitlines()[0]})") from None
    metadata: Mapping[bytes, bytes] = found.schema.metadata or {}
    version = metadata.get(b"harness-history", b"").decode()
    if not version.isdigit():
        raise UsageError(f"{path}: not a history of nights", "move it away to begin a new one")
    if int(version) > VERSION:
        raise UsageError(
            f"{path}: version {version} is newer than this harness reads ({VERSION})", "update the harness"
        )
    try:
        return found.select(HISTORY.names).cast(HISTORY)
    except (KeyError, pa.ArrowException) as error:
        raise UsageError(f"{path}: not a history of nights ({str(error).splitlines()[0]})") from None


def append(path: Path, more: Sequence[pa.Table]) -> pa.Table:
    """Add nights to the history and return all of it.

    A run scored again at the same commit replaces its older rows.

    Raises
    ------
    UsageError
        As ``read``; nothing is written then.
    """
    old = read(path)
    for table in more:
        first = table.slice(0, 1).to_pylist()
        if first:
            same = [pc.equal(old[k], first[0][k]) for k in ("experiment", "run", "commit")]
            old = old.filter(pc.invert(pc.and_(pc.and_(same[0], same[1]), same[2])))
    whole = pa.concat_tables([old, *more]).cast(HISTORY)
    temporary = path.with_name(f".{path.name}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        pq.write_table(whole, temporary, compression="zstd")
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    return whole
