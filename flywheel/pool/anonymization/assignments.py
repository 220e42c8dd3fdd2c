r"""Secrets by the name before them: options of commands, environments, YAML, INI, headers, SQL, ``.netrc``, XML.

What stands behind the name decides how strictly the value is looked at: where only values stand a short word is a
secret, and where code may stand it is none.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from flywheel.pool.anonymization.checks import CODE, PLACEHOLDER, Place, is_identifier, is_random, nearby_from
from flywheel.pool.anonymization.keys import CAPITAL, NO_VALUE, SENTENCE
from flywheel.pool.anonymization.names import COMMON, kind_of, words_known

TRIGGER = (
    r"pass(?:w(?:or)?d|wort|phrase|code)|pass(?:[\"'=:> ]|wd)|pwd|kennwort|contrase.a|mot de passe|secret|psk[\"'=: ]"
    r"|token[\"'` =:>]|(?:api|access|private|account|encryption|signing|shared|master)[ _-]?key|credential"
    r"|identified by|(?:client-key|certificate-authority)-data|(?:^|[^a-z])(?:pw|jwt)[\"'=: ]"
)
PHRASE = re.compile(
    r"(?:mot de passe|(?:api|access|private|account|shared|master|signing) key|identified by)s?", re.IGNORECASE
)
RIGHT = re.compile(r"[\w-]{0,40}")
SPACED = re.compile(r"[ _-]+")
KINDS = (
    r"pass(?:word|wd|wort|phrase|code)|pwd|kennwort|contrase[ñn]a|mot_de_passe|secret|api_?key|(?:secret_)?access_?key"
    r"|(?:private|account|encryption|signing|shared|master|secret)_?key|credentials?|identified_by|client_key_data"
)
TOKENS = (
    "auth|access|refresh|bearer|session|api|bot|[cx]srf|security|sas|deploy|oauth2?|github|gitlab|git|slack|npm|pypi|hf"
)
USERS = (
    "db|redis|(?:my|postgre|pg|ms)?sql|postgres|pg|smtp|e?mail|ftp|ssh|user|admin|root|app|auth|login|ldap|proxy|http"
    "|mongo(?:db)?|rabbit(?:mq)?|wifi|vnc|ssl|svc|service|api|my"
)
SUFFIX = (
    r"(?:_?\d{1,3}|_(?:prod|production|dev|test|staging|live|main|old|new|value|hash|base64|b64|plain|text|string))?"
)
STRONG = re.compile(
    rf"(?:.*_|\w*?)(?:{KINDS}){SUFFIX}|(?:.*_)?(?:{TOKENS})_?token{SUFFIX}|(?:.*_)?(?:{USERS})_?(?:pass|pw){SUFFIX}|wpa_psk"
)
SHORT = frozenset({"token", "pass", "pw", "psk", "jwt"})
NOT_SECRET = re.compile(
    r"(?:by|com|sur|tres|under|over|encom)pass|(?:pad|eos|bos|sep|cls|mask|unk|next|prev|stop|cancellation)_?token"
)
REFERENCE = re.compile(r"pass|pwd|secret|token|key|credential|auth", re.IGNORECASE)
WORD = r"(?!https?://)[^\s\"'`,;<>(){}\[\]|&]{2,200}"
QUOTED_VALUE = r"(?P<q>[\"'])(?P<v>(?:(?!(?P=q))[^\n\0]){2,200})(?P=q)"
QUOTED = re.compile(rf"[\"'`*\]]{{0,3}}[ \t]{{0,12}}(?::=|=>|[:=])[ \t]{{0,12}}(?:[bruN]{{0,2}}){QUOTED_VALUE}")
ASSIGNED = re.compile(rf"=(?P<v>{WORD})")
OPTION = re.compile(
    rf"(?:=|[ ]|[\"'],[ ]?[\"'])(?:(?P<q>[\"'])(?P<w>(?:(?!(?P=q))[^\n\0]){{2,200}})(?P=q)|(?P<v>{WORD}))"
)
INI = re.compile(rf"[ \t]{{1,12}}=[ \t]{{1,12}}(?P<v>{WORD})[ \t\r]*(?:\n|\Z|\")")
COLON = re.compile(rf"[\"'`*]{{0,3}}[ ]?:[ \t]{{1,12}}[\"'`*]{{0,3}}(?P<v>{WORD})")
BLOCK = re.compile(rf":[ ]?[|>][+-]?\r?\n[ \t]+(?P<v>{WORD})")
PROSE = re.compile(rf"[ ](?:is|was|lautet|ist|es|est)(?:[ ]?:)?[ ]{{1,3}}[\"'“`*]{{0,3}}(?P<v>{WORD})")
ELEMENT = re.compile(r">(?P<v>[^<>\s]{2,200})</")
NAMED_VALUE = re.compile(
    rf"[\"'][ ,{{\n\r]{{1,40}}[\"']?(?:value|default|Value)[\"']?[ ]{{0,3}}[:=][ ]{{0,3}}{QUOTED_VALUE}"
)
NAMED_IN_YAML = re.compile(rf"[\"']?\r?\n[ \t]+value:[ ][\"']?(?P<v>{WORD})")
SECOND = re.compile(rf"[\"'],[ ]?{QUOTED_VALUE}")
NETRC, NETRC_BEFORE = re.compile(rf"[ \t]+(?P<v>{WORD})"), re.compile(r"(?:login|user|account)[ \t]+\S{1,80}\s+\Z")
SQL = re.compile(rf"[ ]{{0,3}}(?:BY[ ]{{1,3}}|\(|=[ ]?N?)?[ ]?{QUOTED_VALUE}", re.IGNORECASE)
DECLARED = re.compile(r"(?:\bENV|\bsetx|\bSetEnv)[ ]+\Z")
INI_SECTION = re.compile(r"(?:^|[\n\"])\[[\w .:\"-]{1,60}\][ \t\r]*\n")
STOP = frozenset({
    "a", "an", "and", "are", "argument", "arguments", "as", "at", "basic", "be", "bearer", "by", "can", "false",
    "field", "fields", "flag", "flags", "for", "from", "if", "in", "include", "instead", "is", "it", "must", "no",
    "none", "not", "null", "of", "omit", "on", "option", "optional", "options", "or", "parameter", "prompt",
    "required", "same-origin", "should", "string", "text", "that", "the", "this", "to", "true", "value", "values",
    "via", "was", "were", "when", "which", "will", "with",
})  # fmt: skip
REST = re.compile(r"[ \t\r]*(?:[#\n\"]|\Z)")
CLOSING = re.compile(r"\s*[})\]]")
NEAR = 400  # characters before a name in which a section of an INI file counts


class Name(Struct, frozen=True):
    """What may be the name of a secret: where it is, and in lower case, its words joined by underscores."""

    start: int
    end: int
    name: str
    is_upper: bool

    @property
    def is_strong(self) -> bool:
        """Whether it names nothing but secrets."""
        return STRONG.fullmatch(self.name) is not None and NOT_SECRET.search(self.name) is None

    @property
    def is_short(self) -> bool:
        """Whether it names a secret where no code stands."""
        return self.name in SHORT


def find_assigned(text: str, triggers: Sequence[Place]) -> Iterator[tuple[Place, str]]:
    """The secrets that names give away."""
    done = 0
    for start, end in triggers:
        if start < done:
            continue
        name = name_at(text, start, end)
        place = value_of(text, name) if name.is_strong or name.is_short else None
        done = max(name.end - 1, place[1] if place else 0)
        if place is not None and not PLACEHOLDER.search(text, *place):
            yield place, "SECRET"


def name_at(text: str, start: int, end: int) -> Name:
    """The whole name that a trigger is in."""
    while start < end and not text[start].isalnum():
        start += 1
    phrase = PHRASE.match(text, start)
    begin = start
    while begin > max(0, start - 60) and (text[begin - 1].isalnum() or text[begin - 1] in "_-"):
        begin -= 1
    while text[begin] == "-":
        begin += 1
    last = (phrase or RIGHT.match(text, start)).end()  # type: ignore[union-attr]
    while last > begin and text[last - 1] == "-":
        last -= 1
    written = text[begin:last]
    name = SPACED.sub("_", CAPITAL.sub("_", written)).strip("_").lower()
    return Name(begin, last, name, written.isupper())


def value_of(text: str, name: Name) -> Place | None:
    """What stands behind a name, where it is a secret."""
    if text[max(0, name.start - 2) : name.start] == "--" or text[max(0, name.start - 2) : name.start] in {" -", " /"}:
        return value_of_option(text, name)
    readers = (quoted, assigned, coloned, in_prose, by_syntax) if name.is_strong else (quoted, by_syntax)
    return next((place for reader in readers if (place := reader(text, name)) is not None), None)


def value_of_option(text: str, name: Name) -> Place | None:
    """``--password x``, ``--token=x``, ``"--password", "x"``: a word, unless it is one about the option."""
    match = OPTION.match(text, name.end)
    if match is None:
        return None
    group = "v" if match["w"] is None else "w"
    value = match[group].rstrip(".:")
    is_named = value.isupper() and value.isalpha() and (REFERENCE.search(value) or value in {"TEXT", "STRING", "VALUE"})
    if value[0] in "-$<[{%@*." or is_named or value.lower() in STOP or not any(map(str.isalnum, value)):
        return None
    return match.start(group), match.start(group) + len(value)


def quoted(text: str, name: Name) -> Place | None:
    """A value in quotes: ``"password": "x"``, ``token = 'x'``; not a label, a message or code."""
    match = QUOTED.match(text, name.end)
    return match.span("v") if match and is_literal(match["v"], is_strict=not name.is_strong) else None


def is_literal(value: str, *, is_strict: bool = False) -> bool:
    """Whether a text in quotes is a secret itself; ``is_strict`` where only what looks like a key is one."""
    bare = value.strip()
    lowered = bare.lower()
    if len(bare) < 3 or lowered in NO_VALUE or lowered in STOP or bare[0] in "$<{%*" or "{" in bare:
        return False
    if SENTENCE.search(bare) or bare.count(" ") > 3 or (" " in bare and REFERENCE.search(bare)):
        return False
    if is_reference(bare) or CODE.fullmatch(bare) or bare.startswith(("/", "~/", "./", "http")):
        return False
    return not is_strict or is_random(bare) or (any(map(str.isdigit, bare)) and len(bare) >= SHORTEST_TOKEN)


SHORTEST_TOKEN = 6


def is_reference(value: str) -> bool:
    """Whether a value is the name of a secret, as code and labels have it, not one."""
    return is_identifier(value.replace(" ", "_").replace("-", "_")) and REFERENCE.search(value) is not None


def assigned(text: str, name: Name) -> Place | None:
    """``NAME=x`` without quotes: an environment, a query, a connection string, a line of a settings file."""
    match = ASSIGNED.match(text, name.end)
    if match is None:
        return value_in_ini(text, name)
    value, following = match["v"], text[match.end() : match.end() + 1]
    if value[0] in "$<%*@=/~" or following in {"(", "[", "<"} or value.lower() in NO_VALUE:
        return None
    line = text[line_of(text, name) : name.start]
    line = line.rpartition('": "')[2]  # where a string of JSON begins
    is_code = (
        following in {",", ")"} or "(" in line or line.rstrip().endswith(("self.", "this.", "var", "let", "const"))
    )
    in_list = following in {"&", ";"} or line[-1:] in {"?", "&", ";"} or ("=" in line and line[-1:] == " ")
    if is_identifier(value) and not name.is_upper:
        is_line = REST.match(text, match.end()) is not None and line.strip(" .").replace(".", "").isalnum() | (
            not line.strip()
        )
        if is_code or is_reference(value) or not (in_list or is_line or line[-1:] in {'"', "'", "/", ":"}):
            return None
    elif CODE.fullmatch(value):
        return None
    return trimmed(text, *match.span("v"))


def trimmed(text: str, start: int, end: int) -> Place | None:
    """A place without the punctuation of a sentence at its end; None where nothing but that is there."""
    while end > start and text[end - 1] in ".:!?":
        end -= 1
    return (start, end) if any(map(str.isalnum, text[start:end])) else None


def value_in_ini(text: str, name: Name) -> Place | None:
    """``password = x`` below a section; elsewhere that is code, unless the value can be no name."""
    match = INI.match(text, name.end)
    if match is None or CODE.fullmatch(match["v"]) or match["v"].lower() in NO_VALUE or match["v"][0] in "$<%*":
        return None
    is_below_section = INI_SECTION.search(text, nearby_from(text, name.start, NEAR), name.start) is not None
    return match.span("v") if is_below_section or not is_identifier(match["v"]) else None


def coloned(text: str, name: Name) -> Place | None:
    """``password: x`` of YAML, headers and prose; not the type of a field, nor what code names."""
    match = BLOCK.match(text, name.end) or COLON.match(text, name.end)
    if match is None:
        return None
    value, end = match["v"].rstrip(".:!?"), match.end("v")
    is_type = is_identifier(value) and (is_reference(value) or (value[:1].isupper() and value[1:] != value[1:].lower()))
    if (
        value.lower() in STOP
        or value.lower() in NO_VALUE
        or not value
        or value[0] in "$<%*|>!/~"
        or CODE.fullmatch(value)
    ):
        return None
    if is_type or (is_identifier(value) and text[end : end + 1] in {",", ")", "(", "["} and has_code(text, name)):
        return None
    is_last = REST.match(text, end) is not None
    if is_identifier(value) and (
        CLOSING.match(text, end) or not (is_last or text[end - 1 : end] in ".,;!" or text[end : end + 1] in ",;")
    ):
        return None
    if is_identifier(value) and not is_last and is_common(value):
        return None
    return trimmed(text, *match.span("v"))


def has_code(text: str, name: Name) -> bool:
    """Whether a bracket of code opens before the name, on its line."""
    return any(bracket in text[line_of(text, name) : name.start] for bracket in "({")


def line_of(text: str, name: Name) -> int:
    """Where the line of a name begins, or the part of it that is near."""
    first = max(0, name.start - NEAR)
    return text.rfind("\n", first, name.start) + 1 or first


def is_common(value: str) -> bool:
    """Whether a value is a word of English."""
    return value.isalpha() and kind_of(value.capitalize(), words_known()) & COMMON != 0


def in_prose(text: str, name: Name) -> Place | None:
    """``my password is x``, where it is no word about it."""
    match = PROSE.match(text, name.end)
    if match is None:
        return None
    value = match["v"].rstrip(".:!?")
    is_said = value.isalpha() and (is_common(value) or value.lower() in STOP or value.endswith(("ed", "ing", "able")))
    if len(value) < 4 or is_said or is_reference(value) or CODE.fullmatch(value) or value[0] in "$<%*":
        return None
    return match.start("v"), match.start("v") + len(value)


def by_syntax(text: str, name: Name) -> Place | None:
    """XML, fields called ``value`` beside the name, SQL, ``.netrc``, defaults of an environment, Dockerfiles."""
    opening = text[name.start - 1 : name.start]
    match = ELEMENT.match(text, name.end) if opening in {"<", "_", ":"} else None
    if match is None and opening in {'"', "'"} and name.is_strong:
        match = NAMED_VALUE.match(text, name.end) or (SECOND.match(text, name.end) if name.is_upper else None)
    if match is None and name.is_strong:
        match = NAMED_IN_YAML.match(text, name.end)
    if match is None and (name.is_upper or name.name == "identified_by"):
        match = SQL.match(text, name.end)
    if (
        match is None
        and name.name in {"password", "passwd"}
        and NETRC_BEFORE.search(text, nearby_from(text, name.start, 100), name.start)
    ):
        match = NETRC.match(text, name.end)
    if match is None and name.is_upper and DECLARED.search(text, max(0, name.start - 16), name.start):
        match = NETRC.match(text, name.end)
    if match is None or not is_literal(match["v"]) or (match["v"].isupper() and match["v"].replace("_", "").isalpha()):
        return None
    return match.span("v")
