"""What entries of the audit trail say, as the bytes that are signed.

The encoding is JSON (RFC 8259) in UTF-8 without white space, keys sorted by code point, moments in UTC with six digits
of a second and a ``Z``, numbers in the shortest form that reads back the same. ``version`` numbers this encoding. Who
verifies never encodes: the bytes are kept as they were signed.

A content is removed when its tenant is erased, and its digest stays. So that nobody can then guess it back, it has a
``nonce`` of 128 random bits that goes with it.
"""

import math
from collections.abc import Iterator
from datetime import UTC
from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from flywheel.errors import AuditTrailError
from flywheel.records import (
    BudgetUsage,
    CawsScores,
    Count,
    Evaluation,
    Identifier,
    QualityGate,
    RubricScores,
    Score,
    Timestamp,
    Wire,
)

CONTENT_DOMAIN = b"flywheel.audit.content.v1\0"
Id = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]
Hex32Bytes = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class Verdict(Wire, frozen=True, kw_only=True, tag_field="kind", tag="verdict"):
    """What the arbiter decided on a task's answer: the numbers that count, and by which working spec, if by one.

    A change that a working spec alone judged has no scores of a rubric.
    """

    version: Literal[1] = 1
    verdict_id: Id
    nonce: Id
    tenant_id: Identifier
    task_id: Identifier
    agent_id: Identifier
    decided_at: Timestamp
    overall_score: Score | None = None
    rubric_scores: RubricScores | None = None
    rubric: Identifier | None = None
    quality_gates: tuple[QualityGate, ...]
    passed_all_mandatory: bool
    caws_compliant: bool
    budget_compliant: bool
    spec_id: Identifier | None = None
    spec_digest: Identifier | None = None
    waivers_used: tuple[str, ...] = ()
    gates_passed: tuple[str, ...] = ()
    scores: CawsScores | None = None
    budget_usage: BudgetUsage | None = None


class KeyAnnounced(Wire, frozen=True, kw_only=True, tag_field="kind", tag="key"):
    """From here on entries are signed with this key."""

    version: Literal[1] = 1
    key_id: Id
    public_key: Hex32Bytes
    by: str


class Erasure(Wire, frozen=True, kw_only=True, tag_field="kind", tag="erasure"):
    """The contents of ``erased`` earlier verdicts were removed; ``of`` is the digest of which."""

    version: Literal[1] = 1
    by: str
    erased: Count
    of: Hex32Bytes


Content = Verdict | KeyAnnounced | Erasure
KINDS: tuple[str, ...] = ("verdict", "key", "erasure")

encoder = msgspec.json.Encoder(order="sorted")
decode_content = msgspec.json.Decoder(Content).decode


def encode_content(content: Content) -> bytes:
    """The canonical bytes.

    Raises:
        AuditTrailError: it holds what a content cannot hold, such as a score outside 0–1; the message names it.
    """
    try:
        typed: Content = msgspec.convert(msgspec.to_builtins(content), Content)
    except msgspec.ValidationError as error:
        raise AuditTrailError(f"this {type(content).__name__} cannot be signed: {error}") from error
    plain = msgspec.to_builtins(typed)
    if isinstance(typed, Verdict):
        plain["decidedAt"] = f"{typed.decided_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    if any(not math.isfinite(number) for number in _floats(plain)):
        raise AuditTrailError("a verdict with a score that is no number cannot be signed; mend the evaluator")
    return encoder.encode(plain)


def read_content(encoded: bytes) -> Content:
    """The content that was encoded.

    Raises:
        AuditTrailError: it is none that this version knows.
    """
    try:
        found: Content = decode_content(encoded)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AuditTrailError(f"this is no content of an entry of the audit trail: {error}") from error
    return found


def digest_of(encoded: bytes) -> bytes:
    """32 bytes that stand for a content in the chain."""
    return sha256(CONTENT_DOMAIN + encoded).digest()


def verdict_on(evaluation: Evaluation, *, verdict_id: str, nonce: str) -> Verdict:
    """What is signed of an evaluation. It must have a tenant.

    Raises:
        AuditTrailError: it names no tenant.
    """
    if evaluation.tenant_id is None:
        raise AuditTrailError(f"the evaluation of task {evaluation.task_id!r} names no tenant, whose verdict it is")
    caws = evaluation.caws or None
    by_spec = {} if caws is None else {name: getattr(caws, name) for name in BY_SPEC}
    return Verdict(
        verdict_id=verdict_id,
        nonce=nonce,
        tenant_id=evaluation.tenant_id,
        task_id=evaluation.task_id,
        agent_id=evaluation.agent_id,
        decided_at=evaluation.timestamp,
        rubric=evaluation.rubric or None,
        **{name: getattr(evaluation, name) for name in JUDGED},
        **by_spec,
    )


JUDGED = (
    "overall_score",
    "rubric_scores",
    "quality_gates",
    "passed_all_mandatory",
    "caws_compliant",
    "budget_compliant",
)
BY_SPEC = ("spec_id", "spec_digest", "waivers_used", "gates_passed", "scores", "budget_usage")


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _floats(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _floats(item)


class Sealed(Struct, frozen=True, kw_only=True):
    """A content that waits to be appended; a verdict with the ``signature`` of its digest by whoever decided."""

    kind: str
    content: bytes
    signature: str | None = None

    @property
    def digest(self) -> bytes:
        """Of the content."""
        return digest_of(self.content)
