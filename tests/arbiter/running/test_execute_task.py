"""One task at a time: every task has one result and its logs, whatever its agents and its caller do."""

import asyncio
import errno
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from flywheel.arbiter.evaluation.evaluator import Subject, Verdict
from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.running.calls import CancelToken
from flywheel.arbiter.running.task_run import NO_AGENT
from flywheel.arbiter.settings import ExecutionSettings
from flywheel.arbiter.task import Limits, Task
from flywheel.collection.collector import utc_now
from flywheel.collection.writer import SegmentWriter
from flywheel.errors import ConfigurationError, HeldOutTaskError
from flywheel.records import Complexity, Strategy
from flywheel.tasks.source import Split
from tests.arbiter.running.service import ScoreReader, ScriptedAgent, broken, logs_of, replaced, service, task
from tests.arbiter.test_arbiter import check_gates
from tests.fakes import FixedAgent, benchmark_task

RIGHT = '{"name": "add", "arguments": {"a": 1, "b": 2}}'


def test_a_task_is_routed_answered_judged_logged_and_learned_from(engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path, {"good": ScriptedAgent("0.9 because")}) as arbiter:
        result = arbiter.execute_task(task())
    assert (result.status, result.text, result.agent_id, result.failure) == ("succeeded", "0.9 because", "good", None)
    assert (result.spent.prompt_tokens, result.spent.output_tokens, result.budget.spent) == (10, 100, 100)
    [logs] = [logs_of(tmp_path)["t1"]]
    check_gates(logs.decisions[0], logs.executions[0], logs.evaluations[0])
    assert logs.counts == (1, 1, 1)
    assert logs.evaluations == [result.evaluation]
    assert logs.decisions == [result.decision]
    assert [message.content for message in logs.executions[0].messages] == ["How high is mountain 1?", "0.9 because"]
    known = BanditState(engine).evidence()["good", "research"]
    assert known.tasks == 1
    assert known.quality_sum == pytest.approx(0.9)


def test_feedback_goes_into_the_next_turn_and_a_good_answer_ends_it(engine: Engine, tmp_path: Path) -> None:
    agent = ScriptedAgent("0.3 poor", "0.6 fair", "0.9 good", "1.0 never asked for")
    with service(engine, tmp_path, {"a": agent}) as arbiter:
        result = arbiter.execute_task(task())
    assert (result.text, len(agent.asked)) == ("0.9 good", 3)
    said = [message.content for message in agent.asked[2].question]
    assert said == ["How high is mountain 1?", "0.3 poor", "Try harder.", "0.6 fair", "Try harder."]
    executed = logs_of(tmp_path)["t1"].executions[0]
    assert [(i.quality_score, i.feedback, i.tokens_used) for i in executed.iterations] == [
        (0.3, "Try harder.", 110), (0.6, "Try harder.", 110), (0.9, "Try harder.", 110)
    ]  # fmt: skip
    assert (executed.tokens_used, executed.output_tokens) == (330, 300)
    assert [message.content for message in executed.messages] == [*said, "0.9 good"]


@pytest.mark.parametrize(
    ("replies", "asked", "text"),
    [
        (("0.86 above the bound",), 1, "0.86 above the bound"),
        (("0.6 first", "0.4 worse", "1.0 never"), 2, "0.6 first"),
        (("0.6 first", "0.6 no better", "1.0 never"), 2, "0.6 first"),
        (("0.1 a", "0.2 b", "0.4 c", "1.0 never"), 3, "0.4 c"),
    ],
)
def test_refinement_stops_when_it_is_good_enough_no_better_or_at_three(
    engine: Engine, tmp_path: Path, replies: tuple[str, ...], asked: int, text: str
) -> None:
    agent = ScriptedAgent(*replies)
    with service(engine, tmp_path, {"a": agent}) as arbiter:
        result = arbiter.execute_task(task())
    assert (len(agent.asked), result.text) == (asked, text)
    assert result.status == ("succeeded" if float(text.split(maxsplit=1)[0]) >= 0.5 else "failed")


