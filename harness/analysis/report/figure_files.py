"""``harness figures``: all figures of one or several runs, with their tables, for a paper or a screen.

The runs' directories are only read. A run without predictions (an archived one) is predicted anew with
today's models.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.analysis.figures import all_figures, style
from harness.analysis.figures.all_figures import FigureKind
from harness.analysis.figures.model_figures import has_pairs, leaderboard
from harness.analysis.judge.computing import Progress, results
from harness.analysis.judge.results import Results
from harness.analysis.report import paper_tables
from harness.errors import UsageError
from harness.machine.whole_files import own_folder


@dataclass(frozen=True)
class Published:
    """Written files: the figures of every run's folder, and all files."""

    runs: dict[str, list[FigureKind]]
    files: list[Path]


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
    twice). Tables and the leaderboard over all runs go beside these folders, with an index.

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
    all_figures.chosen(only)
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
    kinds = all_figures.chosen(only)
    names = folder_names(found)
    drawn: dict[str, list[FigureKind]] = {}
    with _moved_when_done(out) as folder, style.styled(style.STYLES[style_name]):
        for name, data in zip(names, found, strict=True):
            progress(f"{name}: drawing")
            drawn[name] = list(all_figures.draw(data, folder / name, kinds))
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
    out.mkdir(parents=True, exist_ok=True)
    try:
        with own_folder(out, "figures") as folder:
            yield folder
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                target = out / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)
    finally:
        if not any(out.iterdir()):
            out.rmdir()
