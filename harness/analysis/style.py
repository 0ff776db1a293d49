"""One look for all figures: vector output, two-column print, colours that survive colour-blindness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from cycler import cycler
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

COLUMN_IN = 3.5
PAGE_IN = 7.16
"""Widths of one column and of the whole page of a two-column paper, in inches."""

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#666666")
"""Okabe and Ito's palette without yellow and black, which do not show on white or beside text."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GAP = "#e4e4e4"
INK = "#222222"

MEASURE_NAMES = {
    "ground_truth_latency_ms": "ground-truth latency",
    "complete_latency_ms": "complete latency",
    "ack_latency_ms": "emit-to-ack latency",
    "arrival_rate_tps": "arrival rate",
    "service_time_ms": "service time",
    "routing_probability": "routing probability",
    "io_ratio": "I/O ratio",
}

_SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.0,
    "axes.grid": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "harness",
    "savefig.dpi": 200,
    "axes.prop_cycle": cycler(color=COLOURS),
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this style within the block."""
    with mpl.rc_context(_SETTINGS):  # type: ignore[arg-type]
        yield


def measure_name(measure: str) -> str:
    """Return a measure's name in words."""
    return MEASURE_NAMES.get(measure, measure.replace("_", " "))


def save(figure: Figure, folder: Path, name: str, formats: Sequence[str] = ("png", "svg")) -> None:
    """Write a figure; the same data gives the same bytes."""
    for kind in formats:
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(folder / f"{name}.{kind}", metadata=metadata)
    plt.close(figure)
