"""Tables in texts: where a header names a column, its cells are what values below a key of that name are.

CSV and the like (comma, semicolon, tab, bar), Markdown, and what databases print. A header is a line of nothing but
names whose next row has as many cells.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from flywheel.pool.anonymization.checks import PLACEHOLDER, Place
from flywheel.pool.anonymization.keys import NUMERIC, is_plausible, type_of_key

TRIGGER = (
    r"(?:^|[\n|,;\t+\"-])[\w .()/#?-]*"
    r"(?:nam|nom|naam|apellido|mail|phone|telef|tel\b|mobil|m\?vil|handy|rufnummer|ssn|social|passw|contrase|kennw|adress|address|stra|direcci"
    r"|zip|plz|post|birth|naci|naiss|dob|geburt|secret|api.?key|card|iban|account|kund|client|customer|patient|passenger"
    r"|employee|user|owner|tax|passport)[\w .()/#?-]*[\"']?[|,;\t\r\n]"
)
"""A cell that may name a column of values that must go. Every letter outside ASCII reads as ``?``."""
LONGEST_HEADER, LONGEST_ROW = 2_000, 8_000  # characters
LONGEST_CELL = 60  # of a trigger: no name is as long, with what divides it from others; then it is prose
DELIMITERS = "|\t;,"
SPACES = re.compile(r"[ \r]*")
NAME = re.compile(r"[\"']?[^\W\d][\w .()/#?-]{0,39}[\"']?")
LINE = re.compile(r"[\w .()/#?|,;\t\"'+:→-]+\r?")  # of names and what divides them
END_OF_STRING = re.compile(r"\"\s*(?:[}\]]|,\s*\"[\w-]+\"\s*:)")
MOST_COLUMNS = 100
RULE = re.compile(r"[\s|:+=-]*-[\s|:+=-]*")
PREFIX = re.compile(r"[+-](?![-+])|\s{0,8}\d{1,7}(?:\t|→|: ?)")  # of a line of a diff, of one with its number
ENDS = {delimiter: re.escape(delimiter) for delimiter in DELIMITERS}
CELL = {
    delimiter: re.compile(rf" *(?:\"((?:[^\"\0]|\"\"){{0,2000}})\"(?= *(?:{end}|\r?\n|\Z))|([^{end}\n]*))")
    for delimiter, end in ENDS.items()
}
PERSONS = frozenset({
    "customer", "client", "patient", "passenger", "employee", "guest", "contact", "contact person", "member", "owner",
    "kunde", "kundin", "cliente", "nombre", "nom",
})  # fmt: skip
"""Names of columns that a person's name stands in, if it looks like one."""
USERS = {"user": "PERSON", "username": "PERSON", "login": "PERSON"}
OPENING = {"token": "SECRET", "pass": "SECRET", "pw": "SECRET"}
BESIDE_OTHERS = {**USERS, **OPENING, **dict.fromkeys(("name", "names", "person", "surname"), "PERSON")}
"""The same where another column identifies somebody or opens something: alone they may be of words or products."""
WORDS = re.compile(r"[^\W\d_][^\W\d_'’.-]*(?:[ ,'’.-]{1,2}[^\W\d_][^\W\d_'’.-]*){0,5}\.?")
FEWEST_DIGITS = 3  # of a bare number that is somebody's: fewer are counts


Header = tuple[int, int, int]
"""Where a line begins and ends, and where in it a string of JSON begins that may be a table; below 3 if none does."""


class Table(Struct, frozen=True):
    """A header: its ``columns`` with what is in them, how rows begin and are divided, where the first one begins.

    ``in_json`` where all of it is a string of JSON, which ends it.
    """

    columns: tuple[str | None, ...]
    delimiter: str
    has_prefix: bool
    rows: int
    in_json: bool


def find_in_tables(text: str, triggers: Sequence[Place]) -> Iterator[tuple[Place, str]]:
    """The cells below the headers that the triggers are in, and their types; each row is read once."""
    done, refused = 0, None  # a line is looked at once, whatever number of triggers is in it
    for start, end in triggers:
        if end - start > LONGEST_CELL and len(text[start:end].strip()) > LONGEST_CELL:
            continue
        header = header_at(text, start, end) if start >= done else None
        done = max(done, end - 1)
        table = table_at(text, header) if header is not None and header != refused else None
        if table is None:
            refused = header or refused
            continue
        for kind, place in cells_of(text, table):
            done = place[1]
            if kind is not None and is_value(kind, text[slice(*place)]):
                yield place, kind


