"""The chain of entries, and the walk along it that finds where it was tampered with. Pure: no database, no files."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from struct import Struct as Layout
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from flywheel.arbiter.audit_trail.contents import (
    Content,
    Erasure,
    KeyAnnounced,
    Verdict,
    digest_of,
    read_content,
)
from flywheel.arbiter.audit_trail.keys import ENTRY_DOMAIN, VERDICT_DOMAIN, PublicKey, SigningKey, key_id_of
from flywheel.errors import AuditTrailError
from flywheel.pool.headers import key_of

if TYPE_CHECKING:
    from flywheel.arbiter.audit_trail.heads import Head

LINK_DOMAIN = b"flywheel.audit.link.v1\0"
BEFORE_THE_FIRST = bytes(32)
LAYOUT = Layout(">Q32sq32s")
ERASED = Layout(">Q32s")
SIZE = Layout(">I")
EDITED_HEAD = "was edited: its signature is not of what it says"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Problem = Literal[
    "missing", "order", "link", "hash", "key", "signature", "content", "verdict", "columns", "erasure", "head"
]


class Entry(Struct, frozen=True, kw_only=True):
    """One entry, as it is in the chain for ever.

    Attributes:
        sequence: from 1 on, without gaps.
        previous: hash of the entry before it; zeros for the first.
        hash: of all the other fields but ``signature``, 32 bytes.
        kind: of its content.
        at: when it was appended, by PostgreSQL's clock, to the microsecond.
        content_digest: 32 bytes that stand for the content, also when that is gone.
        verdict_signature: of a verdict, by the arbiter that decided.
        signature: of ``hash``, by whoever appended it.
    """

    sequence: int
    previous: bytes
    hash: bytes
    kind: str
    at: datetime
    content_digest: bytes
    verdict_signature: str | None
    signature: str


class Index(Struct, frozen=True, kw_only=True):
    """The columns beside a content that it is looked up by; they must say what it says."""

    verdict_id: str | None
    owner_key: bytes | None
    task_key: bytes | None


class Read(Struct, frozen=True, kw_only=True):
    """An entry with what lies beside it: its content, or the sequence of the erasure that removed it."""

    entry: Entry
    content: bytes | None = None
    erased_in: int | None = None
    index: Index | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """Where the trail is not as it was written, first of all, and what is wrong there."""

    sequence: int
    problem: Problem
    detail: str


def link_hash(
    *,
    sequence: int,
    previous: bytes,
    kind: str,
    at: datetime,
    content_digest: bytes,
    verdict_signature: str | None,
) -> bytes:
    """The hash of an entry: over its fields in this order, texts with their length before them."""
    fixed = LAYOUT.pack(sequence, previous, (at - EPOCH) // MICROSECOND, content_digest)
    texts = (kind.encode(), (verdict_signature or "").encode())
    return sha256(LINK_DOMAIN + fixed + b"".join(SIZE.pack(len(text)) + text for text in texts)).digest()


def linked(
    last: tuple[int, bytes],
    *,
    kind: str,
    at: datetime,
    content_digest: bytes,
    verdict_signature: str | None,
    key: SigningKey,
) -> Entry:
    """The entry that follows the one of this sequence and hash, signed."""
    sequence, previous = last[0] + 1, last[1]
    made = link_hash(
        sequence=sequence,
        previous=previous,
        kind=kind,
        at=at,
        content_digest=content_digest,
        verdict_signature=verdict_signature,
    )
    return Entry(
        sequence=sequence,
        previous=previous,
        hash=made,
        kind=kind,
        at=at,
        content_digest=content_digest,
        verdict_signature=verdict_signature,
        signature=key.sign(ENTRY_DOMAIN, made),
    )


class ErasedContents:
    """The digest of which contents an erasure removed: of their sequences and digests, in order."""

    def __init__(self) -> None:
        self.count = 0
        self.first = 0
        self._digest = sha256()

    def add(self, sequence: int, content_digest: bytes) -> None:
        """One more; sequences ascend."""
        self.first = self.first or sequence
        self.count += 1
        self._digest.update(ERASED.pack(sequence, content_digest))

    @property
    def digest(self) -> str:
        """64 hex digits."""
        return self._digest.hexdigest()


class Walk:
    """Goes along the chain from its beginning and stops at the first entry that is not as it was written.

    It keeps the keys, the heads and a few numbers for each erasure whose entry it has not reached: the length of the
    chain costs time alone.

    Args:
        heads: that the chain must contain; each was signed when the chain was so long.
        trusted: ids of keys that may stand at the beginning of a chain of keys; none: the first entry's may.
    """

    def __init__(self, *, heads: Iterable["Head"] = (), trusted: Iterable[str] = ()) -> None:
        self.sequence, self.hash = 0, BEFORE_THE_FIRST
        self.verdicts = self.erased = 0
        self.keys: dict[str, PublicKey] = {}
        self.first_at: datetime | None = None
        self.last_at: datetime | None = None
        self._current: str | None = None
        self._trusted = frozenset(trusted)
        self._heads = sorted(heads, key=lambda head: head.sequence)
        self._reached = 0
        self._erasures: dict[int, ErasedContents] = {}

    def step(self, read: Read) -> Finding | None:
        """The next entry; what is wrong with it, if anything is."""
        entry = read.entry
        finding = self._link(entry) or self._content(read) or self._heads_at(entry)
        if finding is None:
            self.sequence, self.hash, self.last_at = entry.sequence, entry.hash, entry.at
            self.first_at = self.first_at or entry.at
        return finding

    def end(self) -> Finding | None:
        """What is wrong with a chain that ends here, if anything is."""
        for head in self._heads[self._reached :]:
            key = self.keys.get(key_id_of(head.signature))
            if key is not None and not head.is_signed_by(key):
                return self._of_head(head, EDITED_HEAD)
            why = "the rest was cut off" if key else "its key is not here: cut off, too, or it is another trail's"
            detail = f"{head.sequence:,} entries, and here are {self.sequence:,}; {why}"
            return self._of_head(head, f"has {detail}", sequence=self.sequence + 1, problem="missing")
        for erasure, contents in sorted(self._erasures.items()):
            detail = f"its content is gone, and the erasure {erasure:,} that is to have removed it is none"
            return Finding(sequence=contents.first, problem="erasure", detail=detail)
        return None

    def _link(self, entry: Entry) -> Finding | None:
        expected = self.sequence + 1
        if entry.sequence > expected:
            last = entry.sequence - 1
            what = f"entry {expected:,} is" if last == expected else f"entries {expected:,} to {last:,} are"
            return Finding(sequence=expected, problem="missing", detail=f"{what} missing")
        if entry.sequence < expected:
            return self._of(entry, "order", f"it comes after entry {self.sequence:,}")
        if entry.previous != self.hash:
            return self._of(entry, "link", "it does not follow the entry before it: one of the two is another")
        if len(entry.content_digest) != len(BEFORE_THE_FIRST) or _hash_of(entry) != entry.hash:
            return self._of(entry, "hash", "its fields are not those that were hashed: it was edited")
        return self._signer(entry)

    def _signer(self, entry: Entry) -> Finding | None:
        key_id = key_id_of(entry.signature)
        if key_id != self._current:
            if entry.kind == "key":
                return None  # a new beginning, which says its key itself
            said = "is retired" if key_id in self.keys else "is unknown"
            return self._of(entry, "key", f"the key {key_id or 'without an id'} that signed it {said}")
        if not self.keys[key_id].verifies(entry.signature, ENTRY_DOMAIN, entry.hash):
            return self._of(entry, "signature", f"the key {key_id} did not sign it: the signature is forged")
        return None

    def _content(self, read: Read) -> Finding | None:
        entry = read.entry
        if read.content is None:
            return self._erased(read)
        if digest_of(read.content) != entry.content_digest:
            return self._of(entry, "content", "its content is not the one that was signed: it was edited")
        try:
            content = read_content(read.content)
        except AuditTrailError as error:
            return self._of(entry, "content", str(error))
        if type(content).__struct_config__.tag != entry.kind:
            return self._of(entry, "content", f"its content is no {entry.kind}")
        return self._said(read, content)

    def _said(self, read: Read, content: Content) -> Finding | None:
        match content:
            case Verdict():
                return self._verdict(read, content)
            case KeyAnnounced():
                return self._key(read.entry, content)
            case Erasure():
                return self._erasure(read.entry, content)

    def _erased(self, read: Read) -> Finding | None:
        entry = read.entry
        if entry.kind != "verdict" or read.erased_in is None or read.erased_in <= entry.sequence:
            return self._of(entry, "content", "its content was removed, and by no erasure")
        self._erasures.setdefault(read.erased_in, ErasedContents()).add(entry.sequence, entry.content_digest)
        self.erased += 1
        return self._signature_of_verdict(entry)

    def _verdict(self, read: Read, verdict: Verdict) -> Finding | None:
        if read.erased_in is not None or (read.index is not None and read.index != index_of(verdict)):
            return self._of(read.entry, "columns", "the columns it is looked up by do not say what its content says")
        self.verdicts += 1
        return self._signature_of_verdict(read.entry)

    def _signature_of_verdict(self, entry: Entry) -> Finding | None:
        signature = entry.verdict_signature or ""
        key = self.keys.get(key_id_of(signature))
        if key is None:
            return self._of(entry, "verdict", f"the key {key_id_of(signature) or 'without an id'} of it is unknown")
        if not key.verifies(signature, VERDICT_DOMAIN, entry.content_digest):
            return self._of(entry, "verdict", f"the key {key.id} did not sign this verdict: the signature is forged")
        return None

    def _key(self, entry: Entry, announced: KeyAnnounced) -> Finding | None:
        key = PublicKey(announced.public_key)
        if key.id != announced.key_id:
            return self._of(entry, "key", "the key that it announces has another id")
        if key_id_of(entry.signature) != self._current:
            if key_id_of(entry.signature) != key.id or not key.verifies(entry.signature, ENTRY_DOMAIN, entry.hash):
                return self._of(entry, "key", "the key that it announces is announced by an unknown key")
            if key.id not in self._trusted and (self._trusted or entry.sequence > 1):
                said = "nobody trusts the key" if entry.sequence == 1 else "no key before it vouches for the key"
                return self._of(entry, "key", f"{said} {key.id}; if it is yours, say so: --trust {key.id}")
        self.keys[key.id] = key
        self._current = key.id
        return None

    def _erasure(self, entry: Entry, said: Erasure) -> Finding | None:
        found = self._erasures.pop(entry.sequence, ErasedContents())
        if (found.count, found.digest) == (said.erased, said.of):
            return None
        detail = f"{said.by} erased {said.erased:,} contents, and {found.count:,} are gone by it; these are others"
        return self._of(entry, "erasure", detail)

    def _heads_at(self, entry: Entry) -> Finding | None:
        while self._reached < len(self._heads) and self._heads[self._reached].sequence <= entry.sequence:
            head = self._heads[self._reached]
            key = self.keys.get(key_id_of(head.signature))
            if key is None:
                return self._of_head(head, "is signed by no key of this trail: it is another trail's")
            if not head.is_signed_by(key):
                return self._of_head(head, EDITED_HEAD)
            if head.hash != entry.hash.hex():
                return self._of_head(head, f"has another entry {head.sequence:,}: what is here was put in its place")
            self._reached += 1
        return None

    def _of_head(self, head: "Head", detail: str, *, sequence: int | None = None, problem: Problem = "head") -> Finding:
        said = f"the head of {head.at:%Y-%m-%d %H:%M:%S} UTC {detail}"
        return Finding(sequence=sequence or head.sequence, problem=problem, detail=said)

    def _of(self, entry: Entry, problem: Problem, detail: str) -> Finding:
        return Finding(sequence=entry.sequence, problem=problem, detail=detail)


def index_of(content: Content) -> Index:
    """What the columns beside a content say of it."""
    if not isinstance(content, Verdict):
        return NO_INDEX
    return Index(verdict_id=content.verdict_id, owner_key=key_of(content.tenant_id), task_key=key_of(content.task_id))


NO_INDEX = Index(verdict_id=None, owner_key=None, task_key=None)


def first_finding(reads: Iterable[Read], walk: Walk) -> Finding | None:
    """Walk to the end, or to the first entry that is not as it was written."""
    for read in reads:
        if (finding := walk.step(read)) is not None:
            return finding
    return walk.end()


def _hash_of(entry: Entry) -> bytes:
    return link_hash(
        sequence=entry.sequence,
        previous=entry.previous,
        kind=entry.kind,
        at=entry.at,
        content_digest=entry.content_digest,
        verdict_signature=entry.verdict_signature,
    )
