"""At the edge: secrets and direct identifiers leave a record before it is written for the first time.

The fast part of what the pool does later: closed forms alone, without names, addresses and what one text says of
another.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from flywheel.pool.anonymization.detectors import EDGE, Span
from flywheel.pool.anonymization.places import places_in
from flywheel.pool.anonymization.spans import Named, by_text, read
from flywheel.pool.anonymization.text import Anonymizer


def remove_identifiers(record: dict[str, Any] | list[Any]) -> Counter[str]:
    """Replace secrets, e-mail addresses, phone, card, account and state numbers in a record, in place.

    Args:
        record: what JSON has: dictionaries with text keys, lists, texts, numbers.

    Returns:
        How many values were replaced, by type.
    """
    anonymizer = Anonymizer(find=find_at_edge)
    anonymizer.replace(places_in(record))
    return anonymizer.replaced


def find_at_edge(texts: Sequence[str], *, named: Sequence[Named] = ()) -> list[list[Span]]:
    """Closed forms in each text; what keys name is left to the pool."""
    del named
    views, joined = read(texts)
    return by_text(list(EDGE.detect(joined)), joined, views, texts)
