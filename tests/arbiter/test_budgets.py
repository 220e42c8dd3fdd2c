"""Thinking budgets: what is spent is what is reported, and what is overspent is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.arbiter.budgets import THINKING_BUDGET_TOKENS, CoolDown, ThinkingBudget, reason_to_escalate
from flywheel.records import Complexity


@given(st.sampled_from(Complexity), st.lists(st.integers(0, 10_000)), st.data())
def test_what_is_spent_is_the_sum_of_what_agents_report_and_no_debt_is_hidden(
    complexity: Complexity, reported: list[int], data: st.DataObject
) -> None:
    budget = ThinkingBudget(complexity)
    for tokens in reported:
        budget.spend(tokens)
        if budget.can_escalate and data.draw(st.booleans()):
            budget.escalate()
        report = budget.report()
        assert report.spent - report.overspent <= report.granted
        assert report.overspent == max(0, report.spent - report.granted) == max(0, -budget.remaining)
        assert report.granted == THINKING_BUDGET_TOKENS[report.level] <= 8_000
    assert budget.spent == sum(reported)


def test_a_count_below_nothing_is_refused() -> None:
    budget = ThinkingBudget(Complexity.TRIVIAL)
    with pytest.raises(ValueError, match="cannot be below 0"):
        budget.spend(-1)
    assert budget.spent == 0


def test_the_largest_level_is_the_cap() -> None:
    budget = ThinkingBudget(Complexity.TRIVIAL)
    for granted in (2_000, 8_000):
        budget.escalate()
        assert budget.granted == granted
    assert not budget.can_escalate
    with pytest.raises(ValueError, match="highest"):
        budget.escalate()


@pytest.mark.parametrize(
    ("passed", "partial", "confidence", "reason"),
    [
        (True, False, 1.0, None),
        (True, False, 0.49, "low confidence"),
        (False, True, 1.0, "partial success"),
        (False, False, 1.0, "rejection"),
    ],
)
def test_a_budget_is_raised_for_stated_reasons(
    passed: bool, partial: bool, confidence: float, reason: str | None
) -> None:
    assert reason_to_escalate(passed=passed, partial_success=partial, confidence=confidence) == reason


def test_a_cool_down_is_of_one_agent_and_type_and_ends() -> None:
    now = [100.0]
    cool_down = CoolDown(60.0, monotonic=lambda: now[0])
    cool_down.begin("a", "research")
    assert cool_down.holds("a", "research")
    assert not cool_down.holds("a", "planning")
    assert not cool_down.holds("b", "research")
    now[0] += 60
    assert not cool_down.holds("a", "research")
