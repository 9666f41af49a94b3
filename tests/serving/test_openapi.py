"""The service does what its OpenAPI description says, whatever it is asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from feduplink.export import OnnxPolicy
from feduplink.serving.app import create_app

schemathesis = pytest.importorskip("schemathesis")

POSTED = ["POST /v1/allocate", "POST /v1/schedule"]
ROUTES = [*POSTED, "GET /v1/policy", "GET /healthz", "GET /metrics"]
MODES = list(schemathesis.GenerationMode)
#: That matrices are square and that bytes are as many as needed is more than a schema can say, so
#: that some bodies that conform to it are refused; and one way not to conform is to be too large.
ALLOWED = {
    "checks": {
        "positive_data_acceptance": {"expected-statuses": ["200", "422"]},
        "negative_data_rejection": {"expected-statuses": ["405", "413", "415", "422"]},
    }
}
TOKEN = "only-for-those-who-know-it"


def described(policy: OnnxPolicy, token: str | None = None) -> Any:
    return schemathesis.openapi.from_asgi(
        "/openapi.json",
        create_app(policy, token=token),
        config=schemathesis.Config.from_dict(ALLOWED),
        headers={"Authorization": f"Bearer {token}"},
    )


@pytest.fixture(scope="module")
def schema(policy: OnnxPolicy) -> Any:
    return described(policy)


def examine(operation: Any, mode: Any, examples: int, token: str | None = None) -> set[int]:
    """Send requests that fit the description, or do not; the statuses that came."""
    seen = set()
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    def check(case: Any) -> None:
        seen.add(case.call_and_validate(headers=headers).status_code)

    check()
    return seen


def test_all_routes_are_examined(schema: Any):
    assert sorted(result.ok().label for result in schema.get_all_operations()) == sorted(ROUTES)


@pytest.mark.parametrize("route", ROUTES)
def test_nothing_is_found(schema: Any, route: str):
    operation = schema.find_operation_by_label(route)
    if route.startswith("GET"):
        assert examine(operation, MODES[0], 5) == {200}
    else:
        assert examine(operation, MODES[0], 30) <= {200, 422}
        assert {422} <= examine(operation, MODES[1], 40) <= {413, 415, 422}


@pytest.mark.slow
@pytest.mark.parametrize("route", POSTED)
@pytest.mark.parametrize(
    ("mode", "token"), [(MODES[0], None), (MODES[1], None), (MODES[0], TOKEN)], ids=str
)
def test_nothing_is_found_in_many_requests(
    policy: OnnxPolicy, mode: Any, token: str | None, route: str
):
    """With a token, it is also tried whether requests without it or with others are refused."""
    operation = described(policy, token).find_operation_by_label(route)
    examine(operation, mode, 1500, token)


def test_the_description_says_where_the_token_is_needed(policy: OnnxPolicy):
    raw = described(policy, TOKEN).raw_schema
    assert raw["components"]["securitySchemes"]["bearer"] == {"type": "http", "scheme": "bearer"}
    assert raw["security"] == [{"bearer": []}]
    assert raw["paths"]["/healthz"]["get"]["security"] == []
    assert "security" not in described(policy).raw_schema
