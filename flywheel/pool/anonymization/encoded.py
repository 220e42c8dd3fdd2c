"""Short texts in base64: what they hold is looked into, and what holds something goes as a whole."""

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import chain

from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.detectors import Span
from flywheel.pool.anonymization.names import find_names

SHORTEST, LONGEST = 16, 8_000  # characters: what is longer is a file
ALPHABET = str.maketrans("-_", "+/")
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
MARKED = bytes(code in LETTERS for code in range(256))
"""A byte for each: 1 where it is a letter of base64, in one of its alphabets."""
RUN = re.compile(rb"(?<!\w)[A-Za-z0-9][A-Za-z0-9+/_-]{15,}={0,2}")
LONG = b"\1" * SHORTEST
PRINTABLE = 0.95  # of the decoded characters, at least


def find_encoded(text: str, *, detection: Detection = DEFAULT) -> Iterator[Span]:
    """Runs of base64 that decode to a text with a personal or secret value in it."""
    for start, end in runs(text.encode("ascii", "replace")):  # a byte for each character
        decoded = decoded_text(text[start:end]) if end - start <= LONGEST else None
        inner = next(chain(detection.detect(decoded), find_names(decoded)), None) if decoded else None
        if inner is not None:
            yield Span(start, end, inner.type, f"{inner.reason} in base64")


def runs(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each long run of base64's letters that no other letter of a word stands before.

    Where such runs may be is asked for all letters at once: a pattern would count them from each one on.
    """
    marks = data.translate(MARKED)
    position = marks.find(LONG)
    while position >= 0:
        behind = marks.find(0, position + SHORTEST)
        match = RUN.search(data, position, (behind if behind >= 0 else len(data)) + len("=="))
        if match:
            yield match.span()
        position = marks.find(LONG, behind) if behind >= 0 else -1


def decoded_text(encoded: str) -> str | None:
    """The text that is encoded; None where it is none: a hash, a word, binary data."""
    stripped = encoded.rstrip("=").translate(ALPHABET)
    if len(stripped) % 4 == 1 or stripped.isdigit() or stripped.islower():
        return None
    try:
        text = base64.b64decode(stripped + "=" * (-len(stripped) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    readable = sum(character.isprintable() or character in "\n\r\t" for character in text)
    return text if readable >= PRINTABLE * len(text) else None
