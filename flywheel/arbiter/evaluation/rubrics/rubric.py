"""A rubric: which functions give the scores of an answer, what each weighs per task type, what voids the reward."""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

import msgspec
from pydantic import ConfigDict, Field, field_validator, model_validator

from flywheel.arbiter.evaluation.hacking.finding import KINDS, Finding, Severity, Term
from flywheel.arbiter.evaluation.rubrics.evidence import Evidence
from flywheel.arbiter.evaluation.rubrics.terms import term_function
from flywheel.errors import ConfigurationError
from flywheel.records import RubricScores
from flywheel.settings_section import Section

TERMS: tuple[Term, ...] = ("format", "tool", "task", "minimal", "cost")
ScoreName = Literal["format", "tool", "task", "minimal", "cost", "safety"]
SCORES: tuple[ScoreName, ...] = (*TERMS, "safety")
SUM_TOLERANCE = 1e-6
LOWERED_BY = 0.5
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Weights(Section):
    """What each term weighs; together 1. Safety weighs nothing: it is a gate."""

    format: Share
    tool: Share
    task: Share
    minimal: Share
    cost: Share

    @model_validator(mode="after")
    def _sum_to_one(self) -> Self:
        total = sum(self.of(term) for term in TERMS)
        if abs(total - 1) > SUM_TOLERANCE:
            raise ValueError(f"the weights sum to {total:g}, not to 1")
        return self

    def of(self, term: Term) -> float:
        """The weight of a term."""
        weight: float = getattr(self, term)
        return weight


class Row(Section):
    """The weights of some task types, and the functions that are other ones for them."""

    task_types: tuple[Annotated[str, Field(min_length=1, max_length=512)], ...] = Field(min_length=1)
    weights: Weights
    functions: dict[ScoreName, str] = Field({}, description="where they are not the rubric's")


class Lowering(Section):
    """A finding that multiplies a term."""

    lower: Term
    by: float = Field(LOWERED_BY, ge=0, lt=1, description="what the term is multiplied by, once however many there are")


class Rubric(Section):
    """One version of a rubric. Equal id and version mean equal content (``read_rubrics``)."""

    model_config = ConfigDict(arbitrary_types_allowed=False)

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$", description="lower-case letters, digits, . _ -")
    version: int = Field(ge=1, strict=True)
    description: str = ""
    functions: dict[ScoreName, str] = Field(description="for each score the name of a term function")
    safety_threshold: float = Field(gt=0, le=1, allow_inf_nan=False)
    findings: dict[str, Literal["void", "report"] | Lowering] = Field(
        {}, description="what findings of reward hacking do, where it is not the default"
    )
    rows: tuple[Row, ...] = ()
    otherwise: Weights

    @field_validator("functions")
    @classmethod
    def _has_one_for_every_score(cls, functions: dict[ScoreName, str]) -> dict[ScoreName, str]:
        if missing := [score for score in SCORES if score not in functions]:
            raise ValueError(f"no function is named for {', '.join(missing)}")
        return functions

    @field_validator("findings")
    @classmethod
    def _names_known_findings(cls, findings: dict[str, object]) -> dict[str, object]:
        if unknown := sorted(findings.keys() - KINDS.keys()):
            raise ValueError(f"there is no finding {', '.join(unknown)}; there are {', '.join(KINDS)}")
        return findings

    @model_validator(mode="after")
    def _names_known_functions_and_each_type_once(self) -> Self:
        for name in (*self.functions.values(), *(name for row in self.rows for name in row.functions.values())):
            try:
                term_function(name)
            except ConfigurationError as error:
                raise ValueError(str(error)) from None
        types = [task_type for row in self.rows for task_type in row.task_types]
        if twice := sorted({task_type for task_type in types if types.count(task_type) > 1}):
            raise ValueError(f"rows: {', '.join(twice)} is in more than one row")
        return self

    @property
    def name(self) -> str:
        """Id and version, as points have it."""
        return f"{self.id}@{self.version}"

    def weights_of(self, task_type: str) -> Weights:
        """What the terms weigh in tasks of a type."""
        return next((row.weights for row in self.rows if task_type in row.task_types), self.otherwise)

    def function_names(self, task_type: str) -> dict[ScoreName, str]:
        """By which function each score of tasks of a type is given."""
        own = next((row.functions for row in self.rows if task_type in row.task_types), {})
        return {**self.functions, **own}

    def scores(self, task_type: str, evidence: Evidence) -> RubricScores:
        """The six scores of an answer, findings of reward hacking taken into account.

        A finding that voids makes safety 0, so that what is logged says by itself why the reward is 0; one that lowers
        multiplies its term, once for each kind.

        Raises:
            ConfigurationError: a term function of another package gives no number of 0–1.
        """
        given = {score: _given(name, evidence) for score, name in self.function_names(task_type).items()}
        if not evidence.answered:
            given = {**dict.fromkeys(TERMS, 0.0), "safety": given["safety"]}
        for name in dict.fromkeys(finding.name for finding in evidence.findings):
            effect = self.effect_of(name)
            if effect == "void":
                given["safety"] = 0.0
            elif isinstance(effect, Lowering):
                given[effect.lower] *= effect.by
        return RubricScores(**given)

    def effect_of(self, finding: str) -> Literal["void", "report"] | Lowering:
        """What a kind of finding does: as the rubric says, else as ``KINDS`` says."""
        if finding in self.findings:
            return self.findings[finding]
        kind = KINDS[finding]
        if kind.severity is Severity.LOWER:
            return Lowering(lower=kind.term)
        return "void" if kind.severity is Severity.VOID else "report"

    def voiding(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Of these findings those for which the reward is 0."""
        return tuple(finding for finding in findings if self.effect_of(finding.name) == "void")

    def is_safe(self, scores: RubricScores) -> bool:
        """Whether the gate lets the reward through."""
        return scores.safety >= self.safety_threshold

    def contributions(self, task_type: str, scores: RubricScores) -> dict[Term, float]:
        """What each term adds to the overall score; nothing where the answer is not safe."""
        if not self.is_safe(scores):
            return dict.fromkeys(TERMS, 0.0)
        weights = self.weights_of(task_type)
        values = msgspec.structs.asdict(scores)
        return {term: weights.of(term) * values[term] for term in TERMS}

    def overall(self, task_type: str, scores: RubricScores) -> float:
        """The weighted sum of the scores, 0–1; 0 where safety is below its threshold. It is the reward."""
        return min(1.0, sum(self.contributions(task_type, scores).values()))  # rounding may end a hair above 1


def _given(name: str, evidence: Evidence) -> float:
    score = term_function(name)(evidence)
    if not (isinstance(score, int | float) and 0 <= score <= 1):
        raise ConfigurationError(f"the term function {name} gave {score!r}; a score is a number of 0–1")
    return float(score)
