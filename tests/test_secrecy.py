"""The tenant salt is shown nowhere: not by settings, errors, tracebacks, commands, nor in what they write."""

import base64
import json
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flywheel.errors import ConfigurationError, PoolError
from flywheel.pool.anonymization import day as anonymization
from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.anonymization.tenants import Salt, salt_file, salt_of, salts_of
from flywheel.pool.pool import BenchmarkPool
from flywheel.settings import Settings
from tests.cli.conftest import Invoke, flywheel, home
from tests.pool.erasure.two_tenants import content_of, database_rows
from tests.pool.filling import DAY, fill, some_tasks

__all__ = ("flywheel", "home")
SECRET = "zanzibar-quince-0123456789-abcdefghij"
FORMER = "former-medlar-0123456789-abcdefghijkl"


def forms(secret: bytes) -> list[bytes]:
    """The secret as it could be written down."""
    return [secret, secret.hex().encode(), base64.b64encode(secret), repr(secret).encode()[2:-1]]


def shown(text: str, *secrets: str) -> list[str]:
    return [secret for secret in secrets for form in forms(secret.encode()) if form.decode() in text]


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Secrets as Docker and Kubernetes mount them."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    (folder / "flywheel_tenant_salt").write_text(f"{SECRET}\n")
    (folder / "flywheel_tenant_salt_previous").write_text(FORMER)
    (folder / "somebody_elses").write_text("x")
    monkeypatch.setenv("FLYWHEEL_SECRETS_DIR", str(folder))
    return folder


@pytest.fixture
def pool(mounted: Path, home: Path, database_url: str) -> Iterator[BenchmarkPool]:
    with BenchmarkPool.open(Settings.load(profile="smoke", home=home, database_url=database_url)) as opened:
        yield opened


def test_settings_read_mounted_secrets_below_the_environment_and_do_not_show_them(
    mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.load(profile="smoke")
    assert salts_of(settings).present == SECRET.encode()
    assert salts_of(settings).former == FORMER.encode()
    dumped = [repr(settings), str(settings), str(settings.model_dump()), settings.model_dump_json()]
    assert shown(" ".join(dumped), SECRET, FORMER) == []
    monkeypatch.setenv("FLYWHEEL_TENANT_SALT", "of the environment")
    assert salt_of(Settings.load(profile="smoke")) == b"of the environment"


def test_a_mount_that_is_missing_or_unreadable_is_an_error_and_no_new_salt(
    mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mounted / "flywheel_tenant_salt").write_bytes(SECRET.encode() + b"\xff")
    with pytest.raises(ConfigurationError, match="tenant_salt") as raised:
        Settings.load(profile="smoke")
    assert shown("".join(traceback.format_exception(raised.value)), SECRET) == []
    monkeypatch.setenv("FLYWHEEL_SECRETS_DIR", str(mounted / "nowhere"))
    with pytest.raises(ConfigurationError, match="which is no folder"):
        Settings.load(profile="smoke")


def test_no_traceback_has_it_among_its_values(pool: BenchmarkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(job: Any) -> None:
        raise PoolError(f"this went wrong with {job} and {salts_of(pool.settings)}")

    monkeypatch.setattr(anonymization, "anonymize_points", failing)
    with pytest.raises(PoolError) as raised:
        fill(pool, "a", some_tasks(3))
    error = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    text = "".join(error.format())
    assert "Salt(…)" in text
    assert shown(text, SECRET, FORMER) == []


def test_a_file_that_is_refused_is_not_shown(settings: Settings) -> None:
    path = salt_file(settings)
    path.parent.mkdir(parents=True)
    for content, mode in ((SECRET[:32], 0o644), (SECRET, 0o600)):
        path.write_text(content)
        path.chmod(mode)
        with pytest.raises(PoolError) as raised:
            salt_of(settings)
        below = raised.tb.tb_next  # this function has it
        error = traceback.TracebackException(raised.type, raised.value, below, capture_locals=True)
        assert "readable by others" in str(error) or "has 37 bytes" in str(error)
        assert shown("".join(error.format()), content) == []


def test_commands_and_what_is_written_do_not_hold_it(
    pool: BenchmarkPool, flywheel: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_HOME", str(pool.settings.home))
    fill(pool, "a", some_tasks(6))
    output = [
        flywheel(*arguments).output
        for arguments in (
            ("keys", "status", "--json"),
            ("keys", "rotate-salt"),
            ("keys", "rotate-salt", "--finish"),
            ("pool", "erase", "--tenant", "acme", "--dry-run"),
        )
    ]
    assert json.loads(output[0])["former"] is not None
    assert "unset FLYWHEEL_TENANT_SALT_PREVIOUS" in output[2]
    assert shown(" ".join(output), SECRET, FORMER) == []
    written = [content_of(path) for path in pool.settings.home.rglob("*") if path.is_file()]
    written += [row for _, row in database_rows(pool)]
    needles = [form for secret in (SECRET, FORMER) for form in forms(secret.encode())]
    assert [needle for needle in needles if any(needle in content for content in written)] == []


def test_the_salt_reads_the_same_in_every_form_of_text() -> None:
    salt = Salt(SECRET.encode())
    assert {str(salt), repr(salt), f"{salt}", f"{salt!r}", f"{[salt]}"[1:-1]} == {"Salt(…)"}


def test_dagster_is_told_nothing_of_it(pool: BenchmarkPool) -> None:
    from pool_assets.presentation import figures

    fill(pool, "a", some_tasks(3))
    assert shown(str(figures(anonymize_day(pool, DAY))), SECRET, FORMER) == []
