"""Texts to be rewritten without banned phrases and with all their facts, in up to three turns with feedback.

The texts are generated from ``scenarios.toml``, all combinations enumerated, so they are the same everywhere. They are
split by scenario: no sentence of a held-out task is in a training task.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import msgspec
from msgspec import Struct

from flywheel.errors import TaskSourceError
from flywheel.records import Complexity, Message
from flywheel.settings import TasksSettings
from flywheel.tasks.environment import Observation, TaskList, Verification, mandatory_check
from flywheel.tasks.source import SourceTask
from flywheel.tasks.splits import split_of
from flywheel.tasks.text_transformation.checker import TextCheck, check_text, unfenced, words_of

SCENARIOS = Path(__file__).with_name("scenarios.toml")
TASK_TYPE = "text-transformation"
SENTENCES = 3
MAX_TURNS = 3  # SPEC section 7, refinement
UNDONE = TextCheck(banned=(), missing=(), length="There is no text yet.", share=0.0)


class _Sentence(Struct, frozen=True):
    loaded: str
    plain: str
    banned: list[str]
    facts: list[str]


class _Scenario(Struct, frozen=True):
    kind: str
    values: list[dict[str, str]]
    sentences: list[_Sentence]


class TextTask(SourceTask, frozen=True, kw_only=True):
    """A text to rewrite. ``plain`` is the known solution."""

    source_text: str
    plain: str
    banned: tuple[str, ...]
    facts: tuple[str, ...]


class TextTransformation(TaskList[TextTask]):
    """The enumerated texts; the category of each is its scenario."""

    name = "text-transformation"

    def __init__(self, *, heldout_fraction: float, validation_fraction: float) -> None:
        self.heldout_fraction = heldout_fraction
        self.validation_fraction = validation_fraction

    @classmethod
    def of_settings(cls, tasks: TasksSettings) -> "TextTransformation":
        """The environment with the settings' splits."""
        return cls(heldout_fraction=tasks.heldout_fraction, validation_fraction=tasks.validation_fraction)

    def run(self, task: SourceTask) -> "TextRun":
        """Begin a run."""
        return TextRun(self.by_id(task.id))

    def read_tasks(self) -> Sequence[TextTask]:
        """The tasks, scenario by scenario.

        Raises:
            TaskSourceError: the scenarios cannot be read.
        """
        try:
            read = tomllib.loads(SCENARIOS.read_text(encoding="utf-8"))
            scenarios = msgspec.convert(read, type=dict[str, _Scenario])
        except (OSError, ValueError, msgspec.ValidationError) as error:
            raise TaskSourceError(f"{SCENARIOS} cannot be read as texts: {error}; reinstall the package") from error
        return [task for name, scenario in scenarios.items() for task in self._of_scenario(name, scenario)]

    def _of_scenario(self, name: str, scenario: _Scenario) -> Iterator[TextTask]:
        split = split_of(name, heldout_fraction=self.heldout_fraction, validation_fraction=self.validation_fraction)
        for number, values in enumerate(scenario.values):
            for chosen in combinations(range(len(scenario.sentences)), SENTENCES):
                suffix = "".join(str(index + 1) for index in chosen)
                sentences = [scenario.sentences[index] for index in chosen]
                banned = tuple(phrase for sentence in sentences for phrase in sentence.banned)
                facts = tuple(_filled(fact, values) for sentence in sentences for fact in sentence.facts)
                source_text = _text([sentence.loaded for sentence in sentences], values)
                yield TextTask(
                    id=f"{self.name}:{name}-{number}-{suffix}",
                    task_type=TASK_TYPE,
                    category=name,
                    complexity=Complexity.STANDARD,
                    question=_question(scenario.kind, source_text, banned, facts),
                    split=split,
                    source_text=source_text,
                    plain=_text([sentence.plain for sentence in sentences], values),
                    banned=banned,
                    facts=facts,
                )


class TextRun:
    """One agent's attempts at one text. The last one counts."""

    def __init__(self, task: TextTask) -> None:
        self._task = task
        self._turns = 0
        self._fenced = False
        self._checked = UNDONE
        self._best_share = 0.0

    def opening(self) -> tuple[Message, ...]:
        """The text, the phrases, the facts."""
        return self._task.question

    def known_answer(self) -> str:
        """The text in plain words."""
        return self._task.plain

    def step(self, answer: str) -> Observation:
        """Check the text, and say what is wrong with it as long as there are turns left."""
        text, self._fenced = unfenced(answer)
        self._turns += 1
        self._checked = check_text(
            text,
            banned=self._task.banned,
            facts=self._task.facts,
            source_words=len(words_of(self._task.source_text)),
        )
        gain = max(0.0, self._checked.share - self._best_share)
        self._best_share = max(self._best_share, self._checked.share)
        over = not self._checked.problems or self._turns >= MAX_TURNS
        return Observation(
            messages=() if over else (_feedback(self._checked),),
            format=0.0 if not text else 0.5 if self._fenced else 1.0,
            information_gain=gain,
            progress=self._checked.share,
        )

    def verify(self) -> Verification:
        """The checks of the last text: phrases gone, facts kept, length kept."""
        checked, began = self._checked, self._turns > 0
        gone = 1 - len(checked.banned) / len(self._task.banned)
        kept = 1 - len(checked.missing) / len(self._task.facts)
        return Verification(
            checks=(
                mandatory_check("no_banned_phrase", gone if began else 0.0),
                mandatory_check("facts_kept", kept if began else 0.0),
                mandatory_check("length_kept", 0.0 if checked.length else 1.0),
            ),
            tool=1.0,
            task=checked.share,
            minimal=1.0 / max(1, self._turns),
            reason=checked.problems[0] if checked.problems else "as expected",
            evidence=(*checked.problems, f"{self._turns} of at most {MAX_TURNS} turns"),
        )


def _filled(template: str, values: Mapping[str, str]) -> str:
    return template.format_map(values)


def _text(sentences: Sequence[str], values: Mapping[str, str]) -> str:
    filled = (_filled(sentence, values) for sentence in sentences)
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in filled)


def _question(kind: str, text: str, banned: Sequence[str], facts: Sequence[str]) -> tuple[Message, ...]:
    words = len(words_of(text))
    lines = (
        f"Rewrite {kind} in plain words. Answer with the new text and nothing else.",
        "These phrases must not be in it: " + "; ".join(f'"{phrase}"' for phrase in banned) + ".",
        "These facts must be in it, word for word: " + "; ".join(f'"{fact}"' for fact in facts) + ".",
        f"It must be about as long as before ({words} words; no less than half, no more than half as much again).",
        "",
        text,
    )
    return (Message(role="user", content="\n".join(lines)),)


def _feedback(checked: TextCheck) -> Message:
    return Message(role="user", content="\n".join((*checked.problems, "Write the whole text again.")))
