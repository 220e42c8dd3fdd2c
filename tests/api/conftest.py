"""The HTTP service over a pool whose days are in the tiers of their ages."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from flywheel.api.app import create_app
from flywheel.api.callers import api_token
from flywheel.pool.access.decisions import Grant, Role
from flywheel.pool.access.grants import approve, request_grant
from flywheel.pool.access.tokens import issue_token
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.pool.queries.conftest import filled, module_settings
from tests.pool.queries.points import FIRST_DAY, noon, place_all

__all__ = ["filled", "module_settings"]

Headers = dict[str, str]
Granted = Callable[..., tuple[Grant, Headers]]
DAYS = tuple(FIRST_DAY + timedelta(days=number) for number in (0, 60, 88, 91))
NOW = noon(DAYS[-1])


@pytest.fixture(scope="module")
def placed(filled: BenchmarkPool) -> BenchmarkPool:
    """The first day has only aggregates, the next one is in the lake, the others are hot."""
    place_all(filled, DAYS, now=NOW)
    return filled


@pytest.fixture(scope="module")
def client(placed: BenchmarkPool, module_settings: Settings) -> Iterator[TestClient]:
    """A client with the installation's token."""
    headers = {"Authorization": f"Bearer {api_token(module_settings).decode()}"}
    with TestClient(create_app(module_settings), headers=headers) as opened:
        yield opened


@pytest.fixture
def granted(placed: BenchmarkPool) -> Granted:
    """Makes a grant that is in force, and the headers that carry a token of it."""

    def grant(role: Role, **terms: Any) -> tuple[Grant, Headers]:
        now = datetime.now(UTC)
        principal = f"p_{uuid.uuid4().hex[:12]}"
        made = request_grant(placed, principal=principal, role=role, by="asker", reason="a test", now=now, **terms)
        if made.needs_approval:
            made = approve(placed, made.id, by="approver", now=now)
        token = issue_token(placed, made.id, by="asker", now=now)
        return made, {"Authorization": f"Bearer {token.token}"}

    return grant
