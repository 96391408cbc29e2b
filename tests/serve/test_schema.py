"""Requests that schemathesis makes up from the schema: no 5xx, and answers fit the schema."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.serve.conftest import SOAK, Running

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def test_answers_fit_the_schema(server: Running) -> None:
    schema = schemathesis.openapi.from_dict(server.client.get("/openapi.json").json())
    schema.config.update(base_url=server.url)
    found = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=300 if SOAK else 8,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(case=operation.as_strategy())
        def ask(case: schemathesis.Case) -> None:
            answer = case.call(base_url=server.url, timeout=60)
            case.validate_response(answer, checks=CHECKS)

        ask()
        found += 1
    assert found >= 13
