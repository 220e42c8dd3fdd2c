"""Tasks over HTTP: routed, run once under their id, cancelled, followed."""

import json
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as bounded
from sqlalchemy import select

from flywheel.api.settings import ServiceSettings
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.registry import AgentRegistry
from flywheel.arbiter.settings import ExecutionSettings
from flywheel.arbiter.tables import task_runs
from flywheel.database import connect
from flywheel.settings import Settings
from flywheel.tasks.catalog import environment_of
from flywheel.tasks.source import Split
from tests.api.receiver.conftest import Server, headers_of, serve, stored
from tests.api.service import FUNCTIONS, logs_of, question, released, runner, serving
from tests.api.test_agents import CHECKS
from tests.api.test_pool import refusal
from tests.arbiter.test_loads import until

__all__ = ["released", "serve"]


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with serving(settings, "plain") as opened:
        yield opened


def events_of(body: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in body.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def test_a_task_is_run_once_under_its_id(settings: Settings) -> None:
    with serving(settings, "plain") as client:
        first = client.post("/v1/tasks", json=question("1"))
        again = client.post("/v1/tasks", json=question("1", limits={"timeoutS": 5}))
        other = client.post("/v1/tasks", json=question("1", requirements=["a map"]))
        shown = client.get("/v1/tasks/1")
    assert first.status_code == again.status_code == shown.status_code == 200
    answer = first.json()
    assert (answer["status"], answer["text"], answer["agentId"]) == ("succeeded", "research: How high is it?", "plain")
    assert answer["decision"]["candidateAgents"][0]["propensity"] == 1.0
    assert answer["evaluation"] is None
    assert "no judge is configured" in answer["notEvaluated"]
    assert (answer["replayed"], again.json()["replayed"]) == (False, True)
    assert again.json()["attempts"] == answer["attempts"]
    assert shown.json() == answer
    assert "give this one an id of its own" in refusal(other, 409)["detail"]
    assert logs_of(settings, "1") == ["execution", "routing"]


def test_the_key_says_whose_a_task_is_and_whether_it_is_run(settings: Settings) -> None:
    with serving(settings, "plain") as client:
        client.post("/v1/tasks", json=question("1"))
        globex = runner(settings, "globex")
        assert "nothing is known" in refusal(client.get("/v1/tasks/1", headers=globex), 404)["detail"]
        assert client.post("/v1/tasks", json=question("1"), headers=globex).json()["replayed"] is False
        sender = headers_of(settings)
        told = refusal(client.post("/v1/tasks", json=question("2"), headers=sender), 403)["detail"]
        assert "--may-run-tasks" in told
        for method, path in (("POST", "/v1/route"), ("POST", "/v1/outcomes"), ("DELETE", "/v1/tasks/1")):
            assert client.request(method, path, headers=sender).status_code == 403
            assert client.request(method, path, headers={"Authorization": "Bearer x"}).status_code == 401
        tenant = refusal(client.post("/v1/tasks", json=question("3", tenantId="globex")), 422)
        assert "tenantId" in tenant["detail"]
    assert {(log["tenantId"], log["taskId"]) for log in stored(settings)} == {("acme", "1"), ("globex", "1")}


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"type": "research"}, 422, "one of text, messages and source"),
        ({"text": "x"}, 422, "has no type"),
        (question(text="a", messages=[{"role": "user", "content": "b"}]), 422, "text and messages"),
        ({"type": "research", "messages": [{"role": "system", "content": "b"}]}, 422, "needs a message of the user"),
        (question("a#attempt-1"), 422, "#attempt-"),
        (question("a\0b"), 422, "NUL"),
        (question(type="gardening"), 422, "is not known here"),
        (question(limits={"timeoutS": 0}), 422, "$.limits.timeoutS"),
        (question(deadline="2026-01-01T00:00:00"), 422, "$.deadline"),
        ({"source": "nowhere:1"}, 404, "of no configured source"),
        ({"source": "synthetic:never"}, 404, "synthetic has no task"),
        ({"source": "synthetic:never", "type": "x"}, 422, "leave yours out"),
        ({"source": "synthetic:never", "sideEffects": False}, 422, "leave yours out"),
        (
            {"type": "x", "text": "y", "tools": [{"name": "a", "parameters": json.loads("[" * 40 + "]" * 40)}]},
            400,
            "deep",
        ),
    ],
)
def test_what_cannot_be_run_is_said_and_costs_no_id(
    client: TestClient, body: dict[str, Any], status: int, told: str
) -> None:
    assert told in refusal(client.post("/v1/tasks", json=body), status)["detail"]


