"""A small project before and after a change, and the spec it is held to: for tests that run gates for real."""

import sys
from pathlib import Path
from typing import Any

from flywheel.arbiter.evaluation.working_spec.spec import WorkingSpec

BEFORE = {
    "src/__init__.py": "",
    "src/calc.py": "def add(a: int, b: int) -> int:\n    return a - b\n",
    "tests/test_calc.py": "from src.calc import add\n\n\ndef test_add() -> None:\n    assert add(1, 2) == 3\n",
}
FIXED = "def add(a: int, b: int) -> int:\n    return a + b\n"
PATCH = """--- a/src/calc.py
+++ b/src/calc.py
@@ -1,2 +1,2 @@
 def add(a: int, b: int) -> int:
-    return a - b
+    return a + b
"""
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def written(folder: Path, files: dict[str, str]) -> Path:
    """The files in a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def suite_gate(**fields: Any) -> dict[str, Any]:
    return {"gate": "tests", "command": PYTEST, "timeout_s": 60, **fields}


def spec_of(*gates: dict[str, Any], **fields: Any) -> WorkingSpec:
    """A spec of the lowest risk with these gates."""
    document = {
        "id": "calc",
        "version": "1",
        "risk_tier": 3,
        "budget": {"files": 3, "lines": 40},
        "gates": gates or [suite_gate()],
        "environment": {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        **fields,
    }
    return WorkingSpec.model_validate(document)
