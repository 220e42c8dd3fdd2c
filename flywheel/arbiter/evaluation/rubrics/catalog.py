"""Which rubrics there are, and which one scores."""

from pathlib import Path

from flywheel.arbiter.evaluation.rubrics.reading import read_rubric, read_rubrics
from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.arbiter.evaluation.rubrics.settings import RubricSettings
from flywheel.errors import ConfigurationError

BUILTIN_FILE = Path(__file__).with_name("builtin.yaml")
BUILTIN = read_rubric(BUILTIN_FILE)


def rubrics_of(settings: RubricSettings) -> dict[str, tuple[Rubric, Path]]:
    """The built-in rubric and those of the configuration, by id and version, each with its file.

    Raises:
        ConfigurationError: a file cannot be used.
    """
    return read_rubrics((BUILTIN_FILE, *settings.files))


def rubric_of(settings: RubricSettings) -> Rubric:
    """The rubric that scores.

    Raises:
        ConfigurationError: a file cannot be used, or none has the rubric that is named.
    """
    return named_rubric(settings, settings.use)


def named_rubric(settings: RubricSettings, name: str) -> Rubric:
    """The rubric of an id and version, or the highest version of an id.

    Raises:
        ConfigurationError: there is none, or a file cannot be used.
    """
    rubrics = [rubric for rubric, _ in rubrics_of(settings).values()]
    chosen = [rubric for rubric in rubrics if name in {rubric.id, rubric.name}]
    if not chosen:
        names = ", ".join(rubric.name for rubric in rubrics)
        raise ConfigurationError(f"there is no rubric {name!r}; there are {names}. Name its file in rubrics.files")
    return max(chosen, key=lambda rubric: rubric.version)
