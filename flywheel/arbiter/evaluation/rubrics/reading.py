"""Reads rubrics from YAML, and says of one that cannot be used which file and which field it is."""

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from flywheel.arbiter.evaluation.rubrics.rubric import Rubric
from flywheel.errors import ConfigurationError


class _StrictLoader(yaml.SafeLoader):
    """YAML in which no key may stand twice; PyYAML takes the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in keys:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} stands twice", key_node.start_mark)
            keys.add(key)
        return super().construct_mapping(node, deep)


def read_rubric(path: Path) -> Rubric:
    """The rubric of a file.

    Raises:
        ConfigurationError: it cannot be read, is no YAML, or a field cannot be used.
    """
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)  # noqa: S506 - it is a SafeLoader
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the rubric {path} cannot be read: {error}") from error
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"the rubric {path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"the rubric {path} holds no fields; `flywheel rubric show builtin` shows one")
    try:
        return Rubric.model_validate(document)
    except ValidationError as error:
        problems = "; ".join(_problem(found["loc"], found["msg"]) for found in error.errors())
        raise ConfigurationError(f"the rubric {path} cannot be used: {problems}") from None


def read_rubrics(paths: Iterable[Path]) -> dict[str, tuple[Rubric, Path]]:
    """The rubrics of some files by id and version, each with the first file that has it.

    Raises:
        ConfigurationError: one cannot be used, or two differ that have the same id and version.
    """
    found: dict[str, tuple[Rubric, Path]] = {}
    for path in paths:
        rubric = read_rubric(path)
        first, where = found.setdefault(rubric.name, (rubric, path))
        if first != rubric:
            differing = [name for name in Rubric.model_fields if getattr(first, name) != getattr(rubric, name)]
            raise ConfigurationError(
                f"{where} and {path} are both {rubric.name} and differ in {', '.join(differing)}; give the newer one "
                f"a higher version, since points say which version scored them"
            )
    return found


def _problem(place: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    return f"{'.'.join(map(str, place))}: {message}" if place else message
