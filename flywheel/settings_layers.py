"""The layers of the configuration that are files: the profile, ``flywheel.toml`` over it, and mounted secrets."""

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SecretsSettingsSource, SettingsError

from flywheel.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

ProfileName = Literal["production", "quickstart", "smoke"]
PROFILES = Path(__file__).parent / "profiles"
DEFAULT_PROFILE: ProfileName = "quickstart"


class TomlLayers(PydanticBaseSettingsSource):
    """The two file layers: the profile, and ``flywheel.toml`` over it."""

    def __init__(self, settings_cls: type[BaseSettings], chosen_profile: str | None) -> None:
        super().__init__(settings_cls)
        self.chosen_profile = chosen_profile

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        """Not used: the layers are read whole."""
        raise NotImplementedError

    def __call__(self) -> dict[str, Any]:
        """The settings found in profile and ``flywheel.toml``."""
        own = read_toml(Path.cwd() / "flywheel.toml")
        profile = self.chosen_profile or os.environ.get("FLYWHEEL_PROFILE") or own.get("profile") or DEFAULT_PROFILE
        if not (PROFILES / f"{profile}.toml").exists():
            known = sorted(path.stem for path in PROFILES.glob("*.toml"))
            raise ConfigurationError(f"profile {profile!r} is unknown; use one of {', '.join(known)}")
        return merge(read_toml(PROFILES / f"{profile}.toml"), own)


def secret_files(settings_cls: type[BaseSettings]) -> SecretsSettingsSource:
    """The layer of secrets as Docker and Kubernetes mount them: a folder with a file for each, named as its variable.

    Raises:
        ConfigurationError: the folder is not there. To go on would make a salt of its own where one was to be given.
    """
    folder = os.environ.get("FLYWHEEL_SECRETS_DIR") or None
    if folder is not None and not Path(folder).is_dir():
        raise ConfigurationError(
            f"FLYWHEEL_SECRETS_DIR is {folder}, which is no folder; mount the secrets, or unset it"
        )
    return SecretsSettingsSource(settings_cls, secrets_dir=folder)


@contextmanager
def explained() -> Iterator[None]:
    """Say of configuration that cannot be used which field it is.

    Raises:
        ConfigurationError: in the place of what pydantic raises.
    """
    try:
        yield
    except SettingsError as error:
        raise ConfigurationError(f"configuration cannot be used: {error}") from None
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {what_is_wrong(e)}" for e in error.errors())
        raise ConfigurationError(f"configuration cannot be used: {problems}") from None


def what_is_wrong(error: "ErrorDetails") -> str:
    """One mistake in the words of people who write configuration."""
    if error["type"] == "extra_forbidden":
        return "there is no such setting"
    return error["msg"].removeprefix("Value error, ")


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Nested dictionaries merged, the second one winning; lists are replaced whole."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's content; empty when there is none.

    Raises:
        ConfigurationError: the file is not TOML.
    """
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