def test_a_body_has_bounds(settings: Settings) -> None:
    limits = settings.receiver.model_copy(update={"max_item_bytes": 1_000})
    with serving(settings.model_copy(update={"receiver": limits}), "plain") as client:
        assert client.post("/v1/tasks", json=question(text="x" * 2_000)).status_code == 413
        assert client.post("/v1/tasks", content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
        assert client.post("/v1/tasks", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415


def test_without_agents_nothing_is_run_and_the_id_stays_free(settings: Settings) -> None:
    with serving(settings) as client:
        for path in ("/v1/tasks", "/v1/route"):
            assert "no agent is active" in refusal(client.post(path, json=question("1")), 503)["detail"]
        engine = connect(settings.database_url)
        AgentRegistry(engine).register(AgentProfile(id="plain", kind="python", function=f"{FUNCTIONS}:plain"))
        engine.dispose()
        assert until(lambda: client.post("/v1/tasks", json=question("1")).status_code == 200)


def test_a_failed_task_is_an_answer_that_says_why(settings: Settings) -> None:
    with serving(settings, "raising") as client:
        answer = client.post("/v1/tasks", json=question("1")).json()
    assert answer["status"] == "failed"
    assert answer["failure"]["kind"] == "agent-error"
    assert "no such city" in answer["failure"]["reason"]
    assert answer["evaluation"]["overallScore"] == 0
    assert logs_of(settings, "1") == ["evaluation", "execution", "routing"]


def test_a_task_goes_on_after_its_request_and_is_asked_for(settings: Settings, released: threading.Event) -> None:
    with serving(settings, "hanging") as client:
        taken = client.post("/v1/tasks", json=question("a/b"), headers={"Prefer": "respond-async"})
        assert (taken.status_code, taken.json()["status"]) == (202, "running")
        assert taken.headers["location"] == "/v1/tasks/a%2Fb"
        path = taken.headers["location"]
        assert client.get(path).status_code == 202
        assert client.get(path, params={"wait": 0.1}).status_code == 202
        assert client.post("/v1/tasks", json=question("a/b"), params={"wait": 0.1}).status_code == 202
        released.set()
        done = client.get(path, params={"wait": 20})
        assert (done.status_code, done.json()["text"]) == (200, "late")
    assert logs_of(settings, "a/b") == ["execution", "routing"]


def test_a_task_is_cancelled_and_accounted_for(settings: Settings, released: threading.Event) -> None:
    with serving(settings, "hanging") as client:
        client.post("/v1/tasks", json=question("1"), headers={"Prefer": "respond-async"})
        gone = client.delete("/v1/tasks/1")
        assert (gone.status_code, gone.json()["status"]) == (200, "cancelled")
        assert client.delete("/v1/tasks/1").json() == client.get("/v1/tasks/1").json()
        assert client.delete("/v1/tasks/2").status_code == 404
        assert client.get("/v1/tasks/a%00b").status_code == 404
    assert logs_of(settings, "1") == ["execution", "routing"]


def test_more_tasks_than_may_run_are_told_to_come_again(settings: Settings, released: threading.Event) -> None:
    few = settings.model_copy(update={"service": ServiceSettings(max_tasks=3, max_tasks_of_tenant=2)})
    later = {"Prefer": "respond-async"}
    with serving(few, "hanging") as client:
        for number in range(2):
            assert client.post("/v1/tasks", json=question(str(number)), headers=later).status_code == 202
        crowded = client.post("/v1/tasks", json=question("2"))
        assert "2 tasks of yours run" in refusal(crowded, 503)["detail"]
        assert int(crowded.headers["retry-after"]) >= 1
        other = runner(settings, "globex") | later
        assert client.post("/v1/tasks", json=question("3"), headers=other).status_code == 202
        assert "3 tasks run" in refusal(client.post("/v1/tasks", json=question("4"), headers=other), 503)["detail"]
        released.set()
        assert until(lambda: client.post("/v1/tasks", json=question("2")).status_code == 200)


def test_a_stopped_service_ends_its_tasks_and_loses_no_log(settings: Settings, released: threading.Event) -> None:
    quick = settings.model_copy(update={"service": ServiceSettings(drain_s=0.2)})
    with serving(quick, "hanging") as client:
        client.post("/v1/tasks", json=question("1"), headers={"Prefer": "respond-async"})
    with serving(settings) as client:
        found = client.get("/v1/tasks/1").json()
    assert (found["status"], found["failure"]["reason"]) == ("cancelled", "the service was stopped")
    assert logs_of(settings, "1") == ["execution", "routing"]


def test_a_task_is_followed_from_its_beginning_on(settings: Settings) -> None:
    events = {"Accept": "text/event-stream"}
    with serving(settings, "plain") as client:
        live = client.post("/v1/tasks", json=question("1"), headers=events)
        assert live.headers["content-type"].startswith("text/event-stream")
        later = client.get("/v1/tasks/1", headers=events)
    names = [name for name, _ in events_of(live.text)]
    assert names == ["decision", "text", "result"]
    told = dict(events_of(live.text))
    assert told["text"] == {"attempt": 1, "iteration": 1, "text": "research: How high is it?"}
    assert told["result"]["text"] == told["text"]["text"]
    assert [name for name, _ in events_of(later.text)] == ["result"]


def test_a_task_that_is_sent_again_while_it_runs_is_still_followed_from_its_beginning_on(
    settings: Settings, released: threading.Event
) -> None:
    later = {"Prefer": "respond-async"}
    with serving(settings, "hanging") as client:
        assert client.post("/v1/tasks", json=question("1"), headers=later).status_code == 202
        assert client.post("/v1/tasks", json=question("1"), headers=later).status_code == 202
        threading.Timer(0.5, released.set).start()
        followed = client.get("/v1/tasks/1", headers={"Accept": "text/event-stream"})
    assert [name for name, _ in events_of(followed.text)] == ["decision", "text", "result"]


def test_a_task_that_another_service_runs_is_asked_for_followed_and_cancelled(
    settings: Settings, released: threading.Event
) -> None:
    renewed_often = settings.model_copy(update={"execution": ExecutionSettings(claim_s=2.0)})
    with serving(renewed_often, "hanging") as one, serving(renewed_often) as other:
        one.post("/v1/tasks", json=question("1"), headers={"Prefer": "respond-async"})
        assert other.get("/v1/tasks/1").json()["status"] == "running"
        assert other.delete("/v1/tasks/1").status_code == 202
        followed = other.get("/v1/tasks/1", headers={"Accept": "text/event-stream"})
        [(name, result)] = events_of(followed.text)
        assert (name, result["status"]) == ("result", "cancelled")
        assert one.get("/v1/tasks/1").json() == result
    assert logs_of(settings, "1") == ["execution", "routing"]


def test_fifty_tasks_at_once_are_all_done(settings: Settings) -> None:
    with serving(settings, "slow_coroutine", max_concurrent=10) as client:

        def ask(number: int) -> None:
            answers[number] = client.post("/v1/tasks", json=question(str(number))).json()["status"]

        answers: dict[int, str] = {}
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert answers == dict.fromkeys(range(50), "succeeded")


@pytest.mark.parametrize("name", ["synthetic", "code-repair"])
def test_a_task_of_a_source_is_run_and_verified_by_it(settings: Settings, name: str) -> None:
    sources = settings.tasks.model_copy(update={"sources": ("code-repair",)})
    tasks = environment_of(name, sources).tasks()
    chosen, kept = (next(task.id for task in tasks if task.split is split) for split in (Split.TRAIN, Split.HELDOUT))
    engine = connect(settings.database_url)
    AgentRegistry(engine).register(AgentProfile(id="known", kind="reference"))
    engine.dispose()
    with serving(settings.model_copy(update={"tasks": sources})) as client:
        answer = client.post("/v1/tasks", json={"source": chosen, "id": "1"}).json()
        refused = [client.post(path, json={"source": kept}) for path in ("/v1/tasks", "/v1/route")]
    assert (answer["status"], answer["decision"]["source"]) == ("succeeded", chosen)
    assert answer["evaluation"]["passedAllMandatory"]
    assert logs_of(settings, "1") == ["evaluation", "execution", "routing"]
    for response in refused:
        assert "is a heldout task" in refusal(response, 403)["detail"]


def test_a_task_whose_client_goes_away_goes_on_if_it_can_be_asked_for(
    settings: Settings, serve: Callable[..., Server], tmp_path: Path
) -> None:
    engine = connect(settings.database_url)
    registry = AgentRegistry(engine)
    begun, free = tmp_path / "begun", tmp_path / "free"
    patient = f'echo >> {begun}; until [ -e {free} ]; do sleep 0.05; done; echo \'{{"text": "done"}}\''
    registry.register(AgentProfile(id="patient", kind="command", command=("sh", "-c", patient)))
    registry.seed_from_settings(settings)
    for agent in settings.agents:
        registry.set_status(agent.id, "disabled")
    server, key = serve(), runner(settings)

    def begin_and_go_away(name: str | None, accepted: str, *, tasks: int) -> None:
        connection = HTTPConnection("127.0.0.1", server.port)
        headers = key | {"Content-Type": "application/json", "Accept": accepted}
        connection.request("POST", "/v1/tasks", json.dumps(question(name)), headers)
        assert until(lambda: begun.exists() and len(begun.read_text()) == tasks)
        connection.close()

    def finished() -> int:
        with engine.connect() as connection:
            return len(connection.execute(select(task_runs).where(task_runs.c.finished_at.is_not(None))).all())

    # When the last two are known to have gone away, so are those that went before them.
    for tasks, (name, accepted) in enumerate(
        (("1", "*/*"), ("2", "text/event-stream"), (None, "*/*"), (None, "text/event-stream")), start=1
    ):
        begin_and_go_away(name, accepted, tasks=tasks)
    assert until(lambda: finished() == 2)
    free.touch()
    server.end()  # which lets running tasks end
    engine.dispose()
    ended = [(log["success"], log.get("failureReason")) for log in stored(settings) if log["log"] == "execution"]
    assert sorted(ended) == [*[(False, "its client went away")] * 2, *[(True, None)] * 2]


# --- what is described ----------------------------------------------------------------------------------------------


def test_whatever_is_sent_the_answer_is_one_that_is_described(client: TestClient) -> None:
    client.post("/v1/tasks", json=question("1"))
    found = schemathesis.openapi.from_asgi("/openapi.json", client.app).include(
        path_regex="^/v1/(route|tasks|outcomes)"
    )
    every: list[Any] = list(found.get_all_operations())
    operations = [operation.ok() for operation in every]
    assert len(operations) == 5
    for operation in operations:

        @given(case=operation.as_strategy())
        @bounded(max_examples=15, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
        def answered(case: Any) -> None:
            if "wait" in (case.query or {}):
                case.query["wait"] = 0
            response = case.call(session=client, headers={"Authorization": client.headers["Authorization"]})
            case.validate_response(response, checks=CHECKS)

        answered()
