"""Reads fields of decoded JSON that strangers wrote: what is of another type is malformed, and said to be so."""

from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from flywheel.collection.importers.interface import Json

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST = 2**63 - 1
NANOSECONDS = 1e9


class MalformedError(ValueError):
    """A record is not as its format demands. The message names the field and what was found there."""


def shown(value: object) -> str:
    """A value in a message: short."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def expected(what: str, key: str, value: object) -> MalformedError:
    """The error that a field is of another type."""
    return MalformedError(f"{key}: expected {what}, found {shown(value)}")


def an_object(value: object, key: str) -> Json:
    """The value as an object."""
    if not isinstance(value, dict):
        raise expected("an object", key, value)
    return value


def objects(record: Json, key: str) -> list[Json]:
    """A list of objects; empty where absent or null."""
    values = record.get(key)
    if values is None:
        return []
    if not isinstance(values, list):
        raise expected("a list", key, values)
    for value in values:
        if not isinstance(value, dict):
            raise expected("objects", key, value)
    return values


def mapping_of(record: Json, key: str) -> Json:
    """An object; empty where absent or null."""
    value = record.get(key)
    return {} if value is None else an_object(value, key)


def optional_text(record: Json, key: str) -> str | None:
    """A string, or None where absent or null."""
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value
    raise expected("a string", key, value)


def text(record: Json, key: str) -> str:
    """A string that is there and not empty."""
    value = record.get(key)
    if isinstance(value, str) and value:
        return value
    raise expected("a string", key, value)


def identity(record: Json, key: str) -> str:
    """A string or whole number that names something."""
    value = record.get(key)
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise expected("a name or number", key, value)


def number(record: Json, key: str, *, least: float | None = 0.0) -> float | None:
    """A finite number, or None where absent or null."""
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise expected("a number", key, value)
    if abs(value) > LARGEST or not isfinite(value):
        raise expected("a finite number", key, value)
    if least is not None and value < least:
        raise expected(f"a number from {least:g}", key, value)
    return float(value)


def count(record: Json, key: str) -> int | None:
    """A whole number ≥ 0, or None where absent or null."""
    value = number(record, key)
    if value is None:
        return None
    if value != int(value):
        raise expected("a whole number", key, value)
    return int(record[key])


def truth(record: Json, key: str) -> bool:
    """A boolean that is there."""
    value = record.get(key)
    if isinstance(value, bool):
        return value
    raise expected("true or false", key, value)


def moment(value: object, key: str) -> tuple[datetime | None, bool]:
    """A time in ISO 8601, and whether it had no zone and was taken as UTC. None where absent or empty."""
    if value is None or value == "":
        return None, False
    if not isinstance(value, str):
        raise expected("a time in ISO 8601", key, value)
    try:
        parsed = datetime.fromisoformat(value.strip())
    except ValueError:
        raise expected("a time in ISO 8601", key, value) from None
    if parsed.tzinfo is None:
        return parsed.replace(tzinfo=UTC), True
    return parsed.astimezone(UTC), False


def milliseconds(first: datetime | None, last: datetime | None) -> float | None:
    """Milliseconds from one to the other; None where one is not known or they are in the wrong order."""
    if first is None or last is None or last < first:
        return None
    return (last - first).total_seconds() * 1000


def since_epoch(value: Any, key: str, *, per_second: float) -> datetime | None:
    """A time as a count since 1970. ``per_second``: 1, 1000 or 1e9. None where absent."""
    amount = number({key: value}, key)
    if amount is None:
        return None
    try:
        return EPOCH + timedelta(microseconds=int(amount * (1e6 / per_second)))
    except OverflowError:
        raise expected("a time", key, value) from None
