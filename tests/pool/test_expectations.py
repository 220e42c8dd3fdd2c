"""A day is judged as a whole, and people can read the verdict."""

from datetime import date
from pathlib import Path

import pandas as pd

from flywheel.pool.expectations import data_docs_index, expect_frames

TYPES = ("research", "design")
GOOD = {"clean": 1.0, "schema_valid": 1.0, "rl_ready": 1.0, "duplicates": 0.0}


def points(**columns: object) -> pd.DataFrame:
    base = {
        "id": ["a", "b"],
        "agent_id": ["x", "y"],
        "task_type": ["research", "design"],
        "overall_score": [0.5, 0.9],
        "latency_ms": [10.0, 20.0],
        "tokens_used": [1, 2],
    }
    return pd.DataFrame({**base, **columns})


def test_a_good_day_passes_and_has_a_page(tmp_path: Path) -> None:
    result = expect_frames(points(), GOOD, day=date(2026, 11, 20), home=tmp_path, task_types=TYPES)
    assert result.passed
    assert result.expectations == 11
    assert "2026-11-20" in data_docs_index(tmp_path).read_text(encoding="utf-8")


def test_a_bad_day_says_what_was_seen(tmp_path: Path) -> None:
    shares = {**GOOD, "clean": 0.5}
    result = expect_frames(points(id=["a", "a"]), shares, day=date(2026, 11, 20), home=tmp_path, task_types=TYPES)
    assert not result.passed
    assert any("clean: 0.5" in line for line in result.failed)
    assert any("expect_column_values_to_be_unique of id" in line for line in result.failed)


def test_a_backfilled_day_replaces_its_result(tmp_path: Path) -> None:
    for _ in range(2):
        expect_frames(points(), GOOD, day=date(2026, 11, 20), home=tmp_path, task_types=TYPES)
    stored = list((tmp_path / "great_expectations" / "gx" / "uncommitted" / "validations").rglob("*.json"))
    assert len(stored) == 2  # one a suite
