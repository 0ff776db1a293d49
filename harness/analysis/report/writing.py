"""Files that people read: the figures and the report, written into a folder.

This module is on its own, so that the plotting libraries can be imported while Spark starts.
"""

from __future__ import annotations

from pathlib import Path

from harness.analysis.figures import style
from harness.analysis.figures.all_figures import REGISTRY, draw
from harness.analysis.judge.results import Results
from harness.analysis.report.page import render


def write(results: Results, folder: Path) -> None:
    """Write ``figures/`` and ``report.html``."""
    figures = folder / "figures"
    with style.styled(style.STYLES["screen"]):
        drawn = list(draw(results, figures, [kind for kind in REGISTRY if kind.in_report]))
    (folder / "report.html").write_text(render(results, figures, drawn), encoding="utf-8")
