"""The arbiter in TypeScript: compiled with its types checked, run by node against a receiver of its own process."""

import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import validate_day
from flywheel.settings import Settings
from tests.api.receiver.conftest import Server, headers_of, serve, stored

__all__ = ["serve"]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "typescript"


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """The example as JavaScript; skips where node or its compiler is not to be had."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    folder = tmp_path / "typescript"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "*.js"))
    install = ("npm", "install", "--no-audit", "--no-fund", "--no-package-lock")
    installed = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install the TypeScript compiler: {installed.stderr[-200:]}")
    checked = subprocess.run(
        ("npx", "--no", "tsc"), cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )
    assert checked.returncode == 0, checked.stdout
    return folder / "arbiter.js"


def test_a_task_of_the_arbiter_is_a_valid_point(
    settings: Settings, serve: Callable[..., Server], compiled: Path
) -> None:
    server = serve()
    key = headers_of(settings)["Authorization"].removeprefix("Bearer ")
    environment = os.environ | {"FLYWHEEL_URL": server.url, "FLYWHEEL_KEY": key, "TEXT": "palindrom"}
    done = subprocess.run(
        ("node", str(compiled)), env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    said = msgspec.json.decode(done.stdout)
    assert said["stored"] == [1, 1, 1]
    server.end()
    logs = stored(settings)
    assert [log["log"] for log in logs] == ["routing", "execution", "evaluation"]
    assert {log["taskId"] for log in logs} == {said["taskId"]}
    now = datetime.now(UTC)
    with BenchmarkPool.open(settings) as pool:
        index_segments(pool, now=now)
        day = validate_day(pool, datetime.fromisoformat(logs[0]["timestamp"]).date(), now=now)
    assert (day.points, day.quarantined) == (1, 0)
