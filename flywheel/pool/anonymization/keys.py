"""What a record itself calls a name, an address, an identifier: keys of JSON, YAML, queries, arguments of tools."""

import re
from collections.abc import Callable
from functools import lru_cache

from flywheel.pool.anonymization.checks import CODE, PLACEHOLDER
from flywheel.pool.anonymization.words import KEYS_ABROAD, unaccented

NAMES: tuple[tuple[str, str], ...] = (
    (
        "PERSON",
        r"(?:(?:first|last|middle|given|family|full|sur|maiden|nick|display|legal)[ _-]?names?|fname|lname"
        r"|(?:customer|passenger|patient|client|contact|employee|recipient|sender|card ?holder|account[ _-]?holder"
        r"|account[ _-]?owner|owner|author|reviewer|assignee|manager|guest|driver|billing|shipping"
        r"|emergency[ _-]?contact|beneficiary|spouse|applicant|student|teacher|doctor|tenant|landlord|caller|attendee"
        r"|member|person)[ _-]?names?)",
    ),
    ("EMAIL_ADDRESS", r"(?:e[ _-]?mails?|(?:contact|customer|user|billing)[ _-]?e[ _-]?mail|e[ _-]?mail[ _-]?address)"),
    (
        "PHONE_NUMBER",
        r"(?:(?:home|work|mobile|cell|contact|customer|daytime|office)?[ _-]?(?:tele)?phone(?:[ _-]?(?:number|no))?"
        r"|mobile(?:[ _-]?(?:number|no))?|cell(?:[ _-]?number)?|fax(?:[ _-]?number)?|whatsapp|msisdn"
        r"|tel(?:[ _-]?n[ro])?)",
    ),
    (
        "DATE_OF_BIRTH",
        r"(?:(?:\w{1,20}[ _-])?dob(?:[ _-]\w{1,20})?|date[ _-]?of[ _-]?birth|birth[ _-]?(?:date|day)"
        r"|born(?:[ _-]?on)?)",
    ),
    (
        "STREET_ADDRESS",
        r"(?:(?:home|street|mailing|billing|shipping|delivery|postal|residential|work)?[ _-]?address(?:[ _-]?(?:line)?"
        r"[ _-]?[123])?|street(?:[ _-]?(?:name|number|line[ _-]?[12]|1|2))?|address[ _-]?line|line[ _-]?[12]"
        r"|house[ _-]?number|apartment(?:[ _-]?number)?)",
    ),
    ("ZIP_CODE", r"(?:zip(?:[ _-]?code)?|post(?:al)?[ _-]?code|plz|pin[ _-]?code)"),
    (
        "USER_ID",
        r"(?:(?:user|customer|member|employee|patient|client|passenger|student|subscriber|person|account|profile|login)"
        r"[ _-]?(?:id|number|no|uuid)|user[ _-]?name|login|screen[ _-]?name|handle)",
    ),
    (
        "PAYMENT_ID",
        r"(?:(?:payment|transaction|card|wallet|paypal|stripe)[ _-]?(?:method[ _-]?)?id|payment[ _-]?(?:method|token)"
        r"|payment[ _-]?source)",
    ),
    ("CREDIT_CARD", r"(?:(?:credit|debit|card)[ _-]?(?:card[ _-]?)?(?:number|no|num)|pan)"),
    ("BANK_ACCOUNT", r"(?:(?:bank[ _-]?)?account[ _-]?(?:number|no)|iban|routing[ _-]?number|sort[ _-]?code)"),
    (
        "NATIONAL_ID",
        r"(?:tax[ _-]?id|national[ _-]?id(?:[ _-]?number)?|nin)",
    ),
    ("US_SSN", r"(?:ssn|social[ _-]?security(?:[ _-]?(?:number|no))?)"),
    ("US_PASSPORT", r"passport(?:[ _-]?(?:number|no|id))?"),
    ("US_DRIVER_LICENSE", r"driv(?:er|ing)'?s?[ _-]?licen[cs]e(?:[ _-]?(?:number|no|id))?"),
    (
        "SECRET",
        r"(?:[\w-]*(?:password|passwd|passphrase|secret|api[ _-]?key|access[ _-]?key|private[ _-]?key|auth[ _-]?token"
        r"|access[ _-]?token|refresh[ _-]?token|bearer[ _-]?token|session[ _-]?token|client[ _-]?secret|credentials?"
        r"|connection[ _-]?string)|pwd|cvv|cvc|security[ _-]?code)",
    ),
)
"""Type of value and what names it in English."""
KEYS = tuple(
    (kind, f"(?:{names}|{unaccented(KEYS_ABROAD[kind]).replace(' ', '[ _-]?')})" if kind in KEYS_ABROAD else names)
    for kind, names in NAMES
)
"""The same in other languages too, lower case; camelCase is told from its capitals."""

