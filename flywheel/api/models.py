"""What can be asked over HTTP and what is answered. Names are camelCase on the wire, as in the logs."""

from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_serializer
from pydantic.alias_generators import to_camel

from flywheel.errors import QueryError
from flywheel.pool.filters import PointFilter
from flywheel.pool.queries.sums import By
from flywheel.settings import Phase

TenantHash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Share = Annotated[float, Field(ge=0, le=1)]


class Parameters(BaseModel):
    """Base of query parameters: one that is not known is refused."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class FilterParameters(Parameters):
    """Which points. Every condition must hold; several values of one are alternatives (``taskType=a&taskType=b``)."""

    since: AwareDatetime | None = Field(None, description="from this moment on; with its zone")
    until: AwareDatetime | None = Field(None, description="before this moment; with its zone")
    task_type: list[str] = Field([], description="one of these task types")
    complexity: list[Literal["trivial", "standard", "complex"]] = Field([], description="one of these")
    tenant: list[TenantHash] = Field([], description="one of these tenants' hashes")
    min_quality: Share | None = Field(None, description="overall score of at least this")
    success: bool | None = Field(None, description="only successes, or only failures")
    rl_ready: bool | None = Field(None, description="only what is ready for reinforcement learning, or only the rest")

    @property
    def where(self) -> PointFilter:
        """The filter as the pool understands it."""
        return PointFilter(
            since=utc(self.since),
            until=utc(self.until),
            task_types=tuple(self.task_type),
            complexities=tuple(self.complexity),
            agents=self.agents,
            tenants=tuple(self.tenant),
            min_quality=self.min_quality,
            success=self.success,
            rl_ready=self.rl_ready,
        )

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that are asked about; none: all."""
        return ()


class SystemFilter(FilterParameters):
    """The same, of some agents or all."""

    agent: list[str] = Field([], description="one of these agents")

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that are asked about; none: all."""
        return tuple(self.agent)


class SystemParameters(SystemFilter):
    """Statistics of all agents."""

    by: By = Field("task_type", description="the property that tasks are grouped by")


class RoutingParameters(Parameters):
    """Statistics for routing."""

    task_type: str | None = Field(None, description="only this task type")


class PointParameters(SystemFilter):
    """Which points, what of them, in which order."""

    columns: list[str] = Field(
        [], description="some columns only; without, all but the payload (JSON Lines: whole points)"
    )
    order: Literal["any", "recent", "oldest"] | None = Field(
        None, description="newest first, oldest first, or the fastest; pages are recent unless told, streams any"
    )
    limit: int | None = Field(None, gt=0, description="at most so many; a page has 100 unless told, and at most 1,000")
    cursor: str | None = Field(None, description="`next` of the page before, with the same filter and order")


class BatchPointsParameters(Parameters):
    """Which points of a batch, and in which form."""

    form: Literal["jsonl", "trl", "parquet"] = Field(
        "jsonl", alias="format", description="wire JSON, or TRL's conversational form, a line each; or a Parquet file"
    )
    phase: Phase | None = Field(None, description="of this phase only; training batches have two")
    split: Literal["train", "validation", "held-out"] | None = Field(None, description="of this split only")


class WaitingParameters(Parameters):
    """Which waiting tasks."""

    tenant: list[TenantHash] = Field([], description="one of these tenants' hashes")
    older_than_s: float = Field(0, ge=0, le=1e9, description="that have waited so many seconds or longer")
    limit: int = Field(100, gt=0, le=1000, description="at most so many")


class QualityParameters(Parameters):
    """Which days; both ends are included."""

    since: date | None = Field(None, alias="from", description="the first UTC day")
    until: date | None = Field(None, alias="to", description="the last UTC day")


class Answer(BaseModel):
    """Base of answers, made from the pool's own structs."""

    model_config = ConfigDict(
        alias_generator=to_camel, from_attributes=True, populate_by_name=True, serialize_by_alias=True
    )


class DayRange(Answer):
    """Consecutive UTC days, both ends included."""

    first: date
    last: date


class Coverage(Answer):
    """Which days of the asked range points are read from where, and which days have none to give."""

    hot: list[DayRange]
    warm: list[DayRange]
    aggregates_only: list[DayRange] = Field(description="too old for single points")
    unplaced: list[DayRange] = Field(description="have points that no tier holds yet")
    out_of_date: list[DayRange] = Field(description="answered as they were before their last logs")


class StatisticsCoverage(Answer):
    """What an answer covers."""

    since: datetime | None = Field(description="the start in whole hours; null: the beginning")
    until: datetime | None = Field(description="the end, not included; null: now")
    watermark: datetime | None = Field(description="all that collectors wrote before it was taken in; null: unknown")
    from_points: list[DayRange] = Field(description="answered from single points")
    from_aggregates: list[DayRange] = Field(description="answered from the cold tier's aggregates")
    left_out: list[DayRange] = Field(description="cannot be answered as asked")
    unplaced: list[DayRange] = Field(description="have points that are neither counted nor placed yet")
    out_of_date: list[DayRange] = Field(description="answered as they were before their last logs")


