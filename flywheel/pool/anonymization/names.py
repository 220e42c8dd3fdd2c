"""Persons by their names: known given names and surnames in a row, and what a title or a greeting introduces.

The names are Faker's of all its locales (MIT). A word that is also a common one, or a place, needs a surname beside it.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from operator import attrgetter
from pkgutil import iter_modules
from typing import Any

from msgspec import Struct

from flywheel.pool.anonymization.detectors import Span

MOST_WORDS = 5  # of a name
UPPER = "A-ZÀ-ÖØ-ÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮİĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽА-ЯΑ-Ω"
LETTER = r"[^\W\d_]"
PARTICLES = ("de", "da", "del", "della", "di", "dos", "du", "van", "von", "der", "den", "ter", "bin", "ibn", "al", "el")
GAP = rf"\.? (?:(?:{'|'.join(PARTICLES)}) ){{0,2}}"
CONTRACTION = re.compile(r"(?:n't|^I'm|'(?:d|ll|ve|re))$")


def word(upper: str, letter: str) -> str:
    """A capitalized word. What may not stand before it is asked behind its first letter, which ``re`` finds faster."""
    return rf"[{upper}](?<![\w@/\\$#.-].){letter}*(?:['-](?!s\b){letter}+)*(?![\w(=/\\@$])"


def run(word: str) -> re.Pattern[str]:
    """Capitalized words with a space between, perhaps a dot and particles. It gives none back, so needs no memory."""
    return re.compile(rf"{word}(?:{GAP}{word})*+")


WORD = re.compile(word(UPPER, LETTER))
RUN, RUN_ASCII = run(WORD.pattern), run(word("A-Z", "[A-Za-z]"))
MARKS = bytes(
    ord("A" if chr(code).isupper() else "x" if chr(code).isalnum() or chr(code) in "_@/\\$#.-" else " ")
    for code in range(128)
).ljust(256)
"""A byte for each of ASCII: ``A`` for a capital, ``x`` for what else none that begins a word stands behind."""
BEGINNING = re.compile(rb"A(?<![Ax]A)")
COMMON, PLACE, GIVEN, SURNAME, POPULAR = 1, 2, 4, 8, 16
ALONE = COMMON | PLACE | GIVEN | POPULAR
"""What is asked of a word by itself."""


class Word(Struct, frozen=True):
    """A capitalized word, where it is, and what is known of it: the constants above, added."""

    start: int
    end: int
    known: int


@cache
def words_known() -> dict[str, int]:
    """What is known of a capitalized word."""
    known: dict[str, int] = {}
    for kind, names in listed_names():
        for name in names:
            known[name] = known.get(name, 0) | kind
    for name, kind in (("common_words", COMMON), ("common_words_abroad", COMMON), ("places", PLACE)):
        text = files("flywheel.pool.anonymization").joinpath(f"data/{name}.txt").read_text(encoding="utf-8")
        for line in text.split():
            word = line.capitalize()
            known[word] = known.get(word, 0) | kind
    return {sys.intern(word): kind for word, kind in known.items()}


@cache
def names_known() -> frozenset[str]:
    """Capitalized words that are a name, whatever else they are."""
    names = [word for word, kind in words_known().items() if kind & (GIVEN | SURNAME)]
    return frozenset([*names, *(name.upper() for name in names if len(name) > 2)])


def listed_names() -> Iterator[tuple[int, set[str]]]:
    """The given names and surnames of all locales; given names of an English one, or of several, are popular."""
    from faker.providers import person

    given: Counter[str] = Counter()  # by the number of locales
    english: set[str] = set()
    surnames: set[str] = set()
    for module in filter(attrgetter("ispkg"), iter_modules(person.__path__)):
        provider = import_module(f"faker.providers.person.{module.name}").Provider
        here = names_of(provider, "first_name")
        given.update(here)
        english |= here if module.name.startswith("en") else set()
        surnames |= names_of(provider, "last_name")
    yield GIVEN, set(given)
    yield SURNAME, surnames
    yield POPULAR, english | {name for name, locales in given.items() if locales > 1}


def names_of(provider: Any, prefix: str) -> set[str]:
    """The capitalized words in the lists whose names begin so."""
    lists = (getattr(provider, name) for name in dir(provider) if name.startswith(prefix))
    listed = {name for one in lists if isinstance(one, list | tuple | dict) for name in one if isinstance(name, str)}
    return {name for name in listed if len(name) > 1 and name[0].isupper() and name.isalpha()}


def find_names(text: str) -> list[Span]:
    """The persons that a text names by a known name."""
    known, names = words_known(), names_known()
    found: list[Span] = []
    for match in runs_in(text):
        words = match[0]
        if not words.isalpha():
            if names.isdisjoint(words.split(" ")) and words.replace(" ", "").isalpha():
                continue
            for row in rows_in(words, match.start()):
                found += names_in(row)
        elif (known[words] if words in known else kind_of(words, known)) & ALONE == GIVEN | POPULAR:
            found.append(Span(*match.span(), "PERSON", "known given name"))
    return found


def runs_in(text: str) -> Iterator[re.Match[str]]:
    """The runs of capitalized words.

    Where one may begin in ASCII is asked for all characters at once: ``re`` takes each by itself to a class of them,
    which is most of the time that a text without names takes.
    """
    if not text.isascii():
        yield from RUN.finditer(text)
        return
    end = 0
    for beginning in BEGINNING.finditer(text.encode("ascii").translate(MARKS)):
        if beginning.start() >= end and (match := RUN_ASCII.match(text, beginning.start())):
            end = match.end()
            yield match


def rows_in(run: str, position: int) -> Iterator[list[Word]]:
    """The rows in a run of words that begins at a position: without common words, and a dot behind an initial only."""
    known = words_known()
    row: list[Word] = []
    names = 0  # what is known of the words in the row
    for part in run.split(" "):
        if part not in PARTICLES:
            dotted = part[-1] == "."
            word = part[:-1] if dotted else part
            kind = known[word] if word in known else kind_of(word, known)
            if kind != COMMON:
                row.append(Word(position, position + len(word), kind))
                names |= kind
            if kind == COMMON or (dotted and len(word) > 1):
                if names & (GIVEN | SURNAME):
                    yield row
                row, names = [], 0
        position += len(part) + 1
    if names & (GIVEN | SURNAME):
        yield row


def kind_of(word: str, known: dict[str, int]) -> int:
    """What is known of a word; of one in capitals, what is known of the name, where it may be one."""
    if word in known:
        return known[word]
    if word.isupper():
        return COMMON if len(word) < 4 else known.get(word.capitalize(), COMMON) & ~POPULAR or COMMON
    if word.isalpha():
        return 0
    if CONTRACTION.search(word):
        return COMMON
    parts = re.split("['-]", word)
    if len(parts) > 1:
        return known.get(parts[0], 0) | known.get(parts[-1], 0)
    return 0


def names_in(row: Sequence[Word]) -> Iterator[Span]:
    """The names in a row of words."""
    number = 0
    while number < len(row):
        last = end_of_name(row, number)
        if last is None:
            number += 1
            continue
        reason = "known given name" if last == number else "known name and surname"
        yield Span(row[number].start, row[last].end, "PERSON", reason)
        number = last + 1


def end_of_name(row: Sequence[Word], first: int) -> int | None:
    """The number of the last word of the name that begins here; None where none does."""
    kind = row[first].known
    if kind & GIVEN and not kind & (COMMON | PLACE):
        last = furthest(row, first)
        is_whole = first == 0 or not row[first - 1].known & PLACE
        return last if last > first or (kind & POPULAR and is_whole) else None
    following = row[first + 1].known if first + 1 < len(row) else 0
    if not following & SURNAME or following & (COMMON | PLACE):
        return None
    return furthest(row, first) if kind & GIVEN or not kind & (COMMON | PLACE) else None


def furthest(row: Sequence[Word], first: int) -> int:
    """The last word that can belong to the name: a name, an initial, or what no list has."""
    last = first
    for number in range(first + 1, min(len(row), first + MOST_WORDS)):
        word = row[number]
        is_initial = word.end - word.start == 1
        if not (is_initial or not word.known or word.known & (GIVEN | SURNAME)):
            break
        if not is_initial:
            last = number
    return last


def is_name(text: str) -> bool:
    """Whether words that something introduces as a name can be one: none is a common word, or one is a known name."""
    known = words_known()
    words = [word for word in re.split(r"[\s.-]+", text) if word and word not in PARTICLES]
    kinds = [kind_of(word[:1].upper() + word[1:], known) for word in words]
    if any(word[1:] != word[1:].lower() and not word.startswith(("Mc", "Mac", "O'")) for word in words):
        return False
    if text[:1].islower():
        return any(kind & (GIVEN | SURNAME) for kind in kinds) and not any(kind & COMMON for kind in kinds)
    is_plain = not any(kind & (COMMON | PLACE) for kind in kinds)
    return bool(kinds) and (is_plain or bool(kinds[0] & GIVEN and len(kinds) > 1))
