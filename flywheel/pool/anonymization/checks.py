"""What a pattern alone cannot tell: check digits, ranges, surroundings.

A check is given a text and where a pattern matched, and says which part of the match is the value, or None.
"""

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Callable
from importlib import import_module

Place = tuple[int, int]
"""Start and end of a value in its text, in characters; the end is not included."""
Check = Callable[[str, int, int], Place | None]

NEAR = 48  # characters before a value in which a word about it counts
DIGITS = re.compile(r"\d+")
ENDS_OF_VALUE = frozenset(("", *"\r\n,;<&|\"')}]"))
ASSIGNMENT = re.compile(r"(?:->|:=|=>|[:=>])\**\s?")
SEPARATOR = re.compile("[:=]")
CARD_LENGTHS = range(12, 20)
JCB = "1800"  # the only cards that begin with 1
SECRET_VALUE = re.compile(r"(?:[:=]|\bis\b|\bwas\b)\s*(?:[\"'`*]+\s*)?([^\s\"'`,;<>*]+)", re.IGNORECASE)
CODE = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[\w.]*[(\[{].*|[\w.]*\)|(?:os|process|self|this|config|settings|env|args|request)\.[\w.]+|\$?\{.*|\$\w+|%\w+%?"
    r"|(?:str|string|int|none|null|nil|true|false|undefined|optional|required|bytes|any|missing|invalid|empty)\b.*",
    re.IGNORECASE,
)
PASSWORD_KEY = re.compile(r"passw|pwd|passphrase|pin\b", re.IGNORECASE)
PLACEHOLDER = re.compile(r"\[(?:[A-Z][A-Z_]*_\d+|TENANT|PATH|FILE)\]?|(?:\*+|x{3,}|\.{3,})(?!\w)", re.IGNORECASE)
NO_TOKEN = re.compile(
    r"tokeni[sz]|tokens?_?(?:id|ids|type|count|len|length|class|limit|usage|budget|used)\b|_tokens$", re.IGNORECASE
)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
LONG_KEY = re.compile(r"(?:[0-9a-fA-F]{16,}|[A-Za-z0-9+/_-]{24,}={0,2})")
NO_TIME = re.compile(r"[a-fA-F]|(?:[^:]*:){7}")
SLICED = re.compile(r"[\w)\]]\[\Z")
HOUSE = re.compile(r"[^\d\n]+\d{1,4}(?: ?[a-z]\b)?")
STREET = re.compile(r"(?:[^\W\d_]|-)+")
NO_STREETS = frozenset({
    "Arbeitsplatz", "Listenplatz", "Parkplatz", "Rangplatz", "Sitzplatz", "Speicherplatz", "Startplatz", "Stellplatz",
    "Steckplatz", "Tabellenplatz", "Ausweg", "Heimweg", "Hinweg", "Rechtsweg", "Rückweg", "Umweg", "Brigade",
})  # fmt: skip
ROUTE = re.compile(r"/(?:api|v\d+)(?:/|\b)")
LONGEST_ROUTE = 500  # characters; of a longer one each part that may begin a path would be asked for it to its end
SYSTEM = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/usr/bin/env", "/bin/sh", "/bin/bash"})
GENERALIZED = re.compile(r"(?:~|[A-Za-z]:)?[/\\]+\[PATH(?:_\d+)?\]")  # a path that was replaced
VERSION = re.compile(r"(?:\bv(?:er(?:sion)?)?\.?[\"']?[ \t:=]*[\"']?|[=><~!]=\s?|@)\Z", re.IGNORECASE)
BITS = 2.6  # a character, at least: words have less where they are as short as secrets
SHORTEST_SECRET = 6


def stands_alone(text: str, start: int, end: int, *, behind: str = "") -> bool:
    """Whether no letter, digit or joining punctuation, but those it may stand ``behind``, continues the match."""
    before = text[start - 1 : start]
    after = text[end : end + 1]
    follows = text[end + 1 : end + 2]
    continued = after.isalnum() or after == "_" or (after in {".", "-", ":"} and follows.isalnum())
    joins = before.isalnum() or (before in {"_", ".", "-", ":", "/", "#"} and before not in behind)
    return not (joins or continued)


def nearby_from(text: str, start: int, most: int) -> int:
    """Where what stands before a place begins, at most so many characters and within the same one of joined texts."""
    first = max(0, start - most)
    return max(first, text.rfind("\0", first, start) + 1)


def alone(text: str, start: int, end: int) -> Place | None:
    """The match, where nothing continues it."""
    return (start, end) if stands_alone(text, start, end) else None


def last_of(pattern: str, *, digits: int = 0) -> Check:
    """The last part of the match that is of this form: behind a word that says what it is."""
    form = re.compile(pattern)

    def check(text: str, start: int, end: int) -> Place | None:
        *_, last = form.finditer(text, start, end)
        has_digits = not digits or sum(map(str.isdigit, last[0])) >= digits
        return last.span() if has_digits and stands_alone(text, last.start(), end, behind=":#") else None

    return check


def quoted_value(text: str, start: int, end: int) -> Place | None:
    """The value behind a key, without its quotes; a number as it stands. No placeholder of an earlier run."""
    quote = text[end - 1]
    if quote in "\"'":
        begin = text.index(quote, SEPARATOR.search(text, start).end()) + 1  # type: ignore[union-attr]
        end -= 1
    else:
        *_, number = DIGITS.finditer(text, start, end)
        begin = number.start()
    return None if begin >= end or not text[begin:end].strip() or PLACEHOLDER.match(text, begin, end) else (begin, end)


def assigned_value(text: str, start: int, end: int) -> Place | None:
    """The value behind a key without quotes; where it has none itself, no name in code."""
    begin = ASSIGNMENT.search(text, start + (not text[start].isalnum()), end).end()  # type: ignore[union-attr]
    if text[begin] in "\"'":
        return None if PLACEHOLDER.match(text, begin + 1) else (begin + 1, end - 1)
    if text[end : end + 1] not in ENDS_OF_VALUE and not text[end - 1].isdigit():  # what follows may be another key
        end = begin + len(text[begin:end].split(" ", 1)[0])
    value = text[begin:end].rstrip(".:!?")
    if PLACEHOLDER.match(text, begin) or CODE.fullmatch(value) or (is_identifier(value) and not value[:1].isupper()):
        return None
    return begin, begin + len(value)


def card(text: str, start: int, end: int) -> Place | None:
    """The card number in a run of digits, by its check digit (ISO/IEC 7812-1): expiry or code may follow it."""
    if not stands_alone(text, start, end):
        return None
    numbers = [match.span() for match in DIGITS.finditer(text, start, end)]
    for first in range(len(numbers)):
        for last in range(len(numbers), first, -1):
            begin, close = numbers[first][0], numbers[last - 1][1]
            digits = [int(character) for character in text[begin:close] if character.isdigit()]
            is_issued = digits[0] in {2, 3, 4, 5, 6} or text.startswith(JCB, begin)
            if len(digits) in CARD_LENGTHS and is_issued and passes_luhn(digits):
                return begin, close
        if first >= 2:
            return None
    return None


def card_behind(text: str, start: int, end: int) -> Place | None:
    """The card number behind a word: from the first digit on, also one of twelve digits."""
    while not text[start].isdigit():
        start += 1
    return card(text, start, end)


def passes_luhn(digits: list[int]) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812-1, annex B)."""
    doubled = (digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2])
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def iban(text: str, start: int, end: int) -> Place | None:
    """The account number, by its country's length and its check digits (ISO 13616); words may follow it."""
    from stdnum import iban as standard

    if text[start - 1 : start].isalnum():
        return None
    while end - start >= 15:
        if standard.is_valid(text[start:end]):
            return start, end
        space = text.rfind(" ", start, end)
        if space < 0:
            return None
        end = space
    return None


def ip_address(text: str, start: int, end: int) -> Place | None:
    """An IPv4 or IPv6 address, with a port or a prefix behind it; not a longer version number nor a time of day."""
    value = text[start:end]
    before, after = text[start - 1 : start], text[end : end + 2]
    if before.isalnum() or before in {"_", ".", ":", "-"} or after[:1].isalnum() or after[:1] == "_":
        return None
    if (after[:1] == "." and after[1:].isalnum()) or VERSION.search(text, max(0, start - 12), start):
        return None
    if ":" in value and (
        after[:1] in {":", "("} or not is_written_out(value) or SLICED.search(text, max(0, start - 2), start)
    ):
        return None
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return None
    return start, end


def is_written_out(value: str) -> bool:
    """Whether colons make an IPv6 address of a value, not a time, a slice or a scope (``a::b``)."""
    if "::" not in value:
        return NO_TIME.search(value) is not None
    groups = [group for group in value.split(":") if group]
    return value == "::1" or (len(groups) >= 2 and any(len(group) >= 3 for group in groups))


def behind_one(begins: str, check: Check) -> Check:
    """The check of what stands behind one character, which the pattern takes too, or at the beginning of everything.

    What must not stand before a path is so left to the automaton: of a long one that is none, each slash would be
    asked for the path to its end. ``begins`` is how the value begins.
    """
    opening = re.compile(begins)

    def checked(text: str, start: int, end: int) -> Place | None:
        return check(text, start if start == 0 and opening.match(text) else start + 1, end)

    return checked


def home(text: str, start: int, end: int) -> Place | None:
    """A path below somebody's home."""
    if GENERALIZED.search(text, start, end):
        return None
    while text[end - 1] in ".,":
        end -= 1
    return start, end


def ungeneralized(text: str, start: int, end: int) -> Place | None:
    """A path of Windows that was not replaced yet."""
    return None if GENERALIZED.match(text, start) else (start, end)


def word_of(pattern: str) -> Check:
    """The last part of the match that is of this form, where it is no word of code."""
    form = re.compile(pattern)

    def check(text: str, start: int, end: int) -> Place | None:
        *_, last = form.finditer(text, start, end)
        return None if CODE.fullmatch(last[0]) or text[last.end() : last.end() + 1] in set("([{") else last.span()

    return check


def with_digit(text: str, start: int, end: int) -> Place | None:
    """The match, where it has a digit: words joined by hyphens have none."""
    return (start, end) if any(map(str.isdigit, text[start:end])) else None


def postcode(text: str, start: int, end: int) -> Place | None:
    """A British or Canadian postcode, not a size of memory."""
    return alone(text, start, end) if text[end - 2 : end] not in {"GB", "MB", "TB", "KB"} else None


def postcode_of_town(text: str, start: int, end: int) -> Place | None:
    """The number before a town, where a country is before it or the town is a known one."""
    from flywheel.pool.anonymization.names import PLACE, words_known

    number, _, town = text[start:end].rpartition(" ")
    has_country = number[0].isalpha()
    is_one = has_country or (words_known().get(town, 0) & PLACE and number[-2:] != "00")
    if not is_one or not stands_alone(text, start, start + len(number)):
        return None
    return start + (number.find("-") + 1 if has_country else 0), start + len(number)


def before_postcode(text: str, start: int, end: int) -> Place | None:
    """A street by whatever name with its number, by the postal code and the town that follow it."""
    match = HOUSE.match(text, start, end)
    return match.span() if match and not is_wordy(text, start - 1, start) else None


def street(text: str, start: int, end: int) -> Place | None:
    """A street in one word with its number, not a place in a list, a way or a brigade."""
    word = STREET.match(text, start, end)
    before = text[start - 1 : start]
    is_within = before.isascii() and (before.isalnum() or before == "_")
    return None if is_within or (word and word[0] in NO_STREETS) else (start, end)


def path(text: str, start: int, end: int) -> Place | None:
    """A path that nobody publishes."""
    while text[end - 1] in ".,":
        end -= 1
    is_public = text[start:end] in SYSTEM or (end - start <= LONGEST_ROUTE and ROUTE.match(text, start) is not None)
    return None if is_public or GENERALIZED.match(text, start) else (start, end)


def phone(text: str, start: int, end: int) -> Place | None:
    """A number of 7 to 15 digits (ITU-T E.164) that stands alone; behind a word, what begins with a digit.

    Where all of it is none, what stands before a slash may be one: another number or a date may be behind.
    """
    place = whole_phone(text, start, end)
    if place is not None or (slash := text.find("/", start, end)) < 0:
        return place
    while slash > start and not text[slash - 1].isdigit():
        slash -= 1
    return whole_phone(text, start, slash)


def whole_phone(text: str, start: int, end: int) -> Place | None:
    """The same of all that is here."""
    while start < end and not (text[start].isdigit() or text[start] in "+("):
        start += 1
    digits = sum(character.isdigit() for character in text[start:end])
    if (
        text[start] == "+"
        and end - start == digits + 1
        and digits < 11
        and ADDED.search(text, max(0, start - 24), start)
    ):
        return None
    if not 7 <= digits <= 15 or DATE_LIKE.match(text, start, end):
        return None
    before = text[start - 1 : start]
    alone_before = not (before.isalnum() or before in {"_", ".", "/", "#"})
    if text[start] == "+":
        alone_before = not (before.isalnum() or before == "_")
    elif before in {"-", ":"}:
        alone_before = not text[start - 2 : start - 1].isalnum() or text[start - 2 : start - 1] == "1" or before == ":"
    return (start, end) if alone_before and stands_alone(f" {text[start : end + 2]}", 1, end - start + 1) else None


ADDED = re.compile(r"(?:^|\n|@@ -[\d,]+ )\Z")  # a line that a diff adds, and where it says so
DATE_LIKE = re.compile(r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)|\d{1,2}([-/.])\d{1,2}\1(?:1[89]|20)\d{2}(?![-/.]?\d))")