NUMERIC = frozenset({"PHONE_NUMBER", "ZIP_CODE", "USER_ID", "CREDIT_CARD", "BANK_ACCOUNT", "NATIONAL_ID", "US_SSN"})
"""What may be a bare number in JSON."""
NO_VALUE = frozenset(
    {
        "string",
        "str",
        "text",
        "integer",
        "int",
        "number",
        "boolean",
        "bool",
        "object",
        "array",
        "null",
        "none",
        "nil",
        "true",
        "false",
        "undefined",
        "unknown",
        "required",
        "optional",
        "n/a",
        "na",
        "tbd",
        "redacted",
        "hidden",
        "yes",
        "no",
    }
)
LETTER, DIGIT = re.compile(r"[^\W\d_]"), re.compile(r"\d")
SENTENCE = re.compile(r"\b(?:required|must|should|the|your|this|invalid|of|for)\b", re.IGNORECASE)
NO_STREET = re.compile(r"\w+://|0x|[0-9a-fA-F.:]+$|\S+@\S+$|[\w.-]+:\d+$")
COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in KEYS)
CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@lru_cache(maxsize=8_192)
def type_of_key(key: str) -> str | None:
    """What the value of a key is, by the key; None where it does not say: ``firstName`` → ``PERSON``."""
    if len(key) > 40:
        return None
    return kind_of(CAPITAL.sub("_", key).lower())


def kind_of(name: str) -> str | None:
    """The same for a name in lower case."""
    for kind, pattern in COMPILED:
        if pattern.fullmatch(name):
            return kind
    return None


def is_plausible(kind: str, value: str) -> bool:
    """Whether a value that a key names can be what the key says, not the type in a schema or a word about it."""
    stripped = value.strip()
    if not stripped or stripped.lower() in NO_VALUE or len(stripped) > 200 or PLACEHOLDER.match(stripped):
        return False
    return PLAUSIBLE.get(kind, is_secret)(stripped, len(DIGIT.findall(stripped)))


def is_secret(value: str, _digits: int) -> bool:
    """Whether a value is more than a mark, and not code that reads it from elsewhere."""
    return len(value) >= 3 and " " not in value and CODE.fullmatch(value) is None


def is_address(value: str, digits: int) -> bool:
    """Whether a value is words or a number with letters, not a URL, a network address or a memory address."""
    is_place = (" " in value or digits > 0) and LETTER.search(value) is not None
    return is_place and not NO_STREET.match(value) and not SENTENCE.search(value)


PLAUSIBLE: dict[str, Callable[[str, int], bool]] = {
    "PERSON": lambda value, _: LETTER.search(value) is not None and len(value.split()) <= 6 and len(value) <= 80,
    "EMAIL_ADDRESS": lambda value, _: "@" in value,
    **dict.fromkeys(
        ("PHONE_NUMBER", "NATIONAL_ID", "US_SSN", "US_PASSPORT", "US_DRIVER_LICENSE", "BANK_ACCOUNT"),
        lambda _, digits: digits >= 5,
    ),
    "CREDIT_CARD": lambda _, digits: digits >= 12,
    **dict.fromkeys(("DATE_OF_BIRTH", "ZIP_CODE"), lambda value, digits: digits >= 2 and len(value) <= 24),
    "STREET_ADDRESS": is_address,
    **dict.fromkeys(("USER_ID", "PAYMENT_ID"), lambda value, digits: digits > 0 and " " not in value),
}
"""For a value without spaces around it and the number of its digits; a secret where the type has no row."""
