"""Heavy parts are kept for a share of the tasks; the logs themselves always are."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.collection import Collector
from flywheel.collection.sampling import Sampling
from flywheel.collection.settings import CollectionSettings, configured
from flywheel.errors import ConfigurationError
from flywheel.records import Evaluation, Execution, Iteration, Message, MinimalDiffMetrics, RubricScores, Turn
from flywheel.settings import Settings
from tests.collection.reading import logged

TOML = """
[collection]
dead_letter_days = 7
[collection.sampling]
conversation = 0
judge = 0.5
[ports]
api = 9000
"""
AT = datetime(2025, 3, 1, tzinfo=UTC)
EXECUTION = Execution(
    task_id="t",
    agent_id="a",
    timestamp=AT,
    success=True,
    latency_ms=1,
    tokens_used=1,
    tool_call_count=0,
    messages=(Message(role="user", content="hello"),),
    iterations=(Iteration(iteration=1, latency_ms=1, tokens_used=1, quality_score=1, feedback="because"),),
)
EVALUATION = Evaluation(
    task_id="t",
    agent_id="a",
    timestamp=AT,
    quality_gates=(),
    rubric_scores=RubricScores(format=1, tool=1, task=1, minimal=1, cost=1, safety=1),
    overall_score=1,
    caws_compliant=True,
    budget_compliant=True,
    passed_all_mandatory=True,
    minimal_diff_metrics=MinimalDiffMetrics(
        ast_similarity=1, file_touch_count=1, line_change_ratio=1, scaffolding_penalty=0, reward_multiplier=1
    ),
    turn_data=(
        Turn(turn_number=1, information_gain=1, format_correctness=1, task_progress=1, safety_score=1, turn_reward=1.0),
    ),
)


def test_nothing_is_left_out_unless_asked() -> None:
    assert Sampling().applied(EXECUTION) is EXECUTION
    assert Sampling().applied(EVALUATION) is EVALUATION


def test_a_share_of_zero_leaves_heavy_parts_out_and_the_rest_in() -> None:
    nothing = Sampling(conversation=0, diff=0, judge=0)
    execution, evaluation = nothing.applied(EXECUTION), nothing.applied(EVALUATION)
    assert isinstance(execution, Execution)
    assert isinstance(evaluation, Evaluation)
    assert (execution.messages, execution.iterations[0].feedback) == ((), None)
    assert (evaluation.minimal_diff_metrics, evaluation.turn_data) == (None, ())
    assert (execution.latency_ms, execution.iterations[0].quality_score, evaluation.overall_score) == (1, 1, 1)


@given(share=st.sampled_from([0.1, 0.5, 0.9]))
def test_about_the_share_of_the_tasks_keeps_its_conversation(share: float) -> None:
    some = Sampling(conversation=share)
    tasks = [msgspec.structs.replace(EXECUTION, task_id=f"task-{number}") for number in range(3_000)]
    kept = [task for task in tasks if some.applied(task) == task]
    assert abs(len(kept) / len(tasks) - share) < 0.04
    assert kept == [task for task in tasks if some.applied(task) == task]


@given(task_id=st.text(min_size=1), small=st.floats(0, 1), large=st.floats(0, 1))
def test_who_keeps_a_rarer_part_keeps_the_commoner_one(task_id: str, small: float, large: float) -> None:
    small, large = sorted((small, large))
    some = Sampling(conversation=large, diff=small)
    execution = some.applied(msgspec.structs.replace(EXECUTION, task_id=task_id))
    evaluation = some.applied(msgspec.structs.replace(EVALUATION, task_id=task_id))
    assert isinstance(execution, Execution)
    assert isinstance(evaluation, Evaluation)
    assert evaluation.minimal_diff_metrics is None or execution.messages


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_outside_of_its_bounds_is_refused_by_name(share: float) -> None:
    with pytest.raises(ValueError, match=r"sampling\.judge is a share"):
        Sampling(judge=share)


def test_configuration_says_what_is_kept_and_an_argument_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert configured() == CollectionSettings()
    (tmp_path / "flywheel.toml").write_text(TOML)
    assert configured() == CollectionSettings(sampling=Sampling(conversation=0, judge=0.5), dead_letter_days=7)
    monkeypatch.setenv("FLYWHEEL_COLLECTION__SAMPLING__JUDGE", "0.25")
    assert configured().sampling == Sampling(conversation=0, judge=0.25)
    assert Settings.load().collection == configured()
    for folder, given_sampling, kept in (("by file", None, 0), ("by argument", Sampling(), 1)):
        with Collector(tmp_path / folder, "acme", sampling=given_sampling, remove_identifiers=False) as collector:
            collector.log(EXECUTION)
        (log,) = logged(collector, tmp_path / folder)
        assert isinstance(log, Execution)
        assert len(log.messages) == kept


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SAMPLING__CONVERSATION", "2", "<= 1"),
        ("SAMPLING__CONVERSATIONS", "1", "conversations"),
        ("SAMPLING", '{"judge": "often"}', "judge"),
        ("DEAD_LETTER_DAYS", "0", "dead_letter_days"),
    ],
)
def test_configuration_that_cannot_be_used_is_said_with_its_field(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(f"FLYWHEEL_COLLECTION__{name}", value)
    for load in (configured, Settings.load):
        with pytest.raises(ConfigurationError, match=words):
            load()


def test_settings_with_shares_are_written_as_json_and_read_again() -> None:
    settings = CollectionSettings(sampling=Sampling(conversation=0.25))
    assert CollectionSettings.model_validate_json(settings.model_dump_json()) == settings
