"""Every row fits the schema, or is counted by what it fails."""

import pandas as pd

from flywheel.pool.schemas import check_frame

TYPES = ("research",)


def rows(**columns: object) -> pd.DataFrame:
    base = {
        "id": ["a", "b"],
        "timestamp": pd.to_datetime(["2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"]).astype("datetime64[us, UTC]"),
        "tenant_id": ["t", "t"],
        "task_id": ["1", "2"],
        "source": [None, "bfcl:x"],
        "task_type": ["research", "research"],
        "complexity": ["trivial", "complex"],
        "agent_id": ["x", "y"],
        "success": [True, False],
        "overall_score": [0.5, 0.0],
        "total_reward": [0.5, 0.0],
        "latency_ms": [10.0, 20.0],
        "tokens_used": [1, 2],
        "tool_calls": pd.array([1, None], "Int64"),
        "rl_ready": [True, True],
        "warnings": [["plausible"], []],
        "waived": [[], ["time", "consistent"]],
    }
    return pd.DataFrame({**base, **columns})


def test_good_rows_pass() -> None:
    assert check_frame(rows(), task_types=TYPES).passed


def test_a_bad_row_is_counted_by_its_check() -> None:
    result = check_frame(rows(overall_score=[1.5, 0.0], task_type=["research", "magic"]), task_types=TYPES)
    assert not result.passed
    assert result.failures == {"overall_score: in_range(0, 1)": 1, "task_type: isin(('research',))": 1}


def test_a_success_without_a_score_is_seen_across_columns() -> None:
    result = check_frame(rows(overall_score=[0.0, 0.0]), task_types=TYPES)
    assert not result.passed
    assert "a success has a score above 0" in " ".join(result.failures)


def test_tool_calls_may_be_unknown_and_not_negative() -> None:
    assert check_frame(rows(tool_calls=pd.array([None, None], "Int64")), task_types=TYPES).passed
    result = check_frame(rows(tool_calls=pd.array([None, -1], "Int64")), task_types=TYPES)
    assert result.failures == {"tool_calls: greater_than_or_equal_to(0)": 1}


def test_a_gate_that_may_not_be_waived_is_counted() -> None:
    result = check_frame(rows(waived=[["types"], []], warnings=[["time"], []]), task_types=TYPES)
    assert result.failures == {"waived: known gates": 1, "warnings: known gates": 1}
