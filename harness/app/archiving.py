"""Runs made small for keeping: what models and judges read stays, and ``archived.json`` says what does not.

Left out are rows of the burn-in, most metrics from before and after the interval, and columns that follow
from others (``harness.schemas.derivable``). Predictions, errors, figures and the report are left out, too: a
command makes them again.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.analysis.judge.bucket_tiling import EDGE_BUCKETS, TILING
from harness.analysis.judge.predicting import predict
from harness.analysis.judge.raw_steps import are_read, evidence, inside
from harness.analysis.spark.inputs import read_raw
from harness.errors import UsageError
from harness.experiments.provenance import PROVENANCE
from harness.machine import seals
from harness.machine.whole_files import folder_atomically, write_atomically
from harness.runs import Interval, Run, read_latency, read_table
from harness.schemas import Metric, MetricField
from harness.schemas.derivable import left_out, without_derivable

ARCHIVED = "archived.json"
KEPT = ("experiment.yaml", "trace.txt", "environment.json", "log.txt", "summary.json", "verdict.json")
KEPT_OF_STEP = (
    *("plan.json", "interval.json", "quality.json", "tuning.json"),
    *("adaptation.parquet", PROVENANCE),
)
MADE_AGAIN = ("predictions.parquet", "errors.parquet", "report.html", "figures")
ALL_ALONG = (Metric.RECEIVED, Metric.EMITTED, Metric.ROUND_TRIP)
"""Measurements that the timeline, forecasts and the slowed link read from before and after the interval."""
JUDGED = ("summary.json", "verdict.json")
"""Made again, and kept: with what an archived run was judged last can be read without Spark."""
SAID_WHERE = ("experiment.yaml", "environment.json")
"""Texts with paths of the machine that measured: a copy names files without their folders."""
ZSTD_LEVEL = 19
_ABSOLUTE = re.compile(
    r"""(?P<before>^[ \t]*(?:"|file: ['"]?|- ['"]?))/(?:[^\s'"/]+/)*(?P<name>[^\s'"/]+)""", re.MULTILINE
)
"""A path that is the whole value of a line: of a list of arguments, or of the key ``file``."""


def archive(run: Run, folder: Path) -> Path:
    """Copy a run into an archive, small.

    Parameters
    ----------
    run : Run
        With a finished step.
    folder : Path
        The archive; the copy is ``<folder>/<experiment>/<start>``.

    Returns
    -------
    Path
        The copy, whole or not at all.

    Raises
    ------
    UsageError
        When it is in the archive already or comes from one, no step is finished, a step differs from its
        seal, or the copy's files do not say the same of each other as the run's.
    """
    if (run.path / ARCHIVED).exists():
        raise UsageError(f"{run.path}: was archived before", "copy it as it is")
    target = folder / run.path.parent.name / run.path.name
    if target.exists():
        raise UsageError(f"{target}: is there already")
    if not run.finished_steps:
        raise UsageError(f"{run.path}: no finished step", "there is nothing to archive")
    with folder_atomically(target) as copy:
        for path in _kept(run.path):
            (copy / path.relative_to(run.path)).parent.mkdir(exist_ok=True)
            shutil.copy(path, copy / path.relative_to(run.path))
        for name in SAID_WHERE:
            if (copy / name).is_file():
                said_there = (copy / name).read_text(encoding="utf-8")
                (copy / name).write_text(without_folders(said_there), encoding="utf-8")
        said: dict[str, object] = {}
        for step in run.finished_steps:
            said |= _archive_step(run, step, copy / "steps" / f"{step:02d}")
        said |= {
            name: {"files": _files(run.path / name)} for name in MADE_AGAIN if (run.path / name).exists()
        }
        (copy / ARCHIVED).write_text(json.dumps({"left_out": said}, indent=1) + "\n", encoding="utf-8")
        _require_the_same(run.path, copy)
    return target


def _kept(path: Path) -> Iterator[Path]:
    yield from (path / name for name in KEPT if (path / name).is_file())
    yield from path.glob("placement-*.yaml")
    yield from path.glob("history-*.txt")
    yield from path.glob("declined/*.json")


def without_folders(text: str) -> str:
    r"""Return an experiment's or environment's text in which absolute paths are their last names.

    Examples
    --------
    >>> print(without_folders("cluster:\n  file: /home/me/e/../clusters/four.yaml\n  port: nimbus:/6627"))
    cluster:
      file: four.yaml
      port: nimbus:/6627
    >>> print(without_folders('[\n  "--runs",\n  "/srv/runs"\n]'))
    [
      "--runs",
      "runs"
    ]
    """
    return _ABSOLUTE.sub(r"\g<before>\g<name>", text)


def _files(path: Path) -> int:
    return sum(p.is_file() for p in path.rglob("*")) if path.is_dir() else 1


def _archive_step(run: Run, step: int, target: Path) -> dict[str, object]:
    """Write a step, small; return rows and columns that it leaves out, by file."""
    source = run.step_path(step)
    if wrong := seals.broken(source):
        raise UsageError(f"{source}: {wrong[0]}", "what was changed is not archived")
    target.mkdir(parents=True)
    for name in KEPT_OF_STEP:
        if (source / name).is_file():
            shutil.copy(source / name, target / name)
    plan, interval = run.plan(step).start, run.interval(step)
    latency, metrics = read_latency(source), read_table(source / "metrics.parquet")
    rows = latency.filter(latency["in_interval"])
    rows = without_derivable(rows, {task: e.component for task, e in plan.by_task.items()})
    kept = metrics.filter(pc.and_(_read_again(metrics, interval), are_read(metrics)))
    kept = kept.take(_by_field(kept))
    _write(rows, target / "latency.parquet", dictionary=["path", "sink"])
    _write(kept, target / "metrics.parquet", dictionary=_texts(kept))
    before = {name: seals.sha256(source / name) for name in ("latency.parquet", "metrics.parquet")}
    if (source / seals.SEAL).is_file():
        seals.seal(target, left_out=before)
    return {
        f"steps/{step:02d}/latency.parquet": {
            "rows": latency.num_rows - rows.num_rows,
            "columns": list(left_out(rows.schema)),
            "sha256": before["latency.parquet"],
        },
        f"steps/{step:02d}/metrics.parquet": {
            "rows": metrics.num_rows - kept.num_rows,
            "sha256": before["metrics.parquet"],
        },
    }


def _read_again(metrics: pa.Table, interval: Interval) -> pa.Array:
    """Return which rows are of the interval or its edges, or read from before and after it."""
    name, field = (metrics[c].cast(pa.string()) for c in ("measurement", "field"))
    times = pc.is_in(field, pa.array([MetricField.COUNT, MetricField.SUM_NS]))
    drawn = pc.or_(pc.is_in(name, pa.array(ALL_ALONG)), pc.and_(pc.equal(name, Metric.ACK), times))
    return pc.or_(pc.or_(inside(metrics, interval), drawn), pa.array(_at_edges(metrics, interval)))


def _at_edges(metrics: pa.Table, interval: Interval) -> npt.NDArray[np.bool_]:
    """Return which rows are of the last buckets before the interval, or the first after it, of a series."""
    named = ["measurement", "worker", "task"]
    rows = metrics.select([*named, "bucket_end_ms"]).to_pandas()
    after = rows["bucket_end_ms"] > interval.end_epoch_ms
    outside = (after | (rows["bucket_end_ms"] <= interval.start_epoch_ms)) & rows["measurement"].isin(TILING)
    nearness = rows["bucket_end_ms"].where(after, -rows["bucket_end_ms"])[outside]
    keys = [rows[c].astype(str)[outside] for c in named]
    rank = nearness.groupby([*keys, after[outside]]).rank(method="dense")
    near = np.zeros(len(rows), dtype=np.bool_)
    near[outside.to_numpy()] = (rank <= EDGE_BUCKETS).to_numpy()
    return near


def _by_field(metrics: pa.Table) -> npt.NDArray[np.int64]:
    """Return rows in an order in which they compress well, and those of one field stay in theirs.

    Whatever is summed up is of one measurement and field: its sum keeps its last bit.
    """
    rows = metrics.select(["measurement", "field"]).to_pandas().astype(str)
    places = [pd.factorize(rows[name], sort=True)[0] for name in ("field", "measurement")]
    return np.asarray(np.lexsort(places), dtype=np.int64)


def _texts(table: pa.Table) -> list[str]:
    return [f.name for f in table.schema if pa.types.is_dictionary(f.type)]


def _write(table: pa.Table, path: Path, dictionary: list[str]) -> None:
    pq.write_table(table, path, compression="zstd", compression_level=ZSTD_LEVEL, use_dictionary=dictionary)


def _require_the_same(run: Path, copy: Path) -> None:
    """Raise where the copy's files do not bear each other out as the run's do."""
    for before, after in zip(read_raw(run).steps, read_raw(copy).steps, strict=True):
        if evidence(before) != evidence(after):
            raise UsageError(f"{before.folder}: its copy would not be judged the same", "it is not archived")


def judge_again(run_path: Path, master: str | None = None) -> str:
    """Judge a run of an archive with today's models, and keep the summary and verdict of that.

    Parameters
    ----------
    run_path : Path
        Run directory; it is predicted and reported as a copy.
    master : str, optional
        As ``harness.analysis.analyse.analyse``.

    Returns
    -------
    str
        The verdict.

    Raises
    ------
    UsageError
        As ``harness report``; the run is as it was then.
    """
    from harness.analysis.analyse import analyse  # noqa: PLC0415 (starts Spark)

    with tempfile.TemporaryDirectory(prefix="harness-rescore-") as folder:
        copy = Path(shutil.copytree(run_path, Path(folder) / run_path.parent.name / run_path.name))
        predict(Run(copy))
        analyse(copy, master)
        for name in JUDGED:
            write_atomically(run_path / name, (copy / name).read_bytes())
    return Run(run_path).verdict