def test_without_feedback_nothing_is_asked_twice(engine: Engine, tmp_path: Path) -> None:
    agent = ScriptedAgent("0.2 poor")
    with service(engine, tmp_path, {"a": agent}, evaluator=ScoreReader(feedback=None)) as arbiter:
        result = arbiter.execute_task(task())
    assert len(agent.asked) == 1
    assert result.failure is not None
    assert (result.failure.kind, result.failure.reason) == ("rejected", "0.2 is too little")
    assert result.text == "0.2 poor"


def test_an_answer_that_nobody_judges_has_no_score_and_says_so(engine: Engine, tmp_path: Path) -> None:
    class Failing:
        def evaluate(self, subject: Subject) -> Verdict | None:
            raise KeyError("scores")

    with service(engine, tmp_path / "a", {"a": ScriptedAgent("a poem")}) as arbiter:
        unable = arbiter.execute_task(task(1))
    with service(engine, tmp_path / "b", {"a": ScriptedAgent("a poem")}, evaluator=Failing()) as arbiter:
        failing = arbiter.execute_task(task(2))
    for result, folder, reason in (
        (unable, tmp_path / "a", "the evaluator cannot judge this task"),
        (failing, tmp_path / "b", "the evaluator failed: KeyError: 'scores'"),
    ):
        assert (result.status, result.evaluation, result.not_evaluated) == ("succeeded", None, reason)
        logs = logs_of(folder)[result.task_id]
        assert (logs.counts, logs.executions[0].not_evaluated) == ((1, 1, 0), reason)
    assert BanditState(engine).evidence() == {}


@pytest.mark.parametrize("score", ["1.5", "nan"])
def test_a_score_that_no_answer_has_is_a_failure_of_the_evaluator_and_the_task_is_still_there(
    engine: Engine, tmp_path: Path, score: str
) -> None:
    with service(engine, tmp_path, {"a": ScriptedAgent(score)}) as arbiter:
        result = arbiter.execute_task(task())
        again = arbiter.execute_task(task())
    assert (result.status, result.evaluation, again.replayed) == ("succeeded", None, True)
    assert result.not_evaluated == again.not_evaluated
    assert "the evaluator failed: ValidationError: Expected `float`" in str(result.not_evaluated)
    assert logs_of(tmp_path)["t1"].counts == (1, 1, 0)


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (broken(), "its model is gone"),
        (ScriptedAgent(KeyError("x")), "the agent crashed: KeyError: 'x'"),
        (ScriptedAgent(SystemExit(3)), "the agent crashed: RuntimeError: SystemExit: 3"),
        (ScriptedAgent("1.0 never so few", tokens=-1), "the agent reports (10, -1, 0) tokens"),
        (ScriptedAgent("1.0 never so many", tokens=2**63 - 1), "the agent reports (10, 9223372036854775807, 0) tokens"),
    ],
)
def test_another_agent_takes_over_from_one_that_cannot_answer(
    engine: Engine, tmp_path: Path, agent: ScriptedAgent, reason: str
) -> None:
    agents = {"bad": agent, "good": ScriptedAgent()}
    with service(engine, tmp_path, agents) as arbiter:
        results = [arbiter.execute_task(task(number)) for number in range(20)]
    fallen = [result for result in results if len(result.attempts) == 2]
    assert fallen
    assert {(result.status, result.agent_id) for result in results} == {("succeeded", "good")}
    logs = logs_of(tmp_path)
    for result in fallen:
        own, first = logs[result.task_id], logs[f"{result.task_id}#attempt-1"]
        assert (own.counts, first.counts) == ((1, 1, 1), (1, 1, 1))
        for found in (own, first):
            check_gates(found.decisions[0], found.executions[0], found.evaluations[0])
        assert first.executions[0].failure_reason is not None
        assert first.executions[0].failure_reason.startswith(reason)
        assert first.evaluations[0].overall_score == 0
        # What was done: the second choice was among the others alone, and the log says so.
        [second] = own.decisions
        assert [(c.agent_id, c.propensity) for c in second.candidate_agents] == [("good", 1.0)]
        assert second.strategy is Strategy.FALLBACK
        assert second.primary_reason.startswith("bad could not answer; of the others: ")
        assert {c.agent_id for c in first.decisions[0].candidate_agents} == {"bad", "good"}
    evidence = BanditState(engine).evidence()
    assert (evidence["bad", "research"].tasks, evidence["good", "research"].tasks) == (len(fallen), 20)
    assert evidence["bad", "research"].quality_sum == 0


