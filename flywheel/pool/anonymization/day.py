"""Anonymization of a day: its validated points, without persons and secrets, in a table of their own."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from functools import partial
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.errors import PoolError
from flywheel.pool.anonymization.canaries import surviving
from flywheel.pool.anonymization.detection import detection_in
from flywheel.pool.anonymization.points import AnonymizationJob, Anonymized, anonymize_points
from flywheel.pool.anonymization.second_detector import Sample, second_look
from flywheel.pool.anonymization.violations import EXAMPLES, Suspicions, suspicions_of
from flywheel.pool.digests import Digest
from flywheel.pool.files import LakeFile
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import REPLACED, arrow_schema, read_batches
from flywheel.pool.schemas import ANONYMIZED, POINT_COLUMNS, VALIDATED
from flywheel.pool.tenant_salts import hashing, remember_tenants
from flywheel.pool.workers import mapped
from flywheel.records import decode_point

CANARY = "CANARY"
"""The type of what anonymizing leaves of the canaries that go through it with every day."""
ROWS_FOR_PROCESSES = 4_000  # fewer are done before a process has started


class AnonymizationReport(Struct, frozen=True, kw_only=True):
    """What was replaced. ``replaced`` counts by type; a value that occurs twice counts twice.

    ``policies`` is the digest of the tenants' policies, ``detection`` of the team's own types and language model (empty
    without any), ``version`` of points and both: another of any is another version of the day.
    """

    day: date
    points: int
    points_changed: int
    replaced: dict[str, int]
    digest: str
    policies: str
    detection: str = ""

    @property
    def version(self) -> str:
        """What the day's points and the settings that made them are called together."""
        return "-".join(filter(None, (self.digest, self.policies, self.detection)))


class Violations(Struct, frozen=True, kw_only=True):
    """What is left in a day. ``where`` names points, fields and types of the first ones, never values.

    ``second_detector`` says what presidio read of it, or why it did not; ``second_found`` is all that was suspicious to
    it, of which ``count``, ``by_type`` and ``where`` hold what is a violation. A point that both found counts twice.
    """

    day: date
    count: int
    points: int
    by_type: dict[str, int]
    where: tuple[str, ...]
    second_detector: str
    second_found: dict[str, int]
    second_where: tuple[str, ...]


def anonymize_day(pool: BenchmarkPool, day: date) -> AnonymizationReport:
    """Read the day's validated points, replace what SPEC section 4 names, and write them as the anonymized ones.

    Raises:
        ConfigurationError: the language model that is to find names cannot be used.
        PoolError: the lake or the tenant salt cannot be used, the salt is not the pool's, or the lake does not hold
            what was validated.
        DatabaseError: PostgreSQL cannot be used.
    """
    policies = pool.settings.anonymization.policies
    detection = detection_in(pool.settings.anonymization)
    account = Account()
    with pool.exclusive(f"anonymization:{day}") as connection:
        known = connection.execute("SELECT validated_revision, points FROM days WHERE day = %s", (day,)).fetchone()
        processes = processes_for(pool, points=known[1] if known else 0)
        salts = hashing(pool, connection)
        if salts.former is not None:
            remember_tenants(connection, tenants_of(pool, day), salts)
        contents = pool.lake.contents(VALIDATED, str(day))
        jobs = (
            AnonymizationJob(day=day, content=content, salt=salts.present, policies=policies, detection=detection)
            for content in contents
        )
        parts = mapped(anonymize_points, jobs, processes=processes)
        files = account.passing(parts, day=day, expected=expected_points(connection, day))
        pool.replace_files(ANONYMIZED, day, files, schema=arrow_schema(POINT_COLUMNS))
        if known:
            connection.execute(
                "UPDATE days SET anonymized_revision = %s, privacy_violations = NULL, verified_digest = NULL,"
                " points_removed_at = CASE WHEN points = %s THEN NULL ELSE points_removed_at END WHERE day = %s",
                (known[0], account.digest.rows, day),
            )
    return AnonymizationReport(
        day=day,
        points=account.digest.rows,
        points_changed=account.changed,
        replaced=dict(account.replaced),
        digest=account.digest.hexdigest(),
        policies=policies.digest(salt=salts.present),
        detection=detection.digest(salt=salts.present),
    )


