"""Reads function calls from an answer's text: strictly as agents are asked to write them, leniently out of prose."""

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from msgspec import Struct

LENIENT_SCAN_CHARS = 65_536


class Call(Struct, frozen=True, kw_only=True):
    """A function call as an agent wrote it."""

    name: str
    arguments: dict[str, Any]


class ParsedCalls(Struct, frozen=True, kw_only=True):
    """The calls of an answer, in its order. ``strict`` is false where they had to be picked out of other text."""

    calls: tuple[Call, ...]
    strict: bool


class Rejection(Struct, frozen=True, kw_only=True):
    """Why no call could be read from an answer."""

    reason: str


def parse_calls(text: str) -> ParsedCalls | Rejection:
    """Read the function calls of an answer.

    Strict is one JSON object ``{"name": …, "arguments": {…}}`` a line, or one JSON list of such objects, and nothing
    else. Lenient is any such object inside other text, for example in a fenced block; only the first
    ``LENIENT_SCAN_CHARS`` characters are searched, which bounds the time that a hostile answer can cost.
    """
    strict = _strict_calls(text.strip())
    if strict is not None:
        return ParsedCalls(calls=strict, strict=True)
    lenient = tuple(_calls_within(text[:LENIENT_SCAN_CHARS]))
    if lenient:
        return ParsedCalls(calls=lenient, strict=False)
    if not text.strip():
        return Rejection(reason="the answer is empty")
    return Rejection(reason='the answer holds no JSON object with "name" and "arguments"')


def _strict_calls(text: str) -> tuple[Call, ...] | None:
    if not text.startswith(("{", "[")):
        return None
    document = _load(text)
    if isinstance(document, list):
        items = document
    elif document is not None:
        items = [document]
    else:
        items = [_load(line) for line in text.splitlines() if line.strip()]
    calls = [_as_call(item, only_these_keys=True) for item in items]
    return tuple(call for call in calls if call is not None) if None not in calls else None


def _calls_within(text: str) -> Iterator[Call]:
    position = text.find("{")
    while position >= 0:
        end = position + 1
        try:
            item, after = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            pass  # not JSON from here on; the next brace may be
        else:
            call = _as_call(item, only_these_keys=False)
            if call is not None:
                yield call
                end = after
        position = text.find("{", end)


def _as_call(item: Any, *, only_these_keys: bool) -> Call | None:
    if not isinstance(item, dict) or not {"name", "arguments"} <= item.keys():
        return None
    name, arguments = item["name"], item["arguments"]
    if not isinstance(name, str) or not name.isprintable() or not name or not isinstance(arguments, dict):
        return None
    return None if only_these_keys and len(item) > 2 else Call(name=name, arguments=arguments)


def _load(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")  # Python's decoder would take NaN and Infinity


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)
