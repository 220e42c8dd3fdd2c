"""Tasks over HTTP that their caller does, and answers that are judged later."""

import threading
from typing import Any

import pytest
from sqlalchemy import select

from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.tables import task_outcomes
from flywheel.database import connect
from flywheel.settings import Settings
from tests.api.receiver.conftest import stored
from tests.api.service import logs_of, question, released, serving
from tests.api.test_pool import refusal

__all__ = ["released"]

RUBRIC = {"format": 1.0, "tool": 1.0, "task": 0.9, "minimal": 1.0, "cost": 1.0, "safety": 1.0}


def gate(passed: bool) -> dict[str, Any]:
    return {"name": "good", "passed": passed, "score": float(passed), "threshold": 1.0, "mandatory": True}


def learned(settings: Settings) -> list[tuple[str, str, bool, float]]:
    engine = connect(settings.database_url)
    outcome = task_outcomes.c
    with engine.connect() as connection:
        rows = connection.execute(
            select(outcome.task_id, outcome.agent_id, outcome.success, outcome.quality).order_by(outcome.task_id)
        ).all()
    tasks = sum(known.tasks for known in BanditState(engine).evidence().values())
    engine.dispose()
    assert tasks == len(rows), "what is remembered is what was learned"
    return [tuple(row) for row in rows]


def test_a_route_is_told_and_nothing_is_done(settings: Settings) -> None:
    with serving(settings, "plain", "napping") as client:
        told = client.post("/v1/route", json=question()).json()
        assert client.get(f"/v1/tasks/{told['taskId']}").status_code == 404
        nobody = client.post("/v1/route", json=question(limits={"mustHave": ["chemistry"]}))
        assert "is not specialized in chemistry" in refusal(nobody, 422)["detail"]
    assert (told["logged"], told["agentId"]) == (False, told["decision"]["selectedAgentId"])
    propensities = [candidate["propensity"] for candidate in told["decision"]["candidateAgents"]]
    assert sum(propensities) == pytest.approx(1.0)
    assert stored(settings) == []


def test_a_task_that_its_caller_does_is_logged_and_learned_like_any_other(settings: Settings) -> None:
    execution = {"success": True, "latencyMs": 120.5, "text": "8,848 m", "promptTokens": 20, "outputTokens": 5}
    evaluation = {"overallScore": 0.9, "rubricScores": RUBRIC, "qualityGates": [gate(True)]}
    with serving(settings, "plain", "napping") as client:
        first = client.post("/v1/route", json=question("1", log=True)).json()
        again = client.post("/v1/route", json=question("1", log=True)).json()
        assert (again["decision"], first["replayed"], again["replayed"]) == (first["decision"], False, True)
        assert client.post("/v1/route", json=question("1", log=True, text="Else?")).status_code == 409
        assert client.get("/v1/tasks/1").json()["status"] == "routed"
        assert "report its outcome" in refusal(client.post("/v1/tasks", json=question("1")), 409)["detail"]
        early = client.post("/v1/outcomes", json={"taskId": "1", "reward": {"value": 1}})
        assert "tell its `execution` first" in refusal(early, 409)["detail"]
        body = {"taskId": "1", "execution": execution, "evaluation": evaluation}
        wrong = {**execution, "agentId": "somebody"}
        assert client.post("/v1/outcomes", json={"taskId": "1", "execution": wrong}).status_code == 409
        taken = client.post("/v1/outcomes", json=body).json()
        same = client.post("/v1/outcomes", json=body).json()
        other = client.post("/v1/outcomes", json={"taskId": "1", "execution": {**execution, "latencyMs": 1}})
        shown = client.get("/v1/tasks/1").json()
    assert (taken["learned"], taken["replayed"], same["learned"], same["replayed"]) == (True, False, False, True)
    assert (shown["status"], shown["text"], shown["agentId"]) == ("succeeded", "8,848 m", first["agentId"])
    assert shown["evaluation"]["overallScore"] == 0.9
    assert "another execution before, which holds" in refusal(other, 409)["detail"]
    assert logs_of(settings, "1") == ["evaluation", "execution", "routing"]
    assert learned(settings) == [("1", first["agentId"], True, 0.9)]


def test_a_run_of_the_caller_that_failed_is_worth_nothing(settings: Settings) -> None:
    failed = {"success": False, "latencyMs": 10, "failureReason": "no connection"}
    with serving(settings, "plain") as client:
        client.post("/v1/route", json=question("1", log=True))
        evaluation = {"overallScore": 0.9, "rubricScores": RUBRIC}
        both = client.post("/v1/outcomes", json={"taskId": "1", "execution": failed, "evaluation": evaluation})
        assert "failed, which is worth 0" in refusal(both, 409)["detail"]
        answer = client.post("/v1/outcomes", json={"taskId": "1", "execution": failed}).json()
    assert (answer["learned"], answer["task"]["status"], answer["task"]["failure"]["reason"]) == (
        (True, "failed", "no connection")
    )
    assert logs_of(settings, "1") == ["evaluation", "execution", "routing"]
    assert learned(settings) == [("1", "plain", False, 0.0)]


