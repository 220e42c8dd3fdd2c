"""What the arbiter can be told about running tasks (docs/arbiter.md)."""

from pydantic import Field

from flywheel.settings_section import Section


class CacheSettings(Section):
    """The semantic cache: answers that are given again to tasks that ask the same."""

    enabled: bool = False
    entries: int = Field(1_000, gt=0, description="at most; the one not used for longest goes first")
    max_bytes: int = Field(100_000_000, gt=0, description="of all entries, their vectors included")
    similarity: float = Field(0.95, gt=0, le=1, description="cosine from which two texts ask the same; 1: equal ones")
    min_quality: float = Field(0.85, ge=0, le=1, description="of an answer to be kept")
    max_age_s: float = Field(86_400.0, gt=0, description="an older answer is not given again")


class ExecutionSettings(Section):
    """How a single task is run."""

    max_iterations: int = Field(3, ge=1, le=3, description="answers of one agent, each but the first after feedback")
    max_attempts: int = Field(3, ge=1, description="agents tried where one cannot answer at all")
    stop_quality: float = Field(0.85, ge=0, le=1, description="above it nothing is refined")
    cool_down_s: float = Field(60.0, ge=0, description="no escalation after one that did not help, per agent and type")
    claim_s: float = Field(30.0, gt=0, description="after which a killed runner's task may be run by another")
    kept_hours: float = Field(24.0, gt=0, description="how long a task's result is given again under its id")
    refresh_s: float = Field(0.5, ge=0, description="age at which what routing knows is read again")
    cache: CacheSettings = CacheSettings()
