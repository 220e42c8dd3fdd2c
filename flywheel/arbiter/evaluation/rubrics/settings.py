"""The section of the configuration that names rubrics."""

from pathlib import Path

from pydantic import Field

from flywheel.settings_section import Section


class RubricSettings(Section):
    """Which rubric scores answers (docs/evaluation.md)."""

    files: tuple[Path, ...] = Field((), description="YAML files of a team's own rubrics, besides the built-in one")
    use: str = Field(
        "builtin", min_length=1, description="id of the one that scores, in its highest version, or id@version"
    )
