"""The arbiter works in an agent service: it routes, judges and signs with what the base installation has."""

import subprocess
import sys

from tests.collection.test_imports import HEAVY, extras

PROGRAM = """
import sys
from datetime import UTC, datetime

class OnlyBase:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extra!r}:
            raise ImportError(f"{{name}} is not of the base installation")

sys.meta_path.insert(0, OnlyBase())
from flywheel.arbiter.agents.strategy import Answer
from flywheel.arbiter.arbiter import FUNCTION_CALLS, Arbiter
from flywheel.arbiter.audit_trail.keys import VERDICT_DOMAIN, SigningKey, new_seed
from flywheel.arbiter.evaluation.evaluator import Subject
from flywheel.tasks.synthetic import SyntheticSource

task = SyntheticSource(categories=("synthetic-add",), heldout_fraction=0, validation_fraction=0).read_tasks()[0]
text = '{{"name": "no_such_function", "arguments": {{}}}}'
answer = Answer(text=text, messages=(), latency_ms=1.0, prompt_tokens=1, output_tokens=1)
subject = Subject(task=task, answer=answer, task_id="t", tenant_id="acme", agent_id="a", at=datetime.now(UTC))
verdict = FUNCTION_CALLS.evaluate(subject)
key = SigningKey.of_seed(new_seed())
assert key.public.verifies(key.sign(VERDICT_DOMAIN, b"verdict"), VERDICT_DOMAIN, b"verdict")
print(verdict.passed, verdict.evaluation.rubric, [name for name in {heavy!r} if name in sys.modules])
"""


def test_an_answer_is_judged_with_the_base_alone() -> None:
    heavy = tuple(name for name in HEAVY if name not in {"numpy", "sqlalchemy"})  # routing and its state need these
    program = PROGRAM.format(extra=extras() - {"sqlalchemy"}, heavy=heavy)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "False builtin@1 []"