def test_a_wrong_answer_is_no_reason_to_fall_back(engine: Engine, tmp_path: Path) -> None:
    agents = {"bad": ScriptedAgent("0.1 wrong"), "worse": ScriptedAgent("0.1 wrong")}
    with service(engine, tmp_path, agents) as arbiter:
        assert len(arbiter.execute_task(task()).attempts) == 1


def test_where_all_agents_fail_the_last_failure_is_the_tasks(engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path, {name: broken(f"{name} is gone") for name in "abcde"}) as arbiter:
        result = arbiter.execute_task(task())
    assert (result.status, len(result.attempts)) == ("failed", 3)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.reason) == ("agent-error", f"{result.agent_id} is gone")
    assert set(logs_of(tmp_path)) == {"t1#attempt-1", "t1#attempt-2", "t1"}
    assert sum(known.tasks for known in BanditState(engine).evidence().values()) == 3


def test_without_an_agent_the_task_fails_with_that_reason(engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path / "a", {}) as arbiter:
        nobody = arbiter.execute_task(task(1))
    with service(engine, tmp_path / "b", {"a": ScriptedAgent()}) as arbiter:
        refused = arbiter.execute_task(replaced(2, limits=Limits(must_have=("chemistry",))))
    for result, folder, reason in (
        (nobody, tmp_path / "a", "no agent is active"),
        (refused, tmp_path / "b", "a is not specialized in chemistry"),
    ):
        assert result.failure is not None
        assert (result.status, result.failure.kind) == ("failed", "no-agent")
        assert reason in result.failure.reason
        logs = logs_of(folder)[result.task_id]
        assert logs.counts == (1, 1, 1)
        assert (logs.decisions[0].selected_agent_id, logs.decisions[0].candidate_agents) == (NO_AGENT, ())
        assert not logs.executions[0].success
    assert BanditState(engine).evidence() == {}


def test_a_slow_agent_is_given_up_and_stays_counted_as_busy(engine: Engine, tmp_path: Path) -> None:
    released = threading.Event()
    agents = {"slow": ScriptedAgent(released), "fast": ScriptedAgent()}
    timeouts = {"slow": {"timeout_s": 0.1}, "fast": {}}
    with service(engine, tmp_path, agents, profiles=lambda name: timeouts[name]) as arbiter:
        results = [arbiter.execute_task(task(number)) for number in range(6)]
        fallen = [result for result in results if len(result.attempts) == 2]
        assert fallen
        assert arbiter._parts.slots.loads()["slow"].active == len(fallen)
        released.set()
        while arbiter._parts.slots.loads():
            time.sleep(0.05)
    assert {result.status for result in results} == {"succeeded"}
    failures = [result.attempts[0].failure for result in fallen]
    assert {failure.kind for failure in failures if failure} == {"timeout"}
    assert {failure.reason for failure in failures if failure} == {"no answer within 0.1 s"}


@pytest.mark.parametrize("bound", ["timeout", "deadline"])
def test_a_task_ends_when_its_own_time_is_over(engine: Engine, tmp_path: Path, bound: str) -> None:
    asked = (
        replaced(1, limits=Limits(timeout_s=1.5))
        if bound == "timeout"
        else replaced(1, deadline=utc_now() + timedelta(seconds=1.5))
    )
    released = threading.Event()
    with service(engine, tmp_path, {"a": ScriptedAgent(released), "b": ScriptedAgent(released)}) as arbiter:
        result = arbiter.execute_task(asked)
        released.set()
    assert result.failure is not None
    assert (result.status, result.failure.kind, len(result.attempts)) == ("failed", "timeout", 1)
    assert logs_of(tmp_path)["t1"].counts == (1, 1, 1)


def test_a_deadline_that_is_over_asks_nobody(engine: Engine, tmp_path: Path) -> None:
    agent = ScriptedAgent()
    with service(engine, tmp_path, {"a": agent}) as arbiter:
        result = arbiter.execute_task(replaced(1, deadline=utc_now() - timedelta(seconds=1)))
    assert result.failure is not None
    assert (result.failure.kind, agent.asked) == ("timeout", [])
    assert logs_of(tmp_path)["t1"].counts == (1, 1, 1)


