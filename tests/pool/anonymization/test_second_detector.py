"""Presidio as a second reader of a sample of anonymized points: what it takes, leaves, and says of itself."""

from datetime import date, timedelta
from pathlib import Path

import msgspec
import pytest

from flywheel.errors import ConfigurationError
from flywheel.pool.anonymization import second_detector
from flywheel.pool.anonymization.day import find_violations
from flywheel.pool.anonymization.second_detector import PIECE, Sample, pieces_of, second_look, suspects_in
from flywheel.pool.files import lake_file
from flywheel.pool.halts import halt_on_violations, open_halts
from flywheel.pool.intake import index_segments
from flywheel.pool.lake import PARTITION
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.rows import arrow_schema, read_rows, row_of
from flywheel.pool.schemas import ANONYMIZED, POINT_COLUMNS, VALIDATED
from flywheel.pool.settings import AnonymizationSettings, SecondDetectorSettings
from flywheel.pool.validation import validate_day
from flywheel.records import decode_point
from flywheel.settings import Settings
from tests.pool.logs import NOON, task_logs, write_segment

pytest.importorskip("presidio_analyzer", reason="presidio is not installed; pip install 'arbiter-flywheel[presidio]'")

DAY = date(2026, 3, 2)
READS = SecondDetectorSettings()
TENANT = "0123456789abcdef" * 4


def point(text: str, *, point_id: str = "p1") -> dict[str, object]:
    return {"id": point_id, "tenantId": TENANT, "task": {"type": "research", "description": text}}


def content(*points: dict[str, object]) -> bytes:
    """Points as a file of the lake that has the two columns that are read."""
    import pyarrow as pa

    rows = {
        "id": [one["id"] for one in points],
        "payload": [msgspec.json.encode(one).decode() for one in points],
        PARTITION: [DAY] * len(points),
    }
    return lake_file([pa.record_batch(rows)], key=PARTITION).content


def found_in(text: str, settings: SecondDetectorSettings = READS) -> set[str]:
    return {kind for _, kind in suspects_in(point(text), settings)}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("write to ann.lee@example.org", {"EMAIL_ADDRESS"}),
        ("card 4111 1111 1111 1111", {"CREDIT_CARD"}),
        ("to GB33BUKB20201555555555", {"IBAN_CODE"}),
        ("my phone is 212-555-5555", {"PHONE_NUMBER"}),
        ("host 00:1B:44:11:3A:B7", {"MAC_ADDRESS"}),
        ("from 192.168.3.17", {"IP_ADDRESS"}),
    ],
)
def test_what_is_left_in_a_text_is_found(text: str, kinds: set[str]) -> None:
    assert found_in(text) == kinds


@pytest.mark.parametrize(
    "text",
    [
        "[PERSON_1] of [STREET_ADDRESS_2], [EMAIL_ADDRESS_1], phone [PHONE_NUMBER_12], card [CREDIT_CARD_1]",
        "open /[PATH]/[FILE].py and C:\\[PATH]\\[FILE].txt",
        f"tenant {TENANT} asked",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8, order #W1234567, 2026-11-21T10:00:00, version 1.2.3",
        "212 [PHONE_NUMBER_1] 555-5555",
    ],
)
def test_placeholders_hashes_and_ids_do_not_count(text: str) -> None:
    assert found_in(text) == set()


def test_what_stands_beside_a_placeholder_counts() -> None:
    assert found_in("[EMAIL_ADDRESS_1], ann.lee@example.org") == {"EMAIL_ADDRESS"}


def test_fields_that_are_never_touched_are_not_read() -> None:
    kept = {
        "id": "ann.lee@example.org",
        "tenantId": "ann.lee@example.org",
        "task": {"type": "ann.lee@example.org", "id": "ann.lee@example.org"},
        "provenance": {"segments": ["ann.lee@example.org"]},
    }
    assert suspects_in(kept, READS) == {("task.id", "EMAIL_ADDRESS")}


def test_a_suspect_is_named_by_its_field_wherever_the_texts_were_joined() -> None:
    messages = [{"content": f"turn {number}"} for number in range(50)]
    messages[31]["content"] = "write to ann.lee@example.org"
    assert suspects_in({"id": "p", "messages": messages}, READS) == {("messages[31].content", "EMAIL_ADDRESS")}


@pytest.mark.parametrize("at", [0, PIECE - 10, PIECE - 120, 2 * PIECE, 3 * PIECE + 7])
def test_a_value_in_a_long_text_is_found_where_it_was_cut(at: int) -> None:
    text = f"{'word ' * (at // 5)}ann.lee@example.org {'word ' * 5_000}"
    assert all(len(piece) <= PIECE for _, piece in pieces_of(point(text)))
    assert found_in(text) == {"EMAIL_ADDRESS"}


def test_the_sample_is_of_one_size_and_the_same_in_whatever_files_and_order() -> None:
    points = [point("x", point_id=f"p{number}") for number in range(500)]
    together, apart = Sample(40), Sample(40)
    assert len(list(together.passing([content(*points)]))) == 1
    backwards = points[::-1]
    list(apart.passing([content(*backwards[start : start + 77]) for start in range(0, 500, 77)]))
    assert together.payloads() == apart.payloads()
    assert (len(together.payloads()), together.seen, apart.seen) == (40, 500, 500)
    larger = Sample(80)
    larger.add(content(*points))
    assert larger.payloads()[:40] == together.payloads()