def tenants_of(pool: BenchmarkPool, day: date) -> frozenset[str]:
    """The names of the tenants of a day's validated points."""
    names: set[str] = set()
    for batch in read_batches(pool, VALIDATED, day, columns=("tenant_id", "payload")):
        named = batch.column("tenant_id").to_pylist()
        names.update(name for name in named if REPLACED not in name)
        rare = [row for row, name in enumerate(named) if REPLACED in name]  # columns cannot hold every name as it is
        names.update(decode_point(batch.column("payload")[row].as_py()).tenant_id for row in rare)
    return frozenset(names)


class Account:
    """The running account of a day."""

    def __init__(self) -> None:
        self.changed = 0
        self.replaced: Counter[str] = Counter()
        self.digest = Digest()

    def passing(self, parts: Iterable[Anonymized], *, day: date, expected: int | None) -> Iterator[LakeFile]:
        """The files of the parts, accounted for on the way.

        Raises:
            PoolError: they are not as many points as were validated, or none where retention removed them.
        """
        for part in parts:
            self.changed += part.changed
            self.replaced.update(part.replaced)
            self.digest.update(part.digest)
            yield part.file
        if expected is not None and self.digest.rows != expected:
            raise PoolError(
                f"the lake holds {self.digest.rows:,} validated points of {day}, {expected:,} were validated; nothing "
                f"was written. Validate the day again"
            )


def expected_points(connection: Connection[Any], day: date) -> int | None:
    """How many points were validated; None where that is not known, or retention may have removed them."""
    row = connection.execute("SELECT points FROM days WHERE day = %s AND points_removed_at IS NULL", (day,)).fetchone()
    return None if row is None else int(row[0])


def processes_for(pool: BenchmarkPool, *, points: int) -> int:
    """How many processes are worth their start for this many points."""
    return pool.processes if points >= ROWS_FOR_PROCESSES else 1


def find_violations(pool: BenchmarkPool, day: date) -> Violations:
    """Look for what is left in the day's anonymized points with other eyes, and enter the count into the ledger.

    So is the digest of the points that it looked at: no tier takes others (``flywheel.pool.tiers``).

    Raises:
        ConfigurationError: a spaCy pipeline that the settings name is not installed.
        PoolError: the lake cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    with pool.transaction() as connection:
        return enter_violations(pool, connection, day)


def enter_violations(pool: BenchmarkPool, connection: Connection[Any], day: date) -> Violations:
    """The same in the caller's transaction, until whose end nobody anonymizes the day anew.

    So the ledger never says of points what was found in others.
    """
    pool.share(connection, f"anonymization:{day}")
    known = connection.execute("SELECT points FROM days WHERE day = %s", (day,)).fetchone()
    processes = processes_for(pool, points=known[0] if known else 0)
    total, sample = Suspicions(), Sample(pool.settings.anonymization.second_detector.points)
    contents = sample.passing(pool.lake.contents(ANONYMIZED, str(day)))
    for found in mapped(suspicions_of, contents, processes=processes):
        total.add(found)
    second = second_look(sample, pool.settings.anonymization.second_detector, processes=pool.processes)
    # where the day's other stages have processes, those have the detectors ready: here that takes 1.3 s
    left = partial(surviving, detection=detection_in(pool.settings.anonymization))
    (survived,) = mapped(left, [pool.settings.anonymization.policies], processes=processes)
    total.by_type.update({CANARY: len(survived)} if survived else {})
    total.where = [*(f"canary {place}" for place in survived), *total.where]
    count = total.by_type.total() + second.halting.by_type.total()
    connection.execute(
        "UPDATE days SET privacy_violations = %s, verified_digest = %s WHERE day = %s",
        (count, total.looked_at.hexdigest(), day),
    )
    return Violations(
        day=day,
        count=count,
        points=total.points + second.halting.points,
        by_type={**total.by_type, **by_presidio(second.halting)},
        where=(*total.where, *second.halting.where)[:EXAMPLES],
        second_detector=second.summary,
        second_found=dict(second.suspicions.by_type),
        second_where=tuple(second.suspicions.where),
    )


def by_presidio(found: Suspicions) -> dict[str, int]:
    """Counts by type that say whose they are."""
    return {f"{kind} (presidio)": count for kind, count in found.by_type.items()}
