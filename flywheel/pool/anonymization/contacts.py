"""Fields of contacts and forms, by their names: vCard, iCalendar, LDIF, parts of multipart requests, inputs of HTML.

vCard is RFC 6350, iCalendar RFC 5545, LDIF RFC 2849, multipart forms are RFC 7578.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from flywheel.pool.anonymization.checks import PLACEHOLDER, Place
from flywheel.pool.anonymization.keys import is_plausible, type_of_key
from flywheel.pool.anonymization.people import (
    ACCOUNT_TRIGGER,
    CALLED_TRIGGER,
    ROLE_TRIGGER,
    WRITTEN_TRIGGER,
    called,
    in_accounts,
    in_role,
    written,
)

LONGEST = 20_000  # characters of an entry: what is behind them is not read
LONGEST_FIELD = 2_500  # of a single field
LONGEST_VALUE = 200  # characters, as is_plausible has it
LINE = re.compile(r"[^\r\n\0]+(?:\r?\n[ \t][^\r\n\0]*)*")  # with the lines that go on with it: they begin with a space
PROPERTY = re.compile(
    r"(?:[\w-]+\.)?([\w-]+)((?:;(?:[^\":\0]|\"[^\"\0]*\")*)?)::? ?(?:(?:tel|mailto):)?", re.IGNORECASE
)
COMMON_NAME = re.compile(r";\s*cn=\"?([^\";:]+)", re.IGNORECASE)
IN_NAME = re.compile(r"(?:cn|sn|gn)=([^,+\r\n]+)", re.IGNORECASE)
PERSONAL = re.compile(
    r"^(?:sn|surname|givenname|mail|telephonenumber|mobile|homephone|uid):|^objectclass: ?(?:\w*person|posixaccount)\b",
    re.IGNORECASE | re.MULTILINE,
)
OF_CARD = {
    "fn": "PERSON", "nickname": "PERSON", "bday": "DATE_OF_BIRTH", "tel": "PHONE_NUMBER", "label": "STREET_ADDRESS",
}  # fmt: skip
OF_DIRECTORY = {
    "cn": "PERSON", "sn": "PERSON", "gn": "PERSON", "gecos": "PERSON", "uid": "USER_ID", "userpassword": "SECRET",
    **dict.fromkeys(("telephonenumber", "homephone", "facsimiletelephonenumber", "pager"), "PHONE_NUMBER"),
    **dict.fromkeys(("homepostaladdress", "streetaddress"), "STREET_ADDRESS"),
}  # fmt: skip
"""What the names of fields say that keys do not."""
PARTS_OF_ADDRESS = {2: "STREET_ADDRESS", 5: "ZIP_CODE"}
"""Of those that ``;`` divides; town, region and country may stay."""
PART_OF_FORM = re.compile(
    r"form-data; ?name=\"([^\"\r\n]{1,60})\"(?:\r?\n[\w-]+:[^\r\n]{0,200})*(?:\r?\n){2}([^\r\n]{1,200})",
    re.IGNORECASE,
)
LONGEST_LABEL = 80
LABEL = re.compile(r">([\w .-]{2,40}):?\Z")
CELL = re.compile(r"</\w+>\s{0,40}<\w+(?: [^<>]{0,200})?>(?:\s{0,40}<\w+>)?([^<>\n]{1,200}?)\s*</")
NAME_OF_PAIR = re.compile(r"(?:name|key|label|field)[\"']?[:=] ?[\"']?([\w .-]{2,40})[\"']?,?\s{0,20}\Z", re.IGNORECASE)
VALUE_OF_PAIR = re.compile(
    r"[\"' ,]\w{0,9}value[\"']?[:=] ?(?:[\"']([^\"'\n]{1,200})[\"']|([^\s\"',{}\[\]]{1,200}))", re.IGNORECASE
)
NAMED, VALUE = re.compile(r"\bname=[\"']?([\w.-]+)"), re.compile(r"\bvalue=(?:\"([^\"]+)\"|'([^']+)')")


def find_fields(text: str, triggers: Sequence[Place]) -> Iterator[tuple[Place, str]]:
    """The values of fields that hold something personal or secret, and their types."""
    done = 0  # an entry is read once, whatever number of triggers is in it
    for start, _ in triggers:
        if start < done:
            continue
        reader = next(one for one in COMPILED if one.trigger.match(text, start))
        begin = start + (text[start] == "\n")
        behind = reader.ending.search(text, begin, begin + LONGEST) if reader.ending else None
        limit = behind.start() if behind else min(len(text), begin + (LONGEST if reader.ending else LONGEST_FIELD))
        done = limit if reader.ending else start + 1
        for kind, place in reader.read(text, begin, limit):
            value = text[slice(*place)]
            is_one = len(value) <= LONGEST_VALUE if kind == "USER_ID" else is_plausible(kind, value)
            if is_one and not PLACEHOLDER.search(value):
                yield place, kind


def in_card(text: str, begin: int, limit: int) -> Iterator[tuple[str, Place]]:
    """The fields of a contact or an event."""
    for name, attributes, (start, end) in properties(text, begin, limit):
        if name in {"attendee", "organizer"} and (called := COMMON_NAME.search(text, *attributes)):
            yield "PERSON", called.span(1)
        elif name == "n":
            yield from (("PERSON", place) for _, place in parts_of(text, start, end))
        elif name == "adr":
            parts = parts_of(text, start, end)
            yield from ((PARTS_OF_ADDRESS[number], place) for number, place in parts if number in PARTS_OF_ADDRESS)
        elif name in OF_CARD:
            yield OF_CARD[name], (start, end)


def in_directory(text: str, begin: int, limit: int) -> Iterator[tuple[str, Place]]:
    """The attributes of an entry of a directory; of groups and hosts none is a name."""
    is_person = PERSONAL.search(text, begin, limit) is not None
    for name, _, place in properties(text, begin, limit):
        if name == "dn":
            yield from (("PERSON", one.span(1)) for one in IN_NAME.finditer(text, *place) if is_person)
        elif (kind := OF_DIRECTORY.get(name) or type_of_key(name)) and (is_person or kind != "PERSON"):
            yield kind, place


def in_form(text: str, begin: int, limit: int) -> Iterator[tuple[str, Place]]:
    """The first line of a part of a multipart request."""
    part = PART_OF_FORM.match(text, begin, limit)
    if part and (kind := type_of_key(part[1])):
        yield kind, part.span(2)


def in_input(text: str, begin: int, limit: int) -> Iterator[tuple[str, Place]]:
    """The value of an input of a page."""
    name, value = NAMED.search(text, begin, limit), VALUE.search(text, begin, limit)
    if name and value and (kind := type_of_key(name[1])):
        yield kind, value.span(value.lastindex or 0)


def properties(text: str, begin: int, limit: int) -> Iterator[tuple[str, Place, Place]]:
    """Each line with what is folded below it: its name in lower case, where its attributes are, and its value."""
    for line in LINE.finditer(text, begin, limit):
        head = PROPERTY.match(text, *line.span())
        if head and head.end() < line.end():
            yield head[1].lower(), head.span(2), (head.end(), line.end())


def parts_of(text: str, begin: int, end: int) -> Iterator[tuple[int, Place]]:
    """What ``;`` divides, by its number from 0, without what is empty."""
    for number, part in enumerate(text[begin:end].split(";")):
        if part.strip():
            yield number, (begin, begin + len(part))
        begin += len(part) + 1


def in_cell(text: str, begin: int, limit: int) -> Iterator[tuple[str, Place]]:
    """What the element behind one that only names it holds: ``<td>Phone</td><td>…``, ``<key>phone</key><string>…``."""
    label, value = LABEL.search(text, max(0, begin - LONGEST_LABEL), begin), CELL.match(text, begin, limit)
    if label and value and (kind := type_of_key(label[1].strip())):
        yield kind, value.span(1)


def in_pair(text: str, begin: int, limit: int) -> Iterator[tuple[str, Place]]:
    """What is the ``value`` beside a name: ``{"name": "phone", "value": …}``, ``<property name="phone" value=…``."""
    name, value = (
        NAME_OF_PAIR.search(text, max(0, begin - LONGEST_LABEL), begin),
        VALUE_OF_PAIR.match(text, begin, limit),
    )
    if name and value and (kind := type_of_key(name[1].strip())):
        yield kind, value.span(value.lastindex or 0)


class Reader(Struct, frozen=True):
    """What reads on from a trigger. ``ending`` ends its entry, which is read once; without, it is one field."""

    trigger: str
    read: Callable[[str, int, int], Iterator[tuple[str, Place]]]
    ending: str = ""


class Compiled(Struct, frozen=True):
    """The same with its patterns compiled."""

    trigger: re.Pattern[str]
    read: Callable[[str, int, int], Iterator[tuple[str, Place]]]
    ending: re.Pattern[str] | None


READERS = (
    Reader(r"begin:v(?:card|event|todo|journal|freebusy)", in_card, r"\nend:v(?!alarm)|\0"),
    Reader(r"(?:^|\n)dn: ", in_directory, r"\n\r?\n|\0"),
    Reader(r"form-data; ?name=\"", in_form, r"\r?\n--|\0"),
    Reader(r"<input ", in_input, r">|\0"),
    Reader(r"</(?:t[dh]|dt|key|label)>", in_cell),
    Reader(r"[\"' ,](?:parameter)?value[\"']?[:=]", in_pair),
    Reader(CALLED_TRIGGER, called),
    Reader(ROLE_TRIGGER, in_role),
    Reader(WRITTEN_TRIGGER, written),
    Reader(ACCOUNT_TRIGGER, in_accounts),
)
TRIGGER = "|".join(f"(?:{reader.trigger})" for reader in READERS)
COMPILED = tuple(
    Compiled(
        re.compile(reader.trigger, re.IGNORECASE),
        reader.read,
        re.compile(reader.ending, re.IGNORECASE) if reader.ending else None,
    )
    for reader in READERS
)
