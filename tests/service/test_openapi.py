"""Questions that the OpenAPI allows, and many that it does not: none ends in a fault of the server."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from served import TOPOLOGY, Served

pytestmark = pytest.mark.deep
ANSWERED_WITHIN_S = 300
"""On a busy machine; the client's own 10 s are a matter of speed, which is not tested here."""


@pytest.fixture
def job(served: Served) -> Iterator[str]:
    """A job whose file is no experiment, so that every start of it ends by itself within seconds.

    All that was started is stopped in the end. No drawn name is an experiment's or a run's, so what drawn
    bodies start are jobs of the same kind.
    """
    with httpx.Client(base_url=served.url, headers=served.bearing, timeout=ANSWERED_WITHIN_S) as client:
        before = {one["id"] for one in client.get("/jobs").json()}
        started = client.post("/jobs", json={"kind": "run", "file": "nothing: 1"})
        yield started.json()["id"]
        for one in client.get("/jobs").json():
            if one["id"] not in before:
                assert one["asked"].get("experiment") is None
                client.post(f"/jobs/{one['id']}/stop")


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_question_is_a_server_error(mode: GenerationMode, served: Served, job: str) -> None:
    """Each is asked as it was drawn, mostly of unknown names, then with the token of each known one."""
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 8
    known = {"topology": ("noise-floor", TOPOLOGY), "job": (job,)}
    validated = set()
    for operation in operations:

        @given(operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=5,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def asked(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=[not_a_server_error], timeout=ANSWERED_WITHIN_S)
            case.headers.update(served.bearing)
            names = [(key, name) for key in case.path_parameters for name in known[key]]
            for key, name in names or [("", "")]:
                if key:
                    case.path_parameters[key] = name
                answer = case.call_and_validate(checks=[not_a_server_error], timeout=ANSWERED_WITHIN_S)
                assert answer.status_code != 401
                validated.add((case.method, case.path, answer.status_code))

        if mode.is_positive or operation.query or operation.body:
            asked()
    started = {status for method, path, status in validated if (method, path) == ("POST", "/jobs")}
    told = {202, 404, 409} if mode.is_positive else {422}  # what only valid bodies are told, or others
    assert started & told
