"""What counts as personal or secret in a text: one table, compiled into one automaton.

Each detector is a pattern for google-re2 (linear time, whatever the text) and, where a pattern alone would take too
much, a check of the match in its surroundings. Earlier rows win where two match at one place.
"""

import ipaddress
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from msgspec import Struct

Check = Callable[[str, int, int], bool]


class Detector(Struct, frozen=True):
    """One type of value. ``check`` gets the text and the match's start and end, in characters."""

    type: str
    pattern: str
    check: Check | None = None


class Found(Struct, frozen=True):
    """A detected value: ``text[start:end]``, offsets in characters."""

    start: int
    end: int
    type: str


def passes_luhn(text: str, start: int, end: int) -> bool:
    """Whether the digits are a card number by their check digit (ISO/IEC 7812-1)."""
    digits = [int(character) for character in text[start:end] if character.isdigit()]
    doubled = (digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2])
    return stands_alone(text, start, end) and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def is_ip_address(text: str, start: int, end: int) -> bool:
    """Whether the match is an IPv4 or IPv6 address, not a longer version number."""
    if not stands_alone(text, start, end):
        return False
    try:
        ipaddress.ip_address(text[start:end])
    except ValueError:
        return False
    return True


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether no letter, digit or joining punctuation continues the match on either side."""
    before = text[start - 1 : start]
    after = text[end : end + 1]
    follows = text[end + 1 : end + 2]
    continued = after.isalnum() or after == "_" or (after in {".", "-", ":"} and follows.isalnum())
    return not (before.isalnum() or before in {"_", ".", "-", ":", "/"} or continued)


def starts_a_path(text: str, start: int, _end: int) -> bool:
    """Whether the slash begins a path, not the path of a URL, a fraction or an alternative (``and/or``)."""
    before = text[start - 1 : start]
    return not (before.isalnum() or before in {"/", ":", ".", "_", "-", ")", "]", "<", "}"})


DETECTORS: tuple[Detector, ...] = (
    Detector("SECRET", r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----|[\s\S]*)"),
    Detector("SECRET", r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"),
    Detector("SECRET", r"\b(?:sk|pk|rk)[-_](?:[a-z]+[-_])?[A-Za-z0-9_-]{16,}"),
    Detector("SECRET", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    Detector("SECRET", r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{20,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{20,})"),
    Detector("SECRET", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bAIza[\w-]{35}"),
    Detector("SECRET", r"(?i)\bbearer\s+[\w.~+/-]{16,}=*"),
    Detector(
        "SECRET",
        r"(?i)\b(?:api[_-]?key|secret|password|passwd|pwd|access[_-]?token|auth[_-]?token)\b"
        r"[\"']?\s*[:=]\s*[\"']?[^\s\"',;]{6,}",
    ),
    Detector("URL_CREDENTIALS", r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/@:\[]+:[^\s/@]+@[^\s\"'<>]+"),
    Detector("EMAIL_ADDRESS", r"[\pL\pN._%+-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)+"),
    Detector("CREDIT_CARD", r"\d(?:[ -]?\d){12,18}", passes_luhn),
    Detector("IBAN", r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b"),
    Detector("IP_ADDRESS", r"\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9a-fA-F]{1,4}:){2,7}[0-9a-fA-F]{1,4}", is_ip_address),
    Detector("PHONE_NUMBER", r"\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{2,4}(?:[ .-]?\d{2,4}){1,4}", stands_alone),
    Detector("PHONE_NUMBER", r"(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[.-]\d{4}", stands_alone),
    Detector("US_SSN", r"\d{3}-\d{2}-\d{4}", stands_alone),
    Detector("FILE_PATH", r"(?:~|/[\pL\pN_.@+-]+)(?:/[\pL\pN_.@+-]+)+/?", starts_a_path),
    Detector("FILE_PATH", r"\b[A-Za-z]:\\(?:[^\\/:*?\"<>|\s]+\\)*[^\\/:*?\"<>|\s]+"),
)


@cache
def automaton() -> Any:
    """All patterns as one compiled alternation; group N + 1 is detector N, whose pattern has no group of its own."""
    import re2

    options = re2.Options()
    options.max_mem = 64 << 20
    return re2.compile("|".join(f"({detector.pattern})" for detector in DETECTORS), options)


@cache
def single_patterns() -> tuple[Any, ...]:
    """Each pattern by itself, in the table's order."""
    import re2

    return tuple(re2.compile(detector.pattern) for detector in DETECTORS)


SEPARATOR = "\n\0\n"
"""Between texts that are scanned together: white space ends most patterns, NUL those that may cross white space."""


def detect_each(texts: Sequence[str]) -> dict[int, list[Found]]:
    """The personal and secret values of each text that has any, by its number: one scan of all, as if one of each.

    No text may hold ``-----``: a private key that is cut off reaches to its text's end, and would reach further.
    """
    ends = list(accumulate(len(text) + len(SEPARATOR) for text in texts))
    values: dict[int, list[Found]] = defaultdict(list)
    for found in detect(SEPARATOR.join(texts)):
        number = bisect_right(ends, found.start)
        offset = ends[number - 1] if number else 0
        values[number].append(Found(found.start - offset, found.end - offset, found.type))
    return values


def detect(text: str) -> Iterator[Found]:
    """Every personal or secret value in a text, from left to right, without overlaps."""
    data = text.encode("utf-8", "surrogatepass")
    wide = len(data) != len(text)
    position: int | None = 0
    counted = characters = 0  # bytes counted, characters in those
    while position is not None:
        matches = automaton().finditer(data, position)
        position = None
        for match in matches:
            first, last = match.span()
            characters += len(data[counted:first].decode("utf-8", "surrogatepass")) if wide else first - counted
            counted = first
            found = found_at(text, data, first, characters, number=match.lastindex - 1, last=last)
            if found is None:
                position = first + 1  # what is checked begins with an ASCII character
                break
            detected, end = found
            yield detected
            if end != last:
                position = end
                break


def found_at(text: str, data: bytes, first: int, start: int, *, number: int, last: int) -> tuple[Found, int] | None:
    """What begins at a byte: the automaton's match, or where its check refuses it a later row's, and its last byte."""
    for detector, pattern in zip(DETECTORS[number:], single_patterns()[number:], strict=True):
        if detector is not DETECTORS[number]:
            match = pattern.match(data, first)
            if match is None:
                continue
            last = match.end()
        end = start + len(data[first:last].decode("utf-8", "surrogatepass"))
        if detector.check is None or detector.check(text, start, end):
            return Found(start, end, detector.type), last
    return None
