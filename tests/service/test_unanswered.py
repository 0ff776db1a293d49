"""What is answered where the service itself fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from harness.service.application import create_application
from harness.service.guarding import HEADERS, POLICY


class FailingIndex:
    """An index with a fault, which no error of the harness describes."""

    def by_topology(self) -> dict[str, object]:
        raise RuntimeError("a secret of the code")

    rows = by_topology


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    application = create_application([tmp_path], submitted=tmp_path / "submitted")
    application.state.index = FailingIndex()
    with TestClient(application, base_url="http://127.0.0.1") as opened:
        yield opened


@pytest.mark.parametrize("path", ["/", "/model/traffic/storm/any"])
def test_a_fault_is_one_line_and_its_traceback_is_logged(
    path: str, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = client.get(path)
    line = f"the service failed at GET {path}: what it printed says where"
    assert answer.status_code == 500
    if path == "/":
        assert line in answer.text
    else:
        assert answer.json() == {"errors": [{"type": "ServiceFault", "error": line}]}
    assert "a secret of the code" not in answer.text
    for name, value in {"content-security-policy": POLICY, **HEADERS}.items():
        assert answer.headers[name] == value
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "a secret of the code" in caplog.text
