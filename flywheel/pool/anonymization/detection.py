"""What is looked for, as a value: the built-in forms and keys, a team's own types, and a language model if any.

Made once a process for its settings and passed along. It travels to other processes as its settings alone.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from flywheel.pool.anonymization.checks import NEAR, Check, Place, nearby_from
from flywheel.pool.anonymization.detectors import EVERYTHING, Detector, Span
from flywheel.pool.anonymization.form import Form
from flywheel.pool.anonymization.forms import IDENTIFYING
from flywheel.pool.anonymization.keys import NO_VALUE, NUMERIC, is_plausible, type_of_key
from flywheel.pool.anonymization.names import names_known
from flywheel.pool.anonymization.own_types import OwnType, built_in, quiet, spelled, squashed

if TYPE_CHECKING:
    from flywheel.pool.settings import AnonymizationSettings

QUOTED = r"\"(?:[^\"\\\n]|\\.)+\"|'(?:[^'\\\n]|\\.)+'"
VALUE = re.compile(rf"\s*:\s*(?:{QUOTED}|(\d+)(?!\.\d))")
AROUND = " \t\r\n\0"
FIELD = re.compile(r"[A-Za-z][A-Za-z_]*\Z")
"""A key of such a form is the name of a field, not a value."""


def is_value_itself(key: str) -> bool:
    """Whether a key of a dictionary is a value: not the name of a field, or a person's."""
    return FIELD.match(key) is None or (key[0].isupper() and key in names_known())


class Detection(Struct, frozen=True, dict=True):
    """What is looked for. ``types`` are the team's own, ``ner_model`` is the spaCy pipeline that finds names."""

    types: tuple[OwnType, ...] = ()
    ner_model: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        """Its settings; a process that reads them again and again compiles them once."""
        return detection_of, (self.types, self.ner_model)

    def detect(self, text: str) -> Iterator[Span]:
        """Every value of a closed form; those of own types may overlap the others."""
        return chain(self.detect_own(text), EVERYTHING.detect(text))

    def detect_own(self, text: str) -> Iterator[Span]:
        """Every value of the team's own types."""
        return self._own.detect(text) if self.types else iter(())

    def is_plausible(self, kind: str, value: str) -> bool:
        """Whether a value that a key names can be what the key says."""
        return is_value(value) if kind in self.names else is_plausible(kind, value)

    def is_identifying(self, kind: str) -> bool:
        """Whether a key of this kind is enough for a value to go at the edge, whatever it looks like."""
        return kind in IDENTIFYING or kind in self.names

    def digest(self, *, salt: bytes) -> str:
        """32 hex digits of all that it finds by settings, keyed; empty where it finds what is always found."""
        if self == DEFAULT:
            return ""
        document = msgspec.json.encode([[one.model_dump() for one in self.types], self.ner_model])
        return blake2b(document, key=blake2b(salt).digest(), digest_size=16).hexdigest()

    @cached_property
    def names(self) -> frozenset[str]:
        """The team's own types."""
        return frozenset(one.name for one in self.types)

    @cached_property
    def numeric(self) -> frozenset[str]:
        """Types of which a whole number behind a key may be one."""
        return NUMERIC | self.names

    @cached_property
    def facts_of_key(self) -> Callable[[str], tuple[str | None, bool]]:
        """What the key of a dictionary says of its value, and whether it is a value itself, by the key.

        Own types come first, since they were named for this.
        """
        own = {squashed(key): one.name for one in self.types for key in one.keys}

        @lru_cache(maxsize=8_192)
        def facts(key: str) -> tuple[str | None, bool]:
            return (own.get(squashed(key)) if own else None) or type_of_key(key), is_value_itself(key)

        return facts

    @cached_property
    def _own(self) -> Detector:
        """An automaton beside the built-in one: an own type never takes a part of a value that was found without it."""
        keyed = [Form(one.name, rf"(?i:[\"'](?:{spelled(one.keys)})[\"'])\s*:\s*(?:{QUOTED}|\d+\b)", behind_key, "key")
                 for one in self.types if one.keys]  # fmt: skip
        return Detector([*keyed, *(Form(one.name, one.pattern, matching(one), "own pattern") for one in self.types)])


DEFAULT = Detection()
"""What is found without any setting."""


@lru_cache(maxsize=16)
def detection_of(types: tuple[OwnType, ...] = (), ner_model: str = "") -> Detection:
    """What these settings say; the same for the same ones, compiled at first use."""
    return Detection(types, ner_model)


def detection_in(settings: "AnonymizationSettings", *, ner_model: str | None = None) -> Detection:
    """What the settings say, or with another language model. Refuses one that cannot be used, before any text is read.

    Raises:
        ConfigurationError: presidio or the language model is not installed, or it finds no persons.
    """
    detection = detection_of(settings.types, settings.ner_model if ner_model is None else ner_model)
    if detection.ner_model:
        from flywheel.pool.anonymization.ner import require_model

        require_model(detection.ner_model)
    return detection


def is_value(value: str) -> bool:
    """Whether a text behind a key is a value at all: not a word about it, and no placeholder."""
    stripped = value.strip()
    return bool(stripped) and stripped.lower() not in NO_VALUE and not placeholder().fullmatch(stripped)


def behind_key(text: str, start: int, end: int) -> Place | None:
    """The value behind a key, without its quotes; a whole number as it stands."""
    opened = text.index(text[start], start + 1) + 1
    match = VALUE.match(text, opened)
    if match is None:
        return None
    place = match.span(1) if match.group(1) else (text.index(text[end - 1], text.index(":", opened)) + 1, end - 1)
    return place if is_value(text[slice(*place)]) else None


def matching(own: OwnType) -> Check:
    """What the pattern matched, within one text, behind one of the words if there are any."""
    nearby = None
    if own.words:
        words = "|".join(map(re.escape, own.words))
        nearby = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])", re.IGNORECASE)
    import re2

    compiled = re2.compile(own.pattern, quiet())

    def check(text: str, start: int, end: int) -> Place | None:
        while start < end and text[start] in AROUND:
            start += 1
        border = text.find("\0", start, end)
        if border >= 0:  # it reaches into the next text: as much of it as is in this one
            match = compiled.match(text[start:border])
            end = start + match.end() if match else start
        while end > start and text[end - 1] in AROUND:
            end -= 1
        if start == end or is_in_placeholder(text, start, end):
            return None
        first = nearby_from(text, start, NEAR) if nearby else 0
        return (start, end) if nearby is None or nearby.search(text, first, start) else None

    return check


def is_in_placeholder(text: str, start: int, end: int) -> bool:
    """Whether the place is within what already stands for a value."""
    opening = text.rfind("[", max(0, start - NEAR), start + 1)
    match = placeholder().match(text, opening) if opening >= 0 else None
    return match is not None and match.end() >= end


@cache
def placeholder() -> re.Pattern[str]:
    """A built-in type's placeholder, whole; ``[EMP_123456]`` may be a value, whatever the own types are called."""
    return re.compile(rf"\[(?:(?:{'|'.join(sorted(built_in()))})_\d+|TENANT)\]")
