"""What a person says about a source that the source does not say itself: ``--mapping FILE``, TOML or YAML.

The format of a trace rarely says which of its scores is the reward, or whether more is better. A mapping does.
"""

import tomllib
from collections.abc import Mapping as Dictionary
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from flywheel.collection.importers.interface import Value
from flywheel.errors import ConfigurationError

LARGEST_FILE_BYTES = 1024 * 1024


class Section(BaseModel):
    """Base: frozen, and a misspelled field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RewardMapping(Section):
    """Which score is the reward, its range and direction. Either ``score`` or ``constant`` is given."""

    score: str = Field("", description="name of the score; where the format has no scores, a path such as meta.rating")
    constant: float | None = Field(None, ge=0, le=1, description="the reward of every run, for what people curated")
    min: float = Field(0.0, description="the score's least value")
    max: float = Field(1.0, description="the score's largest value")
    direction: Literal["higher", "lower"] = Field("higher", description="which values are better")
    values: dict[str, float] = Field({}, description="reward 0–1 of each label, for scores in words")
    threshold: float = Field(0.5, gt=0, le=1, description="least reward, after scaling to 0–1, of a success")
    missing: Literal["wait", "reject"] = Field(
        "wait", description="a run without the score waits for its evaluation in the pool, or is rejected"
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if bool(self.score) == (self.constant is not None):
            raise ValueError("give either score (a name) or constant (0–1)")
        if self.min >= self.max:
            raise ValueError(f"min {self.min:g} is not below max {self.max:g}")
        if wrong := {label: reward for label, reward in self.values.items() if not 0 <= reward <= 1}:
            raise ValueError(f"values are rewards from 0 to 1; these are not: {wrong}")
        return self

    @property
    def rule(self) -> str:
        """The mapping as a rule of provenance."""
        if self.constant is not None:
            return f"reward-constant-{self.constant:g}"
        return f"reward-of-{self.score}-{self.min:g}-to-{self.max:g}-{self.direction}-is-better"


class Mapping(Section):
    """All that a mapping may say."""

    reward: RewardMapping | None = None
    task_types: dict[str, str] = Field({}, description="the source's kinds of task, each with a registered task type")
    agents: dict[str, str] = Field({}, description="the source's names of agents, each with the name it should have")
    timestamp: datetime | None = Field(None, description="time of runs that have none")
    revision: int = Field(0, ge=0, le=1000, description="raise it to import again with other rewards: the highest wins")

    @model_validator(mode="after")
    def _has_a_zone(self) -> Self:
        if self.timestamp is not None and self.timestamp.tzinfo is None:
            raise ValueError("timestamp needs a zone: 2026-01-31T12:00:00Z")
        return self


class Graded(Struct, frozen=True):
    """What a mapping makes of a run's scores: its reward, or why there is none."""

    reward: float | None
    problem: str = ""


def load_mapping(path: Path) -> Mapping:
    """Read a mapping; ``.yaml`` and ``.yml`` are YAML, all else is TOML.

    Raises:
        ConfigurationError: it cannot be read or says what a mapping cannot; the message names file and field.
    """
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise ConfigurationError(f"the mapping {path} is larger than {LARGEST_FILE_BYTES:,} bytes; is it the data?")
        values = parsed(path)
        mapping = Mapping.model_validate({} if values is None else values)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"the mapping {path} cannot be read: {error}") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise ConfigurationError(f"the mapping {path} cannot be used: {problems}") from None
    if mapping.timestamp is not None:
        return mapping.model_copy(update={"timestamp": mapping.timestamp.astimezone(UTC)})
    return mapping


def parsed(path: Path) -> Any:
    """The file's content as plain values."""
    if path.suffix not in {".yaml", ".yml"}:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"the mapping {path} is not YAML: {error}") from error


def graded(mapping: RewardMapping, scores: Dictionary[str, Value]) -> Graded:
    """The reward of a run, 0–1, of its scores."""
    if mapping.constant is not None:
        return Graded(mapping.constant)
    value = scores.get(mapping.score)
    if value is None:
        return Graded(None)
    if str(value) in mapping.values:
        return Graded(mapping.values[str(value)])
    if isinstance(value, str):
        known = ", ".join(mapping.values) or "none"
        return Graded(None, f"{mapping.score} is {value!r:.80}, a label without a reward; values has {known}")
    if not mapping.min <= value <= mapping.max:
        return Graded(None, f"{mapping.score} is {value:g}, outside of {mapping.min:g} to {mapping.max:g}")
    share = (value - mapping.min) / (mapping.max - mapping.min)
    return Graded(share if mapping.direction == "higher" else 1 - share)
