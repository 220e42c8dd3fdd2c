"""The receiver against its own description: whatever fits it or not, the answer is one that it names."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from flywheel.api.app import create_app
from flywheel.settings import Settings
from tests.api.receiver.conftest import headers_of

CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance, content_type_conformance]


@pytest.fixture(scope="module")
def module_pool(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of an installation that all generated requests share."""
    import psycopg

    from flywheel.database import url_with
    from tests.conftest import TEMPLATE

    with psycopg.connect(url_with(postgres_server, driver=""), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE described TEMPLATE {TEMPLATE}".encode())
        url = url_with(postgres_server, driver="", database="described")
        yield Settings.load(profile="smoke", home=tmp_path_factory.mktemp("described"), database_url=url)
        connection.execute(b"DROP DATABASE described WITH (FORCE)")


@pytest.fixture(scope="module")
def client(module_pool: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(module_pool), headers=headers_of(module_pool)) as opened:
        yield opened


@pytest.fixture(scope="module")
def described(client: TestClient) -> schemathesis.BaseSchema:
    found = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    return found.include(path_regex="^/v1/(logs|traces)|^/(healthz|readyz)")


def test_every_answer_is_described(described: schemathesis.BaseSchema, client: TestClient) -> None:
    found: list[Any] = list(described.get_all_operations())
    operations = [operation.ok() for operation in found]
    assert len(operations) == 8
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=15, suppress_health_check=list(HealthCheck))
        def answered(case: Any) -> None:
            response = case.call(session=client, headers={"Authorization": client.headers["Authorization"]})
            case.validate_response(response, checks=CHECKS)

        answered()
