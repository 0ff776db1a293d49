"""A query plan in text: levels from left to right, a row for each component, a letter for each stream."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import TextWrapper

from harness.plans import QueryPlan
from harness.topologies.ways import levels

WIDTH = 80
"""Columns of a terminal that nobody has widened."""
LETTERS: Mapping[str, str] = {
    "shuffle": "S",
    "fields": "F",
    "local-or-shuffle": "L",
    "all": "A",
    "global": "G",
    "none": "N",
    "partial-key": "P",
    "direct": "D",
    "custom": "C",
}
"""A letter for each grouping."""

_LINES = TextWrapper(WIDTH, break_on_hyphens=False)


def draw(plan: QueryPlan) -> list[str]:
    r"""Return the lines of a drawing, none wider than 80 columns.

    Each component has a row of its own. A stream is the letter where its source's row meets the line that
    leads down or up to its target. Where names are too long, numbers stand for them. Where numbers do not
    fit either, there is a line for each component and each stream.

    Parameters
    ----------
    plan : QueryPlan
        Without a loop.

    Examples
    --------
    >>> from harness.plans import Component, Stream
    >>> roles = {"in": "spout", "a": "json", "out": "sender"}
    >>> ways = (("in", "a", "shuffle"), ("in", "out", "all"), ("a", "out", "fields"))
    >>> plan = QueryPlan(
    ...     name="short-cut",
    ...     components=tuple(Component(name=n, role=r, tasks=2) for n, r in roles.items()),
    ...     streams=tuple(Stream(source=a, target=b, grouping=g) for a, b, g in ways),
    ... )
    >>> print("\n".join(draw(plan)))
    in:2 -S--------A
          |        |
          +-> a:2 -F
                   |
                   +-> out:2
    component:tasks; S shuffle, F fields, A all
    """
    used = [g for g in LETTERS if any(s.grouping == g for s in plan.streams)]
    legend = "; " + ", ".join(f"{LETTERS[g]} {g}" for g in used) if used else ""
    names = {c.name: f"{c.name}:{c.tasks}" for c in plan.components}
    drawn = _drawn(plan, names)
    if max(map(len, drawn)) <= WIDTH:
        return [*drawn, *_LINES.wrap(f"component:tasks{legend}")]
    drawn = _drawn(plan, {name: str(i) for i, name in enumerate(names, start=1)})
    if max(map(len, drawn)) <= WIDTH:
        key = ", ".join(f"{i} {label}" for i, label in enumerate(names.values(), start=1))
        return [*drawn, *_LINES.wrap(f"number component:tasks{legend}"), *_LINES.wrap(key)]
    lines = [*names.values(), *(f"{s.source} -> {s.target}: {s.grouping}" for s in plan.streams)]
    return [part for line in lines for part in _LINES.wrap(line)]


def _drawn(plan: QueryPlan, labels: Mapping[str, str]) -> list[str]:
    """Return the drawing with these labels, as wide as it gets."""
    level = levels(plan)
    order = sorted(labels, key=lambda name: level[name])  # of one level as the plan lists them
    row = {name: 2 * i for i, name in enumerate(order)}
    place, channel = _columns(order, level, labels)
    canvas: dict[tuple[int, int], str] = {}
    for name in order:
        for i, letter in enumerate(labels[name]):
            canvas[row[name], place[name] + i] = letter
        reach = max((channel[s.target] for s in plan.outputs(name)), default=0)
        for x in range(place[name] + len(labels[name]) + 1, reach):
            canvas[row[name], x] = "-"
    for name in order:
        sources = [row[s.source] for s in plan.inputs(name)]
        if not sources:
            continue
        for y in range(min(sources) + 1, row[name]):
            canvas[y, channel[name]] = "|"
        arrow = f"+{'-' * (place[name] - channel[name] - 3)}>"
        for i, part in enumerate(arrow):
            canvas[row[name], channel[name] + i] = part
    for s in plan.streams:
        canvas[row[s.source], channel[s.target]] = LETTERS[s.grouping]
    width = 1 + max(x for _, x in canvas)
    rows = range(1 + max(y for y, _ in canvas))
    return ["".join(canvas.get((y, x), " ") for x in range(width)).rstrip() for y in rows]


def _columns(
    order: list[str], level: Mapping[str, int], labels: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return where each label begins, and where the line to each component stands."""
    place: dict[str, int] = {}
    channel: dict[str, int] = {}
    x = 0
    for number in range(1 + max(level.values())):
        mine = [name for name in order if level[name] == number]
        if number:
            # the lowest component's line stands first, so that no line crosses another's arrow
            for i, name in enumerate(reversed(mine)):
                channel[name] = x + 2 + 2 * i
            x += 2 * len(mine) + 4
        place.update(dict.fromkeys(mine, x))
        x += max(len(labels[name]) for name in mine)
    return place, channel