@pytest.mark.parametrize(("passed", "status"), [(True, "succeeded"), (False, "failed")])
def test_an_answer_is_judged_later_and_once(settings: Settings, passed: bool, status: str) -> None:
    evaluation = {"overallScore": 0.7, "rubricScores": RUBRIC, "qualityGates": [gate(passed)]}
    body = {"taskId": "1", "evaluation": evaluation}
    with serving(settings, "plain") as client:
        assert client.post("/v1/outcomes", json=body).status_code == 404
        client.post("/v1/tasks", json=question("1"))
        first = client.post("/v1/outcomes", json=body).json()
        same = client.post("/v1/outcomes", json=body).json()
        other = client.post("/v1/outcomes", json={**body, "evaluation": {**evaluation, "overallScore": 0.1}})
        reward = client.post("/v1/outcomes", json={"taskId": "1", "reward": {"value": 0.2}}).json()
    assert (first["learned"], first["task"]["status"], first["task"]["evaluation"]["overallScore"]) == (
        (True, status, 0.7)
    )
    assert same["replayed"]
    refusal(other, 409)
    assert (reward["learned"], reward["task"]["reward"]) == (False, 0.2)
    assert learned(settings) == [("1", "plain", passed, 0.7)]
    expected = ["evaluation", "execution", *([] if passed else ["execution"]), "feedback", "routing"]
    assert logs_of(settings, "1") == expected


def test_a_reward_is_learned_and_logged_as_feedback(settings: Settings) -> None:
    with serving(settings, "plain") as client:
        for name, reward in (("1", {"value": 1, "name": "thumbs"}), ("2", {"value": 0.2, "success": True})):
            client.post("/v1/tasks", json=question(name))
            assert client.post("/v1/outcomes", json={"taskId": name, "reward": reward}).json()["learned"]
        evaluation = {"overallScore": 0.4, "rubricScores": RUBRIC}
        later = client.post("/v1/outcomes", json={"taskId": "2", "evaluation": evaluation}).json()
    assert (later["learned"], later["task"]["evaluation"]["overallScore"]) == (False, 0.4)
    assert learned(settings) == [("1", "plain", True, 1.0), ("2", "plain", True, 0.2)]
    [thumbs] = [log for log in stored(settings) if log["log"] == "feedback" and log["taskId"] == "1"]
    assert (thumbs["name"], thumbs["value"], thumbs["source"]) == ("thumbs", 1, "user")


def test_what_has_no_answer_is_not_judged(settings: Settings, released: threading.Event) -> None:
    body = {"taskId": "1", "evaluation": {"overallScore": 0.4, "rubricScores": RUBRIC}}
    with serving(settings, "hanging") as client:
        client.post("/v1/tasks", json=question("1"), headers={"Prefer": "respond-async"})
        assert "has not ended" in refusal(client.post("/v1/outcomes", json=body), 409)["detail"]
        client.delete("/v1/tasks/1")
        assert "it is cancelled" in refusal(client.post("/v1/outcomes", json=body), 409)["detail"]
        for wrong, told in (
            ({"taskId": "1"}, "an execution, an evaluation or a reward"),
            ({"taskId": "1", "reward": {"value": 1.5}}, "$.reward.value"),
            ({**body, "evaluation": {**body["evaluation"], "overallScore": 0}}, "cannot be worth 0"),  # type: ignore[dict-item]
        ):
            assert told in refusal(client.post("/v1/outcomes", json=wrong), 422)["detail"]
    assert learned(settings) == []


def test_a_report_that_could_not_be_kept_is_refused_and_leaves_the_task_as_it_is(settings: Settings) -> None:
    tools = [{"toolName": name, "callCount": 2**62} for name in ("search", "read")]
    execution = {"success": True, "latencyMs": 10, "text": "8,848 m"}
    with serving(settings, "plain") as client:
        client.post("/v1/route", json=question("1", log=True))
        for wrong, told in (
            ({"taskId": "a\0b", "reward": {"value": 1}}, "NUL"),
            ({"taskId": "1", "execution": {**execution, "toolsUsed": tools}}, "no count of one task"),
            ({"taskId": "1", "execution": {**execution, "outputTokens": 2**62}}, "$.execution.outputTokens"),
        ):
            assert told in refusal(client.post("/v1/outcomes", json=wrong), 422)["detail"]
        assert client.get("/v1/tasks/1").json()["status"] == "routed"
        assert client.post("/v1/outcomes", json={"taskId": "1", "execution": execution}).status_code == 200
        assert client.get("/v1/tasks/1").json()["text"] == "8,848 m"
