"""What a closed form is: a pattern, what checks its matches, and how keys and words before a value make one.

Patterns are google-re2's: linear time, no look-around.
"""

import re

from msgspec import Struct

from flywheel.pool.anonymization.checks import Check, assigned_value, last_of, national, quoted_value
from flywheel.pool.anonymization.keys import NUMERIC, is_plausible

WORD = r"[^\s,;&<>\"'`\\(){}|\[\]]{2,80}"
QUOTED = r"\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'"
ASSIGNABLE = {
    "PERSON": rf"{QUOTED}|{WORD}(?-i:[ +]\p{{Lu}}[\pL'’.-]*){{0,3}}",
    "STREET_ADDRESS": r"(?-i:\p{Lu})[\pL.'’-]*(?:[ +][\pL.'’-]+){0,4},?[ +]\d{1,4}[a-z]?\b",
}
"""What a key without quotes assigns: something in quotes or a word, unless it is of one of these types."""
LONGER_NUMBER = re.compile(r"([-. /])\d{1,4}\1\d|[ /-]\d{6}")
"""Behind what would be a house's number: it is the beginning of a phone, a card or an address of a network."""
ASSIGNED = (
    r"(?i:\b[\w-]{0,100}(?:api[ _-]?key|secret|passw(?:or)?d|pwd|passphrase|token|credential"
    r"|(?:private|access|account|encryption|signing|shared)[ _-]?key)s?[\w-]{0,100})"
    r"[\"'*`]{0,3}\s{0,3}(?:[:=]|(?i:is|was)\b)"
    r"(?:\s?\"[^\"\n]{4,200}\"|\s?'[^'\n]{4,200}'|[ \"'*`]{0,4}[^\s\"'`,;<>*]{6,})"
)


VALUE_WORD = r"[^\s\"'`,;<>*:=(){}\[\]$%]{4,80}"
NUMBER_OF_STATE = r"[A-Z]{0,4}\d[\dA-Z]*(?:[ ./-]\d[\dA-Z]*|-[A-Z]{1,3}\d+|-?[A-Z]\b){0,5}"


class Form(Struct, frozen=True):
    """One type of value by its form. ``check`` says which part of a match is the value, if any; ``reason`` is told."""

    type: str
    pattern: str
    check: Check | None = None
    reason: str = "form"


class Family(Struct, frozen=True):
    """Forms that one automaton looks for.

    One for all would have a state for whatever several of them have begun: thousands, made anew with every text.
    ``needs`` are ASCII characters of which each match has one. Where the family ``is_loosened``, the automaton leaves
    upper bounds out at first and takes any byte outside ASCII for a letter: nothing but bounds may be written ``{m,n}``
    in the patterns, and no class that is negated may name what is outside ASCII.
    """

    forms: tuple[Form, ...]
    needs: bytes = b""
    is_loosened: bool = False


def keyed(kind: str, names: str) -> Form:
    """What a key of JSON or of a Python dictionary names."""
    number = r"|\d{3,19}\b" if kind in NUMERIC else ""

    def check(text: str, start: int, end: int) -> tuple[int, int] | None:
        place = quoted_value(text, start, end)
        return place if place and is_plausible(kind, text[slice(*place)]) else None

    return Form(kind, rf"(?i)[\"']{names}[\"']\]?\s*(?::|=>?)\s*(?:{QUOTED}{number})", check, "key")


def assigned(kind: str, names: str) -> Form:
    """The same without quotes around the key: YAML, an environment, a keyword argument, a query."""

    def check(text: str, start: int, end: int) -> tuple[int, int] | None:
        place = assigned_value(text, start, end)
        if kind == "STREET_ADDRESS" and LONGER_NUMBER.match(text, end):
            return None
        return place if place and is_plausible(kind, text[slice(*place)]) else None

    value = ASSIGNABLE.get(kind, rf"{QUOTED}|{WORD}")
    assignment = r"(?:\s?(?:->|=>|:=|[:=>])|[*`\]]{1,3}\s?(?:=>|:=|[:=]))\**\s?"
    return Form(kind, rf"(?i)(?:^|[\s,;({{?&<|>\"'+*`\[]){names}{assignment}(?:{value})", check, "key")


def forms_of_key(kind: str, names: str) -> tuple[Form, ...]:
    """How a key can name a value of this type. Secrets have a form of their own where nothing quotes the key."""
    return (keyed(kind, names),) if kind == "SECRET" else (keyed(kind, names), assigned(kind, names))


def named(kind: str, words: str, value: str, check: Check | None = None, *, others: str = "") -> Form:
    """A value of this form behind a word that says what it is, with at most three small words between.

    ``others`` are such words in scripts of which no letter is ASCII.
    """
    small = r"(?:(?i:is|was|of|number|no|nr|n|at|to|on|the|my|ist|lautet|es|est|al|au)\b[^\w\n]{1,6}){0,3}"
    word = rf"(?i:\b(?:{words})\b)" + (f"|(?:{others})" if others else "")
    pattern = rf"(?:{word})[^\w\n]{{0,6}}{small}(?:{value})"
    return Form(kind, pattern, check or last_of(value), "word before it")


def with_check_digit(kind: str, pattern: str, module: str) -> Form:
    """A number of a state that its check digits tell from others."""
    return Form(kind, pattern, national(module), "check digit")


def with_word(kind: str, pattern: str, module: str, words: str) -> Form:
    """A number of a state whose check digits are few: one of the words must be near, before it."""
    return Form(kind, pattern, national(module, words=words), "check digit and word")
