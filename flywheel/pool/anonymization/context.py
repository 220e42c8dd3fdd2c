"""What the text around a value gives away: one automaton looks for what may, and what it finds is read closely.

A text without a trigger costs one look.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from flywheel.pool.anonymization import tables
from flywheel.pool.anonymization.checks import Place
from flywheel.pool.anonymization.detectors import Span, options

Finder = Callable[[str, Sequence[Place]], Iterator[tuple[Place, str]]]
"""Given a text and where its triggers are: places of values and their types."""

FINDERS: tuple[tuple[str, Finder, str], ...] = ((tables.TRIGGER, tables.find_in_tables, "column of a table"),)
"""Triggers (in what google-re2 and ``re`` agree on, case does not matter), what reads on from there, and the reason."""


def find_in_context(text: str) -> Iterator[Span]:
    """Values in tables, commands, assignments, headers and links."""
    automaton, kinds = compiled()
    hits = list(automaton.finditer(text.encode("ascii", "replace")))  # a byte for each character
    for kind, finder, reason in kinds if hits else ():
        triggers = [hit.span() for hit in hits if kind.fullmatch(hit.group())]
        yield from (Span(*place, type_, reason) for place, type_ in finder(text, triggers))


@cache
def compiled() -> tuple[Any, tuple[tuple[re.Pattern[bytes], Finder, str], ...]]:
    """All triggers as one automaton, and each by itself."""
    import re2

    chosen = options()
    chosen.case_sensitive = False
    everything = re2.compile("|".join(f"(?:{trigger})" for trigger, *_ in FINDERS), chosen)
    return everything, tuple(
        (re.compile(trigger.encode(), re.IGNORECASE), finder, reason) for trigger, finder, reason in FINDERS
    )
