"""Secrets by what stands around them: links that open something, headers of HTTP, options of single commands, hashes.

Each rule is a trigger and a pattern that begins where the trigger does; its group ``v`` is the secret.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from flywheel.pool.anonymization.assignments import STOP, is_reference
from flywheel.pool.anonymization.checks import PLACEHOLDER, Place, is_random
from flywheel.pool.anonymization.keys import NO_VALUE

LINE = r"[^\n\0]{0,300}?"
WORD = r"[\"']?(?P<v>[^\s\"'$<{(\[-][^\s\"']*)"
AUTHORIZATION, OF_HEADER = r"authorization[\"']? ?[:=] ?[\"']?", r"[^\s\"'`,;<>{}$]"
OF_URL = r"[^\s\"'<>&#;,\[\]]"
ONCE = (
    "resets?|invites?|invitations?|magic|verify|verifications?|unsubscribe|confirm|confirmations?|activate|activations?"
    "|recover|share"
)
"""What a link is for that whoever has it may use."""
SLUG = r"(?:[a-z]+|v?\d+)(?:[_-](?:[a-z]+|v?\d+))*(?![\w~-])"  # words and numbers: the name of a page


class Rule(Struct, frozen=True):
    """Where a secret is; ``is_strict`` where only what looks like a key is one."""

    trigger: str
    pattern: str
    is_strict: bool = False


LINKS = (
    Rule(r"hooks\.slack\.com/", r"hooks\.slack\.com/\w+/(?P<v>[\w/-]{8,})"),
    Rule(r"/webhooks/", r"/webhooks/\d+/(?P<v>[\w-]{16,})"),
    Rule(r"/webhookb?2?/", rf"/webhookb?2?/(?P<v>{OF_URL}{{16,}})"),
    Rule(r"hooks\.zapier\.com/", r"hooks\.zapier\.com/hooks/catch/(?P<v>[\w/-]{8,})"),
    Rule(r"/hooks?/", r"/hooks?/(?P<v>[\w-]{16,})", is_strict=True),
    Rule(r"/with/key/", r"/with/key/(?P<v>[\w-]{8,})"),
    Rule(r"telegram\.org/bot", r"telegram\.org/bot(?P<v>\d+:[\w-]{16,})"),
    Rule(
        r"[?&#;](?:sig|[a-z-]*signature|[a-z_-]*token|api.?key|client.?secret|secret|password|pwd|x-(?:amz|goog)-credential"
        r"|awsaccesskeyid|googleaccessid)=",
        rf"[?&#;][\w-]+=(?P<v>{OF_URL}{{4,}})",
    ),
    Rule(
        r"[?&](?:key|code|auth|sid|k|otp|jwt|ticket|invit(?:e|ation)|reset|session_?id"
        r"|(?:confirm|verif|activat|invit|access|auth)[a-z]*_(?:code|key))=",
        rf"[?&]\w+=(?P<v>{OF_URL}{{8,}})",
        is_strict=True,
    ),
    Rule(
        rf"/(?:[a-z]+[_-])?(?:{ONCE})(?:[_-][a-z]+)?/",
        rf"/[a-z_-]+/(?:[\w=-]{{1,40}}/){{0,2}}?(?P<v>(?!{SLUG})[\w~-]{{16,}})",
        is_strict=True,
    ),
    Rule(r"chat\.whatsapp\.com/", r"chat\.whatsapp\.com/(?P<v>[\w-]{12,})"),
    Rule(r"t\.me/(?:joinchat/|\+)", r"t\.me/(?:joinchat/|\+)(?P<v>[\w-]{12,})"),
    Rule(r"/shared_invite/", r"/shared_invite/(?P<v>[\w~-]{12,})"),
    Rule(r"://[0-9a-z_]{16,}@", r"://(?P<v>\w{16,})@", is_strict=True),
)
HEADERS = (
    Rule(
        r"authorization[\"' ]{0,2}[:=]",
        rf"{AUTHORIZATION}(?:basic|bearer|token|api-?key|key|negotiate|ntlm) +(?P<v>{OF_HEADER}{{3,}})",
    ),
    Rule(r"authorization[\"' ]{0,2}[:=]", rf"{AUTHORIZATION}(?P<v>{OF_HEADER}{{8,}})", is_strict=True),
    Rule(r"response=\"", r"response=\"(?P<v>[0-9a-f]{32,})\""),
    Rule(r"auth=\(", r"auth=\(\s*[\"'][^\"'\n]*[\"'],\s*[\"'](?P<v>[^\"'\n]+)[\"']"),
    Rule(r"\"auth\": ?\"", r"\"auth\": ?\"(?P<v>[A-Za-z0-9+/]{8,}={0,2})\"", is_strict=True),
)
COMMANDS = (
    Rule(
        r"\bmysql|\bmariadb",
        rf"\w++{LINE}\s-p(?:\"(?P<w>[^\"$\n]+)\"|'(?P<x>[^'\n]+)'|(?P<v>[^\s\"'$-][^\s\"']*))",
    ),
    Rule(r"\bcurl\b", rf"curl\b{LINE}\s(?:-[uU]|--(?:proxy-)?user)[ =]?[\"']?[^\s:\"'$]+:{WORD}"),
    Rule(r"\bsshpass\b", rf"sshpass\s+-p ?{WORD}"),
    Rule(r"\b\w+ login\b", rf"\w+ login\b{LINE}\s-p[ =]{WORD}"),
    Rule(r"\bredis-cli\b", rf"redis-cli\b{LINE}\s-a {WORD}"),
    Rule(r"\bopenssl\b", rf"openssl\b{LINE}\s(?:-k |(?:-\w+ )pass:){WORD}"),
    Rule(r"\bsmbclient\b", rf"smbclient\b{LINE}\s-U ?[\"']?[^\s%]+%{WORD}"),
    Rule(r"\bsqlcmd\b|\bbcp\b|\bmosquitto_|\bipmitool\b", rf"\w++{LINE}\s-P ?{WORD}"),
    Rule(r"\bldap(?:search|modify|add)\b", rf"ldap\w+{LINE}\s-w ?{WORD}"),
    Rule(r"\bmongo(?:sh|dump|restore)?\b|\bcqlsh\b", rf"\w++{LINE}\s-p {WORD}"),
    Rule(r"\bnet use\b", rf"net use\b{LINE}/user:\S+ {WORD}"),
    Rule(
        r"\becho\b|\bprintf\b",
        rf"(?:echo(?: -\w+)?|printf(?: '%s(?:\\n)?')?)\s+{WORD}[\"']?\s*\|\s*(?:sudo\s+-S|(?:sudo )?passwd --stdin"
        r"|[^\n|]{1,80} --(?:password-stdin|with-token|passphrase-fd))",
    ),
    Rule(r"\becho\b", r"echo\s+[\"']?[\w.-]+:(?P<v>[^\s\"'|$]+)[\"']?\s*\|\s*(?:sudo )?chpasswd"),
    Rule(r"\bhtpasswd -", rf"htpasswd -\w*b\w* \S+ \S+ {WORD}"),
    Rule(r"\bconfig(?:ure)? set ", rf"config(?:ure)? set \S*(?:token|password|secret|_key)(?:_\w+)?[ =]{WORD}"),
    Rule(r"\bnet user ", rf"net user \S+ (?!/){WORD}"),
    Rule(r"zip -", rf"zip(?: -\w+){{0,4}}? -P ?{WORD}"),
    Rule(r"\b7za? ", rf"7za? \w{LINE} -p{WORD}"),
    Rule(r"\blftp\b", rf"lftp{LINE} -u [^\s,]+,{WORD}"),
    Rule(r"freerdp|\bcmdkey\b", rf"\w+{LINE} /p(?:ass)?:{WORD}"),
    Rule(r"convertto-securestring ", rf"convertto-securestring (?:-string )?{WORD}"),
    Rule(r"\bssh-keygen\b", rf"ssh-keygen{LINE} -N {WORD}"),
    Rule(r"\bmysqladmin\b", rf"mysqladmin{LINE} password {WORD}"),
    Rule(r"\bsqlplus |\bthin:", r"(?:sqlplus |thin:)[^\s/@]+/(?P<v>[^\s@/\"']+)@"),
)
HASHES = (
    Rule(r"\$(?:1|2[abxy]|5|6|y|apr1|argon2i?d?)\$", r"(?P<v>\$\w+\$[./A-Za-z0-9$=,+-]{20,})"),
    Rule(r"[prs]k_(?:live|test)_|whsec_", r"(?P<v>(?:[prs]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,})"),
)
RULES = (*LINKS, *HEADERS, *COMMANDS, *HASHES)
COOKIES = r"cookie[\"' ]{0,2}[:=]"
TRIGGER = "|".join([COOKIES, *dict.fromkeys(rule.trigger for rule in RULES)])
COMPILED = tuple(
    (re.compile(rule.trigger, re.IGNORECASE), re.compile(rule.pattern, re.IGNORECASE), rule.is_strict) for rule in RULES
)
COOKIE = re.compile(r"cookie[\"']? ?[:=] ?[\"']?", re.IGNORECASE)
PAIR = re.compile(r"([\w.-]++)=([^;\s\"',\[\]]*+)(; ?|(?=[\s\"',])|\Z)?")
ATTRIBUTES = frozenset({"path", "domain", "expires", "max-age", "samesite", "priority", "version"})
SHORTEST_COOKIE = 3


def find_openings(text: str, triggers: Sequence[Place]) -> Iterator[tuple[Place, str]]:
    """What opens something."""
    done = 0  # what was read is not read again, whether it is a secret or not
    header_end = 0  # what no cookie is in may open something otherwise
    for start, _ in triggers:
        if start < done:
            continue
        if start >= header_end and (header := COOKIE.match(text, start)):
            for is_cookie, place in cookies(text, header.end()):
                header_end = place[1]
                if is_cookie:
                    done = header_end
                    yield place, "SECRET"
        for trigger, pattern, is_strict in COMPILED:
            if trigger.match(text, start) and (match := pattern.match(text, start)):
                place = match.span(next(name for name, value in match.groupdict().items() if value is not None))
                done = place[1]
                if is_secret(text[slice(*place)], is_strict=is_strict):
                    yield place, "SECRET"
                    break


def is_secret(value: str, *, is_strict: bool) -> bool:
    """Whether a value opens something: no placeholder, variable, or word about it."""
    bare = value.rstrip(".:!?")
    if PLACEHOLDER.search(value) or bare.lower() in NO_VALUE or bare.lower() in STOP or is_reference(bare):
        return False
    return not is_strict or is_random(bare) or (len(bare) >= LONG and bare.isalnum() and not bare.isdigit())


LONG = 16  # letters and digits without anything between: no word, but an UUID neither


def cookies(text: str, position: int) -> Iterator[tuple[bool, Place]]:
    """The values of a header, up to its end, and whether each is a cookie's."""
    while pair := PAIR.match(text, position):
        start, end = pair.span(2)
        is_cookie = pair[3] is not None and pair[1].lower() not in ATTRIBUTES and end - start >= SHORTEST_COOKIE
        yield is_cookie, (start, end)
        position = pair.end()
        if not pair[0].endswith((";", " ")):
            return
