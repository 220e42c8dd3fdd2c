"""Retention reaches what verdicts say in the audit trail, and leaves a chain that verifies."""

from datetime import UTC, datetime, timedelta

import pytest

from flywheel.arbiter.audit_trail.contents import Erasure, read_content
from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.audit_trail.trail import append, newest
from flywheel.arbiter.audit_trail.verifying import verify_trail
from flywheel.errors import PoolError
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.retention import Expired, enforce_retention, find_expired
from tests.arbiter.audit_trail.trails import OTHER, evaluation, sealed


def appended_on(pool: BenchmarkPool) -> datetime:
    with pool.engine.connect() as connection:
        return newest(connection, limit=1)[0].entry.at.astimezone(UTC)


def test_what_verdicts_say_goes_after_its_days_and_the_chain_stays(pool: BenchmarkPool) -> None:
    with Notary(pool.settings, pool.engine) as notary:
        notary.sign(evaluation("t1"))
        notary.sign(evaluation("t2"))
    at = appended_on(pool)
    assert find_expired(pool, now=at + timedelta(days=730)) == ()
    later = at + timedelta(days=731)
    announced = find_expired(pool, now=later)
    assert announced == (Expired(store="verdicts", day=at.date(), rows=2),)
    assert enforce_retention(pool, now=later).removed == announced
    assert find_expired(pool, now=later) == ()
    report = verify_trail(pool.engine)
    assert (report.intact, report.verdicts, report.erased) == (True, 0, 2)
    with pool.engine.connect() as connection:
        said = read_content(newest(connection, limit=1)[0].content or b"")
    assert isinstance(said, Erasure)
    assert (said.by, said.erased) == ("retention", 2)


def test_without_the_trails_key_nothing_of_it_goes_and_the_report_says_why(pool: BenchmarkPool) -> None:
    with pool.engine.begin() as connection:
        append(connection, [sealed(key=OTHER)], OTHER)
    later = appended_on(pool) + timedelta(days=731)
    with pytest.raises(PoolError, match="the audit trail is signed with"):
        enforce_retention(pool, now=later)
    assert verify_trail(pool.engine).verdicts == 1
