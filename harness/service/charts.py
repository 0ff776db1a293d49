"""Line charts of a few minutes, drawn by the service: a line, what is foreseen after it, and its band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from markupsafe import Markup

Point = tuple[float, float]
WIDTH, HEIGHT = 1000, 100
_HEADROOM = 1.05


@dataclass(frozen=True)
class Band:
    """A forecast: times, the lower end, the middle and the upper end at each."""

    time_s: Sequence[float]
    low: Sequence[float]
    middle: Sequence[float]
    high: Sequence[float]


def line_chart(
    name: str, kind: str, points: Sequence[Point], join_s: float, band: Band | None = None
) -> Markup:
    """Return a chart as SVG; times count from the last point.

    Lines take whatever width the page has; letters, in a box of their own, keep their shape.

    Parameters
    ----------
    name : str
        The chart in words, for who cannot see it.
    kind : str
        Class of the line, which colours it.
    points : sequence of (float, float)
        Time in s and value, in order of time.
    join_s : float
        Points further apart than this are not joined: nothing was reported between them.

    Examples
    --------
    >>> line_chart("rate", "rates", [(0.0, 1.0), (1.0, 2.0), (9.0, 1.0)], 2.0).count('class="line"')
    1
    """
    from harness.analysis.figures.style import round_ticks

    ahead = [] if band is None else list(band.time_s)
    times = [t for t, _ in points] + ahead
    values = [v for _, v in points] + ([] if band is None else list(band.high))
    if not points:
        return Markup("")
    first_s, last_s, now_s = min(times), max(times), points[-1][0]
    ticks = round_ticks(max(*values, 1e-9))
    most = max(*values, ticks[-1]) * _HEADROOM

    def at(time_s: float, value: float) -> str:
        x = WIDTH * (time_s - first_s) / max(last_s - first_s, 1e-9)
        return f"{x:.1f} {HEIGHT * (1 - max(value, 0.0) / most):.1f}"

    parts = [_grid(ticks, most)]
    if band is not None and ahead:
        upper = [at(t, v) for t, v in zip(ahead, band.high, strict=True)]
        lower = [at(t, v) for t, v in zip(ahead, band.low, strict=True)]
        parts.append(f'<path class="measure" d="M{"L".join([*upper, *reversed(lower)])}Z"/>')
        middle = "L".join(at(t, v) for t, v in zip(ahead, band.middle, strict=True))
        parts.append(f'<path class="line ahead" d="M{middle}"/>')
    stretches = "".join(
        f"M{'L'.join(at(t, v) for t, v in stretch)}" for stretch in _stretches(points, join_s)
    )
    parts.append(f'<path class="line" d="{stretches}"/>')
    end = f"{last_s - now_s:+.0f} s" if ahead else "now"
    letters = "".join(
        f'<text class="tick" x="-6" y="{100 * (1 - tick / most):.1f}%">{tick:g}</text>' for tick in ticks
    )
    return Markup(
        f'<svg class="chart lined {escape(kind)}" role="img" aria-label="{escape(name)}">'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">{"".join(parts)}</svg>{letters}'
        f'<text class="time" y="100%">{first_s - now_s:.0f} s</text>'
        f'<text class="time end" x="100%" y="100%">{end}</text></svg>'
    )


def _stretches(points: Sequence[Point], join_s: float) -> list[list[Point]]:
    """Return runs of points with no more than `join_s` between two; a lone point is a line to itself."""
    found = [[points[0]]]
    for before, point in pairwise(points):
        if point[0] - before[0] > join_s:
            found.append([])
        found[-1].append(point)
    return [stretch if len(stretch) > 1 else stretch * 2 for stretch in found]


def _grid(ticks: Sequence[float], most: float) -> str:
    heights = (HEIGHT * (1 - tick / most) for tick in ticks)
    return "".join(f'<line class="grid" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>' for y in heights)
