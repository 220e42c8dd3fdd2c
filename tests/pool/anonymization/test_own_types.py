"""A team's own types are refused when the settings load, by name and with the reason."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from flywheel.errors import ConfigurationError
from flywheel.pool.anonymization.own_types import OwnType
from flywheel.pool.settings import AnonymizationSettings
from flywheel.settings import Settings

STAFF = OwnType(name="STAFF", pattern=r"\bST-\d+", keys=("staff_no",))


def test_they_are_read_from_the_configuration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flywheel.toml").write_text(
        '[anonymization]\ntypes = [{name = "EMPLOYEE_NUMBER", pattern = "\\\\bEMP-\\\\d{6}\\\\b", words = ["staff"]}]\n'
    )
    monkeypatch.chdir(tmp_path)
    assert Settings.load().anonymization.types == (
        OwnType(name="EMPLOYEE_NUMBER", pattern=r"\bEMP-\d{6}\b", words=("staff",)),
    )


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('name = "Employee", pattern = "a"', r"types\.0\.name: .*'Employee' is no name of a type"),
        ('name = "PERSON", pattern = "a"', r"types\.0\.name: .*PERSON is a type that is found anyway"),
        (
            'name = "X", pattern = "a("',
            r"types\.0\.pattern: .*X: google-re2 does not take the pattern 'a\(': missing \)",
        ),
        ('name = "X", pattern = "(?=a)b"', r"types\.0\.pattern: .*X: google-re2 does not take"),
        ('name = "X", pattern = "\\\\Qa"', r"types\.0\.pattern: .*X: google-re2 does not take"),
        ('name = "X", pattern = "(?P<a>b)"', "groups of the pattern .* must have no names"),
        ('name = "X", pattern = "a*"', r"types\.0\.pattern: .*X: the pattern 'a\*' matches the empty text"),
        ('name = "X", pattern = "\\\\b"', "matches the empty text"),
        ('name = "X", pattern = "a", words = [""]', r"types\.0\.words: .*X: '' cannot be one of its words"),
        ('name = "X", pattern = "a", keys = ["a:b"]', r"types\.0\.keys: .*X: 'a:b' cannot be one of its keys"),
        ('name = "X", pattern = "a", regex = "b"', r"types\.0\.regex"),
        ('name = "X"', r"types\.0\.pattern: Field required"),
    ],
)
def test_what_cannot_be_used_is_refused_by_entry_and_reason(
    entry: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flywheel.toml").write_text(f"[anonymization]\ntypes = [{{{entry}}}]\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=problem):
        Settings.load()


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (OwnType(name="STAFF", pattern="x"), "the name STAFF is in two entries"),
        (OwnType(name="OTHER", pattern="x", keys=("staffNo",)), "the key staffno is in two entries"),
    ],
)
def test_a_name_or_a_key_leads_to_one_type(other: OwnType, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        AnonymizationSettings(types=(STAFF, other))


def test_they_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        STAFF.name = "OTHER"  # type: ignore[misc]
