"""What an importer is: it recognizes documents of one format and turns their records into runs.

An importer reads what the source says and nothing else: what the source does not say stays None. How a run becomes the
pool's logs, and by which named rules it is completed, is the same for all formats (``flywheel.collection.completion``).
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from typing_extensions import TypeIs

from flywheel.records import Log, Message

if TYPE_CHECKING:
    from flywheel.collection.documents import Document

Value = float | str | bool


class ToolTally(Struct):
    """Calls of one tool within a run.

    ``failures`` is None where the source does not say which calls went well, ``average_latency_ms`` where it does not
    say how long they took.
    """

    calls: int = 0
    failures: int | None = None
    average_latency_ms: float | None = None


class Note(Struct, frozen=True, kw_only=True):
    """What somebody said of a run: feedback. Without a time of its own it gets the run's."""

    name: str
    value: Value
    source: Literal["user", "reviewer", "system"] = "system"
    timestamp: datetime | None = None


class Run(Struct, kw_only=True):
    """One task done by one agent, as far as the source tells.

    Attributes:
        key: what tells the run from others of its format; the task's id is made of it.
        agent_id: who did it.
        category: the source's own name for the kind of task; a mapping may translate it to a task type.
        task_type: the registered task type where nobody says otherwise.
        source: the benchmark task this is an instance of, ``benchmark:task``; None where there is none.
        started_at: aware; None where the source has no time.
        reward: 0–1, where the format says what is good; None where a mapping must (``scores``) or nobody does.
        success: None: where the reward reaches the threshold.
        safety: 0–1, where the source judged it.
        rubric: other terms of the rubric that the source judged, each 0–1.
        scores: the source's scores by name, for the mapping.
        derived: names of rules by which fields were computed from others of the same record.
        token_ids: whether the source has token ids and log-probabilities of what the agent wrote.
    """

    key: str
    agent_id: str
    category: str = ""
    task_type: str = "tool-calling"
    source: str | None = None
    description: str = ""
    requirements: tuple[str, ...] = ()
    started_at: datetime | None = None
    latency_ms: float | None = None
    first_action_ms: float | None = None
    tokens_used: int | None = None
    output_tokens: int | None = None
    thinking_tokens: int | None = None
    cost_usd: float | None = None
    messages: tuple[Message, ...] = ()
    tools: dict[str, ToolTally] = {}
    success: bool | None = None
    reward: float | None = None
    safety: float | None = None
    rubric: Mapping[str, float] = {}
    failure_reason: str | None = None
    scores: Mapping[str, Value] = {}
    notes: tuple[Note, ...] = ()
    derived: tuple[str, ...] = ()
    token_ids: bool = False


class Logs(Struct, frozen=True):
    """Ready-made logs of one task: nothing is completed. ``own_tenant``: they name it; else it is the import's."""

    logs: tuple[Log, ...]
    own_tenant: bool = True


class Line(Struct, frozen=True, kw_only=True):
    """A line that is framed as it is, for the pool to judge. ``problem`` is why it will quarantine it, where known."""

    payload: bytes
    log: Log | None = None
    problem: "Rejected | None" = None


class Rejected(Struct, frozen=True, kw_only=True):
    """A record that becomes no run. ``reason`` is one of few, to be counted; ``detail`` says what exactly."""

    reason: str
    detail: str = ""
    line: int | None = None
    item: str = ""


class Row(Struct, frozen=True, kw_only=True):
    """A part of a run that stands apart from the others: the key of its run, its kind, what orders it, its content."""

    key: str
    kind: str = ""
    at: str = ""
    line: int
    raw: bytes


class Group(Struct, frozen=True, kw_only=True):
    """The rows of one run in order, each its kind and content, and the line of the one that was read first."""

    key: str
    line: int
    rows: tuple[tuple[str, bytes], ...]


class Opening(Struct, frozen=True, kw_only=True):
    """What can be known of a document before it is read.

    Attributes:
        name: its path, within its archive too.
        head: its first bytes, up to 64 KiB.
        keys: of its first value, or of the first element where that is a list; as far as ``head`` reaches.
        listed: whether the first value is a list.
        members: names of the files inside, where it is a zip.
    """

    name: str
    head: bytes
    keys: frozenset[str] = frozenset()
    listed: bool = False
    members: frozenset[str] = frozenset()


class Format(Protocol):
    """What all importers are. Third parties add theirs by the entry point group ``flywheel.importers``."""

    name: str
    """What ``--format`` calls it."""
    rewarded: bool
    """Whether the format itself says which outcome is good; otherwise a mapping is required."""

    def recognizes(self, opening: Opening) -> bool:
        """Whether the document is of this format. Must not claim another's; quick and without side effects."""
        ...


class Importer(Format, Protocol):
    """One format whose records are runs."""

    def runs(self, document: "Document") -> Iterator[Run | Logs | Line | Rejected]:
        """The document's records, in order, one in memory at a time. Bad data is a ``Rejected``, not an exception."""
        ...


class Gatherer(Format, Protocol):
    """One format whose records are parts of runs, anywhere in the documents and files of one import."""

    def rows(self, document: "Document") -> "Iterator[Row | Rejected]":
        """The document's records, in order, one in memory at a time. Bad data is a ``Rejected``, not an exception."""
        ...

    def outcome(self, group: Group) -> "Run | Logs | Rejected":
        """What becomes of the rows of one key, of all documents."""
        ...


class Divisible(Protocol):
    """An importer that reads each JSON object by itself, so that parts of a document can be read side by side.

    It has them of ``records(document, *lists)``. What stands around its lists may be known to all of their elements,
    and what is on one line to no other.
    """

    lists: tuple[str, ...]
    """Names of the lists that hold the records of a document that is one object."""


AnyImporter = Importer | Gatherer
Outcome = Run | Logs | Line | Rejected
Json = dict[str, Any]


def is_gatherer(importer: AnyImporter) -> TypeIs[Gatherer]:
    """Whether the records of a format are parts of runs.

    It is asked of each document, and ``isinstance`` takes a tenth of a millisecond for a protocol.
    """
    return hasattr(importer, "rows") and hasattr(importer, "outcome")


def is_divisible(importer: object) -> TypeIs[Divisible]:
    """Whether a document of a format can be read in parts."""
    return hasattr(importer, "lists")
