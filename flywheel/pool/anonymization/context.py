"""What the text around a value gives away: one automaton looks for what may, and what it finds is read closely.

A text without a trigger costs one look.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from flywheel.pool.anonymization import assignments, contacts, openings, paths, tables
from flywheel.pool.anonymization.automata import Automaton, any_of
from flywheel.pool.anonymization.checks import Place
from flywheel.pool.anonymization.detectors import Span

Finder = Callable[[str, Sequence[Place]], Iterator[tuple[Place, str]]]
"""Given a text and where its triggers are: places of values and their types."""
FINDERS: tuple[tuple[str, Finder, str], ...] = (
    (openings.TRIGGER, openings.find_openings, "opens something"),
    (paths.SHARES, paths.find_shares, "share"),
    (contacts.TRIGGER, contacts.find_fields, "field"),
    (assignments.TRIGGER, assignments.find_assigned, "name before it"),
)
"""Triggers (in what google-re2 and ``re`` agree on; case does not matter), what reads on from there, and the reason."""


def find_in_context(text: str) -> Iterator[Span]:
    """Values in tables, commands, assignments, headers, links, contacts and forms."""
    yield from find_in_columns(text)
    yield from find_behind_triggers(text)


def find_in_columns(text: str) -> Iterator[Span]:
    """Values in tables. A header has a line below; texts are joined by two breaks."""
    if text.count("\n") <= 2 * text.count("\0"):
        return
    headers = list(automata()[0].places(letter_by_letter(text)))
    if headers:
        yield from (Span(*place, kind, "column of a table") for place, kind in tables.find_in_tables(text, headers))


def find_behind_triggers(text: str) -> Iterator[Span]:
    """Values in commands, assignments, headers, links, contacts and forms."""
    _, others, kinds = automata()
    data = letter_by_letter(text)
    hits = list(others.places(data))
    for pattern, finder, reason in kinds if hits else ():
        triggers = [hit for hit in hits if pattern.match(data, *hit)]
        yield from (Span(*place, kind, reason) for place, kind in finder(text, triggers))


def letter_by_letter(text: str) -> bytes:
    """The text with a byte for each character."""
    return text.encode("ascii", "replace")


@cache
def automata() -> tuple[Automaton, Automaton, tuple[tuple[re.Pattern[bytes], Finder, str], ...]]:
    """Headers of tables, all other triggers, and each of these by itself.

    Together they would take quadratic time: a cell may go on until its line ends, which would be read for each trigger.
    """
    each = tuple((re.compile(trigger.encode(), re.IGNORECASE), finder, reason) for trigger, finder, reason in FINDERS)
    others = any_of((trigger for trigger, *_ in FINDERS), ignore_case=True)
    return Automaton(tables.TRIGGER, ignore_case=True), others, each
