"""Patterns of paths, as in a ``.gitignore``."""

from collections.abc import Sequence
from typing import Annotated

import pathspec
from pydantic import AfterValidator, Field


def _readable(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            matching((pattern,), "a")
        except ValueError as error:
            raise ValueError(f"{pattern!r} is no pattern: {error}") from None
    return patterns


Patterns = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    AfterValidator(_readable),
    Field(description="patterns of paths, as in a .gitignore"),
]


def matching(patterns: Sequence[str], path: str) -> bool:
    """Whether a path is meant by the patterns; of several that mean it the last one decides."""
    return pathspec.GitIgnoreSpec.from_lines(patterns).match_file(path)
