"""The section ``[judges]`` of the configuration (docs/evaluation.md)."""

from pathlib import Path
from typing import Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from flywheel.arbiter.settings import LARGEST_LIMIT, Text
from flywheel.settings_section import Section

BUILT_IN = ("relevance", "faithfulness", "minimality", "safety")
PANEL = "panel"
"""Names the judges together, so none of them."""
JUDGES = 2

JudgedTerm = Literal["format", "tool", "task", "minimal", "safety"]


class JudgeModelSettings(Section):
    """A model that judges."""

    model_config = ConfigDict(allow_inf_nan=False)

    id: Text = Field(min_length=1, max_length=100, pattern=r"^[^\s/+]+$", description="its name in gates and reports")
    kind: Literal["openai", "local"] = "openai"
    model: Text = Field("", description="openai: its name there; local: base, a folder or models:/NAME/VERSION")
    base_url: Text = Field("", description="openai: for example http://localhost:8000/v1")
    api_key_env: Text = Field("OPENAI_API_KEY", description="openai: the variable that holds the key")
    temperature: float = Field(0.0, ge=0, le=2)
    samples: int = Field(
        1, ge=1, le=9, description="times it is asked each question; the mean counts, the gap unsettles"
    )
    max_new_tokens: int = Field(512, gt=0, description="longest reply, in tokens; reasoning counts")
    timeout_s: float = Field(60.0, gt=0, le=3_600, description="for one question, retries included")
    max_concurrent: int = Field(4, gt=0, le=LARGEST_LIMIT, description="questions at once in a process")
    requests_per_minute: int | None = Field(None, gt=0, le=LARGEST_LIMIT)
    tokens_per_minute: int | None = Field(None, gt=0, le=LARGEST_LIMIT, description="in and out")

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        if self.kind == "openai" and not (self.base_url.startswith(("http://", "https://")) and self.model):
            raise ValueError("a judge of kind openai needs base_url (http:// or https://) and model")
        if "@" in self.base_url.partition("://")[2].partition("/")[0]:
            raise ValueError("base_url must not hold a name or password: it is shown and kept; the key has api_key_env")
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(f"{self.samples} samples at temperature 0 are one sample; set temperature above 0")
        if self.id == PANEL:
            raise ValueError(f"{PANEL!r} names the judges together; give this one another id")
        return self


class CriterionSettings(Section):
    """A criterion of a team's own. Whoever changes its words raises its version."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")
    version: int = Field(ge=1)
    threshold: float = Field(0.7, ge=0, le=1, description="score from which an answer passes")
    mandatory: bool = Field(True, description="whether an answer that does not pass is rejected")
    term: JudgedTerm = Field("task", description="the rubric's term that its score goes into")
    instructions: str = Field(
        min_length=20, max_length=8_000, description="the question, and what 1.0, 0.7 and 0.0 mean"
    )


class JudgesSettings(Section):
    """Who judges answers to tasks without a published answer, and by what. Without models nobody does."""

    models: tuple[JudgeModelSettings, ...] = Field(
        (), max_length=JUDGES, description="the judge, and the one that is asked where the first is unsure"
    )
    criteria: tuple[str, ...] = Field(
        BUILT_IN, min_length=1, description="built in or own; all mandatory ones must pass"
    )
    own_criteria: tuple[CriterionSettings, ...] = ()
    unsure_band: float = Field(0.1, ge=0, le=1, description="a score this near to its threshold is unsure")
    unsure_confidence: float = Field(0.6, ge=0, le=1, description="so is one that the judge trusts less than this")
    max_gap: float = Field(0.3, ge=0, le=1, description="scores further apart disagree, and none is taken")
    max_characters: int = Field(60_000, gt=0, description="of task and answer; longer ones are not judged")
    cache_days: float = Field(30.0, ge=0, description="how long an opinion is given again for the same; 0: never")
    calibration: tuple[Path, ...] = Field((), description="files that `flywheel judge evaluate --save` wrote")

    @field_validator("criteria")
    @classmethod
    def _once_each(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"a criterion is named twice: {', '.join(names)}")
        return names

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        ids = [model.id for model in self.models]
        if len(set(ids)) < len(ids):
            raise ValueError(f"two judges have the id {ids[0]!r}")
        own = [criterion.name for criterion in self.own_criteria]
        for name in own:
            if name in BUILT_IN or own.count(name) > 1:
                raise ValueError(f"there are two criteria {name!r}; give yours another name")
        if unknown := sorted(set(self.criteria) - {*BUILT_IN, *own}):
            raise ValueError(f"no criterion is named {', '.join(unknown)}; known: {', '.join((*BUILT_IN, *own))}")
        of_task = {"relevance", "faithfulness", *(one.name for one in self.own_criteria if one.term == "task")}
        if not of_task & set(self.criteria):
            raise ValueError("none of the criteria goes into the term task, which says whether the task was done")
        return self
