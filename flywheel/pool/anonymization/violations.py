"""Is anything personal or secret left? Another set of eyes: Python's ``re``, other patterns, the encoded record.

Not the replacing code asked twice. These patterns are broader and know nothing of checksums or context, so that a
mistake of the detectors' table does not hide itself; what they take wrongly holds a day back until a person looks.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from flywheel.pool.digests import Digest, texts_of
from flywheel.pool.files import read_file

if TYPE_CHECKING:
    import pyarrow as pa

EXAMPLES = 20  # places that are named; the others are counted
TENANT = re.compile(r"[0-9a-f]{64}\Z")
SUSPECTS: dict[str, re.Pattern[str]] = {
    "EMAIL_ADDRESS": re.compile(r"[A-Za-z0-9][\w.+-]{0,63}@[A-Za-z0-9][A-Za-z0-9-]*\.[A-Za-z]{2,}"),
    "SECRET": re.compile(
        r"PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}|\bgh[pousr]_[A-Za-z0-9]{36}"
        r"|\bsk-[A-Za-z0-9]{20,}|\bxox[bp]-\d|\beyJ[\w-]+\.eyJ"
    ),
    "URL_CREDENTIALS": re.compile(r"://[^\s/:@\[\]]+:[^\s/@\[\]]+@"),
    "FILE_PATH": re.compile(r"(?:^|[\s\"'=(:/])(?:/home/|/Users/|[A-Za-z]:\\Users\\)\w"),
    "PHONE_NUMBER": re.compile(r"(?<![\w.-])\(?\d{3}\)?[ .-]\d{3}[.-]\d{4}(?![\w-])"),
}

LOOSENED = (
    r"@[A-Za-z0-9][A-Za-z0-9-]*\.[A-Za-z]{2}",
    r"PRIVATE KEY-----|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|sk-[A-Za-z0-9]{20}|xox[bp]-|\.eyJ",
    r"://[^\s/:@\[\]]+:[^\s/@\[\]]+@",
    r"/home/|/Users/|:\\Users\\",
    r"\pN{3}\)?[ .-]\pN{3}[.-]\pN{4}",
)
"""Whatever a suspect is found in holds one of these, which one scan of the whole point looks for first."""
ENCODED = "|".join(f"(?:{pattern})" for pattern in (*LOOSENED, r":\\\\Users\\\\", r"\\[u/]"))
"""The same for a point in wire JSON as it is stored. Of what ``LOOSENED`` matches only backslashes, quotes and control
characters are written otherwise there, which its classes take in either form. What another writer escapes begins with
the last two."""
HASHED = r'^\{"id":"[^"\\]*","timestamp":"[^"\\]*","tenantId":"[0-9a-f]{64}",'
"""How a point of a hashed tenant begins as it is stored."""


class Violation(Struct, frozen=True, kw_only=True):
    """Something left in a point. The value itself is never repeated, only where it is."""

    point_id: str
    field: str
    type: str


class Suspicions(Struct):
    """What is left in some points; ``where`` says point, field and type, ``looked_at`` is the digest of all of them."""

    points: int = 0
    by_type: Counter[str] = msgspec.field(default_factory=Counter)
    where: list[str] = msgspec.field(default_factory=list)
    looked_at: Digest = msgspec.field(default_factory=Digest)

    def add(self, other: "Suspicions") -> None:
        """Account for what another one found."""
        self.points += other.points
        self.by_type.update(other.by_type)
        self.where = [*self.where, *other.where][:EXAMPLES]
        self.looked_at.update(other.looked_at)


def suspicions_of(content: bytes) -> Suspicions:
    """What is left in the points of a file of the lake."""
    found = Suspicions()
    decode = msgspec.json.Decoder().decode
    batch = read_file(content, columns=["payload"])
    found.looked_at.add_batch(batch)
    for payload in texts_of(doubtful(batch.column("payload"))):
        point = decode(payload)
        violations = list(violations_of(point)) if is_suspicious(point) else []
        found.points += bool(violations)
        found.by_type.update(violation.type for violation in violations)
        found.where += [f"{one.point_id} {one.field}: {one.type}" for one in violations[: EXAMPLES - len(found.where)]]
    return found


def doubtful(payloads: "pa.StringArray") -> "pa.StringArray":
    """The points that must be decoded to see whether anything is left: no point with a violation is left out.

    Most are told by two scans of the column, which take a third of the time of decoding and walking them.
    """
    import pyarrow.compute as pc

    hashed = pc.match_substring_regex(payloads, HASHED)
    return payloads.filter(pc.or_(pc.invert(hashed), pc.match_substring_regex(payloads, ENCODED)))


def is_suspicious(point: dict[str, Any]) -> bool:
    """Whether a closer look may find something: no point with a violation is left out."""
    texts: list[str] = []
    left: list[Any] = [point]
    while left:
        value = left.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            left += [*value.values(), *value]
        elif isinstance(value, list):
            left += value
    content = "\n".join(texts).encode("utf-8", "surrogatepass")
    return not TENANT.match(str(point.get("tenantId", ""))) or loosened().search(content) is not None


@cache
def loosened() -> Any:
    """All loosened patterns as one."""
    import re2

    return re2.compile("|".join(f"(?:{pattern})" for pattern in LOOSENED))


def violations_of(point: dict[str, Any]) -> Iterator[Violation]:
    """What is left in one point, given as its wire dictionary."""
    point_id = str(point.get("id", ""))
    if not TENANT.match(str(point.get("tenantId", ""))):
        yield Violation(point_id=point_id, field="tenantId", type="TENANT")
    for field, text in strings(point):
        for kind, pattern in SUSPECTS.items():
            if pattern.search(text):
                yield Violation(point_id=point_id, field=field, type=kind)


def strings(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every string in nested dictionaries and lists, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for number, (key, item) in enumerate(value.items()):
            yield f"{path} key {number}", str(key)  # its place: the key may be what must not be repeated
            yield from strings(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from strings(item, f"{path}[{number}]")