def test_a_cancelled_task_is_accounted_for_and_nobody_is_blamed(engine: Engine, tmp_path: Path) -> None:
    token, released = CancelToken(), threading.Event()
    with service(engine, tmp_path, {"a": ScriptedAgent(released)}) as arbiter:
        threading.Timer(0.3, token.cancel, ["the user left"]).start()
        result = arbiter.execute_task(task(), token=token)
        released.set()
        before = arbiter.execute_task(task(2), token=token)
    for found in (result, before):
        assert found.failure is not None
        assert (found.status, found.failure.kind, found.failure.reason) == ("cancelled", "cancelled", "the user left")
        logs = logs_of(tmp_path)[found.task_id]
        assert (logs.counts, logs.executions[0].failure_reason) == ((1, 1, 0), "the user left")
    assert BanditState(engine).evidence() == {}


def test_a_task_that_is_cancelled_between_turns_has_its_answer_and_no_evaluation(
    engine: Engine, tmp_path: Path
) -> None:
    token, released = CancelToken(), threading.Event()

    class Leaving(ScoreReader):
        """The caller leaves a moment after the first answer was judged."""

        def evaluate(self, subject: Subject) -> Verdict | None:
            threading.Timer(0.2, token.cancel).start()
            return super().evaluate(subject)

    with service(engine, tmp_path, {"a": ScriptedAgent("0.6 first", released)}, evaluator=Leaving()) as arbiter:
        result = arbiter.execute_task(task(), token=token)
        released.set()
    assert (result.status, result.text, result.evaluation) == ("cancelled", "0.6 first", None)
    assert logs_of(tmp_path)["t1"].counts == (1, 1, 0)
    assert BanditState(engine).evidence() == {}