def national(*modules: str, words: str = "") -> Check:
    """A number of a state, by the check digits of one of the standards (``stdnum``), and one of the words if given."""
    nearby = re.compile(words, re.IGNORECASE) if words else None

    def check(text: str, start: int, end: int) -> Place | None:
        if not stands_alone(text, start, end):
            return None
        if nearby is not None and not nearby.search(text, nearby_from(text, start, NEAR), start):
            return None
        is_one = any(import_module(f"stdnum.{module}").is_valid(text[start:end]) for module in modules)
        return (start, end) if is_one else None

    return check


def social_security(text: str, start: int, end: int) -> Place | None:
    """A US social security number in its dashed form; areas that were never given out are none."""
    return (start, end) if stands_alone(text, start, end) and text[start : start + 3] not in {"000", "666"} else None


def secret_value(text: str, start: int, end: int) -> Place | None:
    """The value that a name such as ``api_key`` is given; not code that reads it from elsewhere."""
    match = SECRET_VALUE.search(text, start, end)
    if match is None:
        return None
    begin, close = match.span(1)
    quoted = text[begin - 1] in "\"'"
    value = text[begin:close].rstrip(".)]}!?:")
    if quoted:  # all of it, whatever is in it
        close = text.find(text[begin - 1], begin, end)
        value = text[begin:close] if close > 0 else value
    name, assigned = text[start : match.start()], "=" in text[match.start() : begin]
    if len(value) < SHORTEST_SECRET or PLACEHOLDER.match(value) or CODE.fullmatch(value) or NO_TOKEN.search(name):
        return None
    if value.startswith(("http://", "https://")):
        return None
    if " " in value or (assigned and not quoted and not name.isupper() and is_identifier(value)):
        return None  # a sentence, or code: ``self.password = password``
    literal = quoted or assigned
    is_password = PASSWORD_KEY.search(name) is not None and (literal or not value.isalpha())
    is_key = is_random(value) or (literal and LONG_KEY.fullmatch(value) and not is_identifier(value))
    return (begin, begin + len(value)) if is_password or is_key else None


