"""A physical plan as it runs: executors in workers in nodes, and what travels between them (SVG).

Data flows from left to right: components stand in the columns of the query plan's drawing. Each worker is a
band across them. The compact drawing has components in place of executors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape

from harness.analysis.figures import query_plan_drawing, style
from harness.experiments.plan_traffic import ComponentTraffic, ConnectionTraffic, PlanTraffic
from harness.plans import METRICS_CONSUMER_PREFIX, Executor, PhysicalPlan, Worker
from harness.schemas import Metric

_BOX, _TALL, _ACROSS, _GAP, _PAD, _HEAD = 118, 32, 64, 5, 8, 16
_CUT = 16
_THICKEST = 5.0


def draw_compact(plan: PhysicalPlan, traffic: PlanTraffic | None) -> str:
    """Return the components and their streams, with their traffic where it is known."""
    if traffic is None:
        return query_plan_drawing.draw(plan.query_plan)
    notes = {c.name: component_words(c) for c in traffic.components}
    labels = {(s.source, s.target, s.stream): connection_words(s) for s in traffic.streams}
    return query_plan_drawing.draw(plan.query_plan, notes, labels=labels)


def component_words(part: ComponentTraffic) -> list[str]:
    """Return the known rates and size of a component's tuples, a line each.

    Examples
    --------
    >>> component_words(ComponentTraffic("bolt", None, 40.0, None, 4.0, None))
    ['executed 4/s']
    """
    found = []
    for word, passed_tps in (("executed", part.executed_tps), (Metric.EMITTED.value, part.emitted_tps)):
        if passed_tps is not None:
            found.append(f"{word} {style.number(passed_tps)}/s")
    if part.tuple_bytes is not None:
        found.append(f"{style.number(part.tuple_bytes)} bytes a tuple")
    return found


def connection_words(way: ConnectionTraffic) -> list[str]:
    """Return the known numbers of a connection, a line each.

    Examples
    --------
    >>> connection_words(ConnectionTraffic("a", "b", "default", True, 100.0, 51_200.0, 81.25))
    ['100/s', '51.2 kB/s', 'fill 81 %']
    """
    found = [f"{style.number(way.tuples_tps)}/s"]
    if way.bytes_s is not None:
        found.append(bytes_words(way.bytes_s))
    if way.fill_pct is not None:
        found.append(f"fill {way.fill_pct:.0f} %")
    return found


def bytes_words(bytes_s: float) -> str:
    """Return bytes a second with a unit that keeps the number short.

    Examples
    --------
    >>> bytes_words(512.0), bytes_words(51_200.0), bytes_words(2_500_000.0)
    ('512 B/s', '51.2 kB/s', '2.5 MB/s')
    """
    for limit, unit in ((1e6, "MB/s"), (1e3, "kB/s")):
        if bytes_s >= limit:
            return f"{style.number(bytes_s / limit)} {unit}"
    return f"{style.number(bytes_s)} B/s"


def draw_whole(plan: PhysicalPlan, traffic: PlanTraffic | None) -> str:
    """Return every executor in its worker, and a line for each connection that carried tuples.

    A line is the thicker the more tuples a second it carries; it is dashed within a worker. The numbers of a
    connection are its tooltip: a table beside the drawing has them for all.
    """
    levels = query_plan_drawing.columns(plan.query_plan)
    column = {name: i for i, level in enumerate(levels) for name in level}
    order = {c.name: i for i, c in enumerate(plan.query_plan.components)}
    wide = (len(levels) + 1) * (_BOX + _ACROSS) - _ACROSS + 4 * _PAD
    y, frames, boxes = 0.0, [], []
    corner: dict[str, tuple[float, float]] = {}
    for node in plan.nodes:
        workers = [w for w in plan.workers if w.node == node.name]
        top, y = y, y + _HEAD + 4
        for worker in workers:
            stacks = _stacks(plan, worker, column, len(levels))
            tall = max(len(s) for s in stacks) * (_TALL + _GAP) - _GAP + _HEAD + _PAD + 4
            frames.append(_frame((_PAD, y, wide - 2 * _PAD, tall), "#fff", "#aaa", f"worker {worker.port}"))
            for i, stack in enumerate(stacks):
                for j, e in enumerate(stack):
                    at = (2 * _PAD + i * (_BOX + _ACROSS), y + _HEAD + 4 + j * (_TALL + _GAP))
                    corner[e.label] = at
                    boxes.append(_box(e, at, order, traffic.executors if traffic else {}))
            y += tall + _PAD
        if not workers:
            y += _PAD
        text = node.name if workers else f"{node.name} (no worker)"
        frames.insert(0, _frame((0, top, wide, y - top), "#f6f6f6", "#888", text))
        y += _PAD
    lines = _lines(traffic.connections if traffic else (), corner, plan, order)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" viewBox="0 0 {wide} {max(y - _PAD, 1):g}"'
        f' width="{wide}" height="{max(y - _PAD, 1):g}" role="img" aria-label="physical plan"'
        f' font-family="DejaVu Sans, sans-serif" font-size="10">{"".join([*frames, *lines, *boxes])}</svg>'
    )


def _stacks(plan: PhysicalPlan, worker: Worker, column: Mapping[str, int], last: int) -> list[list[Executor]]:
    """Return a worker's executors by column; Storm's own stand behind all others."""
    found: dict[int, list[Executor]] = defaultdict(list)
    for e in sorted(plan.executors, key=lambda e: (e.component, e.first_task)):
        if e.worker == worker:
            found[column.get(e.component, last)].append(e)
    return [found[i] for i in range(last + 1)]


def _frame(box: tuple[float, float, float, float], fill: str, stroke: str, text: str) -> str:
    """Return a frame with its name; its box is left, top, width and height."""
    x, y, wide, tall = box
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" rx="5" fill="{fill}"'
        f' stroke="{stroke}"/><text x="{x + _PAD:g}" y="{y + 13:g}" fill="#333">{escape(text)}</text>'
    )


def _box(
    e: Executor,
    at: tuple[float, float],
    order: Mapping[str, int],
    traffic: Mapping[str, ComponentTraffic],
) -> str:
    own = e.component in order
    colour = style.COLOURS[order[e.component] % len(style.COLOURS)] if own else "#999999"
    words = component_words(traffic[e.label]) if e.label in traffic else []
    tip = f"{e.label} on {e.worker.label}" + "".join(f", {word}" for word in words)
    said = _rates(traffic.get(e.label)) or f"{len(e.tasks)} task{'s' * (len(e.tasks) > 1)}"
    metrics = e.component.startswith(METRICS_CONSUMER_PREFIX)
    name = e.label if own else "metrics" if metrics else e.component.strip("_")
    return (
        f'<g class="executor" transform="translate({at[0]:g},{at[1]:g})"><title>{escape(tip)}</title>'
        f'<rect width="{_BOX}" height="{_TALL}" rx="4" fill="#fff" stroke="{colour}" stroke-width="1.5"/>'
        f'<rect width="5" height="{_TALL}" rx="2" fill="{colour}"/>'
        f'<text x="10" y="13" font-weight="bold" fill="#111">{escape(_cut(name))}</text>'
        f'<text x="10" y="26" fill="#333">{escape(said)}</text></g>'
    )


def _rates(part: ComponentTraffic | None) -> str:
    """Return tuples a second in and out, as far as they are known."""
    if part is None:
        return ""
    executed, emitted = part.executed_tps, part.emitted_tps
    into = "" if executed is None else style.number(executed)
    return f"{into} → {style.number(emitted)}/s" if emitted else f"{into}/s" if into else ""


def _lines(
    ways: Sequence[ConnectionTraffic],
    corner: Mapping[str, tuple[float, float]],
    plan: PhysicalPlan,
    order: Mapping[str, int],
) -> list[str]:
    components = {e.label: e.component for e in plan.executors}
    most_tps = max((w.tuples_tps for w in ways), default=0.0)
    lines = []
    for way in ways:
        (x0, y0), (x1, y1) = corner[way.source], corner[way.target]
        x0, y0, y1 = x0 + _BOX, y0 + _TALL / 2, y1 + _TALL / 2
        bend = max(abs(x1 - x0) / 2, _ACROSS / 2)
        colour = style.COLOURS[order[components[way.source]] % len(style.COLOURS)]
        thick = 0.7 + (_THICKEST - 0.7) * way.tuples_tps / most_tps
        dashed = "" if way.remote else ' stroke-dasharray="4 3"'
        tip = f"{way.source} → {way.target}, {way.stream}: {', '.join(connection_words(way))}"
        lines.append(
            f'<path class="connection" d="M{x0:g} {y0:g}C{x0 + bend:g} {y0:g} {x1 - bend:g} {y1:g}'
            f' {x1:g} {y1:g}" fill="none" stroke="{colour}" stroke-width="{thick:.1f}"'
            f' stroke-opacity="0.6"{dashed}><title>{escape(tip)}</title></path>'
        )
    return lines


def _cut(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[: _CUT - 1]}…"
