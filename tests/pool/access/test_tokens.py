"""Tokens for HTTP."""

from datetime import datetime, timedelta

import psycopg
import pytest

from flywheel.errors import AccessError
from flywheel.pool.access.audit import list_audit
from flywheel.pool.access.grants import request_grant, revoke
from flywheel.pool.access.tokens import Refusal, authenticate, issue_token, revoke_token
from flywheel.pool.pool import BenchmarkPool
from tests.pool.access.conftest import NOW, TERMS, Granted, entries, new_name


def test_a_token_lets_in_its_grant_until_it_or_the_grant_ends(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst")
    token = issue_token(filled, grant.id, by="bob", now=NOW)
    assert authenticate(filled, token.token, now=NOW) == grant
    assert token.expires_at == NOW + timedelta(days=filled.settings.access.token_days)
    assert "ended at" in refused(filled, token.token, now=token.expires_at)
    with filled.transaction() as connection:
        stored = connection.execute("SELECT t::text FROM access_tokens t").fetchall()
    assert len(stored) == 1
    assert token.token.rpartition("_")[2] not in stored[0][0]
    revoke_token(filled, token.id, by="bob", now=NOW)
    assert "the token was revoked" in refused(filled, token.token)
    with pytest.raises(AccessError, match="there is no token"):
        revoke_token(filled, token.id, by="bob", now=NOW)
    second = issue_token(filled, grant.id, by="bob", now=NOW)
    revoke(filled, grant.id, by="bob", reason="", now=NOW)
    assert f"grant {grant.id} is revoked" in refused(filled, second.token)
    assert [entry.action for entry in entries(filled, grant) if entry.action.startswith("token")] == [
        "token.issue",
        "token.revoke",
        "token.issue",
    ]


def refused(pool: BenchmarkPool, token: str, *, now: datetime = NOW) -> str:
    answer = authenticate(pool, token, now=now)
    assert isinstance(answer, Refusal)
    return answer.reason


def test_a_wrong_token_learns_nothing_and_only_real_ones_fill_the_audit(
    filled: BenchmarkPool, granted: Granted
) -> None:
    grant = granted("analyst")
    token = issue_token(filled, grant.id, by="bob", now=NOW).token
    before = len(list_audit(filled))
    unknown = f"fwt_{'0' * 12}_{token.rpartition('_')[2]:0<43}"
    for guess in ("", "x", "fwt__", token[:-1], token + "x", unknown, "fwt_\0", "\ud800"):
        assert refused(filled, guess) == "the token is not known here"
    assert len(list_audit(filled)) == before
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    assert refused(filled, wrong) == "the token is not known here"
    assert entries(filled, grant)[-1].reason == "the secret of the token is wrong"


def test_a_token_ends_with_its_grant_and_a_waiting_grant_has_none(pool: BenchmarkPool) -> None:
    ends = NOW + timedelta(days=2)
    grant = request_grant(pool, principal=new_name(), role="analyst", expires_at=ends, **TERMS)
    assert issue_token(pool, grant.id, by="bob", now=NOW).expires_at == ends
    waiting = request_grant(pool, principal=new_name(), role="admin", **TERMS)
    with pytest.raises(AccessError, match="is waiting for approval; it gets no token"):
        issue_token(pool, waiting.id, by="bob", now=NOW)


def test_a_principal_of_tokens_cannot_log_in(filled: BenchmarkPool, granted: Granted) -> None:
    grant = granted("analyst")
    issue_token(filled, grant.id, by="bob", now=NOW)
    with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
        psycopg.connect(filled.settings.database_url, user=grant.principal)
