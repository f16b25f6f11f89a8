"""schemathesis: requests made from the OpenAPI description, right and wrong ones; replies must be as described."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

OPERATIONS = [
    ("/api/answer", "get"),
    ("/api/answer", "post"),
    ("/api/answers", "post"),
    ("/ready", "get"),
    ("/api/candidates", "get"),
    ("/api/reload", "post"),
    ("/api/explain", "get"),
    ("/api/drawing", "get"),
    ("/api/search", "get"),
    ("/api/complete", "get"),
    ("/api/kb", "get"),
    ("/api/concept", "get"),
    ("/api/entities/{iri}", "get"),
    ("/api/concepts/{iri}", "get"),
    ("/api/relations/{iri}", "get"),
    ("/api/concepts", "get"),
    ("/api/relations", "get"),
    ("/health", "get"),
    ("/metrics", "get"),
    ("/sparql", "get"),
    ("/sparql", "post"),
]
SILENT = {
    "/api/kb",
    "/api/reload",
    "/health",
    "/metrics",
    "/ready",
}  # nothing can be wrong with a request that says nothing
CASES = [
    (path, method, mode)
    for path, method in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or path not in SILENT
]
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]


@pytest.fixture(scope="module")
def described(address: str):  # type: ignore[no-untyped-def]
    return schemathesis.openapi.from_url(f"{address}/openapi.json")


def test_every_operation_is_under_test(described) -> None:  # type: ignore[no-untyped-def]
    found = [(item.ok().path, item.ok().method) for item in described.get_all_operations()]
    assert sorted(found) == sorted(OPERATIONS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_replies_are_as_described(described, path: str, method: str, mode: GenerationMode) -> None:  # type: ignore[no-untyped-def]
    operation = described[path][method]
    count = 0

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=25,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case) -> None:  # type: ignore[no-untyped-def]
        nonlocal count
        count += 1
        case.validate_response(case.call(), checks=CHECKS)

    check()
    assert count > 0
