"""What is personal or secret in a text, as spans: what is built on the detectors asks here."""

from msgspec import Struct

from flywheel.pool.anonymization.detectors import detect

PRESIDIO_NAMES = {"IBAN": "IBAN_CODE"}


class Span(Struct, frozen=True):
    """A personal or secret value: ``text[start:end]``, offsets in characters. ``reason`` says why it was taken."""

    start: int
    end: int
    type: str
    reason: str


def find_spans(text: str) -> list[Span]:
    """Every personal or secret value in a text, in order, without overlaps."""
    return [
        Span(found.start, found.end, PRESIDIO_NAMES.get(found.type, found.type), f"pattern {found.type}")
        for found in detect(text)
    ]
