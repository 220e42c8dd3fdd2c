"""Anonymizing points, some thousand at a time: rows in, rows without persons and secrets out. Pure."""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import date
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from flywheel.errors import PoolError
from flywheel.pool.anonymization.applying import apply_policy
from flywheel.pool.anonymization.detection import DEFAULT, Detection
from flywheel.pool.anonymization.places import NONE, Place, places_in
from flywheel.pool.anonymization.policy import AnonymizationPolicies, AnonymizationPolicy
from flywheel.pool.anonymization.readings import memory_of
from flywheel.pool.anonymization.spans import find_each
from flywheel.pool.anonymization.tenants import tenant_hash
from flywheel.pool.anonymization.text import Anonymizer
from flywheel.pool.anonymization.verdicts import signed_fields
from flywheel.pool.digests import Digest, texts_of
from flywheel.pool.files import LakeFile, lake_file
from flywheel.pool.lake import PARTITION
from flywheel.pool.rows import arrow_schema, column_text, points_in
from flywheel.pool.schemas import POINT_COLUMNS
from flywheel.records import decode_point

if TYPE_CHECKING:
    import pyarrow as pa

Wire = dict[str, Any]
decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode

# Never touched (SPEC section 4): what statistics and strata are kept by, and names that the pool gave itself.
# Every other string is looked into.
KEPT = frozenset({"id", "timestamp", "tenantId"})
KEPT_WITHIN = {
    "task": frozenset({"type", "complexity"}),
    "routing": frozenset({"selectedAgentId", "strategy"}),
    "provenance": frozenset({"segments", "warnings", "waived"}),
}
OWN_SEGMENT = re.compile(r"\d{8}T\d{12}-\d+-[0-9a-f]{8}\.segment")  # as collectors name them
FREE_TEXTS = frozenset({"content", "arguments", "description", "primaryReason", "failureReason", "selectionReason"})
"""Fields that may hold any text: a point stays one, whatever is replaced in them."""


class AnonymizationJob(Struct, frozen=True, kw_only=True):
    """A file of a day's validated points, the secret of the tenant hash, the tenants' policies, what is looked for."""

    day: date
    content: bytes
    salt: bytes
    policies: AnonymizationPolicies
    detection: Detection = DEFAULT


class Anonymized(Struct, frozen=True, kw_only=True):
    """What became of a job: its points in a file, how many were ``changed``, and values by type that were replaced."""

    file: LakeFile
    digest: Digest
    changed: int
    replaced: Counter[str]


class Columns:
    """The columns that anonymizing changes, as they grow."""

    def __init__(self) -> None:
        self.tenant_id: list[str] = []
        self.task_id: list[str] = []
        self.source: list[str | None] = []
        self.payload: list[bytes] = []

    def add(self, point: Wire) -> None:
        """One more row."""
        task = point["task"]
        self.tenant_id.append(point["tenantId"])
        self.task_id.append(column_text(task["id"]))
        self.source.append(None if task["source"] is None else column_text(task["source"]))
        self.payload.append(encode(point))


def anonymize_points(job: AnonymizationJob) -> Anonymized:
    """The points without persons and secrets; what is not replaced stays as it is, byte for byte.

    Raises:
        PoolError: an own type replaces what a point cannot do without.
    """
    batch = points_in(job.content, day=job.day)
    find = partial(find_each, memory=memory_of(job.detection))
    columns = Columns()
    replaced: Counter[str] = Counter()
    changed = 0
    for payload in texts_of(batch.column("payload")):
        point = decode(payload)
        policy = job.policies.of(point["tenantId"])
        anonymizer = Anonymizer(find=find, detection=job.detection, keep_file_names=not policy.remove_file_names)
        places = anonymize(point, anonymizer=anonymizer, salt=job.salt, policy=policy)
        columns.add(point)
        if anonymizer.replaced:
            if not only_free_texts_changed(places):
                require_point(point["id"], columns.payload[-1])
            replaced.update(anonymizer.replaced)
            changed += 1
    clean = with_columns(batch, columns)
    digest = Digest()
    digest.add_batch(clean)
    return Anonymized(file=lake_file([clean], key=PARTITION), digest=digest, changed=changed, replaced=replaced)


def only_free_texts_changed(places: Iterable[Place]) -> bool:
    """Whether whatever else was looked into holds the very text that it held."""
    return all(
        not place.is_key and (place.key in FREE_TEXTS or place.container[place.key] is place.text) for place in places
    )


def require_point(point_id: str, payload: bytes) -> None:
    """It still is a point: a team's own type may take a moment for a value, or a word that a field must have.

    Raises:
        PoolError: it is none any more.
    """
    try:
        decode_point(payload)
    except msgspec.ValidationError as error:
        raise PoolError(
            f"point {point_id} is none any more once its values are replaced: {error}. Nothing was written. Make the "
            f"patterns and keys of anonymization.types narrower"
        ) from None


def anonymize(point: Wire, *, anonymizer: Anonymizer, salt: bytes, policy: AnonymizationPolicy) -> list[Place]:
    """Hash the point's tenant and look into every string, in place. Its id stays: it is a digest.

    Returns the places that were looked into, with the texts that they held before.

    What the tenant's policy says comes first: code is read as it was written.

    A data point has no field for a user id; a routing decision's is not carried into it.
    """
    tenant = hashed(point["tenantId"], salt)
    places: list[Place] = []
    for name, part in point.items():
        if isinstance(part, str):
            if name not in KEPT:
                places.append(Place(point, name, part))
        elif isinstance(part, dict | list):
            kept = KEPT_WITHIN.get(name, NONE)
            if name == "caws" and isinstance(part, dict):
                kept = signed_fields(part)
            places += places_in(part, kept=kept, detection=anonymizer.detection)
    segments = point["provenance"]["segments"]
    places += [Place(segments, number, name) for number, name in enumerate(segments) if not OWN_SEGMENT.fullmatch(name)]
    anonymizer.replace(apply_policy(places, policy, tenant_id=point["tenantId"], replaced=anonymizer.replaced))
    point["tenantId"] = tenant
    for feedback in point["feedback"]:
        if feedback.get("tenantId") is not None:
            feedback["tenantId"] = tenant
    return places


def with_columns(batch: "pa.RecordBatch", columns: Columns) -> "pa.RecordBatch":
    """The batch with the columns that anonymizing changes."""
    import pyarrow as pa

    changed = {name: pa.array(values, pa.string()) for name, values in vars(columns).items()}
    return pa.record_batch(
        [changed.get(name, batch.column(name)) for name in batch.schema.names], schema=arrow_schema(POINT_COLUMNS)
    )


@lru_cache(maxsize=10_000)
def hashed(tenant_id: str, salt: bytes) -> str:
    """The tenant's hash; a day has few tenants."""
    return tenant_hash(tenant_id, salt=salt)
