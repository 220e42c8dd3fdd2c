"""The scan of stored points leaves out no point that the patterns find something in, however its texts are escaped."""

import json
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from flywheel.pool.anonymization.violations import doubtful, violations_of

HASH = "0123456789abcdef" * 4
LEFT = (
    "ann@example.org", "AKIA0123456789ABCDEF", "gh" + "p_" + "a" * 36, "-----BEGIN PRIVATE KEY-----",
    "eyJhbGci.eyJzdWIi", "postgres://ann:pass\"wo\\rd@db", "postgres://ann:p\x0b\x01ss@db",
    "/home/ann", "/Users/ann", "C:\\Users\\ann", "C:\\\\Users\\\\ann", "(555) 010-1234", "٥٥٥-٠١٠-١٢٣٤",
)  # fmt: skip
FOUND = 11  # of these: the doubled backslashes and digits of other scripts are for the detectors
TEXTS = st.lists(
    st.sampled_from([*LEFT, " ", "\n", "\t", '"', "\\", "/", "\x1b[0m", "é", "word"]) | st.text(max_size=3)
)


def point_with(text: str, *, key: str = "content", tenant: str = HASH) -> dict[str, Any]:
    message = {"role": "user", key: text}
    return {"id": "p1", "timestamp": "2026-01-05T12:00:00Z", "tenantId": tenant, "execution": {"messages": [message]}}


def is_doubtful(payload: bytes) -> bool:
    return len(doubtful(pa.array([payload], pa.string()))) == 1


@given(TEXTS.map("".join), st.booleans())
@example("C:\\Users\\ann", False)
@example("postgres://ann:p\x0b\x01ss@db", False)
def test_no_point_with_a_violation_is_left_out(text: str, in_key: bool) -> None:
    text = text.encode("utf-8", "ignore").decode()  # half of a surrogate pair cannot be stored
    point = point_with("said", key=text) if in_key and text not in {"role", ""} else point_with(text)
    left = bool(list(violations_of(point)))
    escaped = json.dumps(point, separators=(",", ":"))
    for payload in (msgspec.json.encode(point), escaped.encode(), escaped.replace("/", "\\/").encode()):
        assert is_doubtful(payload) or not left


def test_each_kind_of_what_may_be_left_is_found_and_doubted() -> None:
    found = [text for text in LEFT if list(violations_of(point_with(text)))]
    assert len(found) >= FOUND
    assert all(is_doubtful(msgspec.json.encode(point_with(text))) for text in found)


def test_a_point_whose_tenant_is_no_hash_is_doubted_wherever_the_tenant_stands() -> None:
    for tenant in ("acme", HASH[:-1], HASH.upper(), HASH + "0", f'{HASH}"'):
        assert is_doubtful(msgspec.json.encode(point_with("said", tenant=tenant)))
    moved = {"tenantId": HASH, **point_with("said", tenant="acme")}
    assert is_doubtful(msgspec.json.encode(moved | {"tenantId": "acme"}))
    assert is_doubtful(msgspec.json.encode({"id": "p1", "schemaVersion": 1}))


def test_a_point_with_nothing_left_need_not_be_decoded() -> None:
    said = 'it costs 5.50 or "12-34"\n\tsee [EMAIL_ADDRESS_1] in /[PATH]/[FILE].py: C:\\temp @home'
    assert not is_doubtful(msgspec.json.encode(point_with(said)))
