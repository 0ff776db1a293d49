"""The figures of a run: which there are, and their files.

Counterparts in the thesis: error matrices 5.24 and 5.28, latency by step 5.23, ground truth beside
complete latency 5.34. Each is a function from small tables to a matplotlib figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from matplotlib.figure import Figure

from harness.analysis import style
from harness.analysis.error_figures import error_matrix, measured_and_predicted
from harness.analysis.measured_figures import campaign_timeline, ground_truth_and_complete, latency_by_step
from harness.analysis.results import Results


def draw_all(data: Results, folder: Path) -> list[str]:
    """Draw every figure as PNG and SVG into a folder; return their names in the report's order."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    with style.styled():
        for name, draw in catalogue(data):
            style.save(draw(), folder, name)
            names.append(name)
    return names


def catalogue(data: Results) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield the name of every figure that this run has data for, and what draws it."""
    kinds = data.matrices[["protocol", "measure", "statistic"]].drop_duplicates()
    for key in sorted(zip(*(map(str, kinds[c]) for c in kinds.columns), strict=True)):
        protocol, measure, statistic = key
        if statistic == "mean" or protocol == "thesis":
            yield (
                matrix_name(protocol, measure, statistic),
                lambda p=protocol, m=measure, s=statistic: error_matrix(data, p, m, s),  # type: ignore[misc]
            )
    if len(data.histogram):
        yield "latency-by-step", lambda: latency_by_step(data)
        yield "ground-truth-and-complete", lambda: ground_truth_and_complete(data)
    if len(data.judged()):
        yield "measured-and-predicted", lambda: measured_and_predicted(data)
    if len(data.timeline):
        yield "timeline", lambda: campaign_timeline(data)


def matrix_name(protocol: str, measure: str, statistic: str) -> str:
    """Return the file name of an error matrix."""
    parts = ["error-matrix", measure.replace("_", "-")]
    return "-".join(parts if protocol == "ours" else [*parts, protocol, statistic.replace("_", "-")])
