"""Persons and accounts by where they stand: keys that others have too, roles, version control, shells, logs.

Each reader begins where a trigger of ``contacts`` does.
"""

import re
from collections.abc import Iterator

from flywheel.pool.anonymization.checks import Place
from flywheel.pool.anonymization.words import CALLED, ROLES

Found = Iterator[tuple[str, Place]]
KEY_ENDS = r"[\"'*`]{0,3}(?:[ \t]{0,8}[:=]|[ \t]?\|)[ \"'*`]{0,4}"
NAME = r"([^\W\d_]+(?:['’-][^\W\d_]+)*(?: (?:[^\W\d_]\.|[^\W\d_]+(?:['’-][^\W\d_]+)*)){0,3})"
CAPITAL = r"(?-i:[A-Z?]|[^\x00-\x7f])"  # where a trigger is looked for, every letter outside ASCII reads as ``?``
CALLED_TRIGGER = rf"(?:^|[\n\"'>*|,{{(]) ?(?:{CALLED}){KEY_ENDS}{CAPITAL}"
ROLE_TRIGGER = rf"\b(?:{ROLES})(?:{KEY_ENDS}|:? ?\n){CAPITAL}|\bc/o {CAPITAL}"
CALLED_NAME = re.compile(rf"\W*(?:{CALLED}){KEY_ENDS}{NAME}", re.IGNORECASE)
ROLE_NAME = re.compile(rf"(?:c/o |(?:{ROLES})(?:{KEY_ENDS}|:? ?\n)){NAME}", re.IGNORECASE)
NEAR = 240  # characters around a key in which another one may say that it is about a person
PERSONAL = re.compile(
    r"(?<![\w-])(?:e-?mail|phone|tel(?:ephone|efon[eo]?)?|tél(?:éphone)?|mobile?|handy|dob|birth(?:date|day)?"
    r"|date of birth|geb(?:oren|urtsdatum)|ssn|iban|passport|dni|nif|(?:sur|first|last)[ _]?name|prénom)"
    r"[\"'*`_]{0,3}\s{0,8}[:=|]",
    re.IGNORECASE,
)
"""A key of something that is a person's more often than a place's or a product's."""
ENDS = ("\n\n", "}", "\0")  # of what belongs together
WRITTEN_TRIGGER = (
    r"\buser\.name[\"']?[ =]|(?:^|\n)(?:author|committer|tagger) | \d\d:\d\d:\d\d [+-]\d{4} +\d+\) | wrote:\r?\n"
)
WRITERS = (
    re.compile(rf"user\.name[\"']?[ =]{{1,3}}[\"']?{NAME}[\"']?(?=\s|\Z)"),
    re.compile(rf"\n?(?:author|committer|tagger) {NAME} <"),
)
BLAMED = re.compile(rf"\({NAME} +\d{{4}}-\d{{2}}-\d{{2}}\Z")
WROTE = re.compile(rf"(?:\d, |\d[ap]m, |> |,){NAME}\Z", re.IGNORECASE)
USER = r"([A-Za-z_][\w.-]{1,31})"
ACCOUNT_TRIGGER = (
    r"[dl-]r[w-][xs-][r-][w-][xs-][r-][w-][xt-]|@[\w-]+:[~/]|@[\w-]+ ~?\w*\][$#] |\b[eug]?id=\d+\(|:[x*!]?:\d+:\d+:"
    r"| from [\d.]+ port|\bsudo(?:\[\d+\])?: |\b(?:ssh|scp|sftp|rsync|mosh) |(?:^|\n)(?:user|logname|sudo_user)="
    r"| \[\d\d/[a-z]{3}/\d{4}:"
)
ACCOUNTS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"[dl-](?:[r-][w-][xsS-]){{2}}[r-][w-][xtT-][+@.]? +\d+ +{USER} +(?:\1(?= ))?",
        rf"[eug]?id=\d+\({USER}\)",
        rf"sudo(?:\[\d+\])?: +{USER} : ",
        rf"(?:ssh|scp|sftp|rsync|mosh) (?:[\w./=-]{{1,40}} ){{0,6}}{USER}@[\w.-]+",
        rf"\n?(?:USER|LOGNAME|SUDO_USER)={USER}(?=\r?\n|\Z)",
    )
)
"""Listings, ``id``, ``sudo``, commands, environments."""
BEFORE = (
    (re.compile(rf"(?:^|\n|\(){USER}\Z"), re.compile(r"@[\w-]{1,40}:[~/][\w./~-]{0,80}[$#%] ")),
    (re.compile(rf"\[{USER}\Z"), re.compile(r"@[\w-]{1,40} ~?\w{0,40}\][$#] ")),
    (re.compile(rf"(?:^|\n){USER}\Z"), re.compile(r":[x*!]?:\d+:\d+:[^:\n]{0,80}:/")),
    (re.compile(rf"(?:for|user) {USER}\Z"), re.compile(r" from [\d.]+ port")),
    (re.compile(rf"\d - {USER}\Z"), re.compile(r" \[\d\d/")),
)
"""What an account stands before: prompts, ``/etc/passwd``, ``sshd``, access logs."""
LONGEST_ACCOUNT = 40  # characters, with the word before it
GECOS = re.compile(rf":[x*!]?:\d+:\d+:{NAME}[,:]")
OF_MACHINES = frozenset({
    "_apt", "admin", "administrator", "adm", "agent", "ansible", "apache", "app", "apps", "avahi", "backup", "bin",
    "bot", "build", "builder", "centos", "ci", "circleci", "cloud-user", "coder", "container", "core", "daemon",
    "debian", "deploy", "dev", "developer", "docker", "ec2-user", "elasticsearch", "example", "fedora", "ftp",
    "games", "git", "github", "gnats", "grafana", "guest", "host", "hostname", "irc", "jenkins", "jovyan", "kafka",
    "list", "local", "lp", "mail", "man", "me", "messagebus", "mongodb", "mysql", "nagios", "name", "news", "nginx",
    "nobody", "node", "none", "ntp", "opc", "oracle", "pgserver", "pi", "polkitd", "postfix", "postgres",
    "postgresql", "prometheus", "proxy", "rabbitmq", "redis", "remote", "root", "runner", "sandbox", "server",
    "service", "sshd", "staff", "svc", "sync", "sys", "syslog", "system", "test", "tester", "testuser", "tomcat",
    "ubuntu", "user", "user1", "username", "users", "uucp", "vagrant", "vscode", "web", "wheel", "www", "www-data",
    "you", "your_user", "your-user", "youruser",
})  # fmt: skip
"""Accounts that are nobody's."""


