"""What the cache gives again, to whom, and what it never keeps."""

import tracemalloc
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flywheel.arbiter.budgets import ThinkingBudget
from flywheel.arbiter.cache.embedding import Vector
from flywheel.arbiter.cache.semantic_cache import SemanticCache, may_be_cached
from flywheel.arbiter.logs import no_choice
from flywheel.arbiter.settings import CacheSettings
from flywheel.arbiter.task import Limits, Task, TaskResult
from flywheel.records import Complexity, Evaluation, Message, RubricScores
from flywheel.tasks.source import Tool

NOW = datetime(2026, 3, 2, tzinfo=UTC)
QUESTION = "Which papers cite the article on contextual bandits, and what do they say of it?"
ALIKE = "Which paper cites the article on contextual bandits, and what do they say of it?"
SEARCH = Tool(name="search", description="Searches.", parameters={})


def asking(text: str = QUESTION, *, id: str = "t1", **fields: Any) -> Task:
    return msgspec.structs.replace(Task.asking(text, id=id, type="research"), **fields)


def result_of(task: Task, text: str = "the answer", *, quality: float | None = 0.9, **fields: Any) -> TaskResult:
    evaluation = quality and Evaluation(
        task_id=task.id,
        agent_id="a",
        timestamp=NOW,
        quality_gates=(),
        rubric_scores=RubricScores(format=1, tool=1, task=1, minimal=1, cost=1, safety=1),
        overall_score=quality,
        caws_compliant=True,
        budget_compliant=True,
        passed_all_mandatory=True,
    )
    result = TaskResult(
        task_id=task.id,
        tenant_id="acme",
        status="succeeded",
        text=text,
        agent_id="a",
        decision=no_choice(task, agent_id="a", tenant_id="acme", timestamp=NOW, reason=""),
        budget=ThinkingBudget(Complexity.TRIVIAL).report(),
        latency_ms=1.0,
        evaluation=evaluation or None,
    )
    return msgspec.structs.replace(result, **fields)


def cache(**fields: Any) -> SemanticCache:
    return SemanticCache(CacheSettings(enabled=True, **fields))


def test_equal_words_are_an_exact_hit_and_similar_ones_a_similar_one() -> None:
    known = cache(similarity=0.9)
    assert known.put("acme", asking(), result_of(asking()))
    exact, alike = known.find("acme", asking(id="t2")), known.find("acme", asking(ALIKE, id="t3"))
    assert exact is not None
    assert alike is not None
    assert (exact.exact, exact.similarity, exact.answer.task_id, exact.answer.text) == (True, 1.0, "t1", "the answer")
    assert (alike.exact, alike.answer.task_id) == (False, "t1")
    assert 0.9 <= alike.similarity < 1
    assert known.find("acme", asking("How is bread baked?")) is None


def test_the_nearest_of_several_is_found_and_an_exact_one_goes_first() -> None:
    known = cache(similarity=0.5)
    for number, text in enumerate((f"{QUESTION} Be brief.", ALIKE, QUESTION)):
        task = asking(text, id=f"t{number}")
        known.put("acme", task, result_of(task))
    for text, nearest in ((QUESTION, "t2"), (f"{QUESTION} Be very brief.", "t0")):
        hit = known.find("acme", asking(text))
        assert hit is not None
        assert hit.answer.task_id == nearest


def test_another_number_is_another_question() -> None:
    known = cache(similarity=0.5)
    task = asking("What did our shop in Berlin sell in the 3rd week of 2024?")
    known.put("acme", task, result_of(task))
    assert known.find("acme", asking("What did our shop in Berlin sell in the 4th week of 2024?")) is None
    assert known.find("acme", asking("What did our shops in Berlin sell in the 3rd week of 2024?")) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "planning"},
        {"requirements": ("web",)},
        {"limits": Limits(must_have=("law",))},
        {"languages": ("de",)},
        {"source": "bench:1"},
        {"messages": (Message(role="system", content="Lie."), Message(role="user", content=QUESTION))},
        {"tools": (SEARCH,), "side_effects": False},
    ],
)
def test_whatever_else_is_different_makes_it_another_task(fields: dict[str, Any]) -> None:
    known = cache(similarity=0.5)
    known.put("acme", asking(), result_of(asking()))
    assert known.find("acme", asking(**fields)) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"status": "failed"},
        {"status": "cancelled"},
        {"evaluation": None},
        {"cached_from": "t0"},
    ],
)
def test_no_failure_nothing_unjudged_and_no_hit_is_kept(changed: dict[str, Any]) -> None:
    known = cache()
    assert not known.put("acme", asking(), result_of(asking(), **changed))
    assert len(known) == 0


def test_an_answer_below_the_quality_is_not_kept() -> None:
    known = cache(min_quality=0.8)
    assert not known.put("acme", asking(), result_of(asking(), quality=0.79))
    assert known.put("acme", asking(), result_of(asking(), quality=0.8))


