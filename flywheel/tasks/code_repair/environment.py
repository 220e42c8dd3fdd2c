"""Small programs with one error each, to be repaired in up to three turns; tests that run decide.

The programs are the project's own, one file each in ``programs/``. The agent sees the first two tests and what they
give; of the others it is told only how many fail, so that no program passes by knowing its tests.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from flywheel.arbiter.evaluation.change import change_of_text
from flywheel.arbiter.evaluation.changed_lines import changes_of
from flywheel.arbiter.evaluation.hacking.changes import findings_in_change
from flywheel.arbiter.evaluation.hacking.examples import example_of
from flywheel.arbiter.evaluation.hacking.finding import Finding
from flywheel.arbiter.evaluation.minimal_diff.scoring import score
from flywheel.errors import TaskSourceError
from flywheel.records import Complexity, Message, MinimalDiffMetrics
from flywheel.settings import TasksSettings
from flywheel.tasks.code_repair.program_tests import ProgramTest, TestRun, run_tests
from flywheel.tasks.environment import Observation, TaskList, Verification, mandatory_check
from flywheel.tasks.source import SourceTask
from flywheel.tasks.splits import split_of

PROGRAMS = Path(__file__).with_name("programs")
TASK_TYPE = "code-editing"
PROGRAM = "program.py"
SHOWN_TESTS = 2
MAX_TURNS = 3  # SPEC section 7, refinement
LONGEST_PROGRAM = 20_000
_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(?P<code>.*?)```", re.DOTALL)


class _Program(Struct, frozen=True):
    task: str
    buggy: str
    fixed: str
    tests: list[dict[str, str]]


class RepairTask(SourceTask, frozen=True, kw_only=True):
    """A program to repair. ``fixed`` is the known solution."""

    buggy: str
    fixed: str
    tests: tuple[ProgramTest, ...]


class CodeRepair(TaskList[RepairTask]):
    """The programs, in the order of their names, split by name."""

    name = "code-repair"

    def __init__(self, *, heldout_fraction: float, validation_fraction: float, folder: Path = PROGRAMS) -> None:
        self.heldout_fraction = heldout_fraction
        self.validation_fraction = validation_fraction
        self.folder = folder

    @classmethod
    def of_settings(cls, tasks: TasksSettings) -> "CodeRepair":
        """The environment with the settings' splits."""
        return cls(heldout_fraction=tasks.heldout_fraction, validation_fraction=tasks.validation_fraction)

    def run(self, task: SourceTask) -> "RepairRun":
        """Begin a run. Nothing is executed before the first answer."""
        return RepairRun(self.by_id(task.id))

    def read_tasks(self) -> Sequence[RepairTask]:
        """The tasks of the folder's files.

        Raises:
            TaskSourceError: one cannot be read.
        """
        return [self._task(path) for path in sorted(self.folder.glob("*.toml"))]

    def _task(self, path: Path) -> RepairTask:
        try:
            program = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), type=_Program)
            tests = tuple(ProgramTest(test["call"], test["expect"]) for test in program.tests)
        except (OSError, ValueError, KeyError, msgspec.ValidationError) as error:
            raise TaskSourceError(f"{path} cannot be read as a program: {error}; mend it or take it away") from error
        return RepairTask(
            id=f"{self.name}:{path.stem}",
            task_type=TASK_TYPE,
            category=self.name,
            complexity=Complexity.STANDARD,
            question=_question(program.task, program.buggy, tests),
            split=split_of(
                path.stem, heldout_fraction=self.heldout_fraction, validation_fraction=self.validation_fraction
            ),
            buggy=program.buggy,
            fixed=program.fixed,
            tests=tests,
        )


