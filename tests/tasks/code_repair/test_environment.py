"""Programs to repair: the known repair passes, the error is one that its tests see, and tests stay secret."""

import pytest

from flywheel.records import MinimalDiffMetrics
from flywheel.settings import TasksSettings
from flywheel.tasks.code_repair.environment import (
    MAX_TURNS,
    SHOWN_TESTS,
    CodeRepair,
    RepairTask,
    needed_share,
    program_of,
)
from flywheel.tasks.code_repair.program_tests import run_tests

REPAIR = CodeRepair.of_settings(TasksSettings())
TASKS = {task.id: task for task in REPAIR.tasks()}
CLAMP = TASKS["code-repair:clamp"]


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_the_repair_passes_and_the_error_is_seen_by_some_tests_and_not_by_all(task: RepairTask) -> None:
    assert run_tests(task.fixed, task.tests).passed_fraction == 1.0
    assert run_tests(task.buggy, task.tests).passed_fraction < 1.0
    assert any(not result.passed for result in run_tests("", task.tests).results)
    assert len(task.tests) >= SHOWN_TESTS + 3


def test_there_are_more_than_twenty() -> None:
    assert len(TASKS) > 20


def test_tests_that_are_not_shown_are_told_neither_at_first_nor_after_a_failure() -> None:
    run = REPAIR.run(CLAMP)
    said = [message.content or "" for message in run.opening()]
    for _ in range(MAX_TURNS - 1):
        said += [message.content or "" for message in run.step("```python\ndef clamp(*_): return None\n```").messages]
    for test in CLAMP.tests[SHOWN_TESTS:]:
        assert not any(test.call in text for text in said)
    assert f"{len(CLAMP.tests)} of {len(CLAMP.tests)} tests fail." in said[1]


def test_turns_end_with_the_repair_or_with_the_last_one() -> None:
    run = REPAIR.run(CLAMP)
    seen = [run.step(f"```python\n{program}```") for program in (CLAMP.buggy, "def clamp(", CLAMP.fixed)]
    assert [one.over for one in seen] == [False, False, True]
    assert run.verify().passed
    gains = [one.information_gain for one in seen]
    assert sum(gains) == pytest.approx(1.0), "what turns bring adds up to what was done, however many there are"


def test_the_last_program_counts_not_the_best() -> None:
    run = REPAIR.run(CLAMP)
    half = run.step(f"```python\n{CLAMP.buggy}```").progress
    worse = run.step("```python\ndef clamp(*_): return None\n```").progress
    run.step("I give up.")
    assert (half or 0) > (worse or 0)
    assert run.verify().task == 0.0


def test_the_last_block_is_the_program() -> None:
    assert program_of("```python\na = 1\n```\nBetter:\n```python\na = 2\n```") == ("a = 2\n", True)
    assert program_of("a = 3") == ("a = 3", False)
    assert program_of("Here you are!") == ("", False)
    assert program_of("```python\n" + "#" * 30_000 + "\n```") == ("", False)


REWRITTEN = (
    "def clamp(value, a, b):\n    low = min(a, b)\n    high = max(a, b)\n    return sorted((low, value, high))[1]\n"
)


def test_a_rewritten_program_changed_more_than_was_needed() -> None:
    known, other = REPAIR.run(CLAMP), REPAIR.run(CLAMP)
    repaired = known.step(f"```python\n{CLAMP.fixed}```")
    rewritten = other.step(f"```python\n{REWRITTEN}```")
    assert known.verify().passed
    assert known.verify().minimal == 1.0
    assert other.verify().passed
    assert other.verify().minimal < 0.5
    assert repaired.multiplier > 0.9
    assert rewritten.multiplier < 0.5


def test_how_small_the_change_is_stands_in_the_verification() -> None:
    run = REPAIR.run(CLAMP)
    run.step(f"```python\n{CLAMP.fixed}```")
    measured = run.verify().minimal_diff
    assert measured is not None
    assert (measured.file_touch_count, measured.scaffolding_penalty) == (1, 0)
    assert 0.9 < measured.ast_similarity < 1
    run.step("I give up.")
    assert run.verify().minimal_diff is None


def test_the_unchanged_program_is_no_small_repair() -> None:
    run = REPAIR.run(CLAMP)
    run.step(f"```python\n{CLAMP.buggy}```")
    assert run.verify().minimal == 0.0


def test_a_smaller_repair_than_the_known_one_is_worth_no_more() -> None:
    small = MinimalDiffMetrics(
        ast_similarity=1, file_touch_count=1, line_change_ratio=0, scaffolding_penalty=0, reward_multiplier=1
    )
    assert needed_share(CLAMP, small) == 1.0
