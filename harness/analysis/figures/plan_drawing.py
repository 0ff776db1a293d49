"""A physical plan as a drawing: executors on workers on worker nodes (SVG)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from harness.analysis.figures import style
from harness.plans import ACKER, METRICS_CONSUMER_PREFIX, Executor, PhysicalPlan

_CELL, _GAP, _PAD, _HEAD = 30, 3, 7, 15
_PER_ROW = 8
_WORKERS_PER_ROW = 2


def legend(plan: PhysicalPlan) -> list[tuple[str, str, str]]:
    """Return short name, component and colour of all that is drawn, Storm's own last."""
    names = [c.name for c in plan.query_plan.components]
    return [(_short(n, names), n, _colour(n, names)) for n in names] + [
        ("ack", "ackers", "#bbbbbb"),
        ("met", "metrics consumer", "#dddddd"),
    ]


def draw(plan: PhysicalPlan) -> str:
    """Return the drawing; each executor has its label as tooltip and its number of tasks in the box.

    Examples
    --------
    >>> draw(PhysicalPlan.model_construct(query_plan=None, nodes=(), executors=()))[:4]
    '<svg'
    """
    x = 0
    height = 0
    parts = []
    for node in plan.nodes:
        workers = [w for w in plan.workers if w.node == node.name]
        body, width, tall = _node(plan, node.name, [w.port for w in workers])
        parts.append(f'<g transform="translate({x},0)">{body}</g>')
        x += width + 10
        height = max(height, tall)
    width, height = max(x - 10, 1), max(height, 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img" aria-label="physical plan"'
        f' font-family="DejaVu Sans, sans-serif" font-size="9">{"".join(parts)}</svg>'
    )


def _node(plan: PhysicalPlan, name: str, ports: Sequence[int]) -> tuple[str, int, int]:
    drawn = [_worker(plan, name, port) for port in ports]
    x = y = _PAD
    y += _HEAD
    widest, row_height = 110, 0
    parts = []
    for i, (body, width, height) in enumerate(drawn):
        if i and i % _WORKERS_PER_ROW == 0:
            x, y, row_height = _PAD, y + row_height + _PAD, 0
        parts.append(f'<g transform="translate({x},{y})">{body}</g>')
        x += width + _PAD
        row_height = max(row_height, height)
        widest = max(widest, x)
    tall = y + row_height + _PAD
    text = escape(name) if ports else f"{escape(name)} (no worker)"
    frame = (
        f'<rect width="{widest}" height="{tall}" rx="5" fill="#f6f6f6" stroke="#888"/>'
        f'<text x="{_PAD}" y="15" font-weight="bold">{text}</text>'
    )
    return frame + "".join(parts), widest, tall


def _worker(plan: PhysicalPlan, node: str, port: int) -> tuple[str, int, int]:
    names = [c.name for c in plan.query_plan.components]
    mine = [e for e in plan.executors if (e.worker.node, e.worker.port) == (node, port)]
    order = {n: i for i, n in enumerate(names)}
    mine.sort(key=lambda e: (order.get(e.component, len(names)), e.component, e.first_task))
    columns = min(_PER_ROW, max(len(mine), 2))
    parts = []
    for i, e in enumerate(mine):
        row, column = divmod(i, columns)
        x, y = _PAD + column * (_CELL + _GAP), _HEAD + 3 + row * (_CELL - 8 + _GAP)
        parts.append(f'<g transform="translate({x},{y})">{_executor(e, names)}</g>')
    rows = -(-len(mine) // columns) or 1
    width = 2 * _PAD + columns * (_CELL + _GAP) - _GAP
    height = _HEAD + 3 + rows * (_CELL - 8 + _GAP) + _PAD - _GAP
    frame = (
        f'<rect width="{width}" height="{height}" rx="3" fill="#fff" stroke="#aaa"/>'
        f'<text x="{_PAD}" y="12">worker {port}: {len(mine)}</text>'
    )
    return frame + "".join(parts), width, height


def _executor(executor: Executor, names: Sequence[str]) -> str:
    colour = _colour(executor.component, names)
    ink = "#fff" if executor.component in names and colour not in ("#56B4E9", "#E69F00") else "#222"
    tasks = len(executor.tasks)
    tip = f"{executor.label}: {tasks} task{'s' * (tasks > 1)} on {executor.worker.label}"
    return (
        f'<g data-tip="{escape(tip)}"><title>{escape(tip)}</title>'
        f'<rect width="{_CELL}" height="{_CELL - 8}" rx="2" fill="{colour}"/>'
        f'<text x="{_CELL / 2:g}" y="15" text-anchor="middle" fill="{ink}">'
        f"{escape(_short(executor.component, names))}</text></g>"
    )


def _short(component: str, names: Sequence[str]) -> str:
    """Return at most four letters that tell a component from the others."""
    if component == ACKER:
        return "ack"
    if component.startswith(METRICS_CONSUMER_PREFIX):
        return "met"
    words = component.split("-")
    short = component[:3] if len(words) == 1 else f"{words[0][:2]}-{words[-1][:1]}"
    same = [n for n in names if n != component and n[:3] == component[:3] and len(n.split("-")) == len(words)]
    return f"{component[:2]}{names.index(component)}" if same and len(words) == 1 else short


def _colour(component: str, names: Sequence[str]) -> str:
    if component not in names:
        return "#bbbbbb" if component == ACKER else "#dddddd"
    return style.COLOURS[list(names).index(component) % len(style.COLOURS)]
