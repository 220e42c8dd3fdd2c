"""Persons by their names: known given names and surnames in a row, and what a title or a greeting introduces.

The names are Faker's of all its locales (MIT). A word that is also a common one, or a place, needs a surname beside it.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from pkgutil import iter_modules

from msgspec import Struct

from flywheel.pool.anonymization.detectors import Span

MOST_WORDS = 5  # of a name
UPPER = "A-ZÀ-ÖØ-ÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮİĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽА-ЯΑ-Ω"
LETTER = r"[^\W\d_]"
PARTICLES = ("de", "da", "del", "della", "di", "dos", "du", "van", "von", "der", "den", "ter", "bin", "ibn", "al", "el")
BETWEEN = rf" (?:(?:{'|'.join(PARTICLES)}) ){{0,2}}"
GAP = re.compile(BETWEEN)
CONTRACTION = re.compile(r"(?:n't|^I'm|'(?:d|ll|ve|re))$")


class Spelling(Struct, frozen=True):
    """How names are looked for in ASCII, which is faster, or in all of Unicode.

    ``capital`` is for a first look: a part of a word is enough. ``words`` are capitalized words with nothing but a space,
    a dot or a particle between; none is given back for what follows, so that long ones take no memory.
    """

    capital: re.Pattern[str]
    word: re.Pattern[str]
    words: re.Pattern[str]


def spelling(upper: str, letter: str) -> Spelling:
    """The patterns. What may not stand before a word is asked behind its first letter, which ``re`` finds faster."""
    word = rf"[{upper}](?<![\w@/\\$#.-].){letter}*(?:['-](?!s\b){letter}+)*(?![\w(=/\\@$])"
    words = rf"{word}(?:\.?{BETWEEN}{word})*+"
    return Spelling(re.compile(rf"[{upper}]{letter}+"), re.compile(word), re.compile(words))


UNICODE, ASCII = spelling(UPPER, LETTER), spelling("A-Z", "[A-Za-z]")
WORD = UNICODE.word
COMMON, PLACE, GIVEN, SURNAME, POPULAR = 1, 2, 4, 8, 16


class Word(Struct, frozen=True):
    """A capitalized word, where it is, and what is known of it: the constants above, added."""

    start: int
    end: int
    known: int

    def gap_from(self, text: str) -> int:
        """Where what follows it begins: behind the dot of an initial."""
        return self.end + (self.end - self.start == 1 and text[self.end : self.end + 1] == ".")

    def may_be(self, kinds: int) -> bool:
        """Whether it is of one of the kinds."""
        return self.known & kinds != 0

    @property
    def is_unknown(self) -> bool:
        """Whether it is nothing but a capitalized word that no list has."""
        return not self.known


@cache
def words_known() -> dict[str, int]:
    """What is known of a capitalized word."""
    known: dict[str, int] = {}
    for kind, word in listed_names():
        known[word] = known.get(word, 0) | kind
    for name, kind in (("common_words", COMMON), ("places", PLACE)):
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


def listed_names() -> Iterator[tuple[int, str]]:
    """Each given name and surname of each locale; given names of an English one, or of several, are popular."""
    from faker.providers import person

    locales: dict[str, set[str]] = {}
    for module in iter_modules(person.__path__):
        provider = import_module(f"faker.providers.person.{module.name}").Provider if module.ispkg else None
        for attribute in dir(provider) if provider else ():
            kind = GIVEN if attribute.startswith("first_name") else SURNAME if attribute.startswith("last_name") else 0
            listed = getattr(provider, attribute)
            if not kind or not isinstance(listed, list | tuple | dict):
                continue
            for name in listed:
                if isinstance(name, str) and len(name) > 1 and name[0].isupper() and name.isalpha():
                    yield kind, name
                    if kind == GIVEN:
                        locales.setdefault(name, set()).add(module.name)
    for name, of in locales.items():
        if len(of) > 1 or any(locale.startswith("en") for locale in of):
            yield POPULAR, name


def find_names(text: str) -> list[Span]:
    """The persons that a text names by a known name."""
    names = names_known()
    spelled = ASCII if text.isascii() else UNICODE
    if names.isdisjoint(spelled.capital.findall(text)):
        return []
    found: list[Span] = []
    for match in spelled.words.finditer(text):
        words = match[0]
        if words in names or not (words.isalpha() or names.isdisjoint(spelled.capital.findall(words))):
            for row in rows_in(text, *match.span(), spelled.word):
                found += names_in(row)
    return found


def rows_in(text: str, start: int, end: int, pattern: re.Pattern[str]) -> Iterator[list[Word]]:
    """The rows in a run of words: nothing but a space, an initial's dot or a particle between, and no common words."""
    known = words_known()
    row: list[Word] = []
    for match in pattern.finditer(text, start, end):
        word = match[0]
        kind = known[word] if word in known else kind_of(word, known)
        first, last = match.span()
        if row and (kind == COMMON or not is_gap(text, row[-1].gap_from(text), first)):
            yield row
            row = []
        if kind != COMMON:
            row.append(Word(first, last, kind))
    if row:
        yield row


def is_gap(text: str, start: int, end: int) -> bool:
    """Whether a row of words goes on over it."""
    return text[start:end] == " " or GAP.fullmatch(text, start, end) is not None


def kind_of(word: str, known: dict[str, int]) -> int:
    """What is known of a word; of one in capitals, what is known of the name, where it may be one."""
    if word in known:
        return known[word]
    if word.isupper():
        return COMMON if len(word) < 4 else known.get(word.capitalize(), COMMON) & ~POPULAR or COMMON
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
    word = row[first]
    following = row[first + 1] if first + 1 < len(row) else None
    is_plain = not word.may_be(COMMON | PLACE)
    if word.may_be(GIVEN) and is_plain:
        last = furthest(row, first)
        is_whole = first == 0 or not row[first - 1].may_be(PLACE)
        return last if last > first or (word.may_be(POPULAR) and is_whole) else None
    if following is None or not following.may_be(SURNAME) or following.may_be(COMMON | PLACE):
        return None
    return furthest(row, first) if word.may_be(GIVEN) or not word.may_be(COMMON | PLACE) else None


def furthest(row: Sequence[Word], first: int) -> int:
    """The last word that can belong to the name: a name, an initial, or what no list has."""
    last = first
    for number in range(first + 1, min(len(row), first + MOST_WORDS)):
        word = row[number]
        is_initial = word.end - word.start == 1
        if not (is_initial or word.may_be(GIVEN | SURNAME) or word.is_unknown):
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
