"""Types of a team's own: employee numbers, project names, ids of internal systems, declared in the settings."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

NAME = re.compile(r"[A-Z]+(?:_[A-Z]+)*")
WORDS = re.compile(r"[\w' .-]*\w[\w' .-]*")
KEY = re.compile(r"[\w .-]*[^\W_][\w .-]*")
BETWEEN = re.compile(r"[ _-]+")
PROBE = " a1 B-2_c.\n"
"""What a pattern that can match nothing at all matches it in, such as ``\\b``."""


class OwnType(BaseModel):
    """A type of value that is replaced like the built-in ones, found by its form, by words before it and by keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="capitals and underscores; its placeholders are [NAME_1], [NAME_2]")
    pattern: str = Field(description="google-re2's syntax; what it matches is the value")
    words: tuple[str, ...] = Field(
        (), description="if any: a match is a value only behind one of them, within 48 characters; case does not matter"
    )
    keys: tuple[str, ...] = Field(
        (), description="keys of JSON and dictionaries whose values are one as a whole: employee_no is employeeNo too"
    )

    @field_validator("name")
    @classmethod
    def refuse_other_names(cls, value: str) -> str:
        """A placeholder must be told from text, and a built-in type keeps its own rules.

        Raises:
            ValueError: the name is of another form, or a built-in type's.
        """
        if not NAME.fullmatch(value):
            raise ValueError(f"{value!r} is no name of a type: capitals joined by underscores, as EMPLOYEE_NUMBER")
        if value in built_in():
            raise ValueError(f"{value} is a type that is found anyway; choose another name")
        return value

    @field_validator("pattern")
    @classmethod
    def refuse_unusable_patterns(cls, value: str, info: ValidationInfo) -> str:
        """What the automaton cannot take, or what would be found between any two letters.

        Raises:
            ValueError: google-re2 does not compile it, it names groups, or it matches the empty text.
        """
        type_name = info.data.get("name", "a type")
        import re2

        try:
            compiled: Any = re2.compile(f"(?:{value})", quiet())
        except re2.error as error:
            reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error
            raise ValueError(f"{type_name}: google-re2 does not take the pattern {value!r}: {reason}") from None
        if compiled.groupindex:
            raise ValueError(f"{type_name}: groups of the pattern {value!r} must have no names; write (?:…)")
        if any(match.start() == match.end() for text in ("", PROBE) for match in compiled.finditer(text)):
            raise ValueError(f"{type_name}: the pattern {value!r} matches the empty text; let it take a character")
        return value

    @field_validator("words", "keys")
    @classmethod
    def refuse_empty_ones(cls, values: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """Words and keys are looked for as they are written.

        Raises:
            ValueError: one has no letter or digit, or a character that is in no word or key.
        """
        form = WORDS if info.field_name == "words" else KEY
        for value in values:
            if not form.fullmatch(value):
                raise ValueError(
                    f"{info.data.get('name', 'a type')}: {value!r} cannot be one of its {info.field_name}: letters, "
                    f"digits, spaces and the characters _ - . alone"
                )
        return values


class OwnTypes(BaseModel):
    """Base of what has a list of them."""

    types: tuple[OwnType, ...] = Field(
        (), description="types of the team's own; of two that match at one place the first one is taken"
    )

    @model_validator(mode="after")
    def refuse_doubles(self) -> Self:
        """A name or a key leads to one type.

        Raises:
            ValueError: it stands in two of them.
        """
        for what, values in (
            ("name", [one.name for one in self.types]),
            ("key", [key for one in self.types for key in {squashed(key) for key in one.keys}]),
        ):
            double = next((value for value in values if values.count(value) > 1), None)
            if double is not None:
                raise ValueError(f"types: the {what} {double} is in two entries; keep one, | joins two patterns")
        return self


def squashed(key: str) -> str:
    """A key without what separates its words: ``employee_no``, ``Employee-No`` and ``employeeNo`` are one."""
    return BETWEEN.sub("", key).lower()


def spelled(keys: Sequence[str]) -> str:
    """A pattern of the keys, however their words are separated; lower and upper case are the reader's matter."""
    return "|".join("[ _-]?".join(re.escape(part) for part in BETWEEN.split(key) if part) for key in keys)


@cache
def built_in() -> frozenset[str]:
    """The types that are found without any setting, and what else stands in brackets."""
    from flywheel.pool.anonymization.forms import FORMS

    return frozenset({form.type for form in FORMS} | {"TENANT", "CANARY"})


def quiet() -> Any:
    """Options of a pattern whose error is told by an exception alone."""
    import re2

    options = re2.Options()
    options.log_errors = False
    return options
