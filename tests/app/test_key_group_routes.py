"""Routing tables of a submission: each changed one is published as its component's next version."""

from __future__ import annotations

import json

from harness.app.key_group_routes import PublishedRoutes
from harness.experiments.key_group_moves import GroupMove

FIRST = {"count": (0, 1, 0), "total": (0, 1)}


def test_only_tables_that_change_are_published_and_versions_count_up() -> None:
    published: list[tuple[str, dict[str, object]]] = []
    routes = PublishedRoutes(FIRST, lambda: "keyed-1-9", lambda c, r: published.append((c, json.loads(r))))
    assert routes.tables() == FIRST
    assert routes.move({"count": (1, 1, 1), "total": (0, 1)}) == {
        GroupMove("count", 0, 1),
        GroupMove("count", 2, 1),
    }
    assert routes.move({"count": (1, 0, 1), "total": (1, 1)}) == {
        GroupMove("count", 1, 2),
        GroupMove("total", 0, 1),
    }
    assert routes.tables() == {"count": (1, 0, 1), "total": (1, 1)}
    assert published == [
        ("count", {"topology": "keyed-1-9", "version": 1, "tasks": [1, 1, 1]}),
        ("count", {"topology": "keyed-1-9", "version": 2, "tasks": [1, 0, 1]}),
        ("total", {"topology": "keyed-1-9", "version": 1, "tasks": [1, 1]}),
    ]


def test_another_submission_begins_anew() -> None:
    ids, published = ["keyed-1-9"], list[bytes]()
    routes = PublishedRoutes(FIRST, lambda: ids[0], lambda _, r: published.append(r))
    routes.move({**FIRST, "count": (1, 1, 0)})
    ids[0] = "keyed-2-10"
    assert routes.tables() == FIRST
    assert routes.move({**FIRST, "count": (1, 1, 0)}) == {GroupMove("count", 0, 1)}
    assert json.loads(published[1])["topology"] == "keyed-2-10"
