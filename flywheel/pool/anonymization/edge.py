"""At the edge: secrets and direct identifiers leave a record before it is written for the first time.

The fast part of what the pool does later: closed forms alone, without names, addresses and what one text says of
another.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from flywheel.pool.anonymization.context import find_in_context
from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.detectors import Span
from flywheel.pool.anonymization.forms import IDENTIFYING
from flywheel.pool.anonymization.places import places_in
from flywheel.pool.anonymization.spans import Named, by_text, read, whole_texts
from flywheel.pool.anonymization.text import Anonymizer


def remove_identifiers(record: dict[str, Any] | list[Any], *, detection: Detection = DEFAULT) -> Counter[str]:
    """Replace secrets, e-mail addresses, phone, card, account and state numbers in a record, in place.

    Args:
        record: what JSON has: dictionaries with text keys, lists, texts, numbers.
        detection: types of the team's own go too; a language model is not asked here.

    Returns:
        How many values were replaced, by type.
    """
    anonymizer = Anonymizer(find=find_at_edge, detection=detection)
    anonymizer.replace(places_in(record, detection=detection))
    return anonymizer.replaced


def find_at_edge(
    texts: Sequence[str], *, named: Sequence[Named] = (), detection: Detection = DEFAULT
) -> list[list[Span]]:
    """Closed forms in each text, and what keys name of own types and of what identifies somebody or opens something."""
    own = [one for one in named if one.type in detection.names | IDENTIFYING]
    views, joined = read(texts)
    spans = [*detection.detect_at_edge(joined), *whole_texts(texts, own, views, detection)]
    spans += (span for span in find_in_context(joined) if span.type in IDENTIFYING)
    return by_text(spans, joined, views, texts)
