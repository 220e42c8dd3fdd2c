"""Is anything personal or secret left? Another set of eyes: Python's ``re``, other patterns, the encoded record.

Not the replacing code asked twice. These patterns are broader and know nothing of checksums or context, so that a
mistake of the detectors' table does not hide itself; what they take wrongly holds a day back until a person looks.
"""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

TENANT = re.compile(r"[0-9a-f]{64}\Z")
SUSPECTS: dict[str, re.Pattern[str]] = {
    "EMAIL_ADDRESS": re.compile(r"[A-Za-z0-9][\w.+-]*@[A-Za-z0-9][A-Za-z0-9-]*\.[A-Za-z]{2,}"),
    "SECRET": re.compile(
        r"PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}|\bgh[pousr]_[A-Za-z0-9]{36}"
        r"|\bsk-[A-Za-z0-9]{20,}|\bxox[bp]-\d|\beyJ[\w-]+\.eyJ"
    ),
    "URL_CREDENTIALS": re.compile(r"://[^\s/:@\[\]]+:[^\s/@\[\]]+@"),
    "FILE_PATH": re.compile(r"(?:^|[\s\"'=(])(?:/home/|/Users/|[A-Za-z]:\\Users\\)\w"),
    "PHONE_NUMBER": re.compile(r"(?<![\w.-])\(?\d{3}\)?[ .-]\d{3}[.-]\d{4}(?![\w-])"),
}


class Violation(Struct, frozen=True, kw_only=True):
    """Something left in a point. The value itself is never repeated, only where it is."""

    point_id: str
    field: str
    type: str


def violations_of(point: dict[str, Any]) -> Iterator[Violation]:
    """What is left in one point, given as its wire dictionary."""
    point_id = str(point.get("id", ""))
    if not TENANT.match(str(point.get("tenantId", ""))):
        yield Violation(point_id=point_id, field="tenantId", type="TENANT")
    for field, text in strings(point):
        for kind, pattern in SUSPECTS.items():
            if pattern.search(text):
                yield Violation(point_id=point_id, field=field, type=kind)


def strings(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every string in nested dictionaries and lists, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from strings(item, f"{path}[{number}]")
