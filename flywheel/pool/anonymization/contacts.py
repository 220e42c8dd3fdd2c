"""Fields of contacts and forms, by their names: vCard, iCalendar, LDIF, parts of multipart requests, inputs of HTML.

vCard is RFC 6350, iCalendar RFC 5545, LDIF RFC 2849, multipart forms are RFC 7578.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from flywheel.pool.anonymization.checks import PLACEHOLDER, Place
from flywheel.pool.anonymization.keys import is_plausible, type_of_key

TRIGGER = r"begin:v(?:card|event|todo|journal|freebusy)|(?:^|\n)dn: |form-data; ?name=\"|<input "
LONGEST = 20_000  # characters of an entry: what is behind them is not read
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
NAMED, VALUE = re.compile(r"\bname=[\"']?([\w.-]+)"), re.compile(r"\bvalue=(?:\"([^\"]+)\"|'([^']+)')")


def find_fields(text: str, triggers: Sequence[Place]) -> Iterator[tuple[Place, str]]:
    """The values of fields that hold something personal or secret, and their types."""
    done = 0  # an entry is read once, whatever number of triggers is in it
    for start, _ in triggers:
        if start < done:
            continue
        begin = start + (text[start] == "\n")
        reader, ending = READERS[text[begin].lower()]
        behind = ending.search(text, begin, begin + LONGEST)
        done = behind.start() if behind else min(len(text), begin + LONGEST)
        for kind, place in reader(text, begin, done):
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


READERS: dict[str, tuple[Callable[[str, int, int], Iterator[tuple[str, Place]]], re.Pattern[str]]] = {
    "b": (in_card, re.compile(r"\nend:v(?!alarm)|\0", re.IGNORECASE)),
    "d": (in_directory, re.compile(r"\n\r?\n|\0")),
    "f": (in_form, re.compile(r"\r?\n--|\0")),
    "<": (in_input, re.compile(r">|\0")),
}
"""By the first letter of a trigger: what reads on from there, and what ends an entry of it."""
