"""The texts of a record, read from its fields: those that its JSON has, without making a document of it."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import compress
from types import NoneType
from typing import Any

from msgspec import Struct, UnsetType
from msgspec.structs import astuple

from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.places import NONE

ABSENT = frozenset({NoneType, UnsetType})
TEXTLESS = frozenset({float, int, bool, *ABSENT})
"""Types of values that are no text in JSON."""
MANY = 256  # types of records


class Fields(Struct, frozen=True):
    """What of the fields of a type is read: which of them, and the numbers of those whose keys say what they hold.

    ``named`` has with each number whether the value goes for that alone.
    """

    read: tuple[bool, ...]
    named: tuple[tuple[int, bool], ...]


class FieldReader:
    """Reads the texts of records. ``kept`` names keys of the outermost one to leave out."""

    def __init__(self, *, kept: frozenset[str] = NONE, detection: Detection = DEFAULT) -> None:
        self._kept = kept
        self._detection = detection
        self._outermost: Callable[[type[Struct]], Fields] = lru_cache(MANY)(self._fields_of)
        self._is_plain: Callable[[type], bool] = lru_cache(MANY)(self._names_nothing)

    def texts(self, record: Struct) -> list[str] | None:
        """Every text within a record, and words that hold nothing; None where only its JSON tells.

        That is where a value goes by its key, and where one has a type that no field of a record is declared with.
        """
        fields, values = self._outermost(type(record)), astuple(record)
        for number, goes in fields.named:
            kind = type(values[number])
            if kind not in ABSENT and (goes or kind is not str):
                return None
        texts: list[str] = []
        return texts if self._collect(compress(values, fields.read), texts) else None

    def _collect(self, values: Iterable[Any], texts: list[str]) -> bool:
        """Add the texts of values; whether there is none that only JSON tells of."""
        for value in values:
            kind = type(value)
            if kind is str:
                texts.append(value)
            elif kind in TEXTLESS:
                continue
            elif kind is tuple or kind is list:
                if not self._collect(value, texts):
                    return False
            elif isinstance(value, str):  # a word of an Enum
                texts.append(value)
            elif not self._is_plain(kind) or not self._collect(astuple(value), texts):
                return False
        return True

    def _fields_of(self, kind: type[Struct]) -> Fields:
        read = tuple(key not in self._kept for key in kind.__struct_encode_fields__)
        kinds = [self._detection.facts_of_key(key)[0] for key in kind.__struct_encode_fields__]
        named = ((number, name) for number, name in enumerate(kinds) if name and read[number])
        return Fields(read, tuple((number, self._detection.is_identifying(name)) for number, name in named))

    def _names_nothing(self, kind: type) -> bool:
        """Whether a type is a record's of which no key says anything."""
        return issubclass(kind, Struct) and not any(
            any(self._detection.facts_of_key(key)) for key in kind.__struct_encode_fields__
        )
