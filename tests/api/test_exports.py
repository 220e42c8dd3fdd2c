"""Exports over HTTP: made once, refused in numbers, by those only whose grant PostgreSQL finds to cover them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from flywheel.api import exports
from flywheel.api.app import create_app
from flywheel.api.callers import api_token
from flywheel.pool.access.audit import list_audit
from flywheel.pool.access.grants import revoke
from flywheel.pool.batches import batch_members, list_batches
from flywheel.pool.export_choice import criteria_for
from flywheel.pool.exports import make_export, preview_export
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.releases import release_batch
from flywheel.records import decode_point
from flywheel.settings import BatchSettings, PhaseThreshold, Settings
from tests.api.conftest import Granted
from tests.api.test_pool import refusal
from tests.pool.filling import DAY, LATER, fill, some_tasks
from tests.pool.logs import NOON

ROW = PhaseThreshold(points=6, quality=0.8, max_age_days=36_500, task_types=2)
SFT = {"phase": "sft"}
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance, content_type_conformance]


@pytest.fixture
def own(settings: Settings) -> Settings:
    small = BatchSettings(sft=ROW, turn_level_rl=ROW, grpo=ROW, curriculum=ROW)
    return settings.model_copy(update={"batch": small})


@pytest.fixture
def placed(own: Settings) -> Iterator[BenchmarkPool]:
    """16 tasks a minute apart, 12 of which went well."""
    with BenchmarkPool.open(own) as pool:
        fill(pool, "a", some_tasks(16))
        yield pool


@pytest.fixture
def client(placed: BenchmarkPool, own: Settings) -> Iterator[TestClient]:
    headers = {"Authorization": f"Bearer {api_token(own).decode()}"}
    with TestClient(create_app(own), headers=headers) as opened:
        yield opened


def test_an_export_is_made_as_the_command_makes_it_and_its_points_are_there(
    client: TestClient, placed: BenchmarkPool
) -> None:
    planned = preview_export(placed, criteria_for(placed.settings, "sft"), now=LATER).batch
    assert planned is not None
    made = client.put("/v1/pool/batches/e1", json=SFT)
    assert made.status_code == 201, made.text
    found = made.json()
    assert (found["digest"], found["size"], found["points"]) == (planned.digest, 12, {"sft": 12})
    assert {name: found["criteria"][name] for name in ("phase", "min_points", "max_points", "min_quality")} == {
        "phase": "sft",
        "min_points": 6,
        "max_points": 12,
        "min_quality": 0.8,
    }
    assert client.get("/v1/pool/batches/e1").json() == found
    lines = client.get("/v1/pool/batches/e1/points").content.splitlines()
    assert {decode_point(line).id for line in lines} == {member.point_id for member in batch_members(placed, "e1")}


def test_what_is_sent_again_makes_nothing_again(client: TestClient, placed: BenchmarkPool) -> None:
    first = client.put("/v1/pool/batches/e1", json=SFT)
    again = client.put("/v1/pool/batches/e1", json=SFT)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert len(list_batches(placed)) == 1
    other = client.put("/v1/pool/batches/e1", json=SFT | {"minQuality": 0.9})
    assert "e1 exists and was made with other criteria" in refusal(other, 409)["detail"]
    release_batch(placed, "e1", because="the cluster was lost", now=LATER)
    assert "gave its points back" in refusal(client.put("/v1/pool/batches/e1", json=SFT), 409)["detail"]


def test_every_criterion_reaches_the_choice(client: TestClient, placed: BenchmarkPool) -> None:
    asked = {
        "phase": "grpo",
        "minPoints": 1,
        "maxPoints": 8,
        "minQuality": 0.2,
        "maxAgeDays": 36_000,
        "minTaskTypes": 1,
        "minAgents": 1,
        "taskTypes": ["tool-calling"],
        "agents": ["agent-a"],
        "since": (NOON + timedelta(minutes=1)).isoformat(),
        "until": "2026-03-02T14:15:00+02:00",
        "complexityMix": {"standard": 1},
        "preferRecent": False,
        "includeFailures": True,
        "removeNearDuplicates": False,
        "validationFraction": 0.2,
        "heldoutFraction": 0,
    }
    found = client.post("/v1/pool/batches/preview", json=asked).json()
    assert (found["lacking"], found["trainedBefore"]) == ([], 0)
    described = found["batch"]["criteria"]
    only = described.pop("only")
    kept = {"phase", "min_points", "max_points", "min_quality", "max_age_days", "min_task_types", "min_agents"}
    assert {name: described[name] for name in kept} == {
        "phase": "grpo",
        "min_points": 1,
        "max_points": 8,
        "min_quality": 0.2,
        "max_age_days": 36_000,
        "min_task_types": 1,
        "min_agents": 1,
    }
    assert (only["task_types"], only["agents"]) == (["tool-calling"], ["agent-a"])
    assert datetime.fromisoformat(only["until"]) == NOON + timedelta(minutes=15)
    assert (described["prefer_recent"], described["include_failures"]) == (False, True)
    assert (described["remove_near_duplicates"], described["complexity_mix"]) == (False, {"standard": 1})
    assert (described["validation_fraction"], described["heldout_fraction"]) == (0.2, 0)
    assert list_batches(placed) == ()


def test_what_the_pool_lacks_is_said_in_numbers_and_nothing_is_marked(
    client: TestClient, placed: BenchmarkPool
) -> None:
    told = refusal(client.put("/v1/pool/batches/e1", json=SFT | {"minPoints": 20}), 409)
    assert told["lacking"] == ["12 of 20 new points with quality ≥ 0.8 of the last 36500 days for sft"]
    assert told["detail"].endswith(told["lacking"][0])
    planned = client.post("/v1/pool/batches/preview", json=SFT | {"minPoints": 20}).json()
    assert planned["lacking"] == told["lacking"]
    with placed.transaction() as connection:
        connection.execute("INSERT INTO halts (day, reason, opened_at) VALUES (%s, 'a phone number', %s)", (DAY, LATER))
    halted = refusal(client.put("/v1/pool/batches/e1", json=SFT), 409)
    assert halted["lacking"][0].startswith("the pool is halted by 2026-03-02")
    assert list_batches(placed) == ()


def test_a_spent_privacy_budget_is_said_in_numbers(client: TestClient, placed: BenchmarkPool) -> None:
    budget = placed.settings.privacy.epsilon
    told = refusal(client.put("/v1/pool/batches/e1", json=SFT | {"noiseEpsilon": 2 * budget}), 409)
    assert f"{2 * budget:g}" in told["lacking"][0]
    made = client.put("/v1/pool/batches/e1", json=SFT | {"noiseEpsilon": budget})
    assert (made.status_code, made.json()["criteria"]["noise"]["epsilon"]) == (201, budget)
    assert client.put("/v1/pool/batches/e1", json=SFT | {"noiseEpsilon": budget}).json() == made.json()


UNUSABLE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("e1", {}, "body.phase"),
    ("e1", {"phase": "dpo"}, "body.phase"),
    ("e1", SFT | {"minPoint": 5}, "body.minPoint: Extra inputs"),
    ("e1", SFT | {"minPoints": 0}, "body.minPoints"),
    ("e1", SFT | {"minPoints": 10, "maxPoints": 5}, "at least 10 points and at most 5"),
    ("e1", SFT | {"minQuality": 1.5}, "body.minQuality"),
    ("e1", SFT | {"maxAgeDays": 10**9}, "body.maxAgeDays"),
    ("e1", SFT | {"since": "2026-03-02T12:00:00"}, "body.since"),
    ("e1", SFT | {"since": "0001-01-01T00:00:00+05:00"}, "no moment of this calendar"),
    ("e1", SFT | {"since": "2026-03-02T12:00:00Z", "until": "2026-03-02T12:00:00Z"}, "a time from"),
    ("e1", SFT | {"taskTypes": ["a\0b"]}, "body.taskTypes"),
    ("e1", SFT | {"includeFailures": True}, "SFT learns from successes only"),
    ("e1", SFT | {"complexityMix": {"hard": 1}}, "body.complexityMix"),
    ("e1", SFT | {"complexityMix": {"standard": 0.5}}, "must be above 0 and sum to 1"),
    ("e1", SFT | {"validationFraction": 0.6, "heldoutFraction": 0.5}, "leave no share for training"),
    ("e1", SFT | {"noiseDelta": 1e-6}, "goes with an ε"),
    ("e1", SFT | {"noiseEpsilon": 1e-320}, "noise cannot be made with"),
    ("two words", SFT, "cannot name a batch"),
)


def test_what_cannot_be_asked_is_refused_with_what_to_ask(client: TestClient, placed: BenchmarkPool) -> None:
    for batch_id, body, told in UNUSABLE:
        assert told in refusal(client.put(f"/v1/pool/batches/{batch_id}", json=body), 422)["detail"]
    assert list_batches(placed) == ()


def test_only_a_trainer_of_all_tenants_makes_exports_and_the_audit_knows(
    client: TestClient, placed: BenchmarkPool, granted: Granted
) -> None:
    for role, terms in (("analyst", {}), ("arbiter", {}), ("admin", {}), ("rl-trainer", {"tenants": ["acme"]})):
        grant, headers = granted(role, **terms)
        for response in (
            client.put("/v1/pool/batches/e1", json=SFT, headers=headers),
            client.post("/v1/pool/batches/preview", json=SFT, headers=headers),
        ):
            assert f"grant {grant.id} of {grant.principal} is for" in refusal(response, 403)["detail"]
    assert list_batches(placed) == ()
    grant, headers = granted("rl-trainer")
    assert client.post("/v1/pool/batches/preview", json=SFT, headers=headers).status_code == 200
    assert client.put("/v1/pool/batches/e1", json=SFT, headers=headers).status_code == 201
    preview, make = sorted(
        (entry for entry in list_audit(placed, principal=grant.principal) if entry.action.startswith("export.")),
        key=lambda entry: entry.id,
    )
    assert (preview.action, make.action, make.rows, make.allowed) == ("export.preview", "export.make", 12, True)
    assert (make.asked["batch"], make.asked["phase"], make.asked["max_points"]) == ("e1", "sft", 12)
    assert client.put("/v1/pool/batches/e2", json=SFT, headers={"Authorization": "Bearer x"}).status_code == 401


def test_a_trainer_of_a_time_makes_exports_of_that_time(
    client: TestClient, placed: BenchmarkPool, granted: Granted
) -> None:
    _, headers = granted("rl-trainer", since=NOON + timedelta(minutes=5), until=NOON + timedelta(minutes=15))
    wide = SFT | {"minTaskTypes": 1, "minPoints": 3}
    found = client.put("/v1/pool/batches/e1", json=wide, headers=headers)
    assert found.status_code == 201, found.text
    assert (found.json()["firstAt"], found.json()["lastAt"]) == ("2026-03-02T12:05:00Z", "2026-03-02T12:14:00Z")
    beyond = SFT | {"since": (NOON + timedelta(minutes=20)).isoformat()}
    assert (
        "asked for were those"
        in refusal(client.put("/v1/pool/batches/e2", json=beyond, headers=headers), 403)["detail"]
    )
    client.put("/v1/pool/batches/e3", json={"phase": "grpo"})
    hidden = refusal(client.put("/v1/pool/batches/e3", json={"phase": "grpo"}, headers=headers), 403)
    assert "e3 is not within what this grant shows" in hidden["detail"]


def test_postgresql_refuses_what_python_let_through_and_undoes_it(
    placed: BenchmarkPool, granted: Granted, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter of a grant forgotten, or the grant revoked while the export is made."""
    _, headers = granted("rl-trainer", since=NOON + timedelta(minutes=5))
    with monkeypatch.context() as mistaken:
        mistaken.setattr(exports, "replace", lambda criteria, **_: criteria)
        told = refusal(client.put("/v1/pool/batches/e1", json=SFT, headers=headers), 403)
    assert "e1 is not within what this grant shows; nothing was made or marked" in told["detail"]
    grant, headers = granted("rl-trainer")

    def revoked_meanwhile(pool: BenchmarkPool, *args: Any, **terms: Any) -> Any:
        revoke(placed, grant.id, by="ann", reason="done", now=LATER)
        return make_export(pool, *args, **terms)

    monkeypatch.setattr(exports, "make_export", revoked_meanwhile)
    refusal(client.put("/v1/pool/batches/e1", json=SFT, headers=headers), 403)
    assert list_batches(placed) == ()
    with placed.transaction() as connection:
        assert connection.execute("SELECT count(*) FROM batch_points").fetchone() == (0,)


