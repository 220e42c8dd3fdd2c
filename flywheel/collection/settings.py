"""How collectors of a home collect: settings that an argument of ``Collector`` overrides."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import Field, PlainSerializer, PlainValidator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import override

from flywheel.collection.sampling import EVERYTHING, Sampling
from flywheel.settings_layers import TomlLayers, explained
from flywheel.settings_section import Section


def read_sampling(value: Any) -> Sampling:
    """Shares as configuration has them: a table of numbers, or of texts where they come from the environment, or JSON.

    Raises:
        ValueError: a share is unknown, no number, or not between 0 and 1.
    """
    if isinstance(value, str):
        return msgspec.json.decode(value, type=Sampling)
    return value if isinstance(value, Sampling) else msgspec.convert(value, Sampling, strict=False)


class CollectionSettings(Section):
    """What collectors of this home keep of heavy parts, and what becomes of what they could not write."""

    sampling: Annotated[Sampling, PlainValidator(read_sampling), PlainSerializer(msgspec.structs.asdict)] = Field(
        EVERYTHING, description="shares of tasks, 0-1, whose heavy parts are kept: conversation, diff, judge"
    )
    dead_letters: Path | None = Field(
        None, description="folder of dead letters, an absolute path; empty: below the segments"
    )
    dead_letter_days: int = Field(30, gt=0, description="after which dead letters that nobody brought back are deleted")


class _Configured(BaseSettings):
    """The section alone: an agent service has no use for the others, nor for the time that reading them takes."""

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", env_prefix="FLYWHEEL_", env_nested_delimiter="__", env_ignore_empty=True
    )

    collection: CollectionSettings = CollectionSettings()

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment, then files."""
        return env_settings, TomlLayers(settings_cls, None)


def configured() -> CollectionSettings:
    """What profile, ``flywheel.toml`` in the working directory and environment say of collecting.

    Raises:
        ConfigurationError: a field of the section is unknown or out of bounds; the message names it.
    """
    with explained():
        return _Configured().collection
