"""What is told of Ansible's events; their shapes are those of ansible-core 2.19."""

from __future__ import annotations

from typing import Any

import pytest

from harness.backends.hosts.ansible import PlaybookResult, TaskDone, _Events, message_of
from harness.errors import ClusterError


def event(kind: str, host: str = "node-1", task: str = "storm : Unpack", **res: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task": task, "res": res}}


def take(*events: dict[str, Any]) -> tuple[PlaybookResult, list[TaskDone]]:
    seen: list[TaskDone] = []
    handler = _Events(seen.append)
    for one in events:
        handler.take(one)
    handler.played.status = "failed"
    return handler.played, seen


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (
            {"msg": "non-zero return code", "stderr": "warning\ndisk full: 3 MB free", "rc": 1},
            "disk full: 3 MB free",
        ),
        ({"msg": "non-zero return code", "stderr": "", "stdout": "it said\nno"}, "no"),
        ({"msg": "Missing sudo password"}, "Missing sudo password"),
        (
            {"msg": "MODULE FAILURE\nSee stdout/stderr", "module_stderr": "Traceback\nOSError: [Errno 28]"},
            "OSError: [Errno 28]",
        ),
        ({"msg": "", "rc": 3}, "it says nothing"),
        (
            {"censored": "no_log was set", "msg": "secret"},
            "the output is hidden, because it may hold a secret",
        ),
        ({"msg": "two\n  lines"}, "two lines"),
    ],
)
def test_a_result_as_one_line(result: dict[str, Any], expected: str) -> None:
    assert message_of(result) == expected


def test_the_first_failure_is_told_with_host_task_and_the_others() -> None:
    played, seen = take(
        event("runner_on_ok", "control", changed=True),
        event("runner_on_failed", "node-2", msg="no"),
        event("runner_on_failed", "node-1", msg="nor here"),
    )
    assert [d.outcome for d in seen] == ["changed", "failed", "failed"]
    with pytest.raises(ClusterError) as raised:
        played.require_success()
    assert raised.value.message == "node-2: Unpack: no (and on node-1)"


def test_the_item_that_failed_is_told_not_the_loop() -> None:
    played, _ = take(
        event("runner_item_on_failed", msg="user: no such shell"),
        event("runner_on_failed", msg="One or more items failed"),
    )
    assert played.failures == [TaskDone("node-1", "Unpack", "failed", "user: no such shell")]


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        (
            "runner_on_unreachable",
            "harness@192.0.2.1: Permission denied (publickey).",
            "does not accept this key",
        ),
        ("runner_on_failed", "Missing sudo password", "needs sudo without a password"),
        ("runner_on_failed", "OSError: [Errno 28] No space left on device", "make room on that host"),
    ],
)
def test_usual_causes_have_a_hint(kind: str, message: str, hint: str) -> None:
    played, _ = take(event(kind, msg=message))
    with pytest.raises(ClusterError) as raised:
        played.require_success()
    assert hint in raised.value.hint


def test_an_interrupted_run_is_one() -> None:
    played, _ = take()
    played.status = "canceled"
    with pytest.raises(KeyboardInterrupt):
        played.require_success()