class Figures(Answer):
    """What is known of some tasks; null where there are none."""

    tasks: int
    successes: int
    success_rate: Share | None
    mean_quality: float | None
    mean_latency_ms: float | None
    tokens: int


class AgentAnswer(Figures):
    """The figures of an agent."""

    agent_id: str
    by_task_type: dict[str, Figures]
    coverage: StatisticsCoverage


class RoutingAnswer(Answer):
    """The figures of an agent from memory, with their age."""

    agent_id: str
    task_type: str | None
    window_days: int = Field(description="the UTC days that count as recent, today included")
    recent: Figures
    all_time: Figures
    age_s: float = Field(description="how old the figures are, in seconds")
    failed_refreshes: int = Field(description="refreshes that failed since the figures were read")
    error: str | None = Field(description="what the last of them said")


class SystemAnswer(Answer):
    """The figures of all agents."""

    by: By
    total: Figures
    groups: dict[str, Figures]
    coverage: StatisticsCoverage


class TierTotals(Answer):
    """What a tier holds."""

    days: int
    rows: int
    first_day: date | None
    last_day: date | None


class Watermark(Answer):
    """Up to when all that collectors wrote was taken in."""

    at: datetime
    observed_at: datetime = Field(description="when the collectors' folder was last looked at")
    held_by: str | None = Field(description="the open segment that holds it back")
    open_segments: int = Field(description="segments that collectors were writing then")


class PoolStatistics(Answer):
    """The pool as a whole."""

    watermark: Watermark | None = Field(description="null: nobody looked for segments yet")
    counts: dict[str, int] = Field(description="what became of all lines; `points` counts tasks, `linesInPoints` lines")
    first_day: date | None
    last_day: date | None
    tiers: dict[str, TierTotals]
    agents: int
    batches: int
    total: Figures
    by_task_type: dict[str, Figures]
    coverage: StatisticsCoverage

    @field_serializer("counts")
    def by_wire_names(self, counts: dict[str, int]) -> dict[str, int]:
        """Counts by their names in camelCase."""
        return {to_camel(name): number for name, number in counts.items()}


class Batch(Answer):
    """A training batch."""

    id: str
    digest: str
    created_at: datetime
    first_at: datetime
    last_at: datetime
    size: int
    points: dict[str, int]
    task_types: dict[str, int]
    agents: dict[str, int]
    complexities: dict[str, int]
    outcomes: dict[str, int]
    splits: dict[str, int]
    left_out: dict[str, int] = Field(description="points by why their content kept them from an export")
    quality: dict[str, Any]
    criteria: dict[str, Any]
    released_at: datetime | None = Field(description="when it gave its points back")
    released_because: str | None


class Batches(Answer):
    """All training batches, oldest first."""

    batches: list[Batch]


class Target(Answer):
    """One target and whether it is met."""

    name: str
    value: float
    target: float
    passed: bool
    verdict: str


class QualityReport(Answer):
    """The quality of some days."""

    first: date
    last: date
    days: int
    lines: int
    points: int
    quarantined: int
    duplicates: int
    waiting: int
    pass_rate: Share = Field(description="of lines judged")
    clean_fraction: Share = Field(description="of tasks")
    schema_valid_fraction: Share = Field(description="of distinct lines")
    rl_ready_fraction: Share = Field(description="of points")
    duplicate_fraction: Share = Field(description="of all lines")
    privacy_violations: int
    unverified_days: int = Field(description="have points whose privacy check has not run")
    quarantined_by_gate: dict[str, int] = Field(description="lines")
    warnings_by_gate: dict[str, int] = Field(description="points")
    targets: list[Target]
    passed: bool


class WaitingTask(Answer):
    """A task that lacks a log."""

    day: date
    task_id: str
    tenant_id: str | None = Field(description="the tenant's hash; null where no log names a tenant")
    present: list[str] = Field(description="the logs that came")
    missing: list[str] = Field(description="the logs that it lacks to be a point")
    since: datetime = Field(description="when the first of its lines was taken in")
    expires_at: datetime = Field(description="when its lines go to quarantine if nothing comes")
    lines: int


class WaitingTasks(Answer):
    """Tasks that lack a log, the longest wait first."""

    tasks: list[WaitingTask]
    more: bool = Field(description="whether there are more than `limit`")


class PointPage(Answer):
    """Some points."""

    points: list[dict[str, Any]] = Field(
        description="columns by their names in camelCase; `payload` is the whole point"
    )
    next: str | None = Field(description="the cursor of the next page; null: this is the last")
    coverage: Coverage


class Health(Answer):
    """That the service can answer."""

    status: Literal["ok"]
    routing_statistics_age_s: float


def utc(instant: datetime | None) -> datetime | None:
    """The same moment in UTC.

    Raises:
        QueryError: it lies outside the calendar there.
    """
    try:
        return instant.astimezone(UTC) if instant else None
    except OverflowError:
        raise QueryError(f"{instant} is no moment of this calendar in UTC") from None
