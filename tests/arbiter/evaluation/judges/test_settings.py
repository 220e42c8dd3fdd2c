"""What can be told of judges, and what is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from flywheel.arbiter.evaluation.judges.build import panel_of
from flywheel.arbiter.evaluation.judges.criteria import criteria_of
from flywheel.arbiter.evaluation.judges.settings import JudgesSettings
from flywheel.errors import ConfigurationError
from flywheel.settings import Settings

MODEL = {"id": "one", "model": "m", "base_url": "http://localhost:1/v1"}
OWN = {"name": "polite", "version": 2, "threshold": 0.5, "instructions": "Is the answer polite? 1.0 yes, 0.0 no."}


def test_without_any_setting_there_is_no_judge(bare: Settings) -> None:
    assert bare.judges.models == ()
    with pytest.raises(ConfigurationError, match="no judge is configured"):
        panel_of(bare)


def test_a_teams_own_criterion_is_one_like_the_others() -> None:
    settings = JudgesSettings.model_validate({"own_criteria": [OWN], "criteria": ["polite", "safety"]})
    polite, safety = criteria_of(settings)
    assert (polite.label, polite.threshold, polite.mandatory, polite.term) == ("polite@2", 0.5, True, "task")
    assert safety.threshold == 0.8


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"criteria": ["relevance", "wit"]}, "no criterion is named wit; known: relevance, faithfulness"),
        ({"criteria": ["relevance", "relevance"]}, "named twice"),
        ({"criteria": []}, "at least 1"),
        ({"own_criteria": [OWN | {"name": "safety"}]}, "two criteria 'safety'"),
        ({"own_criteria": [OWN, OWN]}, "two criteria 'polite'"),
        ({"own_criteria": [OWN | {"threshold": 70}]}, "less than or equal to 1"),
        ({"models": [MODEL, MODEL]}, "two judges have the id 'one'"),
        ({"models": [MODEL | {"id": i} for i in "abc"]}, "at most 2"),
        ({"models": [MODEL | {"id": "panel"}]}, "names the judges together"),
        ({"models": [MODEL | {"id": "a+b"}]}, "pattern"),
        ({"models": [MODEL | {"base_url": ""}]}, "needs base_url"),
        ({"models": [MODEL | {"base_url": "http://ann:pw@host/v1"}]}, "must not hold a name or password"),
        ({"models": [MODEL | {"samples": 3}]}, "3 samples at temperature 0 are one sample"),
        ({"models": [MODEL | {"temprature": 1}]}, "temprature"),
        ({"criteria": ["safety"]}, "goes into the term task"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        JudgesSettings.model_validate(fields)


def test_an_unknown_judge_is_refused_by_name(bare: Settings) -> None:
    judges = JudgesSettings.model_validate({"models": [MODEL]})
    with pytest.raises(ConfigurationError, match="no judge is named 'two'; configured: one"):
        panel_of(bare.model_copy(update={"judges": judges}), only="two")
