"""The collector works in an agent service, with what the base installation has."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

from flywheel.pool.anonymization.canaries import CANARIES
from tests.collection.reading import payloads_in

HEAVY = ("dagster", "mlflow", "pandas", "polars", "pyarrow", "numpy", "deltalake", "torch", "fastapi", "sqlalchemy")
PROGRAM = """
import sys
from datetime import UTC, datetime
from pathlib import Path

class OnlyBase:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extra!r}:
            raise ImportError(f"{{name}} is not of the base installation")

sys.meta_path.insert(0, OnlyBase())
from flywheel.collection import Collector
from flywheel.records import Feedback
early = [name for name in {heavy!r} if name in sys.modules]
with Collector(Path(sys.argv[1]), "acme", durability="machine") as collector:
    at = datetime(2025, 3, 1, tzinfo=UTC)
    mail = "write to jane.doe@example.org"
    for number, value in enumerate((mail, *{values!r})):
        noted = Feedback(task_id=f"t{{number}}", timestamp=at, source="user", name="note", value=value)
        assert collector.log_feedback(noted)
assert collector.drops == {{}}, collector.drops
print(early, [name for name in {heavy!r} if name in sys.modules])
"""


def extras() -> set[str]:
    """Top-level modules of distributions that only extras bring, as far as their names say it."""
    requirements = importlib.metadata.requires("arbiter-flywheel") or []
    names = {re.split(r"[ ;<>=\[]", one)[0] for one in requirements if "extra ==" in one}
    base = {re.split(r"[ ;<>=\[]", one)[0] for one in requirements if "extra ==" not in one}
    return {name.replace("-", "_") for name in names - base} | {"ahocorasick_rs", "polars"}


def test_a_log_is_written_with_the_base_alone_and_without_anything_heavy(tmp_path: Path) -> None:
    values = [*CANARIES.values(), "my password is hunter", "IBAN DE89 3704 0044 0532 0130 00", "pesel 44051401359"]
    program = PROGRAM.format(extra=extras(), heavy=HEAVY, values=values)
    result = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[] []"
    assert b"jane.doe" not in b"".join(payloads_in(tmp_path))
    assert b"write to" in b"".join(payloads_in(tmp_path))
