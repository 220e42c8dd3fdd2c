"""Labelled texts in the layouts that they come in, as ``LabelledText``. Pure: lines in, texts or a reason out.

- Ours, JSON lines: ``{"text", "spans": [{"start", "end", "type"}]}``, optionally with ``id``.
- tau-messages: the same with ``id``, ``source`` and ``role``, and ``value`` in each span. Its labels are values that
  were collected by key and matched as strings: complete for the types of ``TAU_COMPLETE`` alone.
- presidio-research: one JSON array of ``{"full_text", "spans": [{"entity_type", "start_position", "end_position"}]}``.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from flywheel.errors import InputError
from flywheel.pool.anonymization.evaluation import LabelledText, Mark

NAMES = {"DOMAIN_NAME": "URL", "GPE": "LOCATION", "IBAN": "IBAN_CODE"}
"""Types that a layout calls differently than the detectors do."""

TAU_COMPLETE = frozenset({"DATE_OF_BIRTH", "EMAIL_ADDRESS", "PAYMENT_ID", "PHONE_NUMBER", "USER_ID"})


class Labels(Struct, frozen=True, kw_only=True):
    """Labelled texts, and the types of which every occurrence is labelled (None: those that are labelled at all)."""

    texts: tuple[LabelledText, ...]
    complete: frozenset[str] | None = None


def read_labels(lines: Iterable[bytes], *, name: str) -> Labels:
    """The labelled texts of a file, whose layout its keys tell.

    Raises:
        InputError: a line is not JSON, lacks a key, or a span is not in its text. It names the file and the line.
    """
    texts: list[LabelledText] = []
    complete: set[frozenset[str] | None] = set()
    for number, record in records(lines, name=name):
        try:
            text, its_complete = labelled(record)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{name}:{number}: {reason_of(error)}. A labelled text is {LAYOUT}") from None
        texts.append(text)
        complete.add(its_complete)
    return Labels(texts=tuple(texts), complete=complete.pop() if len(complete) == 1 else None)


LAYOUT = '{"text": …, "spans": [{"start", "end", "type"}]}, offsets in characters'
PREDICTION = '{"spans": [{"start", "end", "type"}]}'


def records(lines: Iterable[bytes], *, name: str) -> Iterator[tuple[int, Any]]:
    """Each labelled record with its line, those of an array with their place in it."""
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InputError(f"{name}:{number}: not JSON: {error}") from None
        if isinstance(value, list):
            yield from enumerate(value, 1)
        else:
            yield number, value


def labelled(record: Any) -> tuple[LabelledText, frozenset[str] | None]:
    """One record, and which types are complete in its layout."""
    if not isinstance(record, dict):
        raise TypeError("not a JSON object")
    if "full_text" in record:
        spans = [(span["start_position"], span["end_position"], span["entity_type"]) for span in record["spans"]]
        text = record["full_text"]
        return labelled_text(text, spans, key=text), None
    spans = [(span["start"], span["end"], span["type"]) for span in record["spans"]]
    key = str(record.get("id") or record["text"])
    return labelled_text(record["text"], spans, key=key), TAU_COMPLETE if {"source", "role"} <= record.keys() else None


def labelled_text(text: Any, spans: Iterable[tuple[Any, Any, Any]], *, key: str) -> LabelledText:
    """A text with its marks.

    Raises:
        TypeError: a field has another type than it must.
        ValueError: a span is empty or reaches beyond the text.
    """
    if not isinstance(text, str):
        raise TypeError("the text is not a string")
    return LabelledText(key=key, text=text, marks=tuple(sorted(mark_of(span, len(text)) for span in spans)))


def mark_of(span: tuple[Any, Any, Any], length: int) -> Mark:
    """One span, if it lies in a text of this length."""
    start, end, kind = span
    if type(start) is not int or type(end) is not int or type(kind) is not str:
        raise TypeError("a span needs start and end as integers and type as a string")
    if not 0 <= start < end <= length:
        raise ValueError(f"the span {start}–{end} is not in the text of {length:,} characters")
    return Mark(start, end, NAMES.get(kind, kind))


def read_predictions(lines: Iterable[bytes], texts: Sequence[LabelledText], *, name: str) -> list[tuple[Mark, ...]]:
    """What a detector found in these texts: a line ``{"spans": […]}`` for each, in the same order.

    Raises:
        InputError: a line cannot be used, or there are more or fewer lines than texts.
    """
    found: list[tuple[Mark, ...]] = []
    for number, record in records(lines, name=name):
        if len(found) == len(texts):
            raise InputError(f"{name}:{number}: there are only {len(texts):,} labelled texts, one line for each")
        try:
            spans = [(span["start"], span["end"], span["type"]) for span in record["spans"]]
            length = len(texts[len(found)].text)
            found.append(tuple(sorted(mark_of(span, length) for span in spans)))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{name}:{number}: {reason_of(error)}. A prediction is {PREDICTION}") from None
    if len(found) < len(texts):
        raise InputError(f"{name} has {len(found):,} lines, not one for each of {len(texts):,} labelled texts")
    return found


def reason_of(error: Exception) -> str:
    """What a line lacks."""
    return f"no {error}" if isinstance(error, KeyError) else str(error)