def is_identifier(value: str) -> bool:
    """Whether a value can be a name in code: letters and underscores, without a digit."""
    return IDENTIFIER.fullmatch(value) is not None and not any(map(str.isdigit, value))


def is_random(value: str) -> bool:
    """Whether a value is more like a key than like a word or a number: several kinds of characters, few twice."""
    kinds = sum(
        (
            any(character.isdigit() for character in value),
            any(character.islower() for character in value),
            any(character.isupper() for character in value),
        )
    )
    return kinds >= 2 and any(map(str.isdigit, value)) and len(value) >= 8 and entropy_bits(value) >= BITS


def entropy_bits(value: str) -> float:
    """Shannon entropy of a value's characters, bits a character."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)


def identifier(text: str, start: int, end: int) -> Place | None:
    """The last word of the match, where it has a digit: ``user ID: ann_lee_42``, not ``user id is required``."""
    begin = end
    while begin > start and (text[begin - 1].isalnum() or text[begin - 1] in "_.@-"):
        begin -= 1
    while begin < end and text[begin] in ".-@":
        begin += 1
    while end > begin and text[end - 1] in ".-@":
        end -= 1
    value = text[begin:end]
    return (begin, end) if len(value) >= 4 and any(map(str.isdigit, value)) else None


def is_wordy(text: str, left: int, right: int) -> bool:
    """Whether a word goes on from one place to the next."""
    pair = text[max(0, left) : right + 1]
    return left >= 0 and len(pair) == 2 and (pair.isalnum() or pair.replace("_", "a").isalnum())
