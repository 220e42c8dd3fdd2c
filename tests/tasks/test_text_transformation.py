"""Texts without banned phrases: the checker is not fooled by dress, and feedback leads to the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.settings import TasksSettings
from flywheel.tasks.source import Split
from flywheel.tasks.text_transformation.checker import check_text, words_of
from flywheel.tasks.text_transformation.environment import MAX_TURNS, TextTask, TextTransformation

TEXTS = TextTransformation.of_settings(TasksSettings())
TASKS = TEXTS.tasks()
TASK = TEXTS.by_id("text-transformation:release-notes-0-125")
PHRASE = "do not hesitate"


def problems(task: TextTask, text: str) -> tuple[str, ...]:
    return check_text(text, banned=task.banned, facts=task.facts, source_words=len(words_of(task.source_text))).problems


def test_every_task_is_solved_by_its_plain_text_and_by_nothing_that_was_there_before() -> None:
    for task in TASKS:
        assert problems(task, task.plain) == (), task.id
        found = problems(task, task.source_text)
        assert len(found) == len(task.banned), (task.id, found)


def test_no_sentence_of_a_held_out_text_is_in_a_training_text() -> None:
    sentences: dict[Split, set[str]] = {split: set() for split in Split}
    for task in TASKS:
        sentences[task.split].update(task.source_text.split(". "))
    assert sentences[Split.HELDOUT]
    assert not sentences[Split.HELDOUT] & sentences[Split.TRAIN]


@given(
    separators=st.lists(st.sampled_from([" ", "  ", "\n", "-", ", ", " \u200b", "*", " "]), min_size=2, max_size=2),
    upper=st.sets(st.integers(0, 14)),
    before=st.text(alphabet="abc ", max_size=20),
)
def test_a_phrase_is_found_in_any_dress(separators: list[str], upper: set[int], before: str) -> None:
    words = PHRASE.split()
    written = words[0] + separators[0] + words[1] + separators[1] + words[2]
    written = "".join(c.upper() if i in upper else c for i, c in enumerate(written))
    found = check_text(f"{before} {written}.", banned=[PHRASE], facts=["x"], source_words=5)
    assert found.banned == (PHRASE,)


def test_a_phrase_within_other_words_is_not_it() -> None:
    assert check_text("The merely iconical", banned=["a mere", "iconic"], facts=["the"], source_words=3).banned == ()


def test_a_list_of_the_facts_is_no_text_and_neither_is_an_essay() -> None:
    assert any("words; it must have" in problem for problem in problems(TASK, TASK.facts[0]))
    assert any("words; it must have" in problem for problem in problems(TASK, f"{TASK.plain} and so on" * 10))
    for task in TASKS:  # of some the facts alone are long enough
        assert problems(task, " ".join(task.facts)), task.id
        assert problems(task, ", ".join(task.facts * 2)), task.id


def test_feedback_turn_by_turn_leads_to_a_text_without_banned_phrases() -> None:
    run = TEXTS.run(TASK)
    text, shares = TASK.source_text, []
    for _ in range(MAX_TURNS):
        seen = run.step(text)
        shares.append(seen.progress or 0.0)
        if seen.over:
            break
        remaining = [phrase for phrase in TASK.banned if f'"{phrase}"' in (seen.feedback or "")]
        assert remaining, "what is wrong is said"
        for phrase in remaining[: (len(TASK.banned) + 1) // 2]:
            text = text.replace(phrase, "pleased to say")
    assert run.verify().passed
    assert len(shares) > 1
    assert shares == sorted(shares)


def test_after_the_last_turn_nothing_more_is_asked() -> None:
    run = TEXTS.run(TASK)
    assert [run.step(TASK.source_text).over for _ in range(MAX_TURNS)] == [False] * (MAX_TURNS - 1) + [True]
    verification = run.verify()
    assert not verification.passed
    assert verification.reason.startswith('The phrase "')


@pytest.mark.parametrize("answer", ["```\n{}\n```", "```text\n{}\n```"])
def test_a_code_block_is_read_and_costs_half_the_format(answer: str) -> None:
    run = TEXTS.run(TASK)
    assert run.step(answer.format(TASK.plain)).format == 0.5
    assert run.verify().passed
