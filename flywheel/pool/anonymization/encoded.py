"""Short texts in base64: what they hold is looked into, and what holds something goes as a whole."""

import base64
import binascii
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.detectors import Span
from flywheel.pool.anonymization.names import find_names

LONGEST = 8_000  # characters: what is longer is a file
ALPHABET = str.maketrans("-_", "+/")
PRINTABLE = 0.95  # of the decoded characters, at least


def find_encoded(text: str, *, detection: Detection = DEFAULT) -> Iterator[Span]:
    """Runs of base64 that decode to a text with a personal or secret value in it."""
    for match in runs().finditer(text.encode("ascii", "replace")):  # a byte for each character
        encoded = match.group().decode()
        decoded = decoded_text(encoded) if len(encoded) <= LONGEST else None
        inner = next(chain(detection.detect(decoded), find_names(decoded)), None) if decoded else None
        if inner is not None:
            yield Span(match.start(), match.end(), inner.type, f"{inner.reason} in base64")


@cache
def runs() -> Any:
    """Long runs of base64's letters, both of its alphabets."""
    import re2

    return re2.compile(r"\b[A-Za-z0-9][A-Za-z0-9+/_-]{15,}={0,2}")


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