def in_accounts(text: str, begin: int, limit: int) -> Found:
    """The account that a listing, a prompt, a log names, and the name of its holder; not one of a machine."""
    match = next((match for pattern in ACCOUNTS if (match := pattern.match(text, begin, limit))), None)
    if match is None:
        first = max(0, begin - LONGEST_ACCOUNT)
        searched = (before.search(text, first, begin) for before, behind in BEFORE if behind.match(text, begin, limit))
        match = next(filter(None, searched), None)
    if match is not None and not is_of_machine(match[1].lower()):
        is_group_too = match.end() > match.end(1) and match[0].endswith(match[1])
        yield "USER_ID", (match.start(1), match.end() if is_group_too else match.end(1))
    holder = GECOS.match(text, begin, limit)
    if holder and can_be_name(holder[1]):
        yield "PERSON", holder.span(1)


def is_of_machine(account: str) -> bool:
    """Whether an account is nobody's."""
    return account in OF_MACHINES or account.startswith("systemd-")


def called(text: str, begin: int, limit: int) -> Found:
    """What a key such as ``name`` or ``Kunde`` has, where it can be a name and something personal is beside it."""
    match = CALLED_NAME.match(text, begin, limit)
    place = name_of(text, match)
    if match is None or place is None:
        return
    end = match.end()
    before = max(text.rfind(one, max(0, begin - NEAR), begin + 1) for one in ENDS)
    behind = min((found for one in ENDS if (found := text.find(one, end, end + NEAR)) >= 0), default=end + NEAR)
    if PERSONAL.search(text, end, behind) or PERSONAL.search(text, max(0, begin - NEAR, before), begin + 1):
        yield "PERSON", place


def in_role(text: str, begin: int, limit: int) -> Found:
    """The same of a key that nobody but a person has: two words at least."""
    place = name_of(text, ROLE_NAME.match(text, begin, limit))
    if place is not None and " " in text[slice(*place)]:
        yield "PERSON", place


def written(text: str, begin: int, limit: int) -> Found:
    """Who wrote something, as version control and answers by mail have it."""
    matches = [pattern.match(text, begin, limit) for pattern in WRITERS]
    matches += [pattern.search(text, max(0, begin - 100), begin) for pattern in (BLAMED, WROTE)]
    place = next((place for match in matches if (place := name_of(text, match)) is not None), None)
    if place is not None:
        yield "PERSON", place


def name_of(text: str, match: re.Match[str] | None) -> Place | None:
    """The name in a match, up to the first word that is none: ``Zorblatt Quux Telefon`` is of two."""
    if match is None:
        return None
    start, end = match.span(1)
    words = [word.span() for word in re.finditer(r"[^ ]+", text[start:end])]
    while words and not text[start + words[-1][0]].isupper():
        words.pop()
    end = start + (words[-1][1] if words else 0)
    is_whole = text[end : end + 1] not in {"(", "=", "_", "/", "\\", "@", ":"} and not text[end : end + 1].isdigit()
    return (start, end) if words and is_whole and can_be_name(text[start:end]) else None


def can_be_name(words: str) -> bool:
    """Whether words can be a name, capitals as well."""
    from flywheel.pool.anonymization.names import is_name

    return words[:1].isupper() and is_name(words.title() if words.isupper() else words)
