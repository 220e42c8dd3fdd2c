"""The keys that verdicts are signed with: made once, rotated, lost."""

import logging
import threading
from pathlib import Path
from traceback import TracebackException
from typing import Any

import pytest
from msgspec import UNSET
from sqlalchemy import Engine

from flywheel.arbiter.audit_trail import rotation
from flywheel.arbiter.audit_trail.keys import SigningKey, key_file, next_key_file, signing_key_of
from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.audit_trail.rotation import replace_lost, rotate, settled_key
from flywheel.arbiter.audit_trail.trail import append, list_keys
from flywheel.arbiter.audit_trail.verifying import verify_trail
from flywheel.errors import PoolError, SigningKeyError
from flywheel.settings import Settings
from tests.arbiter.audit_trail.trails import KEY, OTHER, evaluation, filled, sealed
from tests.pool.kills import KilledError, killing


def keys(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return [key.id for key in list_keys(connection)]


def test_the_key_is_made_once_and_readable_by_its_owner_alone(settings: Settings) -> None:
    key = signing_key_of(settings)
    assert signing_key_of(settings).id == key.id
    path = key_file(settings)
    assert (path.stat().st_mode & 0o777, path.stat().st_size) == (0o600, 32)
    path.chmod(0o644)
    with pytest.raises(PoolError, match="readable by others"):
        signing_key_of(settings)


def test_a_key_of_the_environment_is_hex_and_goes_before_the_file(settings: Settings) -> None:
    given = settings.model_copy(update={"signing_key": secret("07" * 32)})
    assert signing_key_of(given).id == SigningKey.of_seed(b"\x07" * 32).id
    assert not key_file(settings).exists()
    for wrong in ("0badc0de", "zz" * 32, "07" * 33):
        with pytest.raises(SigningKeyError, match="FLYWHEEL_SIGNING_KEY is no key") as raised:
            signing_key_of(settings.model_copy(update={"signing_key": secret(wrong)}))
        shown = "".join(TracebackException.from_exception(raised.value, capture_locals=True).format())
        assert shown.count(wrong) == shown.count(f"wrong = {wrong!r}"), "in the test's own frame alone"


def secret(value: str) -> Any:
    from pydantic import SecretStr

    return SecretStr(value)


def test_what_every_earlier_key_signed_verifies_after_rotations(settings: Settings, engine: Engine) -> None:
    used = []
    for number in range(4):
        key = settled_key(settings, engine)
        used.append(key.id)
        filled(engine, 2, key=key)
        assert rotate(settings, engine, by="ann").id != key.id, number
    assert keys(engine) == [*used, settled_key(settings, engine).id]
    report = verify_trail(engine)
    assert (report.intact, report.verdicts, report.entries) == (True, 8, 8 + 5)
    with engine.connect() as connection:
        found = list_keys(connection)
    assert [key.until for key in found[:-1]] == [key.since for key in found[1:]]
    assert found[-1].until is None
    assert [key.by for key in found][1:] == ["ann"] * 4
    assert not next_key_file(settings).exists()


def test_an_empty_trail_begins_with_the_key_that_is_rotated_away(settings: Settings, engine: Engine) -> None:
    before = signing_key_of(settings).id
    assert keys(engine) == []
    after = rotate(settings, engine, by="ann").id
    assert keys(engine) == [before, after]
    assert verify_trail(engine).intact


STEPS = ("make_once", "_announce", "_put_in_place")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("before", [True, False])
def test_a_rotation_that_is_killed_anywhere_leaves_one_key_that_signs(
    settings: Settings, engine: Engine, monkeypatch: pytest.MonkeyPatch, step: str, before: bool
) -> None:
    filled(engine, 1, key=settled_key(settings, engine))
    with monkeypatch.context() as patched:
        patched.setattr(rotation, step, killing(getattr(rotation, step), before=before))
        with pytest.raises(KilledError):
            rotate(settings, engine, by="ann")
    key = settled_key(settings, engine)
    assert keys(engine)[-1] == key.id
    filled(engine, 1, key=key)
    again = rotate(settings, engine, by="ann")
    assert keys(engine)[-1] == again.id == settled_key(settings, engine).id != key.id
    assert verify_trail(engine).intact


def test_rotations_at_once_take_turns(settings: Settings, engine: Engine) -> None:
    filled(engine, 1, key=settled_key(settings, engine))
    threads = [threading.Thread(target=rotate, args=(settings, engine), kwargs={"by": "ann"}) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys(engine)) == 4
    assert keys(engine)[-1] == settled_key(settings, engine).id
    assert verify_trail(engine).intact


def test_a_key_of_the_environment_is_rotated_by_two_variables(settings: Settings, engine: Engine) -> None:
    old = settings.model_copy(update={"signing_key": secret("01" * 32)})
    filled(engine, 1, key=settled_key(old, engine))
    with pytest.raises(SigningKeyError, match="set FLYWHEEL_SIGNING_KEY_PREVIOUS to what FLYWHEEL_SIGNING_KEY is now"):
        rotate(old, engine, by="ann")
    new = settings.model_copy(update={"signing_key": secret("02" * 32), "signing_key_previous": secret("01" * 32)})
    with pytest.raises(SigningKeyError, match="and the audit trail is signed with"):
        settled_key(new, engine)
    for _ in range(2):
        assert rotate(new, engine, by="ann").id == settled_key(new, engine).id
    assert len(keys(engine)) == 2
    wrong = new.model_copy(update={"signing_key_previous": secret("09" * 32), "signing_key": secret("08" * 32)})
    with pytest.raises(SigningKeyError, match="Nothing changed"):
        rotate(wrong, engine, by="ann")
    assert verify_trail(engine).intact


def test_an_installation_with_another_key_is_told_so_before_it_runs_anything(
    settings: Settings, engine: Engine, tmp_path: Path
) -> None:
    filled(engine, 1, key=settled_key(settings, engine))
    stranger = settings.model_copy(update={"home": tmp_path / "other"})
    with pytest.raises(SigningKeyError, match="this process signs with the key"):
        Notary(stranger, engine).check()
    notary = Notary(stranger, engine)
    assert notary.signed(evaluation()).caws is UNSET
    assert notary.unsigned == 1


def test_a_verdict_by_a_key_that_the_trail_never_had_is_not_taken(engine: Engine) -> None:
    filled(engine, 1)
    with engine.begin() as connection, pytest.raises(SigningKeyError, match=f"{OTHER.id}, which the audit trail never"):
        append(connection, [sealed(key=OTHER)], KEY)
    assert verify_trail(engine).entries == 2


def test_an_empty_trail_does_not_begin_with_a_verdict_that_nobody_could_verify(engine: Engine) -> None:
    """Its key was replaced before anything of it was appended."""
    with engine.begin() as connection, pytest.raises(SigningKeyError, match=f"{OTHER.id}, which the audit trail never"):
        append(connection, [sealed(key=OTHER), sealed(key=KEY)], KEY)
    assert verify_trail(engine).entries == 0
    filled(engine, 1)
    assert verify_trail(engine).intact


def test_a_lost_key_is_gone_on_from_by_one_that_must_be_trusted(
    settings: Settings, engine: Engine, tmp_path: Path
) -> None:
    first = settled_key(settings, engine)
    filled(engine, 1, key=first)
    with pytest.raises(SigningKeyError, match="is here and not lost"):
        replace_lost(settings, engine, by="ann")
    elsewhere = settings.model_copy(update={"home": tmp_path / "other"})
    new = replace_lost(elsewhere, engine, by="ann")
    filled(engine, 1, key=settled_key(elsewhere, engine))
    finding = verify_trail(engine).finding
    assert finding is not None
    assert (finding.sequence, finding.problem) == (3, "key")
    assert f"--trust {new.id}" in finding.detail
    assert verify_trail(engine, trusted=[first.id, new.id]).intact
    with pytest.raises(SigningKeyError):
        settled_key(settings, engine)


def test_no_log_and_no_message_holds_a_private_key(
    settings: Settings, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Notary(settings, engine) as notary:
        notary.signed(evaluation())
        notary.signed(evaluation(tenant=None))
        rotate(settings, engine, by="ann")
        notary.deliver()
    seeds = [key_file(settings).read_bytes()]
    said = caplog.text + repr(vars(notary)) + repr(settings)
    assert not any(seed.hex() in said or repr(seed)[2:-1] in said for seed in seeds)