def test_a_task_with_side_effects_is_neither_kept_nor_answered() -> None:
    known = cache()
    known.put("acme", asking(), result_of(asking()))
    for fields in ({"side_effects": True}, {"tools": (SEARCH,)}, {"use_cache": False}):
        acting = asking(**fields)
        assert not may_be_cached(acting)
        assert known.find("acme", acting) is None
        assert not known.put("acme", acting, result_of(acting))
    assert may_be_cached(asking(tools=(SEARCH,), side_effects=False))


def test_an_old_answer_is_not_given_again() -> None:
    now = [0.0]
    known = SemanticCache(CacheSettings(max_age_s=60.0), monotonic=lambda: now[0])
    known.put("acme", asking(), result_of(asking()))
    now[0] = 60.0
    assert known.find("acme", asking()) is not None
    now[0] = 60.1
    assert known.find("acme", asking(ALIKE)) is None
    assert known.find("acme", asking()) is None
    assert (len(known), known.bytes_used) == (0, 0)


def test_a_tenant_is_forgotten_whole_and_alone() -> None:
    known = cache()
    for tenant in ("acme", "zeta"):
        known.put(tenant, asking(), result_of(asking()))
    assert known.forget("acme") == 1
    assert known.find("acme", asking()) is None
    assert known.find("zeta", asking()) is not None


def test_an_embedder_that_fails_leaves_the_exact_hits() -> None:
    def failing(text: str) -> Vector:
        raise OSError("its model is gone")

    known = SemanticCache(CacheSettings(), embed=failing)
    known.put("acme", asking(), result_of(asking()))
    assert known.find("acme", asking()) is not None
    assert known.find("acme", asking(ALIKE)) is None


def test_an_answer_larger_than_the_cache_is_not_kept_and_evicts_nothing() -> None:
    known = cache(max_bytes=10_000)
    known.put("acme", asking(), result_of(asking()))
    assert not known.put("acme", asking("another"), result_of(asking("another"), "x" * 10_000))
    assert len(known) == 1


def test_the_bytes_that_are_counted_are_not_fewer_than_those_that_are_taken() -> None:
    known = cache()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1_000):
            task = asking(f"{QUESTION} It is of {number} and {number * 7}.", id=f"t{number}")
            known.put("acme", task, result_of(task, f"answer {number} " * 100))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(known) == 1_000
    assert 0.7 * known.bytes_used < after - before <= known.bytes_used < 100_000_000


class Model(RuleBasedStateMachine):
    """The cache beside a dictionary per tenant that forgets nothing: what the cache gives is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = cache(entries=5, max_bytes=20_000, similarity=0.6)
        self.given: dict[str, set[str]] = {"a": set(), "b": set(), "ab": set()}
        self.count = 0

    @rule(tenant=st.sampled_from(["a", "b", "ab"]), text=st.sampled_from([QUESTION, ALIKE, "b", "other words"]),
          size=st.sampled_from([1, 5_000, 30_000]))  # fmt: skip
    def put(self, tenant: str, text: str, size: int) -> None:
        self.count += 1
        answer = f"{tenant}-{self.count}-{'x' * size}"
        self.given[tenant].add(answer)
        task = asking(text, id=f"t{self.count}")
        self.cache.put(tenant, task, result_of(task, answer))

    @rule(tenant=st.sampled_from(["a", "b", "ab"]), text=st.sampled_from([QUESTION, ALIKE, "b", "new words"]))
    def find(self, tenant: str, text: str) -> None:
        hit = self.cache.find(tenant, asking(text))
        assert hit is None or hit.answer.text in self.given[tenant]

    @rule(tenant=st.sampled_from(["a", "b", "ab"]))
    def forget(self, tenant: str) -> None:
        self.cache.forget(tenant)
        self.given[tenant].clear()

    @invariant()
    def bounds_hold(self) -> None:
        assert len(self.cache) <= 5
        assert 0 <= self.cache.bytes_used <= 20_000
        assert (self.cache.bytes_used == 0) == (len(self.cache) == 0)


TestNoTenantSeesAnothersAnswerAndBoundsHold = Model.TestCase
TestNoTenantSeesAnothersAnswerAndBoundsHold.settings = settings(max_examples=40)


@given(st.lists(st.integers(0, 7), max_size=40))
def test_the_entry_not_used_for_longest_goes_first(used: list[int]) -> None:
    known, order = cache(entries=4, similarity=1.0), list[int]()
    for number in used:
        task = asking(f"question {number}")
        hit = known.find("acme", task)
        assert (hit is not None) == (number in order)
        if hit is None:
            known.put("acme", task, result_of(task))
        order = [*(other for other in order if other != number), number][-4:]
