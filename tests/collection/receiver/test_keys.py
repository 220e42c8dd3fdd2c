"""Keys: shown once, stored as digests, good while they are not revoked and for a while without PostgreSQL."""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest
from click.testing import Result

from flywheel.collection.receiver.keys import Holder, KeyRing, UnknownKeyError, create_key, list_keys, revoke_key
from flywheel.errors import DatabaseError, InputError, NotInPoolError
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.cli.conftest import Invoke, flywheel, home

__all__ = ["flywheel", "home"]
NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def pool(settings: Settings) -> Iterator[BenchmarkPool]:
    with BenchmarkPool.open(settings) as opened:
        yield opened


def test_a_key_is_its_tenant_s_and_nothing_of_it_is_kept(pool: BenchmarkPool) -> None:
    made = create_key(pool, "acme", name="staging", by="ann", now=NOW)
    ring = KeyRing(pool, cache_s=10, outage_s=300)
    assert ring.remembered(made.key) is None
    assert ring.find(made.key) == ring.remembered(made.key) == Holder(made.id, "acme")
    with pool.transaction() as connection:
        row = connection.execute("SELECT to_jsonb(api_keys)::text FROM api_keys").fetchone()
    assert row is not None
    assert made.key.split("_")[2] not in row[0]
    for wrong in (made.key[:-1] + "!", made.key.replace(made.id, "0" * 12), made.key[:-4] + "AAAA", "", "fwt_x"):
        with pytest.raises(UnknownKeyError):
            ring.find(wrong)


def test_a_key_runs_tasks_only_if_it_was_made_for_it(pool: BenchmarkPool) -> None:
    ring = KeyRing(pool, cache_s=10, outage_s=300)
    for may in (False, True):
        made = create_key(pool, "acme", name="", by="ann", now=NOW, may_run_tasks=may)
        [listed] = [key for key in list_keys(pool) if key.id == made.id]
        assert made.may_run_tasks is ring.find(made.key).may_run_tasks is listed.may_run_tasks is may


def test_a_revoked_key_is_refused_after_the_cache_s_time_and_at_once_elsewhere(pool: BenchmarkPool) -> None:
    clock = Clock()
    made = create_key(pool, "acme", name="", by="ann", now=NOW)
    ring = KeyRing(pool, cache_s=10, outage_s=300, monotonic=clock)
    ring.find(made.key)
    revoke_key(pool, made.id, by="ben", now=NOW)
    clock.s = 10.0
    assert ring.remembered(made.key) is not None
    clock.s = 10.1
    assert ring.remembered(made.key) is None
    for asked in (ring, KeyRing(pool, cache_s=10, outage_s=300)):
        with pytest.raises(UnknownKeyError):
            asked.find(made.key)
    with pytest.raises(NotInPoolError):
        revoke_key(pool, made.id, by="ben", now=NOW)
    (listed,) = list_keys(pool)
    assert (listed.id, listed.revoked_by) == (made.id, "ben")


def test_known_keys_outlive_an_outage_for_a_while(pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    made, other = (create_key(pool, tenant, name="", by="ann", now=NOW) for tenant in ("acme", "globex"))
    ring = KeyRing(pool, cache_s=10, outage_s=300, monotonic=clock)
    ring.find(made.key)

    def away(_self: BenchmarkPool) -> None:
        raise DatabaseError("PostgreSQL cannot be used")

    monkeypatch.setattr(BenchmarkPool, "transaction", away)
    clock.s = 299.0
    assert ring.find(made.key).tenant_id == "acme"
    with pytest.raises(DatabaseError):
        ring.find(other.key)
    with pytest.raises(UnknownKeyError):
        ring.find(made.key[:-4] + "AAAA")
    clock.s = 301.0
    with pytest.raises(DatabaseError):
        ring.find(made.key)


def test_a_tenant_has_a_name(pool: BenchmarkPool) -> None:
    for name in ("", "  ", "x" * 513):
        with pytest.raises(InputError):
            create_key(pool, name, name="", by="ann", now=NOW)


def test_the_command_line_makes_lists_and_revokes(flywheel: Invoke) -> None:
    made: Result = flywheel("keys", "create", "--tenant", "acme", "--name", "staging")
    key = made.stdout.strip()
    assert key.startswith("fwk_")
    (listed,) = msgspec.json.decode(flywheel("keys", "list", "--json").stdout)
    assert (listed["tenant_id"], listed["name"], listed["id"]) == ("acme", "staging", key.split("_")[1])
    assert key not in flywheel("keys", "list").stdout
    assert "10 s" in flywheel("keys", "revoke", listed["id"]).stdout
    assert "revoked" in flywheel("keys", "list").stdout
    assert flywheel("keys", "revoke", listed["id"]).exit_code == 1


def test_whether_a_key_runs_tasks_is_said_when_it_is_made(flywheel: Invoke) -> None:
    flywheel("keys", "create", "--tenant", "acme", "--name", "service", "--may-run-tasks")
    flywheel("keys", "create", "--tenant", "acme", "--name", "sender")
    listed = msgspec.json.decode(flywheel("keys", "list", "--json").stdout)
    assert {key["name"]: key["may_run_tasks"] for key in listed} == {"service": True, "sender": False}
