"""The model is loaded when the service starts: the first question loads and compiles nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import first_question
import httpx
import pytest
from fastapi.testclient import TestClient
from served import Served

from harness.service.application import create_application
from harness.service.model_loading import ModelLoading

WITHIN_S = 300
"""Compilation on a busy machine; it is not measured here."""


def test_the_service_says_when_its_model_is_ready(served: Served) -> None:
    limit = time.monotonic() + WITHIN_S
    while (said := httpx.get(f"{served.url}/health").json()["model"]) == "loading":
        assert time.monotonic() < limit
        time.sleep(0.1)
    assert said == "ready"


def test_pages_are_there_while_the_model_is_loaded(tmp_path: Path) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def load() -> None:
        begun.set()
        assert may_end.wait(60)

    application = create_application([tmp_path])
    application.state.model = loading = ModelLoading(load)
    with TestClient(application, base_url="http://127.0.0.1") as client:
        loading.start()
        assert begun.wait(60)
        assert client.get("/health").json()["model"] == "loading"
        assert client.get("/").status_code == 200
        may_end.set()
        loading.join()
        assert client.get("/health").json()["model"] == "ready"


def test_a_model_that_cannot_be_loaded_is_said(caplog: pytest.LogCaptureFixture) -> None:
    def load() -> None:
        raise OSError("no space left")

    loading = ModelLoading(load)
    loading.start()
    loading.join()
    assert loading.state == "failed"
    assert "no space left" in caplog.text


@pytest.mark.deep
def test_the_first_question_loads_no_package_and_compiles_nothing(tmp_path: Path) -> None:
    """In a process of its own: here, other tests have loaded both."""
    command = [sys.executable, first_question.__file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["compiled"] == []
    assert said["compiled_before"] > 0
    assert [name for name in said["loaded"] if name.startswith("harness.")] == []
    assert said["packages"] == []
