"""Days go by through the real sensors and jobs, and the counts balance every day."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.timeout(600)
def test_some_days_balance_with_late_logs_retention_and_a_backfill() -> None:
    command = [
        sys.executable,
        "-m",
        "scripts.simulate",
        "--days=6",
        "--tasks=8",
        "--hot-days=1",
        "--warm-days=3",
        "--again=6",
    ]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "6 days balanced every day" in finished.stdout