def test_a_cancelled_coroutine_leaves_an_accounted_task(engine: Engine, tmp_path: Path) -> None:
    async def cancelled(arbiter_task: Task) -> None:
        running = asyncio.create_task(arbiter.aexecute_task(arbiter_task))
        await asyncio.sleep(0.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    released = threading.Event()
    with service(engine, tmp_path, {"a": ScriptedAgent(released)}) as arbiter:
        asyncio.run(cancelled(task()))
        released.set()
        replayed = arbiter.execute_task(task())
    assert (replayed.status, replayed.replayed) == ("cancelled", True)
    assert logs_of(tmp_path)["t1"].counts == (1, 1, 0)


def test_fifty_tasks_at_once_do_not_wait_for_each_other(engine: Engine, tmp_path: Path) -> None:
    async def all_at_once() -> list[str]:
        results = await asyncio.gather(*(arbiter.aexecute_task(task(number)) for number in range(50)))
        return [result.status for result in results]

    together = threading.Barrier(50)  # no agent answers before all fifty are asked
    agents = {name: ScriptedAgent(together) for name in "abcde"}
    with service(engine, tmp_path, agents, settings=ExecutionSettings()) as arbiter:
        assert asyncio.run(all_at_once()) == ["succeeded"] * 50


def test_what_a_task_may_take_ends_it_and_is_never_clipped(engine: Engine, tmp_path: Path) -> None:
    agent = ScriptedAgent("0.1 a", "0.3 b", "0.4 c", tokens=400)
    with service(engine, tmp_path, {"a": agent}) as arbiter:
        result = arbiter.execute_task(replaced(1, limits=Limits(tokens=800)))
    assert result.failure is not None
    assert result.failure.kind == "budget-exhausted"
    assert result.failure.reason == "820 tokens are spent, the task's limit is 800; 0.3 is too little"
    assert (result.spent.tokens, len(agent.asked)) == (820, 2)


def test_a_budget_is_raised_after_a_rejection_and_overspending_is_told(engine: Engine, tmp_path: Path) -> None:
    agent = ScriptedAgent("0.1 a", "0.3 b", "0.4 c", tokens=3_000)
    with service(engine, tmp_path, {"a": agent}) as arbiter:
        result = arbiter.execute_task(task())
    budget = result.budget
    assert task().assessed_complexity is Complexity.TRIVIAL
    # 500 are granted and 3,000 spent, so 2,000 are granted, which are spent too: the budget ends it.
    assert (budget.level, budget.granted, budget.spent, budget.overspent) == (Complexity.STANDARD, 2_000, 3_000, 1_000)
    assert (budget.escalations, len(agent.asked)) == (1, 1)
    assert result.failure is not None
    assert result.failure.kind == "budget-exhausted"
    assert result.evaluation is not None
    assert not result.evaluation.budget_compliant


def test_after_a_raise_that_did_not_help_nothing_is_raised_for_a_while(engine: Engine, tmp_path: Path) -> None:
    with service(engine, tmp_path, {"a": ScriptedAgent("0.1 always", tokens=500)}) as arbiter:
        first, second = (arbiter.execute_task(task(number)) for number in range(2))
    assert (first.budget.escalations, second.budget.escalations) == (1, 0)
    assert second.failure is not None
    assert "of 500 tokens of the thinking budget" in second.failure.reason


def test_held_out_tasks_are_refused_and_benchmarks_judged_by_their_answer(engine: Engine, tmp_path: Path) -> None:
    from flywheel.arbiter.arbiter import FUNCTION_CALLS

    kept = Task.of_source(benchmark_task("kept", split=Split.HELDOUT), id="kept")
    with service(engine, tmp_path, {"a": FixedAgent(RIGHT)}, evaluator=FUNCTION_CALLS) as arbiter:
        with pytest.raises(HeldOutTaskError):
            arbiter.execute_task(kept)
        result = arbiter.execute_task(Task.of_source(benchmark_task(), id="b1"))
    assert result.evaluation is not None
    assert (result.status, result.evaluation.passed_all_mandatory) == ("succeeded", True)
    executed = logs_of(tmp_path)["b1"].executions[0]
    assert (executed.tool_call_count, executed.tools_used[0].tool_name) == (1, "add")


def test_a_task_of_another_tenant_is_refused_and_run_by_its_own_arbiter(engine: Engine, tmp_path: Path) -> None:
    from flywheel.collection.collector import Collector

    other = replaced(1, tenant_id="zeta")
    with service(engine, tmp_path / "acme", {"a": ScriptedAgent()}) as arbiter:
        with pytest.raises(ConfigurationError, match="of tenant 'zeta'"):
            arbiter.execute_task(other)
        with Collector(tmp_path / "zeta", "zeta") as collector:
            theirs = arbiter.for_tenant("zeta", collector).execute_task(other)
        ours = arbiter.execute_task(task(1))
    assert (theirs.tenant_id, ours.tenant_id, ours.replayed) == ("zeta", "acme", False)
    assert {log.tenant_id for log in logs_of(tmp_path / "zeta")["t1"].decisions} == {"zeta"}
    assert BanditState(engine).evidence()["a", "research"].tasks == 2


def test_two_arbiters_on_one_database_learn_as_one(engine: Engine, tmp_path: Path) -> None:
    def agents() -> dict[str, ScriptedAgent]:
        return {"good": ScriptedAgent("1.0"), "bad": ScriptedAgent("0.0")}

    one, two = agents(), agents()
    with (
        service(engine, tmp_path / "1", one, evaluator=ScoreReader(feedback=None), seed=1) as first,
        service(engine, tmp_path / "2", two, evaluator=ScoreReader(feedback=None), seed=2) as second,
    ):
        for number in range(60):
            first.execute_task(task(f"a{number}"))
        fresh = [second.execute_task(task(f"b{number}")).agent_id for number in range(20)]
        for number in range(20):
            second.execute_task(task(f"c{number}"))
    assert fresh.count("good") >= 17  # alone it would begin with a coin
    assert sum(known.tasks for known in BanditState(engine).evidence().values()) == 100


def test_logs_that_cannot_be_written_now_are_all_written_later(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = iter([True])
    append = SegmentWriter.append

    def slow_disk(self: SegmentWriter, *args: Any, **options: Any) -> Any:
        if next(refused, False):
            raise OSError(errno.ENOSPC, "No space left on device")
        return append(self, *args, **options)

    monkeypatch.setattr(SegmentWriter, "append", slow_disk)
    with service(engine, tmp_path, {"a": ScriptedAgent()}) as arbiter:
        result = arbiter.execute_task(task())
    assert (result.status, result.logged) == ("succeeded", False)
    assert logs_of(tmp_path)["t1"].counts == (1, 1, 1)
    assert BanditState(engine).evidence()["a", "research"].tasks == 1
