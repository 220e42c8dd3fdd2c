import pytest
from msgspec.structs import replace

from flywheel.quickstart.stages import Observation, Stage, Verdict, next_stage

BETTER = Verdict(registered=True, version=3, reason="12 % better")
NOTHING = Observation(
    base_model_is_ready=False,
    tasks_before=0,
    tasks_before_wanted=40,
    tasks_after=0,
    tasks_after_wanted=10,
    pool_is_current=True,
    verdict=None,
    champion=None,
)


def test_each_outcome_leads_to_the_next_stage_in_order() -> None:
    seen, stages = NOTHING, [next_stage(NOTHING)]
    for outcome in (
        {"base_model_is_ready": True},
        {"tasks_before": 40, "pool_is_current": False},
        {"pool_is_current": True},
        {"verdict": BETTER},
        {"champion": 3},
        {"tasks_after": 10, "pool_is_current": False},
        {"pool_is_current": True},
    ):
        seen = replace(seen, **outcome)
        stages.append(next_stage(seen))
    assert stages == list(Stage)


def test_a_loop_killed_within_a_stage_goes_on_with_it() -> None:
    assert next_stage(replace(NOTHING, base_model_is_ready=True, tasks_before=39)) is Stage.TASKS_BEFORE
    after = replace(NOTHING, base_model_is_ready=True, tasks_before=40, verdict=BETTER, champion=3, tasks_after=9)
    assert next_stage(after) is Stage.TASKS_AFTER


def test_a_model_that_is_not_better_is_neither_approved_nor_given_tasks() -> None:
    worse = Verdict(registered=False, reason="1 % better, 10 % needed")
    assert next_stage(replace(NOTHING, base_model_is_ready=True, tasks_before=40, verdict=worse)) is Stage.DONE


@pytest.mark.parametrize("champion", [None, 2])
def test_a_candidate_is_approved_unless_it_serves(champion: int | None) -> None:
    seen = replace(NOTHING, base_model_is_ready=True, tasks_before=40, verdict=BETTER, champion=champion)
    assert next_stage(seen) is Stage.APPROVAL


def test_raising_the_number_of_tasks_does_not_reopen_a_loop_that_was_judged() -> None:
    judged = replace(NOTHING, base_model_is_ready=True, tasks_before=40, tasks_before_wanted=80, verdict=BETTER)
    assert next_stage(judged) is Stage.APPROVAL
