"""One look for all figures: vector output, two-column print, readable in grey and by the colour-blind.

Figures in the style ``paper`` are made at the size at which they are printed: a column is 3.3 in wide, and no
letter is smaller than 6 pt. The style ``screen`` is the same enlarged, without PDF.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from cycler import cycler
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import LineStyleType

from harness.schemas import MEASURES


@dataclass(frozen=True)
class Style:
    """Size and files in which figures come out.

    Attributes
    ----------
    scale : float
        Enlargement of the printed size, letters and lines included.
    formats : tuple of str
        Kinds of file.
    png_dpi : int
        Resolution of PNG.
    """

    scale: float
    formats: tuple[str, ...]
    png_dpi: int


STYLES = {
    "paper": Style(1.0, ("pdf", "svg", "png"), 200),
    "screen": Style(1.4, ("svg", "png"), 110),
    "web": Style(1.4, ("png",), 110),
}
COLUMN_IN = 3.3
PAGE_IN = 6.9
"""Widths of one column and of both columns of a two-column paper, in inches."""

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#666666")
"""Okabe and Ito's palette without yellow and black, which do not show on white or beside text."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES: tuple[LineStyleType, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++")
"""Colours repeat in grey; markers, lines and hatches do not."""
GAP = "#e4e4e4"
INK = "#222222"
NOISE = "#d9d9d9"
SMALLEST_PT = 6.0

MODELS = ("composite", "storm-tracer", "no-change", "caladrius", "jackson", "simulator")
"""The harness's own models keep their look in all figures; others get what is left."""

_SIZES = {
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "figure.titlesize": 8.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.5,
    "grid.linewidth": 0.4,
    "hatch.linewidth": 0.5,
    "patch.linewidth": 0.6,
    "xtick.major.pad": 2.0,
    "ytick.major.pad": 2.0,
    "axes.labelpad": 2.5,
    "axes.titlepad": 3.5,
}
_SETTINGS: Mapping[str, object] = {
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.grid": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "hatch.color": INK,
    "svg.fonttype": "path",
    "svg.hashsalt": "harness",
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
    "axes.prop_cycle": cycler(color=COLOURS),
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
}
_current: ContextVar[Style] = ContextVar("style", default=STYLES["paper"])


@contextmanager
def styled(style: Style | None = None) -> Iterator[None]:
    """Draw in a style (by default the one in force) within the block."""
    chosen = style or _current.get()
    token = _current.set(chosen)
    sized = {k: v * chosen.scale for k, v in _SIZES.items()}
    try:
        with mpl.rc_context({**_SETTINGS, **sized}):  # type: ignore[dict-item]
            yield
    finally:
        _current.reset(token)


def pt(size: float) -> float:
    """Return a size in points, as large as the style in force has it."""
    return size * _current.get().scale


def size(width_in: float, height_in: float) -> tuple[float, float]:
    """Return a figure's size, as large as the style in force has it."""
    return pt(width_in), pt(height_in)


def subplots(
    rows: int, columns: int, width_in: float, height_in: float, *, shared: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure of printed size with its panels in reading order, with axes that all share or not."""
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=size(width_in, height_in),
        squeeze=False,
        layout="constrained",
        sharex=shared,
        sharey=shared,
    )
    return figure, list(axes.flat)


@dataclass(frozen=True)
class Appearance:
    """Marks by which a model, a step or a component differs from others, in colour and in grey."""

    colour: str
    marker: str
    line: LineStyleType
    hatch: str


def look(place: int) -> Appearance:
    """Return the look of the n-th thing; it repeats after seven."""
    i = place % len(COLOURS)
    return Appearance(COLOURS[i], MARKERS[i], LINES[i], HATCHES[i])


def model_look(model: str, models: Sequence[str]) -> Appearance:
    """Return a model's look among those that are drawn."""
    if model in MODELS:
        return look(MODELS.index(model))
    others = sorted(m for m in models if m not in MODELS)
    return look(len(MODELS) + others.index(model))


def measure_name(measure: str) -> str:
    """Return a measure's name in words."""
    known = MEASURES.get(measure)
    return measure.replace("_", " ") if known is None else known.words


def measure_place(measure: str) -> int:
    """Return a measure's place where all are shown: as they are listed, users' own last."""
    return list(MEASURES).index(measure) if measure in MEASURES else len(MEASURES)


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, large ones without an exponent.

    Examples
    --------
    >>> number(12.3456), number(1289.6), number(0.00123456)
    ('12.3', '1290', '0.00123')
    """
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def signed(value: float, digits: int = 0) -> str:
    """Return a number with its sign, and a true minus.

    Examples
    --------
    >>> signed(-3.2), signed(0.2), signed(3.26, 1)
    ('−3', '0', '+3.3')
    """
    text = f"{value:+.{digits}f}"
    return f"{0:.{digits}f}" if float(text) == 0 else text.replace("-", "−")


def numbers_on(axis: Axis) -> None:
    """Write a logarithmic axis' ticks as plain numbers, with 2 and 5 between decades where there is room."""
    axis.set_major_formatter(lambda v, _: f"{v:g}")
    low, high = axis.get_view_interval()
    few = low > 0 and high / low < 300
    axis.set_minor_formatter(lambda v, _: f"{v:g}" if few and f"{v:.0e}"[0] in "25" else "")
    axis.set_tick_params(which="minor", labelsize=pt(SMALLEST_PT))


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure in the formats of the style in force; the same data gives the same bytes."""
    style = _current.get()
    written = []
    for kind in style.formats:
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}[kind]
        path = folder / f"{name}.{kind}"
        figure.savefig(path, metadata=metadata, dpi=style.png_dpi)
        figure.set_layout_engine("none")  # the first format has found the places
        written.append(path)
    plt.close(figure)
    return written


def round_ticks(most: float) -> list[float]:
    """Return a few round values from 0 to `most`.

    Examples
    --------
    >>> round_ticks(250.0)
    [0.0, 100.0, 200.0]
    """
    ticks = MaxNLocator(nbins=3, steps=[1, 2, 5, 10]).tick_values(0.0, most)
    return [float(tick) for tick in ticks if tick <= most]
