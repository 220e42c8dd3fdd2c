"""What is personal or secret in a text, as spans: what is built on the detectors asks here."""

from collections.abc import Iterator

from msgspec import Struct

from flywheel.pool.anonymization.detectors import DETECTORS, detect, single_patterns

PRESIDIO_NAMES = {"IBAN": "IBAN_CODE"}


class Span(Struct, frozen=True):
    """A personal or secret value: ``text[start:end]``, offsets in characters. ``reason`` says why it was taken."""

    start: int
    end: int
    type: str
    reason: str


def find_spans(text: str) -> list[Span]:
    """Every personal or secret value in a text, in order, without overlaps."""
    return [Span(found.start, found.end, named(found.type), f"pattern {found.type}") for found in detect(text)]


def find_refused(text: str) -> list[Span]:
    """What a pattern matched and its check refused, where nothing else was found; ``reason`` names the check."""
    found = find_spans(text)
    refused = {
        (one.start, one.end, one.type): one
        for one in refusals(text)
        if all(one.end <= other.start or other.end <= one.start for other in found)
    }
    return [refused[place] for place in sorted(refused)]


def refusals(text: str) -> Iterator[Span]:
    """Every match of every pattern that its check refuses."""
    data = text.encode("utf-8", "surrogatepass")
    for detector, pattern in zip(DETECTORS, single_patterns(), strict=True):
        if detector.check is None:
            continue
        for match in pattern.finditer(data):
            start, end = (len(data[:place].decode("utf-8", "surrogatepass")) for place in match.span())
            if not detector.check(text, start, end):
                reason = f"pattern {detector.type}, refused by {detector.check.__name__}"
                yield Span(start, end, named(detector.type), reason)


def named(kind: str) -> str:
    """The type by presidio's name, where it has one."""
    return PRESIDIO_NAMES.get(kind, kind)