def test_one_export_is_made_at_a_time_and_the_service_answers_meanwhile(
    client: TestClient, placed: BenchmarkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(*args: Any, **terms: Any) -> Any:
        begun.set()
        assert go_on.wait(30)
        return make_export(*args, **terms)

    monkeypatch.setattr(exports, "make_export", slow)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(client.put, "/v1/pool/batches/e1", json=SFT)
        try:
            assert begun.wait(30)
            busy = client.put("/v1/pool/batches/e1", json=SFT)
            assert "another export" in refusal(busy, 503)["detail"]
            assert int(busy.headers["retry-after"]) > 0
            assert client.get("/v1/pool/batches").json() == {"batches": []}
        finally:
            go_on.set()
        assert first.result().status_code == 201
    assert client.put("/v1/pool/batches/e1", json=SFT).status_code == 200


def test_one_that_fails_does_not_keep_the_next_from_being_made(client: TestClient) -> None:
    for _ in range(2):
        refusal(client.put("/v1/pool/batches/e1", json=SFT | {"minPoints": 20}), 409)
    assert client.put("/v1/pool/batches/e1", json=SFT).status_code == 201


def test_whatever_is_sent_the_answer_is_one_that_is_described(client: TestClient) -> None:
    found = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    asked = (("PUT", "/v1/pool/batches/{batch_id}"), ("POST", "/v1/pool/batches/preview"))
    every: list[Any] = [
        operation
        for method, path in asked
        for operation in found.include(method=method, path=path).get_all_operations()
    ]
    operations = [operation.ok() for operation in every]
    assert len(operations) == 2
    for operation in operations:

        @given(case=operation.as_strategy())
        @hypothesis_settings(
            max_examples=15, suppress_health_check=list(HealthCheck), phases=[Phase.generate], deadline=None
        )
        def answered(case: Any) -> None:
            response = case.call(session=client, headers={"Authorization": client.headers["Authorization"]})
            case.validate_response(response, checks=CHECKS)

        answered()
