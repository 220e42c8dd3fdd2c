"""The privacy budget of each tenant: ε and δ that exports may spend of it in a period, in a ledger that only grows.

Composition is basic: what exports spend is added up, ε with ε and δ with δ (Dwork and Roth, "The Algorithmic
Foundations of Differential Privacy", theorem 3.16). Sums are decimal, so ten times 0.1 is 1.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from msgspec import Struct
from psycopg import Connection

from flywheel.errors import PoolError
from flywheel.pool.anonymization.noise import Noise
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.settings import PrivacySettings
from flywheel.settings import Settings

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PRESENT, SPENDING = (
    "coalesce(present, tenant_hash)",
    "privacy_spending LEFT JOIN tenant_hashes ON former = tenant_hash",
)
"""Whose budget a row is of: a tenant is one tenant whichever of its hashes the row has."""
NAMED = 3
"""So many tenants are named in a refusal."""


class Budget(Struct, frozen=True, kw_only=True):
    """A tenant's budget in a period. ``since`` is included, ``until`` is not.

    ``epsilon_ever`` and ``delta_ever`` are what all periods together have spent: the guarantee over all time.
    """

    tenant_hash: str
    since: datetime
    until: datetime
    epsilon: float
    epsilon_spent: float
    epsilon_left: float
    delta: float
    delta_spent: float
    delta_left: float
    epsilon_ever: float
    delta_ever: float
    exports: int


class Spent(Struct, frozen=True, kw_only=True):
    """What a tenant has spent in a period, exactly."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)


def period_of(moment: datetime, *, period_days: int) -> tuple[datetime, datetime]:
    """First moment of the period of a moment, and of the next one. Periods follow one another from 1970 on."""
    length = timedelta(days=period_days)
    since = EPOCH + (moment - EPOCH) // length * length
    return since, since + length


def spend(
    connection: Connection[Any],
    settings: PrivacySettings,
    noise: Noise,
    *,
    batch_id: str,
    tenants: Collection[str],
    now: datetime,
) -> None:
    """Spend an export's ε and δ from the budget of each tenant, in the transaction that enters the export.

    Until that ends nobody else can spend, so two exports cannot both spend what is enough for one. If it is undone,
    nothing is spent.

    Args:
        connection: in a transaction in which the batch was stored.
        settings: the budget.
        noise: what the export draws.
        batch_id: of the export.
        tenants: keyed hashes of whose points are in it.
        now: decides the period.

    Raises:
        PoolError: a budget does not cover it; the message says whose, what is left and when the period ends.
    """
    connection.execute("LOCK TABLE privacy_spending IN SHARE ROW EXCLUSIVE MODE")
    refused = [*uncovered(connection, settings, noise, tenants=tenants, now=now)]
    if refused:
        raise PoolError(f"export {batch_id} was not made: {'; '.join(refused)}")
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO privacy_spending (tenant_hash, batch_id, spent_at, mechanism, epsilon, delta)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            [
                (tenant, batch_id, now, noise.mechanism, exactly(noise.epsilon), exactly(noise.delta))
                for tenant in sorted(tenants)
            ],
        )


def uncovered(
    connection: Connection[Any],
    settings: PrivacySettings,
    noise: Noise,
    *,
    tenants: Collection[str],
    now: datetime,
) -> Iterator[str]:
    """Why the budgets do not cover this noise, a sentence; nothing where they do."""
    since, until = period_of(now, period_days=settings.period_days)
    spent = spent_between(connection, since, until)
    epsilon, delta = exactly(settings.epsilon), exactly(settings.delta)
    short = {
        tenant: (epsilon - held.epsilon, delta - held.delta)
        for tenant in sorted(tenants)
        for held in (spent.get(tenant, Spent()),)
        if held.epsilon + exactly(noise.epsilon) > epsilon or held.delta + exactly(noise.delta) > delta
    }
    if not short:
        return
    told = ", ".join(
        f"{tenant[:12]}… has ε {shown(left)} of {shown(epsilon)} and δ {shown(left_delta)} of {shown(delta)} left"
        for tenant, (left, left_delta) in list(short.items())[:NAMED]
    )
    more = f", and {len(short) - NAMED:,} more" if len(short) > NAMED else ""
    yield (
        f"its noise spends ε {noise.epsilon:g} and δ {noise.delta:g} of each tenant's privacy budget, and of "
        f"{len(tenants):,} tenants {len(short):,} have less: {told}{more}. The period ends on "
        f"{until:%Y-%m-%d %H:%M} UTC; until then ask for a smaller ε, which is more noise"
    )


