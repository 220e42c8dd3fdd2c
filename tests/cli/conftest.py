"""A command line whose database is this test's."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flywheel.cli import main

Invoke = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def flywheel(home: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs ``flywheel ARGUMENTS`` with the smoke profile and a fresh database."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", database_url)

    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(main, ["--home", str(home), "--profile", "smoke", *arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke
