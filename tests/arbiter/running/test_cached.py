"""Answers from the cache are logged as that, and nothing is learned from them a second time."""

from pathlib import Path

from sqlalchemy import Engine

from flywheel.arbiter.cache.semantic_cache import SemanticCache
from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.running.cached import CACHE
from flywheel.arbiter.settings import CacheSettings, ExecutionSettings
from flywheel.arbiter.task import Task
from flywheel.collection.collector import Collector, utc_now
from flywheel.pool.intake import index_segments
from flywheel.pool.offers import read_offers
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import read_rows
from flywheel.pool.schemas import VALIDATED
from flywheel.pool.selection import eligible, with_failures
from flywheel.records import decode_point
from flywheel.settings import Settings
from tests.arbiter.running.service import ScoreReader, ScriptedAgent, logs_of, service
from tests.pool.test_retention import run_day

CACHED = ExecutionSettings(refresh_s=0.0, cache=CacheSettings(enabled=True, similarity=0.9))
QUESTION = "Which papers cite the article on contextual bandits, and what do they say of it?"
ALIKE = "Which paper cites the article on contextual bandits, and what do they say of it?"


def asking(number: int, text: str = QUESTION) -> Task:
    return Task.asking(text, id=f"t{number}", type="research")


def test_the_same_question_asks_no_agent_and_is_logged_as_a_hit(engine: Engine, tmp_path: Path) -> None:
    agent, reader = ScriptedAgent("0.9 these", "0.9 never"), ScoreReader()
    with service(engine, tmp_path, {"a": agent}, evaluator=reader, settings=CACHED) as arbiter:
        first, hit, again = (arbiter.execute_task(asking(number)) for number in (1, 2, 2))
    assert (first.cached_from, hit.cached_from, hit.text, hit.agent_id) == (None, "t1", "0.9 these", CACHE)
    assert (hit.spent.tokens, hit.budget.spent, len(agent.asked), len(reader.subjects)) == (0, 0, 1, 1)
    assert (again.replayed, again.cached_from) == (True, "t1")
    logs = logs_of(tmp_path)["t2"]
    assert logs.counts == (1, 1, 1)
    [decision], [executed], [evaluation] = logs.decisions, logs.executions, logs.evaluations
    assert (decision.selected_agent_id, decision.candidate_agents) == (CACHE, ())
    assert decision.primary_reason == "a answered task t1 in the same words; no agent was asked"
    assert (executed.cached_from, executed.tokens_used, executed.success) == ("t1", 0, True)
    assert (evaluation.task_id, evaluation.agent_id, evaluation.overall_score) == ("t2", CACHE, 0.9)
    assert decision.timestamp <= executed.timestamp <= evaluation.timestamp
    assert BanditState(engine).evidence()["a", "research"].tasks == 1


def test_an_arbiter_answers_from_the_cache_that_it_is_given_and_forgets_whom_that_forgets(
    engine: Engine, tmp_path: Path
) -> None:
    agent, cache = ScriptedAgent("0.9 these", "0.9 others"), SemanticCache(CACHED.cache)
    with service(engine, tmp_path, {"a": agent}, settings=ExecutionSettings(refresh_s=0.0), cache=cache) as arbiter:
        first, hit = (arbiter.execute_task(asking(number)) for number in (1, 2))
        assert cache.forget("acme") == 1
        anew = arbiter.execute_task(asking(3))
    assert (first.cached_from, hit.cached_from, anew.cached_from) == (None, "t1", None)
    assert (hit.text, anew.text) == ("0.9 these", "0.9 others")


def test_an_answer_to_a_similar_question_is_judged_anew(engine: Engine, tmp_path: Path) -> None:
    class Choosy(ScoreReader):
        """Lets the cached answer pass for the one question, and for the other not."""

        def evaluate(self, subject):  # type: ignore[no-untyped-def]
            verdict = super().evaluate(subject)
            return None if subject.agent_id == CACHE and "paper " in subject.task.text else verdict

    agent = ScriptedAgent("0.9 these", "0.9 others")
    with service(engine, tmp_path, {"a": agent}, evaluator=Choosy(), settings=CACHED) as arbiter:
        arbiter.execute_task(asking(1))
        fitting = arbiter.execute_task(asking(2, QUESTION.replace("papers", "articles")))
        refused = arbiter.execute_task(asking(3, ALIKE))
    assert (fitting.cached_from, fitting.text) == ("t1", "0.9 these")
    assert "by 0.9" in fitting.decision.primary_reason
    assert (refused.cached_from, refused.text) == (None, "0.9 others")


def test_one_tenant_never_gets_anothers_answer(engine: Engine, tmp_path: Path) -> None:
    agent = ScriptedAgent("0.9 of acme", "0.9 of zeta")
    with (
        service(engine, tmp_path / "acme", {"a": agent}, settings=CACHED) as acme,
        Collector(tmp_path / "zeta", "zeta") as collector,
    ):
        zeta = acme.for_tenant("zeta", collector)
        texts = [arbiter.execute_task(asking(number)).text for number in (1, 2) for arbiter in (acme, zeta)]
    assert texts == ["0.9 of acme", "0.9 of zeta"] * 2


def test_without_an_evaluation_nothing_is_cached(engine: Engine, tmp_path: Path) -> None:
    agent = ScriptedAgent("a poem", "another poem")
    with service(engine, tmp_path, {"a": agent}, settings=CACHED) as arbiter:
        assert [arbiter.execute_task(asking(number)).text for number in (1, 2)] == ["a poem", "another poem"]


def test_a_hit_is_a_point_that_no_training_takes(engine: Engine, settings: Settings) -> None:
    with service(engine, settings.segments_dir, {"a": ScriptedAgent("0.9 these")}, settings=CACHED) as arbiter:
        for number in range(4):
            arbiter.execute_task(asking(number))
        arbiter.execute_task(asking(9, "What else is there to be read about them?"))
    now = utc_now()
    with BenchmarkPool.open(settings) as pool:
        index_segments(pool, now=now)
        run_day(pool, now=now, day=now.date())
        rows = list(read_rows(pool, VALIDATED, now.date()))
        offers = list(read_offers(pool, since=now))
        tasks = tasks_by_agent(pool)
    points = {point.task.id: point for point in (decode_point(row["payload"]) for row in rows)}
    assert len(points) == len(offers) == 5
    assert {task_id for task_id, point in points.items() if point.rl_ready} == {"t0", "t9"}
    assert {points[f"t{number}"].provenance.cached_from for number in (1, 2, 3)} == {"t0"}
    trainable = eligible(offers, with_failures(quality=0.0, max_age_days=1), marked=set(), now=now)
    assert {offer.agent_id for offer in trainable} == {"a"}
    assert len(trainable) == 2
    assert tasks == {"a": 2, CACHE: 3}  # a hit is no agent's merit


def tasks_by_agent(pool: BenchmarkPool) -> dict[str, int]:
    with pool.transaction() as connection:
        return dict(connection.execute("SELECT agent_id, sum(tasks)::int FROM daily_statistics GROUP BY 1").fetchall())
