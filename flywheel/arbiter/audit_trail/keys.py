"""The keys that verdicts and entries are signed with: Ed25519 (RFC 8032), of which the public half is in the trail.

The private key is the setting ``signing_key`` or a file below the installation's home, made once. Public keys are
entries of the trail: each but the first is announced by an entry that the key before it signed, so that whoever knows
one key, or one head, need trust nobody for the later ones.
"""

import re
import secrets
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from typing_extensions import override

from flywheel.errors import SigningKeyError
from flywheel.secret_files import read_secret, secret_of

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from pydantic import SecretStr

    from flywheel.settings import Settings

SEED_BYTES = 32
WRITTEN_SEED = re.compile(r"[0-9a-fA-F]{64}")
PREFIX = "ed25519"
NEXT = "_next"
VERDICT_DOMAIN = b"flywheel.audit.verdict.v1\0"
ENTRY_DOMAIN = b"flywheel.audit.entry.v1\0"
HEAD_DOMAIN = b"flywheel.audit.head.v1\0"


class PublicKey(Struct, frozen=True):
    """The half of a key that verifies: 64 hex digits."""

    hex: str

    @property
    def id(self) -> str:
        """32 hex digits: the beginning of the SHA-256 of the key."""
        return sha256(bytes.fromhex(self.hex)).hexdigest()[:32]

    def verifies(self, signature: str, domain: bytes, message: bytes) -> bool:
        """Whether this key signed the message for this purpose."""
        from cryptography.exceptions import InvalidSignature

        prefix, _, rest = signature.partition(":")
        key_id, _, written = rest.partition(":")
        try:
            made = bytes.fromhex(written)
        except ValueError:
            return False
        if prefix != PREFIX or key_id != self.id or made.hex() != written:
            return False
        try:
            _public(self.hex).verify(made, domain + message)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """The half that signs. In messages, tracebacks and logs it shows its id alone."""

    __slots__ = ("_private", "public")

    def __init__(self, private: "Ed25519PrivateKey") -> None:
        self._private = private
        self.public = PublicKey(private.public_key().public_bytes_raw().hex())

    @classmethod
    def of_seed(cls, seed: bytes) -> "SigningKey":
        """The key of 32 random bytes."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def id(self) -> str:
        """Of the public key."""
        return self.public.id

    def sign(self, domain: bytes, message: bytes) -> str:
        """``ed25519:KEY:SIGNATURE``, both in hex. ``domain`` keeps a signature from standing for another purpose."""
        return f"{PREFIX}:{self.id}:{self._private.sign(domain + message).hex()}"

    @override
    def __repr__(self) -> str:
        return f"SigningKey({self.id})"

    def __reduce__(self) -> Any:
        raise TypeError("a signing key does not leave its process")


def key_id_of(signature: str) -> str:
    """Which key a signature says that it is of; empty where it says none."""
    parts = signature.split(":")
    return parts[1] if len(parts) == 3 else ""


def new_seed() -> bytes:
    """A secret that nobody can guess."""
    return secrets.token_bytes(SEED_BYTES)


def key_file(settings: "Settings") -> "Path":
    """Where an installation keeps a signing key that the settings do not give."""
    return settings.home / "secrets" / "signing_key"


def next_key_file(settings: "Settings") -> "Path":
    """The key that a rotation is about to put in its place."""
    return key_file(settings).with_name(key_file(settings).name + NEXT)


def is_configured(settings: "Settings") -> bool:
    """Whether the settings give the key, and not a file below home."""
    return bool(settings.signing_key.get_secret_value())


def signing_key_of(settings: "Settings") -> SigningKey:
    """The key that this installation signs with; the file is made where there is none.

    Raises:
        PoolError: the file cannot be made or read, or others may read it.
        SigningKeyError: the setting is no key.
    """
    if is_configured(settings):
        return _configured(settings.signing_key, "FLYWHEEL_SIGNING_KEY")
    advice = "; or set FLYWHEEL_SIGNING_KEY"
    return SigningKey.of_seed(secret_of(key_file(settings), name="signing key", make=new_seed, advice=advice))


def next_key_of(settings: "Settings") -> SigningKey | None:
    """The key that a rotation was about to put in place when it was killed; None where there is none.

    Raises:
        PoolError: the file cannot be read, or others may read it.
    """
    path = next_key_file(settings)
    if is_configured(settings) or not path.exists():
        return None
    return SigningKey.of_seed(read_secret(path, name="next signing key", size=SEED_BYTES))


def former_key_of(settings: "Settings") -> SigningKey | None:
    """The key that the setting ``signing_key_previous`` gives, which announces the one that takes its place.

    Raises:
        SigningKeyError: the setting is no key.
    """
    if not settings.signing_key_previous.get_secret_value():
        return None
    return _configured(settings.signing_key_previous, "FLYWHEEL_SIGNING_KEY_PREVIOUS")


def _configured(secret: "SecretStr", variable: str) -> SigningKey:
    """The key that a setting gives; what the setting holds is no local value of a frame that raises."""
    if not WRITTEN_SEED.fullmatch(secret.get_secret_value().strip()):
        raise SigningKeyError(f"{variable} is no key: it has 64 hex digits; `openssl rand -hex 32` makes one")
    return SigningKey.of_seed(bytes.fromhex(secret.get_secret_value().strip()))


@lru_cache(maxsize=100)
def _public(written: str) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(written))
