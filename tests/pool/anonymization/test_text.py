"""What is personal or secret becomes a placeholder, and nothing else changes."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.anonymization.paths import generalized_path
from flywheel.pool.anonymization.text import Anonymizer
from flywheel.pool.anonymization.violations import violations_of

# Put together here, so that no scanner of repositories takes a test for a leak.
GITHUB_TOKEN = "ghp_" + "a1B2" * 9
OPENAI_KEY = "sk-" + "proj-" + "Ab12" * 6
AWS_KEY = "AKIA" + "ABCDEFGHIJKLMNOP"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("write to ann.lee@example.org now", "write to [EMAIL_ADDRESS_1] now"),
        (f"token {GITHUB_TOKEN}.", "token [SECRET_1]."),
        (f"use {OPENAI_KEY}", "use [SECRET_1]"),
        (f"id {AWS_KEY}", "id [SECRET_1]"),
        ("card 4111 1111 1111 1111, please", "card [CREDIT_CARD_1], please"),
        ("call (415) 555-2671 or +44 20 7946 0958", "call [PHONE_NUMBER_1] or [PHONE_NUMBER_2]"),
        ("from 192.168.0.17:", "from [IP_ADDRESS_1]:"),
        ("postgresql://ann:hunter2@db.example/x", "[URL_CREDENTIALS_1]"),
        ("open /home/ann/app/user-file.ts", "open /[PATH]/[FILE].ts"),
        ("open C:\\Users\\ann\\notes.txt", "open C:\\[PATH]\\[FILE].txt"),
    ],
)
def test_a_value_becomes_its_placeholder(text: str, clean: str) -> None:
    assert Anonymizer().text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "math.factorial", "arguments": {"number": 5}}',
        "order 4111 1111 1111 1112 is no card: its check digit is wrong",
        "version 1.2.3 of 2026-11-21, and/or 3/4 of https://example.org/a/b",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "the year 2024, 1,000,000 points, -12.5 degrees",
    ],
)
def test_numbers_code_and_urls_stay(text: str) -> None:
    assert Anonymizer().text(text) == text


def test_the_same_value_has_the_same_placeholder_within_a_point() -> None:
    anonymizer = Anonymizer()
    point = {"a": "ann@example.org and bob@example.org", "b": ["bob@example.org"]}
    assert anonymizer.value(point) == {"a": "[EMAIL_ADDRESS_1] and [EMAIL_ADDRESS_2]", "b": ["[EMAIL_ADDRESS_2]"]}
    assert anonymizer.replaced == {"EMAIL_ADDRESS": 3}


def test_escapes_in_json_hide_nothing() -> None:
    hidden = json.dumps({"to": "ann@example.org"}).replace("@", "\\u0040")
    assert json.loads(Anonymizer().text(hidden)) == {"to": "[EMAIL_ADDRESS_1]"}


def test_a_value_that_fails_one_check_is_still_seen_by_the_next_detector() -> None:
    assert Anonymizer().text("123-45-6789 1990-05-01") == "[US_SSN_1] 1990-05-01"
    assert Anonymizer().text("415-555-2671 2024") == "[PHONE_NUMBER_1] 2024"


def test_every_line_of_json_is_looked_into() -> None:
    lines = '{"a": "Hi\\nann@example.org"}\n{"path": "C:\\\\Users\\\\ann\\\\x.txt"}'
    clean = [json.loads(line) for line in Anonymizer().text(lines).split("\n")]
    assert clean == [{"a": "Hi\n[EMAIL_ADDRESS_1]"}, {"path": "C:\\[PATH]\\[FILE].txt"}]


def test_half_a_surrogate_pair_and_deep_nesting_do_not_stop_the_rest() -> None:
    assert json.loads(Anonymizer().text('{"a": "\\ud83d ann@example.org"}')) == {"a": "\ud83d [EMAIL_ADDRESS_1]"}
    deep = "[" * 100_000 + "\\ ann@example.org"
    assert Anonymizer().text(deep).endswith("[EMAIL_ADDRESS_1]")


def test_keys_that_become_equal_keep_their_values() -> None:
    clean = Anonymizer().value({"/home/ann/a.txt": 1, "/home/ann/b.txt": 2})
    assert sorted(clean.values()) == [1, 2]


@pytest.mark.parametrize("indent", [None, 2])
def test_paths_that_become_equal_keys_within_a_text_are_numbered_apart(indent: int | None) -> None:
    record = {
        "/home/ann/a.txt": 1,
        "/home/ann/b.txt": {"/srv/x/c.txt": 2},
        "C:\\Users\\ann\\a.py": 3,
        "C:\\tmp\\b.py": 4,
    }
    text = json.dumps(record, indent=indent)
    for written in (text, json.dumps({"content": text})):
        once = Anonymizer().text(written)
        assert Anonymizer().text(once) == once
        clean = json.loads(once)
        clean = json.loads(clean["content"]) if "content" in clean else clean
        assert clean == {
            "/[PATH]/[FILE].txt": 1,
            "/[PATH_2]/[FILE].txt": {"/[PATH_3]/[FILE].txt": 2},
            "C:\\[PATH]\\[FILE].py": 3,
            "C:\\[PATH_2]\\[FILE].py": 4,
        }


def test_a_path_that_is_a_key_does_not_meet_one_of_another_pass() -> None:
    text = json.dumps({"/[PATH]/[FILE].txt": 1, "/home/ann/b.txt": 2})
    assert sorted(json.loads(Anonymizer().text(text)).values()) == [1, 2]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("open \\\\server\\users\\ann\\x.docx now", "open \\\\[PATH]\\\\[FILE].docx now"),
        ("\\\\fs01\\c$\\Users\\ann\\x.txt", "\\\\[PATH]\\\\[FILE].txt"),
        ("smb://server/users/ann/x.docx", "/[PATH]/[FILE].docx"),
        ("sftp://srv/home/ann/x.py", "/[PATH]/[FILE].py"),
    ],
)
def test_paths_of_shares_are_generalized(text: str, clean: str) -> None:
    assert Anonymizer().text(text) == clean
    assert Anonymizer().text(clean) == clean
    nested = json.loads(Anonymizer().text(json.dumps({"path": text})))
    assert "ann" not in nested["path"]


@pytest.mark.parametrize("text", ["\\\\d+\\\\w+", "a \\\\ b", "\\\\n\\\\t", "http://example.org//a//b", "x // y // z"])
def test_backslashes_of_patterns_are_no_shares(text: str) -> None:
    assert Anonymizer().text(text) == text


@pytest.mark.parametrize(
    "text", ["415 555-2671", "jos\u00e9@example.org", "/home/\u00e9mile/x", "-----BEGIN PRIVATE KEY-----\nabc"]
)
def test_what_the_independent_check_would_flag_is_replaced(text: str) -> None:
    point = {"id": "p", "tenantId": "a" * 64, "text": Anonymizer().text(text)}
    assert list(violations_of(point)) == []


def test_paths_keep_their_suffix_only() -> None:
    assert generalized_path("/etc/passwd") == "/[PATH]/[FILE]"
    assert generalized_path("/srv/data/") == "/[PATH]/"


@given(st.text())
def test_a_second_pass_changes_nothing(text: str) -> None:
    once = Anonymizer().text(text)
    assert Anonymizer().text(once) == once


def test_hostile_texts_take_linear_time() -> None:
    started = time.process_time()
    for hostile in ("/a" * 50_000, "1 " * 50_000, "a@" * 50_000, "1." * 50_000, "-----BEGIN PRIVATE KEY-----" * 2_000):
        Anonymizer().text(hostile)
    assert time.process_time() - started < 20


def test_a_violation_names_the_place_and_not_the_value() -> None:
    point = {"id": "p1", "tenantId": "a" * 64, "task": {"description": ["x", "mail ann@example.org"]}}
    (violation,) = violations_of(point)
    assert (violation.field, violation.type) == ("task.description[1]", "EMAIL_ADDRESS")
    assert "ann" not in repr(violation)


def test_a_tenant_that_is_not_hashed_is_a_violation() -> None:
    assert [v.type for v in violations_of({"id": "p1", "tenantId": "acme"})] == ["TENANT"]