def test_a_day_with_fewer_points_is_read_whole_and_an_empty_one_is_no_error() -> None:
    sample = Sample(40)
    sample.add(content(point("card 4111 1111 1111 1111", point_id="a"), point("x", point_id="b")))
    look = second_look(sample, READS)
    assert (look.points, look.suspicions.points, look.suspicions.looked_at.rows) == (2, 1, 2)
    assert look.suspicions.by_type == {"CREDIT_CARD": 1}
    assert look.suspicions.where == ["a task.description: CREDIT_CARD"]
    assert "read 2 of 2 points: 1 suspicions in 1 points" in look.summary
    assert "read 0 of 0 points" in second_look(Sample(40), READS).summary


def test_only_configured_types_hold_a_day_back_and_the_others_are_told() -> None:
    sample = Sample(40)
    sample.add(content(point("ann.lee@example.org from 192.168.3.17")))
    look = second_look(sample, READS)
    assert look.suspicions.by_type == {"EMAIL_ADDRESS": 1, "IP_ADDRESS": 1}
    assert look.halting.by_type == {"EMAIL_ADDRESS": 1}
    assert (look.suspicions.points, look.halting.points) == (1, 1)
    nothing_halts = READS.model_copy(update={"halts_on": ()})
    assert second_look(sample, nothing_halts).halting.points == 0


def test_several_processes_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_detector, "POINTS_FOR_PROCESSES", 60)
    sample = Sample(60)
    sample.add(content(*(point(f"write to ann{n}@example.org", point_id=f"p{n}") for n in range(60))))
    alone, together = second_look(sample, READS), second_look(sample, READS, processes=2)
    assert alone.summary == together.summary
    assert alone.suspicions.where == together.suspicions.where
    assert alone.suspicions.looked_at.hexdigest() == together.suspicions.looked_at.hexdigest()


def test_it_says_so_when_it_is_off_or_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert second_look(Sample(0), READS.model_copy(update={"points": 0})).summary == "off: it is to read 0 points"
    monkeypatch.setattr(second_detector, "DISTRIBUTION", "presidio-analyzer-that-nobody-installed")
    look = second_look(Sample(40), READS)
    assert look.summary.startswith("did not read: presidio is not installed. pip install")
    assert look.points == 0


def test_a_pipeline_that_is_not_installed_is_an_error_that_names_it_and_nothing_is_downloaded() -> None:
    with pytest.raises(ConfigurationError, match="'en_nobody_has_this' is not installed"):
        found_in("Ann", READS.model_copy(update={"model": "en_nobody_has_this"}))


def test_a_configured_pipeline_finds_names_beside_placeholders(tmp_path: Path) -> None:
    import spacy

    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PERSON", "pattern": "Ann Lee"}])
    pipeline.to_disk(tmp_path / "names")
    names = READS.model_copy(update={"model": str(tmp_path / "names")})
    assert found_in("met Ann Lee and [PERSON_1]", names) == {"PERSON"}
    assert found_in("met [PERSON_1]", names) == set()
    assert found_in("met Ann Lee", READS) == set()


def watched(settings: Settings) -> Settings:
    return settings.model_copy(update={"anonymization": AnonymizationSettings(second_detector=READS)})


def placed(pool: BenchmarkPool, description: str) -> None:
    """A day of one point whose anonymization left the description as it was."""
    write_segment(pool.settings, "a", task_logs("t1", description=description))
    index_segments(pool, now=NOON + timedelta(days=1))
    validate_day(pool, DAY, now=NOON + timedelta(days=1))
    (row,) = read_rows(pool, VALIDATED, DAY)
    left = msgspec.structs.replace(decode_point(row["payload"]), tenant_id=TENANT)
    pool.replace(ANONYMIZED, DAY, [row_of(left, day=DAY)], schema=arrow_schema(POINT_COLUMNS))


def test_what_it_finds_is_a_violation_halts_the_pool_and_is_not_repeated(settings: Settings) -> None:
    with BenchmarkPool.open(watched(settings)) as pool:
        placed(pool, "pay to GB33BUKB20201555555555")
        found = halt_on_violations(pool, DAY, now=NOON + timedelta(days=2))
        assert found.by_type["IBAN_CODE (presidio)"] == 1
        assert found.second_found == {"IBAN_CODE": 1}
        assert not any("GB33" in where for where in (*found.where, *found.second_where))
        (halt,) = open_halts(pool)
        assert "1 IBAN_CODE (presidio)" in halt.reason
        with pool.transaction() as connection:
            assert connection.execute("SELECT privacy_violations FROM days").fetchall() == [(found.count,)]


def test_what_holds_nothing_back_is_told_and_a_clean_day_is_clean(settings: Settings) -> None:
    with BenchmarkPool.open(watched(settings)) as pool:
        placed(pool, "from 192.168.3.17, [EMAIL_ADDRESS_1]")
        found = find_violations(pool, DAY)
        assert (found.count, found.by_type) == (0, {})
        assert found.second_found == {"IP_ADDRESS": 1}
        assert "patterns alone, read 1 of 1 points: 1 suspicions" in found.second_detector


def test_the_day_says_that_nobody_read_it_where_presidio_is_missing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_detector, "DISTRIBUTION", "presidio-analyzer-that-nobody-installed")
    with BenchmarkPool.open(watched(settings)) as pool:
        placed(pool, "pay to GB33BUKB20201555555555")
        found = find_violations(pool, DAY)
    assert found.second_found == {}
    assert found.second_detector.startswith("did not read: presidio is not installed")
