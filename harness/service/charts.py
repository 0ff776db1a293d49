"""Line charts of a few minutes, drawn by the service: a line, what is foreseen after it, and its band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

Point = tuple[float, float]
WIDTH, HEIGHT = 900, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, WIDTH - 8, 10, HEIGHT - 22


@dataclass(frozen=True)
class Band:
    """A forecast: times, the lower end, the middle and the upper end at each."""

    time_s: Sequence[float]
    low: Sequence[float]
    middle: Sequence[float]
    high: Sequence[float]


def line_chart(name: str, kind: str, points: Sequence[Point], band: Band | None = None) -> Markup:
    """Return a chart as SVG; times count from the last point.

    Parameters
    ----------
    name : str
        The chart in words, for who cannot see it.
    kind : str
        Class of the line, which colours it.
    points : sequence of (float, float)
        Time in s and value.

    Examples
    --------
    >>> "<svg" in line_chart("rate", "rates", [(0.0, 1.0), (1.0, 2.0)])
    True
    """
    ahead = [] if band is None else list(band.time_s)
    times = [t for t, _ in points] + ahead
    values = [v for _, v in points] + ([] if band is None else list(band.high))
    if not points:
        return Markup("")
    first_s, last_s, now_s = min(times), max(times), points[-1][0]
    most = max(*values, 1e-9) * 1.1

    def at(time_s: float, value: float) -> str:
        x = _LEFT + (_RIGHT - _LEFT) * (time_s - first_s) / max(last_s - first_s, 1e-9)
        return f"{x:.1f} {_BOTTOM - (_BOTTOM - _TOP) * max(value, 0.0) / most:.1f}"

    parts = [_grid(most)]
    if band is not None and ahead:
        upper = [at(t, v) for t, v in zip(ahead, band.high, strict=True)]
        lower = [at(t, v) for t, v in zip(ahead, band.low, strict=True)]
        parts.append(f'<path class="measure" d="M{"L".join([*upper, *reversed(lower)])}Z"/>')
        middle = "L".join(at(t, v) for t, v in zip(ahead, band.middle, strict=True))
        parts.append(f'<path class="line ahead" d="M{middle}"/>')
    parts.append(f'<path class="line" d="M{"L".join(at(t, v) for t, v in points)}"/>')
    parts.append(f'<text x="{_LEFT}" y="{HEIGHT - 6}">{first_s - now_s:.0f} s</text>')
    end = f"{last_s - now_s:+.0f} s" if ahead else "now"
    parts.append(f'<text x="{_RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{end}</text>')
    return Markup(
        f'<svg class="chart {escape(kind)}" role="img" aria-label="{escape(name)}"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">{"".join(parts)}</svg>'
    )


def _grid(most: float) -> str:
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = _BOTTOM - (_BOTTOM - _TOP) * share / 1.1
        value = most / 1.1 * share
        text = f"{value:.0f}" if value >= 100 else f"{value:.2g}"
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return "".join(lines)