class RepairRun:
    """One agent's attempts at one program. The last one counts."""

    def __init__(self, task: RepairTask) -> None:
        self._task = task
        self._turns = 0
        self._program = ""
        self._tested: TestRun | None = None
        self._best_fraction = 0.0
        self._diff: MinimalDiffMetrics | None = None

    def opening(self) -> tuple[Message, ...]:
        """What the program is to do, the program, and the first tests."""
        return self._task.question

    def known_answer(self) -> str:
        """The repaired program."""
        return f"```python\n{self._task.fixed}```"

    def step(self, answer: str) -> Observation:
        """Run the tests, and say what they came to as long as there are turns left."""
        self._turns += 1
        self._program, asked_form = program_of(answer)
        self._tested = run_tests(self._program, self._task.tests) if self._program else None
        self._diff = minimal_diff(self._task.buggy, self._program) if self._program else None
        fraction = self._tested.passed_fraction if self._tested else 0.0
        gain = max(0.0, fraction - self._best_fraction)
        self._best_fraction = max(self._best_fraction, fraction)
        over = fraction == 1.0 or self._turns >= MAX_TURNS
        return Observation(
            messages=() if over else (Message(role="user", content=_feedback(self._tested)),),
            format=0.0 if not self._program else 1.0 if asked_form else 0.5,
            information_gain=gain,
            progress=fraction,
            multiplier=self._diff.reward_multiplier if self._diff else 1.0,
        )

    def verify(self) -> Verification:
        """Whether all tests passed, on the last program. ``task`` is the share of tests passed."""
        tested = self._tested
        fraction = tested.passed_fraction if tested else 0.0
        return Verification(
            checks=(mandatory_check("tests_pass", fraction),),
            tool=1.0,
            task=fraction,
            minimal=needed_share(self._task, self._diff) if self._diff and fraction == 1.0 else 0.0,
            minimal_diff=self._diff,
            reason=_reason(tested),
            evidence=_evidence(tested),
            findings=findings_in_program(self._task, self._program),
        )


def program_of(answer: str) -> tuple[str, bool]:
    """The program in an answer, and whether it stands in a code block, as was asked for; empty where there is none.

    Of several blocks the last one is meant: models think before they answer. Without one, the whole answer is taken
    for a program if Python can read it.
    """
    blocks = _BLOCK.findall(answer)
    code = str(blocks[-1]) if blocks else answer
    if not code.strip() or len(code) > LONGEST_PROGRAM:
        return "", False
    return (code, True) if blocks else (code if _is_python(code) else "", False)


def findings_in_program(task: RepairTask, program: str) -> tuple[Finding, ...]:
    """What in a program looks like work on its tests."""
    if program in {"", task.buggy}:
        return ()
    change = change_of_text(PROGRAM, before=task.buggy, after=program)
    examples = [example for test in task.tests if (example := example_of(test.call, test.expect))]
    needed = sum(lines.count for lines in changes_of(change_of_text(PROGRAM, before=task.buggy, after=task.fixed)))
    return findings_in_change(change, examples=examples, needed_lines=needed)


def minimal_diff(before: str, after: str) -> MinimalDiffMetrics:
    """How small the change from one program to another is."""
    return score(change_of_text(PROGRAM, before=before, after=after)).metrics


def needed_share(task: RepairTask, diff: MinimalDiffMetrics) -> float:
    """The multiplier of a repair / that of the known one, at most 1."""
    return min(1.0, diff.reward_multiplier / minimal_diff(task.buggy, task.fixed).reward_multiplier)


def _is_python(text: str) -> bool:
    try:
        compile(text, "answer", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _question(task: str, buggy: str, tests: Sequence[ProgramTest]) -> tuple[Message, ...]:
    shown = (f"- {test.call} gives {test.expect}" for test in tests[:SHOWN_TESTS])
    lines = (
        "This Python program has one error. Answer with the whole program, repaired, in one ```python block, and "
        "change no more than needed.",
        "",
        f"What it is to do: {task.strip()}",
        *shown,
        "",
        f"```python\n{buggy}```",
    )
    return (Message(role="user", content="\n".join(lines)),)


def _feedback(tested: TestRun | None) -> str:
    if tested is None:
        return "There is no program in the answer. Answer with the whole program in one ```python block."
    failed = [result for result in tested.results if not result.passed]
    shown = [
        f"{result.test.call} should give {result.test.expect}, and what came is: {result.seen}"
        for result in tested.results[:SHOWN_TESTS]
        if not result.passed
    ]
    ended = (f"The program did not get to the last test: {tested.ended}.",) if tested.ended else ()
    count = f"{len(failed)} of {len(tested.results)} tests fail."
    return "\n".join((count, *ended, *shown, "Answer with the whole program again."))


def _reason(tested: TestRun | None) -> str:
    if tested is None:
        return "there is no program in the answer"
    failed = [result for result in tested.results if not result.passed]
    if not failed:
        return "as expected"
    first = failed[0]
    return f"{len(failed)} of {len(tested.results)} tests fail, the first: {first.test.call} gave {first.seen}"


def _evidence(tested: TestRun | None) -> tuple[str, ...]:
    if tested is None:
        return ()
    results = (
        f"{'passed' if result.passed else 'failed'}: {result.test.call} gave {result.seen}"
        + ("" if result.passed else f", expected {result.test.expect}")
        for result in tested.results
    )
    return (*results, "confined: " + ", ".join(tested.confined))
