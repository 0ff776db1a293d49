"""Which Neo4j is asked."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.stores import given_graph


def test_a_graph_without_a_password_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEO4J_URI", "NEO4J_PASSWORD", "NEO4J_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert given_graph() is None
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:7687")
    with pytest.raises(UsageError, match="set NEO4J_PASSWORD or NEO4J_PASSWORD_FILE"):
        given_graph()
