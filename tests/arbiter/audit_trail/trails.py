"""Trails of made-up verdicts: in memory for laws of the chain, in PostgreSQL for what holds it."""

import secrets
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from sqlalchemy import Engine

from flywheel.arbiter.audit_trail.chain import BEFORE_THE_FIRST, ErasedContents, Read, index_of, linked
from flywheel.arbiter.audit_trail.contents import Erasure, Sealed, encode_content, read_content, verdict_on
from flywheel.arbiter.audit_trail.heads import Head, signed_head
from flywheel.arbiter.audit_trail.keys import VERDICT_DOMAIN, SigningKey
from flywheel.arbiter.audit_trail.trail import announcement, append
from flywheel.records import Evaluation, QualityGate, RubricScores

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
KEY = SigningKey.of_seed(bytes(range(32)))
OTHER = SigningKey.of_seed(bytes(range(1, 33)))


def evaluation(task: str = "t1", *, tenant: str | None = "acme", score: float = 0.9) -> Evaluation:
    return Evaluation(
        task_id=task,
        agent_id="agent-a",
        tenant_id=tenant,
        timestamp=NOON,
        quality_gates=(QualityGate(name="tests", passed=True, score=1.0, threshold=1.0, mandatory=True),),
        rubric_scores=RubricScores(format=1, tool=1, task=score, minimal=1, cost=1, safety=1),
        overall_score=score,
        caws_compliant=True,
        budget_compliant=True,
        passed_all_mandatory=True,
    )


def sealed(task: str = "t1", *, tenant: str = "acme", key: SigningKey = KEY) -> Sealed:
    verdict = verdict_on(evaluation(task, tenant=tenant), verdict_id=uuid.uuid4().hex, nonce=secrets.token_hex(16))
    one = Sealed(kind="verdict", content=encode_content(verdict))
    return msgspec.structs.replace(one, signature=key.sign(VERDICT_DOMAIN, one.digest))


def filled(engine: Engine, count: int, *, key: SigningKey = KEY, tenants: Sequence[str] = ("acme",)) -> Head:
    """A trail in PostgreSQL with the key and so many verdicts, of the tenants in turn."""
    with engine.begin() as connection:
        head = append(
            connection, [sealed(f"t{n}", tenant=tenants[n % len(tenants)], key=key) for n in range(count)], key
        )
    assert head is not None
    return head


class Chain:
    """A chain in memory."""

    def __init__(self, key: SigningKey = KEY) -> None:
        self.key = key
        self.reads: list[Read] = []
        self.add(announcement(key.public, by="a test"))

    def add(self, one: Sealed) -> Read:
        last = self.reads[-1].entry if self.reads else None
        entry = linked(
            (last.sequence, last.hash) if last else (0, BEFORE_THE_FIRST),
            kind=one.kind,
            at=NOON + timedelta(seconds=len(self.reads)),
            content_digest=one.digest,
            verdict_signature=one.signature,
            key=self.key,
        )
        self.reads.append(Read(entry=entry, content=one.content, index=index_of(read_content(one.content))))
        return self.reads[-1]

    def verdicts(self, count: int) -> "Chain":
        for number in range(count):
            self.add(sealed(f"t{number}", key=self.key))
        return self

    def rotate(self, key: SigningKey) -> "Chain":
        self.add(announcement(key.public, by="a test"))
        self.key = key
        return self

    def erase(self, *sequences: int) -> "Chain":
        contents = ErasedContents()
        for sequence in sorted(sequences):
            contents.add(sequence, self.reads[sequence - 1].entry.content_digest)
        said = Erasure(by="ann", erased=contents.count, of=contents.digest)
        erasure = self.add(Sealed(kind="erasure", content=encode_content(said))).entry.sequence
        for sequence in sequences:
            self.reads[sequence - 1] = msgspec.structs.replace(
                self.reads[sequence - 1], content=None, index=None, erased_in=erasure
            )
        return self

    def head(self, key: SigningKey | None = None) -> Head:
        last = self.reads[-1].entry
        return signed_head(
            Head(sequence=last.sequence, hash=last.hash.hex(), at=last.at, signature=""), key or self.key
        )
