"""A query plan as a drawing: components in columns from the spouts on, streams between them (SVG)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from harness.plans import QueryPlan

_WIDTH, _HEAD, _LINE, _ACROSS, _DOWN, _PAD = 150, 34, 14, 70, 22, 6
_LABELLED = 100
"""Space between columns where streams have lines of text."""


def columns(plan: QueryPlan) -> list[list[str]]:
    """Return the components by column: each is one behind the last of those that it subscribes to.

    Within a column a component is at the mean place of its sources, so that few streams cross. In a circle,
    the component that is named first is behind the others.

    Examples
    --------
    >>> from harness.plans import Component, Stream
    >>> parts = tuple(Component(name=n, tasks=1, role=r) for n, r in (("a", "spout"), ("b", "sender")))
    >>> way = Stream(source="a", target="b", grouping="all")
    >>> columns(QueryPlan(name="q", components=parts, streams=(way,)))
    [['a'], ['b']]
    """
    names = [c.name for c in plan.components]
    depth = dict.fromkeys(names, 0)
    for _ in names:
        for stream in plan.streams:
            depth[stream.target] = min(max(depth[stream.target], depth[stream.source] + 1), len(names))
    found: list[list[str]] = []
    place: dict[str, float] = {}
    for level in sorted(set(depth.values())):
        column = [n for n in names if depth[n] == level]
        before = {n: [place[s.source] for s in plan.inputs(n) if s.source in place] for n in column}
        column.sort(key=lambda n: sum(before[n]) / len(before[n]) if before[n] else 0.0)
        place |= {n: i - (len(column) - 1) / 2 for i, n in enumerate(column)}
        found.append(column)
    return found


def draw(
    plan: QueryPlan,
    notes: Mapping[str, Sequence[str]] | None = None,
    highlighted: str = "",
    link: str = "",
    labels: Mapping[tuple[str, str, str], Sequence[str]] | None = None,
) -> str:
    """Return the drawing.

    Parameters
    ----------
    notes : mapping, optional
        Lines to be written below a component's name.
    highlighted : str
        The component that is framed.
    link : str
        What leads from a component to what is said of it, its name appended; no links where it is empty.
    labels : mapping, optional
        Lines to be written on streams, by source, target and stream, in place of their groupings.
    """
    notes = notes or {}
    across = _ACROSS if labels is None else _LABELLED
    levels = columns(plan)
    height = {n: _HEAD + _LINE * len(notes.get(n, ())) for level in levels for n in level}
    tall = max((sum(height[n] + _DOWN for n in level) - _DOWN for level in levels), default=0)
    corner: dict[str, tuple[float, float]] = {}
    for i, level in enumerate(levels):
        y = (tall - sum(height[n] + _DOWN for n in level) + _DOWN) / 2 + _PAD
        for name in level:
            corner[name] = (_PAD + i * (_WIDTH + across), y)
            y += height[name] + _DOWN
    wide = len(levels) * (_WIDTH + across) - across + 2 * _PAD
    role = "group" if link else "img"
    streams = "".join(_stream(plan, i, corner, height, labels) for i in range(len(plan.streams)))
    boxes = []
    for c in plan.components:
        box = _box(
            c.name, f"{c.role}, {c.tasks} tasks", notes.get(c.name, ()), height[c.name], c.name == highlighted
        )
        x, y = corner[c.name]
        placed = f'<g transform="translate({x:g},{y:g})">{box}</g>'
        boxes.append(f'<a href="{escape(link + c.name)}">{placed}</a>' if link else placed)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="query-plan" viewBox="0 0 {wide} {tall + 2 * _PAD:g}"'
        f' width="{wide}" height="{tall + 2 * _PAD:g}" role="{role}" aria-label="query plan"'
        ' font-family="DejaVu Sans, sans-serif" font-size="11">'
        f"{streams}{''.join(boxes)}</svg>"
    )


def _box(name: str, what: str, notes: Sequence[str], height: float, highlighted: bool) -> str:
    fill, stroke, width = ("#fff3cd", "#b35900", 3) if highlighted else ("#f3f6f9", "#667", 1)
    lines = "".join(
        f'<text x="8" y="{_HEAD + _LINE * i + 8}" fill="#0b5394">{escape(_cut(line))}</text>'
        for i, line in enumerate(notes)
    )
    return (
        f"<title>{escape(name)}: {escape(what)}</title>"
        f'<rect width="{_WIDTH}" height="{height}" rx="6" fill="{fill}" stroke="{stroke}"'
        f' stroke-width="{width}"/>'
        f'<text x="8" y="15" font-weight="bold" fill="#111">{escape(_cut(name))}</text>'
        f'<text x="8" y="28" fill="#444" font-size="10">{escape(_cut(what))}</text>{lines}'
    )


def _cut(text: str) -> str:
    return text if len(text) <= 22 else f"{text[:21]}…"


def _stream(
    plan: QueryPlan,
    index: int,
    corner: Mapping[str, tuple[float, float]],
    height: Mapping[str, float],
    labels: Mapping[tuple[str, str, str], Sequence[str]] | None,
) -> str:
    """Return one stream's curve with its label on it; those that leave one component are spread."""
    stream = plan.streams[index]
    out, into = plan.outputs(stream.source), plan.inputs(stream.target)
    (x0, y0), (x1, y1) = corner[stream.source], corner[stream.target]
    x0 += _WIDTH
    y0 += height[stream.source] * (out.index(stream) + 1) / (len(out) + 1)
    y1 += height[stream.target] * (into.index(stream) + 1) / (len(into) + 1)
    bend = (_ACROSS if labels is None else _LABELLED) / 2
    named = stream.grouping if stream.stream == "default" else f"{stream.grouping}, {stream.stream}"
    lines = [named if len(named) < 16 else stream.grouping]
    if labels is not None:
        lines = list(labels.get((stream.source, stream.target, stream.stream), ()))
    return (
        f'<path d="M{x0:g} {y0:g}C{x0 + bend:g} {y0:g} {x1 - bend:g} {y1:g} {x1:g} {y1:g}"'
        ' fill="none"'
        f' stroke="#555"><title>{escape(stream.label)}: {escape(named)}</title></path>'
        f'<path d="M{x1 - 7:g} {y1 - 3.5:g}L{x1:g} {y1:g}L{x1 - 7:g} {y1 + 3.5:g}z" fill="#555"/>'
        f"{_on_stream(lines, (x0 + x1) / 2, (y0 + y1) / 2 - 4)}"
    )


def _on_stream(lines: Sequence[str], x: float, y: float) -> str:
    """Return lines of text about the middle of a stream: the first above it, all others below."""
    return "".join(
        f'<text x="{x:g}" y="{y + (i and 4) + 10 * i:g}" text-anchor="middle" fill="#444"'
        f' font-size="9">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