def cells_of(text: str, table: Table) -> Iterator[tuple[str | None, Place]]:
    """The cells of a table and what their columns hold, up to the first line that is no row."""
    position = table.rows
    while position < len(text):
        cells, after = row_at(text, position, table)
        if len(cells) == len(table.columns):
            yield from zip(table.columns, cells, strict=True)
        elif not RULE.fullmatch(text, position, min(after, position + LONGEST_ROW)):
            return
        if not text.startswith("\n", after):
            return
        position = after + 1


def header_at(text: str, start: int, end: int) -> Header | None:
    """What may be the header that a part of a text is in."""
    first = max(0, start - LONGEST_HEADER)
    begin = text.rfind("\n", first, start + 1) + 1 or first
    close = text.find("\n", end - 1, end + LONGEST_HEADER)
    if close < 0 or (begin and text[begin - 1] != "\n"):
        return None
    return begin, close, text.rfind(': "', begin, start + 1) + 3


def table_at(text: str, header: Header) -> Table | None:
    """The table that a header begins."""
    begin, close, inner = header
    for line, in_json in ((begin, False), (inner, True)) if inner > 2 else ((begin, False),):
        has_prefix = not in_json and PREFIX.match(text, line, close) is not None
        for delimiter in DELIMITERS if LINE.fullmatch(text, line, close) else ():
            if text.find(delimiter, line, close) < 0 or text.find(delimiter, close, close + LONGEST_HEADER) < 0:
                continue
            table = Table((None,) * MOST_COLUMNS, delimiter, has_prefix, close + 1, in_json)
            names, after = row_at(text, line, table)
            columns = types_of([text[slice(*name)] for name in names]) if len(names) > 1 and after == close else ()
            if delimiter == "," and (text[line] == " " or ", " in text[line:close]):  # lists of names in code
                columns = tuple(None if kind == "SECRET" else kind for kind in columns)
            table = Table(columns, delimiter, has_prefix, close + 1, in_json)
            if any(columns) and has_rows(text, table):
                return table
    return None


def has_rows(text: str, table: Table) -> bool:
    """Whether what follows a header is a row of as many cells, or a rule and then one."""
    cells, after = row_at(text, table.rows, table)
    is_rule = RULE.fullmatch(text, table.rows, after) is not None
    return is_rule or len(cells) == len(table.columns)


def row_at(text: str, begin: int, table: Table) -> tuple[list[Place], int]:
    """The cells of the row that begins there, without quotes and spaces around them, and where it ends."""
    prefix = PREFIX.match(text, begin) if table.has_prefix else None
    position = prefix.end() if prefix else begin
    limit = min(len(text), begin + LONGEST_ROW)
    ending = END_OF_STRING.search(text, begin, limit) if table.in_json else None
    limit = ending.start() if ending else limit
    has_bars = table.delimiter == "|"
    if has_bars:
        position = SPACES.match(text, position).end()  # type: ignore[union-attr]
        position += text.startswith("|", position)
    cells: list[Place] = []
    while len(cells) <= len(table.columns):
        cell = CELL[table.delimiter].match(text, position, limit)
        if cell is None:
            break
        cells.append(stripped(text, *cell.span(1 if cell.group(1) is not None else 2)))
        position = SPACES.match(text, cell.end()).end()  # type: ignore[union-attr]
        if not text.startswith(table.delimiter, position):
            break
        position += 1
    if has_bars and len(cells) > 1 and cells[-1][0] == cells[-1][1]:  # the bar at the end of the row
        cells.pop()
    return cells, position


def stripped(text: str, start: int, end: int) -> Place:
    """A place without spaces at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def is_value(kind: str, value: str) -> bool:
    """Whether a cell can be what the name of its column says."""
    if PLACEHOLDER.search(value) or (value.isdigit() and (kind not in NUMERIC or len(value) < FEWEST_DIGITS)):
        return kind == "SECRET" and value.isdigit()
    if kind == "PERSON":
        return WORDS.fullmatch(value) is not None and value[0].isupper() and is_plausible(kind, value)
    return is_plausible(kind, value)


def types_of(names: Sequence[str]) -> tuple[str | None, ...]:
    """What the columns hold, by their names; nothing where one of them is no name."""
    if not all(map(NAME.fullmatch, names)):
        return ()
    bare = [name.strip(" \"'") for name in names]
    types = ["PERSON" if name.lower() in PERSONS else type_of_key(name) for name in bare]
    plain = {name.lower() for name in bare}
    if any(types) or not (plain.isdisjoint(USERS) or plain.isdisjoint(OPENING)):
        types = [kind or BESIDE_OTHERS.get(name.lower()) for name, kind in zip(bare, types, strict=True)]
    return tuple(types)
