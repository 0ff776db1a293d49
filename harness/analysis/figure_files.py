"""``harness figures``: all figures of one or several runs, with their tables, for a paper or a screen.

The runs' directories are only read. A run without predictions (an archived one) is predicted anew with
today's models.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.analysis import figures, paper_tables, style
from harness.analysis.analyse import compute_all
from harness.analysis.figures import FigureKind
from harness.analysis.inputs import read_raw, read_run
from harness.analysis.model_figures import has_pairs, leaderboard
from harness.analysis.predicting import predict
from harness.analysis.rescoring import linked_copy
from harness.analysis.results import Results
from harness.analysis.session import spark_session
from harness.errors import UsageError
from harness.runs import Run

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Published:
    """What was written: the figures of every run's folder, and all files."""

    runs: dict[str, list[FigureKind]]
    files: list[Path]


def results(
    paths: Sequence[Path], progress: Progress = lambda _: None, master: str | None = None
) -> list[Results]:
    """Return the results of runs, all computed in one Spark job; nothing is written.

    Raises
    ------
    UsageError
        Naming the first file that is missing, unreadable, foreign or of a newer schema.
    """
    rows = sum(read_raw(path).rows for path in paths)  # every mistake is found before Spark is started
    with (
        ThreadPoolExecutor(max_workers=1) as aside,
        spark_session(rows, master, remember_classes=True, aside=aside) as spark,
        ExitStack() as copies,
    ):
        ready = [copies.enter_context(predicted(path, progress)) for path in paths]
        progress(f"computing {len(ready)} run{'s' * (len(ready) > 1)} with Spark")
        return list(compute_all(spark, [read_run(path) for path in ready]))


@contextmanager
def predicted(path: Path, progress: Progress = lambda _: None) -> Iterator[Path]:
    """Give the run, or where it has no predictions a copy of it that has."""
    if (path / "predictions.parquet").is_file():
        yield path
        return
    with linked_copy(path) as copy:
        progress(f"{path}: predicting")
        predict(Run(copy))
        yield copy


def publish(
    paths: Sequence[Path],
    out: Path,
    style_name: str = "paper",
    only: Sequence[str] = (),
    progress: Progress = lambda _: None,
    master: str | None = None,
) -> Published:
    """Draw the runs' figures and write their tables; all files appear when all are made.

    A run's figures go to a folder of the experiment's name (with the run's stamp, where an experiment comes
    twice); tables and the leaderboard over all runs beside these folders, with an index.

    Parameters
    ----------
    paths : sequence of Path
        Run directories.
    out : Path
        The folder; files of other runs in it stay.
    style_name : str
        A key of ``style.STYLES``.
    only : sequence of str
        Names of figures; all figures and tables when empty.
    progress : callable
        Told what is being done.
    master : str, optional
        A Spark master.

    Raises
    ------
    UsageError
        As ``results``; or a figure that there is none of, or that no run has data for.
    """
    figures.chosen(only)
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: is a file", "give a folder with --out")
    return write(results(paths, progress, master), out, style_name, only, progress)


def write(
    found: Sequence[Results],
    out: Path,
    style_name: str = "paper",
    only: Sequence[str] = (),
    progress: Progress = lambda _: None,
) -> Published:
    """Draw the figures of runs whose results are there (see ``publish``)."""
    kinds = figures.chosen(only)
    names = folder_names(found)
    drawn: dict[str, list[FigureKind]] = {}
    with _moved_when_done(out) as folder, style.styled(style.STYLES[style_name]):
        for name, data in zip(names, found, strict=True):
            progress(f"{name}: drawing")
            drawn[name] = list(figures.draw(data, folder / name, kinds))
            if not only:
                paper_tables.write(folder / name, [data], [name])
        if not any(drawn.values()):
            raise UsageError(f"no run has data for {', '.join(k.name for k in kinds)}")
        if not only:
            judged = [data for data in found if has_pairs(data)]
            if len(judged) > 1:
                style.save(leaderboard(judged), folder, "leaderboard")
            paper_tables.write(folder, found, names)
            formats = style.STYLES[style_name].formats
            index = paper_tables.index(found, names, drawn, len(judged) > 1, formats)
            (folder / "README.md").write_text(index, encoding="utf-8")
        files = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return Published(drawn, [out / p for p in files])


def folder_names(found: Sequence[Results]) -> list[str]:
    """Return a folder's name for each run: the experiment's, with the stamp where that is not enough."""
    names = [data.run.name for data in found]
    return [
        name if names.count(name) == 1 else f"{name}-{data.run.path.name}"
        for name, data in zip(names, found, strict=True)
    ]


@contextmanager
def _moved_when_done(out: Path) -> Iterator[Path]:
    """Give a folder whose files go to ``out`` when the block ends well, and else nowhere."""
    folder = out / ".figures.partial"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            target = out / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not any(out.iterdir()):
            out.rmdir()
