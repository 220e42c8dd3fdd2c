"""The key that a process signs with, in line with the audit trail's, and its rotation.

A rotation writes the new key beside the present one, lets the present one announce it in the trail, and then puts it
in its place; the former one is gone from there on. Which of the two is the present key the trail says: a rotation that
was killed anywhere is finished by the next process that asks for its key.
"""

import os

from sqlalchemy import Connection, Engine

from flywheel.arbiter.audit_trail.keys import (
    SigningKey,
    former_key_of,
    is_configured,
    key_file,
    new_seed,
    next_key_file,
    next_key_of,
    signing_key_of,
)
from flywheel.arbiter.audit_trail.trail import announce, current_key, locked, require
from flywheel.collection.folder_lock import in_turn
from flywheel.errors import SigningKeyError
from flywheel.secret_files import make_once, sync_folder
from flywheel.settings import Settings


def settled_key(settings: Settings, engine: Engine) -> SigningKey:
    """The key to sign with: this installation's, which is the trail's.

    Raises:
        SigningKeyError: the trail is signed with another one, or the setting is no key.
        PoolError: the file of the key cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    key = signing_key_of(settings)
    with engine.connect() as connection:
        current = current_key(connection)
    if current is None or current == key.public:
        return key
    following = next_key_of(settings)
    if following is not None and following.public == current:
        _put_in_place(settings)
        return following
    again = signing_key_of(settings)  # another process may have put the next one in place meanwhile
    require(again, current)
    return again


def rotate(settings: Settings, engine: Engine, *, by: str) -> SigningKey:
    """Make a new key the one that signs. Run again, it goes on with a rotation that was killed, or makes another.

    Where the settings give the key, they must give the one before it, too: nothing here can write them.

    Raises:
        SigningKeyError: neither key is the trail's, or the settings lack one; the message says what to set.
        PoolError: a file of a key cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    if is_configured(settings):
        return _rotate_configured(settings, engine, by=by)
    key_file(settings).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with in_turn(key_file(settings).with_name("signing_key.lock")):
        present = settled_key(settings, engine)
        make_once(next_key_file(settings), new_seed)
        following = next_key_of(settings)
        assert following is not None, "it was made just now, and others wait"
        with engine.begin() as connection:
            _announce(connection, following, present, by=by)
        _put_in_place(settings)
        return following


def replace_lost(settings: Settings, engine: Engine, *, by: str) -> SigningKey:
    """Go on with this installation's key though the trail is signed with one that nobody has any more.

    Nothing vouches for the new key: who verifies must be told to trust it.

    Raises:
        SigningKeyError: the present key is not lost.
        PoolError: the file of the key cannot be used.
        DatabaseError: PostgreSQL cannot be used.
    """
    key = signing_key_of(settings)
    with engine.begin() as connection:
        locked(connection)
        current = current_key(connection)
        if current is None or current == key.public:
            raise SigningKeyError(f"the key {key.id} is here and not lost; rotate it without --lost")
        announce(connection, key.public, key, by=by)
    return key


def _rotate_configured(settings: Settings, engine: Engine, *, by: str) -> SigningKey:
    key, former = signing_key_of(settings), former_key_of(settings)
    with engine.begin() as connection:
        locked(connection)
        current = current_key(connection)
        if current == key.public and former is not None:
            return key  # done before
        if former is None or former.public != (current or former.public):
            raise SigningKeyError(
                "the settings give the signing key, and nothing here can write them. Nothing changed: set "
                "FLYWHEEL_SIGNING_KEY_PREVIOUS to what FLYWHEEL_SIGNING_KEY is now and FLYWHEEL_SIGNING_KEY to a new "
                "key (`openssl rand -hex 32`), for all services; run this again, and start them again"
            )
        _announce(connection, key, former, by=by)
    return key


def _announce(connection: Connection, following: SigningKey, present: SigningKey, *, by: str) -> None:
    """Let the present key announce the following one; an empty trail begins with the present one."""
    locked(connection)
    current = current_key(connection)
    if current is None:
        announce(connection, present.public, present, by=by)
    else:
        require(present, current)
    announce(connection, following.public, present, by=by)


def _put_in_place(settings: Settings) -> None:
    try:
        os.replace(next_key_file(settings), key_file(settings))
    except FileNotFoundError:
        return  # another process did it
    sync_folder(key_file(settings).parent)