def spent_between(connection: Connection[Any], since: datetime, until: datetime) -> dict[str, Spent]:
    """What was spent in a period, by tenant."""
    rows = connection.execute(
        f"SELECT {PRESENT}, sum(epsilon), sum(delta) FROM {SPENDING} WHERE spent_at >= %s AND spent_at < %s"  # noqa: S608
        " GROUP BY 1",
        (since, until),
    )
    return {tenant: Spent(epsilon=epsilon, delta=delta) for tenant, epsilon, delta in rows}


def list_budgets(pool: BenchmarkPool, *, now: datetime, hashes: Sequence[str] = ()) -> tuple[Budget, ...]:
    """Every period in which a tenant spent something, the latest first, and the present one of every tenant that did.

    Args:
        pool: whose ledger is read.
        now: decides which period is the present one.
        hashes: every valid hash of the only tenant that is listed, the one to list it by first; its present period is
            listed also where it never spent anything. Without any, all tenants.

    Raises:
        DatabaseError: PostgreSQL cannot be used.
    """
    limits = pool.settings.privacy
    with pool.transaction() as connection:
        rows = connection.execute(
            f"SELECT {PRESENT}, spent_at, epsilon, delta FROM {SPENDING}"  # noqa: S608
            f" WHERE %(all)s OR {PRESENT} = ANY(%(hashes)s)",
            {"all": not hashes, "hashes": list(hashes)},
        ).fetchall()
    only = dict.fromkeys(hashes, hashes[0] if hashes else "")  # a rotation that begins has not paired its hashes yet
    entries: dict[str, dict[datetime, list[Spent]]] = {}
    present, _ = period_of(now, period_days=limits.period_days)
    for tenant in {only.get(tenant, tenant) for tenant, *_ in rows} | set(only.values()):
        entries[tenant] = {present: []}
    for tenant, spent_at, epsilon, delta in rows:
        since, _ = period_of(spent_at, period_days=limits.period_days)
        entries[only.get(tenant, tenant)].setdefault(since, []).append(Spent(epsilon=epsilon, delta=delta))
    return tuple(
        budget_of(tenant, since, periods, limits)
        for tenant, periods in sorted(entries.items())
        for since in sorted(periods, reverse=True)
    )


def budget_of(tenant: str, since: datetime, periods: dict[datetime, list[Spent]], limits: PrivacySettings) -> Budget:
    """A tenant's budget in one of its periods."""
    ever, here = total(entry for period in periods.values() for entry in period), total(periods[since])
    return Budget(
        tenant_hash=tenant,
        since=since,
        until=since + timedelta(days=limits.period_days),
        epsilon=limits.epsilon,
        epsilon_spent=float(here.epsilon),
        epsilon_left=float(max(exactly(limits.epsilon) - here.epsilon, Decimal(0))),
        delta=limits.delta,
        delta_spent=float(here.delta),
        delta_left=float(max(exactly(limits.delta) - here.delta, Decimal(0))),
        epsilon_ever=float(ever.epsilon),
        delta_ever=float(ever.delta),
        exports=len(periods[since]),
    )


def total(entries: Iterable[Spent]) -> Spent:
    """Basic composition."""
    held = list(entries)
    return Spent(
        epsilon=sum((entry.epsilon for entry in held), Decimal(0)),
        delta=sum((entry.delta for entry in held), Decimal(0)),
    )


def spent_tenants(connection: Connection[Any], settings: Settings, *, now: datetime) -> int:
    """How many tenants have too little left in this period for one more export with the noise of the policy."""
    since, until = period_of(now, period_days=settings.privacy.period_days)
    next_export = 1 / exactly(settings.anonymization.policies.default.noise_magnitude)
    held = spent_between(connection, since, until).values()
    return sum(spent.epsilon + next_export > exactly(settings.privacy.epsilon) for spent in held)


def count_spending(pool: BenchmarkPool, hashes: Sequence[str]) -> int:
    """How many rows the ledger has of a tenant, given by all of its hashes."""
    with pool.transaction() as connection:
        row = connection.execute(
            "SELECT count(*) FROM privacy_spending WHERE tenant_hash = ANY(%s)", (list(hashes),)
        ).fetchone()
    assert row is not None
    return int(row[0])


def forget_spending(connection: Connection[Any], hashes: Sequence[str]) -> int:
    """Delete what the ledger has of a tenant that is erased; how many rows. No other rows can be deleted."""
    deleted = 0
    for one in hashes:
        connection.execute("SELECT set_config('flywheel.erased_tenant', %s, true)", (one,))
        deleted += connection.execute("DELETE FROM privacy_spending WHERE tenant_hash = %s", (one,)).rowcount
    return deleted


def exactly(number: float) -> Decimal:
    """The shortest decimal that names the double: 0.1 is a tenth."""
    return Decimal(repr(float(number)))


def shown(number: Decimal) -> str:
    """A number for people."""
    return f"{float(max(number, Decimal(0))):g}"
