"""The routes of OpenAI's clients against their own description: whatever fits it or not, it names the answer."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from flywheel.api.app import create_app
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.collection.receiver.keys import create_key
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.pool.queries.conftest import module_settings

__all__ = ["module_settings"]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]


@pytest.fixture(scope="module")
def client(module_settings: Settings) -> Iterator[TestClient]:
    """Of a service whose one agent says something to whatever it is asked."""
    alone = module_settings.model_copy(update={"agents": ()})
    agent = AgentProfile(id="echo", kind="python", function="tests.arbiter.agents.functions:plain")
    with BenchmarkPool.open(alone) as pool:
        AgentRegistry(pool.engine).register(agent)
        key = create_key(pool, "acme", name="test", by="tester", now=datetime.now(UTC), may_run_tasks=True).key
    with TestClient(create_app(alone), headers={"Authorization": f"Bearer {key}"}) as opened:
        yield opened


def test_every_answer_is_described(client: TestClient) -> None:
    described = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    found: list[Any] = list(described.include(path_regex="^/v1/(chat|models)").get_all_operations())
    operations = [operation.ok() for operation in found]
    assert len(operations) == 3
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=15, suppress_health_check=list(HealthCheck))
        def answered(case: Any) -> None:
            response = case.call(session=client, headers={"Authorization": client.headers["Authorization"]})
            case.validate_response(response, checks=CHECKS)

        answered()
