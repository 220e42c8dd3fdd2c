"""Exports over HTTP: what can be asked for and what is answered. Names are camelCase on the wire."""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from flywheel.api.models import Answer, Batch, Share, utc
from flywheel.pool.export_choice import LONGEST_AGE_DAYS, ExportCriteria, criteria_for
from flywheel.pool.filters import PointFilter
from flywheel.settings import Phase, Settings

MOST_POINTS = 10_000_000
MOST_NAMES = 1_000
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
Points = Annotated[int, Field(gt=0, le=MOST_POINTS)]
PartOfTasks = Annotated[float, Field(ge=0, lt=1)]
FILTERS = frozenset({"task_types", "agents", "since", "until"})


class ExportRequest(BaseModel):
    """What an export is to hold. What is absent or null is as the phase is configured."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, allow_inf_nan=False)

    phase: Phase = Field(description="what the points are for; they are marked for it")
    min_points: Points | None = Field(None, description="fewer of quality are refused; failures do not count")
    max_points: Points | None = Field(None, description="failures included; null: twice the phase's points")
    min_quality: Share | None = Field(None, description="least overall score of points that are no failures")
    max_age_days: Annotated[int, Field(gt=0, le=LONGEST_AGE_DAYS)] | None = Field(None, description="oldest points")
    min_task_types: Points | None = Field(None, description="different ones")
    min_agents: Points | None = Field(None, description="different ones")
    task_types: tuple[Name, ...] = Field((), max_length=MOST_NAMES, description="only these; empty: all")
    agents: tuple[Name, ...] = Field((), max_length=MOST_NAMES, description="only these; empty: all")
    since: AwareDatetime | None = Field(None, description="only from this moment on; with its zone")
    until: AwareDatetime | None = Field(None, description="only before this moment; with its zone")
    complexity_mix: dict[Literal["trivial", "standard", "complex"], Annotated[float, Field(gt=0, le=1)]] = Field(
        {}, description="shares that are kept exactly, summing to 1; empty: as the pool has them"
    )
    prefer_recent: bool = Field(True, description="the most recent first; false: spread over all times")
    include_failures: bool = Field(False, description="add points that failed; not for sft")
    remove_near_duplicates: bool = Field(True, description="of points that say almost the same the best stays")
    validation_fraction: PartOfTasks = Field(0.1, description="share of the tasks")
    heldout_fraction: PartOfTasks = Field(0.1, description="share of the tasks")
    noise_epsilon: Annotated[float, Field(gt=0)] | None = Field(
        None, description="noise on rewards: so much of each tenant's privacy budget; null: as the policies say"
    )
    noise_delta: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="Gaussian noise with this δ, with noiseEpsilon; null: Laplace noise"
    )

    def criteria(self, settings: Settings) -> ExportCriteria:
        """The criteria, those that are absent as the phase has them.

        Raises:
            QueryError: they contradict each other.
        """
        only = PointFilter(since=utc(self.since), until=utc(self.until), task_types=self.task_types, agents=self.agents)
        changes: dict[str, Any] = self.model_dump(exclude_none=True, exclude={"phase", *FILTERS})
        return criteria_for(settings, self.phase, only=only, **changes)


class ExportPlan(Answer):
    """What an export made now would hold, and what it lacks."""

    batch: Batch | None = Field(description="null: no point is to be had; digest and quality are empty under noise")
    lacking: list[str] = Field(description="a sentence with its numbers each; empty: it can be made")
    trained_before: int = Field(description="held-out tasks that an earlier batch trained on")
