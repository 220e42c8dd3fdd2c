"""The policy is data: what it may say, whom it is for, and what it does to a day."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flywheel.errors import ConfigurationError
from flywheel.pool.anonymization.applying import apply_policy
from flywheel.pool.anonymization.day import anonymize_day
from flywheel.pool.anonymization.places import Place
from flywheel.pool.anonymization.policy import AnonymizationPolicies, AnonymizationPolicy
from flywheel.pool.anonymization.text import Anonymizer
from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import read_rows
from flywheel.pool.schemas import ANONYMIZED
from flywheel.pool.validation import validate_day
from flywheel.records import decode_point
from flywheel.settings import Settings
from tests.pool.anonymization.test_day import DAY, LATER
from tests.pool.logs import task_logs, write_segment

SALT = b"salt"
ANSWER = "```python\ndef calculateTotal(userName):  # of all\n    return len(userName) + 42\n```"
QUIET = AnonymizationPolicies(tenants={"acme": AnonymizationPolicy(remove_variable_names=True)})


def cleaned(text: str, policy: AnonymizationPolicy, tenant_id: str = "acme") -> str:
    container: dict[str, Any] = {"text": text}
    apply_policy([Place(container, "text", text)], policy, tenant_id=tenant_id, replaced=Counter())
    return str(container["text"])


def test_a_tenant_has_the_default_but_for_what_its_own_policy_names() -> None:
    policies = AnonymizationPolicies(
        default=AnonymizationPolicy(remove_variable_names=True),
        tenants={"acme": AnonymizationPolicy(remove_file_names=False)},
    )
    assert policies.of("acme") == AnonymizationPolicy(remove_variable_names=True, remove_file_names=False)
    assert policies.of("other") == policies.default


def test_files_may_spell_it_as_the_specification_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flywheel.toml").write_text(
        "[anonymization.policies.default]\nremoveVariableNames = true\n"
        "[anonymization.policies.tenants.acme]\nkeep_structure_only = true\n"
    )
    monkeypatch.chdir(tmp_path)
    policies = Settings.load().anonymization.policies
    assert policies.of("acme") == AnonymizationPolicy(remove_variable_names=True, keep_structure_only=True)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("replaceTenantIds = false", "access control and erasure"),
        ("removeNames = true", "removeNames"),
        ("noiseMagnitude = 0", "noiseMagnitude"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    setting: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flywheel.toml").write_text(f"[anonymization.policies.tenants.acme]\n{setting}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=named):
        Settings.load()


def test_the_digest_is_of_what_anonymized_points_depend_on() -> None:
    plain = AnonymizationPolicies()
    noisy = AnonymizationPolicies(default=AnonymizationPolicy(add_noise_to_rewards=True, noise_magnitude=0.5))
    assert noisy.digest(salt=SALT) == plain.digest(salt=SALT)
    assert QUIET.digest(salt=SALT) != plain.digest(salt=SALT)
    assert QUIET.digest(salt=SALT) != QUIET.digest(salt=b"other")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Acme asked, acme's and ACME-prod.", "[TENANT] asked, [TENANT]'s and [TENANT]-prod."),
        ("from acme.billing import AcmeClient, acme_key", "from TENANT.billing import TENANTClient, TENANT_key"),
        ("acmeic and pacme are others", "acmeic and pacme are others"),
        ("for Example Works of ExampleWorks", "for [TENANT] of [TENANT]"),
    ],
)
def test_a_tenants_names_go_however_they_are_written(text: str, clean: str) -> None:
    assert cleaned(text, AnonymizationPolicy(tenant_names=("example-works",))) == clean


def test_identifiers_stay_where_the_policy_lets_them_and_where_they_are_no_words() -> None:
    assert cleaned("acme", AnonymizationPolicy(strip_tenant_identifiers=False)) == "acme"
    assert cleaned("a 1 a", AnonymizationPolicy(), tenant_id="a") == "a 1 a"


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("/home/ann/app/user-file.ts", "/[PATH]/user-file.ts"),
        ("/home/ann/app/notes_of_Ann.ts", "/[PATH]/notes_of_[USER].ts"),
        ("/home/ann", "/[PATH]/[FILE]"),
        ("C:\\Users\\ann\\notes.txt", "C:\\[PATH]\\notes.txt"),
        ("~/src/cart.py", "/[PATH]/cart.py"),
    ],
)
def test_file_names_may_stay_and_users_never_do(path: str, clean: str) -> None:
    once = Anonymizer(keep_file_names=True).text(f"open {path} now")
    assert once == f"open {clean} now"
    assert Anonymizer(keep_file_names=True).text(once) == once


def with_policies(pool: BenchmarkPool, policies: AnonymizationPolicies) -> BenchmarkPool:
    anonymization = pool.settings.anonymization.model_copy(update={"policies": policies})
    changed = pool.settings.model_copy(update={"anonymization": anonymization})
    return BenchmarkPool(pool.engine, pool.lake, changed)


def test_one_tenants_code_is_renamed_and_anothers_stays_byte_for_byte(pool: BenchmarkPool) -> None:
    messages = [{"role": "user", "content": "mend `calculateTotal`"}, {"role": "assistant", "content": ANSWER}]
    logs = task_logs("t1", tenant="acme", messages=messages) + task_logs("t2", tenant="other", messages=messages)
    write_segment(pool.settings, "a", logs)
    index_segments(pool, now=LATER + timedelta(hours=1))
    validate_day(pool, DAY, now=LATER + timedelta(hours=1))
    plain = anonymize_day(pool, DAY)
    quiet = anonymize_day(with_policies(pool, QUIET), DAY)
    said = {
        point.task.id: [message.content for message in point.execution.messages]
        for point in (decode_point(row["payload"]) for row in read_rows(pool, ANONYMIZED, DAY))
    }
    assert said["t1"] == ["mend `func1`", "```python\ndef func1(var1):  # of all\n    return len(var1) + 42\n```"]
    assert said["t2"] == [message["content"] for message in messages]
    assert quiet.replaced == plain.replaced | {"CODE_NAME": 4}
    assert quiet.version != plain.version


def test_another_policy_is_another_version_even_of_the_same_points(pool: BenchmarkPool) -> None:
    write_segment(pool.settings, "a", task_logs("t1"))
    index_segments(pool, now=LATER)
    validate_day(pool, DAY, now=LATER)
    plain, quiet = anonymize_day(pool, DAY), anonymize_day(with_policies(pool, QUIET), DAY)
    assert quiet.digest == plain.digest
    assert quiet.version != plain.version
    assert anonymize_day(with_policies(pool, QUIET), DAY).version == quiet.version
