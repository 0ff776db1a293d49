"""What people read: the figures and the report, written into a folder.

On its own, so that the plotting libraries can be imported while Spark starts.
"""

from __future__ import annotations

from pathlib import Path

from harness.analysis.figures import draw_all
from harness.analysis.report import render
from harness.analysis.results import Results


def write(results: Results, folder: Path) -> None:
    """Write ``figures/`` and ``report.html``."""
    names = draw_all(results, folder / "figures")
    (folder / "report.html").write_text(render(results, folder / "figures", names), encoding="utf-8")
