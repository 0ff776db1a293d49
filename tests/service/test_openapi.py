"""Questions that the OpenAPI allows, and many that it does not: none ends in a fault of the server."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from served import Served

pytestmark = pytest.mark.deep
TOPOLOGY = "noise-floor"
ANSWERED_WITHIN_S = 300
"""On a busy machine; the client's own 10 s are a matter of speed, which is not tested here."""


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_question_is_a_server_error(mode: GenerationMode, served: Served) -> None:
    """Each is asked as it was drawn, mostly of an unknown topology, and once more of one that is known."""
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 8
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
            if "topology" in case.path_parameters:
                case.path_parameters["topology"] = TOPOLOGY
                case.call_and_validate(checks=[not_a_server_error], timeout=ANSWERED_WITHIN_S)

        if mode.is_positive or operation.query or operation.body:
            asked()
