import json
from typing import Any

import psycopg

from tests.cli.conftest import Invoke
from tests.pool.access.conftest import new_name


def asked(flywheel: Invoke, name: str, role: str, *options: str) -> dict[str, Any]:
    arguments = ("access", "request", name, role, "--reason", "a test", "--by", "bob", *options, "--json")
    [grant] = json.loads(flywheel(*arguments).output)
    return dict(grant)


def test_access_is_asked_for_approved_used_and_taken_back(flywheel: Invoke, database_url: str) -> None:
    name = new_name()
    grant = asked(flywheel, name, "reviewer", "--fields", "all", "--tenant", "acme", "--since", "2026-06-01")
    number = str(grant["id"])
    assert (grant["since"], len(grant["tenants"][0])) == ("2026-06-01T00:00:00Z", 64)
    assert "waiting for approval" in flywheel("access", "list").output
    refused = flywheel("access", "login", name)
    assert (refused.exit_code, refused.stderr) == (
        1,
        f"flywheel: {name} has no grant in force; `flywheel access request {name} ROLE` asks\n",
    )
    assert flywheel("access", "approve", number, "--by", "bob").exit_code == 1
    assert "in force" in flywheel("access", "approve", number, "--by", "carol").output
    shown = flywheel("access", "login", name)
    assert "password" in shown.stdout
    assert "open: the server asks for no password" in shown.stderr
    with psycopg.connect(database_url, user=name) as session:
        assert session.execute("SELECT count(*) FROM quarantine").fetchone() == (0,)
    token = json.loads(flywheel("access", "token", number, "--json").output)
    assert token["token"].startswith(f"fwt_{token['id']}_")
    assert flywheel("access", "token", "--revoke", token["id"]).exit_code == 0
    flywheel("access", "revoke", number, "--reason", "left", "--by", "carol")
    assert json.loads(flywheel("access", "list", "--json").output) == []
    assert "revoked" in flywheel("access", "list", "--all", "--principal", name).output
    entries = json.loads(flywheel("access", "audit", "--json").output)
    assert [(entry["principal"], entry["action"]) for entry in reversed(entries)][:3] == [
        ("bob", "grant.request"),
        ("bob", "grant.approve"),
        ("carol", "grant.approve"),
    ]
    assert "somebody else has to approve it" in flywheel("access", "audit", "--refused").output


def test_a_token_command_wants_a_grant_or_a_token(flywheel: Invoke) -> None:
    assert flywheel("access", "token").exit_code == 2
    assert flywheel("access", "token", "1", "--revoke", "x").exit_code == 2


def test_lines_that_the_operator_sees_are_in_the_audit(flywheel: Invoke) -> None:
    flywheel("quarantine", "list")
    [entry] = json.loads(flywheel("access", "audit", "--action", "quarantine.read", "--json").output)
    assert (entry["rows"], entry["allowed"], entry["grant_id"]) == (0, True, None)
