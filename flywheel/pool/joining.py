"""Joining: the logs of one task, in any order, become one data point. Pure: no clock, no database.

What is decided here, and where lines go:

- The same content twice is a duplicate; the first copy counts.
- Another log of the same kind replaces the earlier one: the latest by timestamp is joined, the rest is quarantined as
  ``superseded``. Of executions and evaluations those of the agent that routing chose go first. Feedback is all kept.
- A task that lacks one of its three logs waits, all its readable lines with it, until it expires
  (``flywheel.pool.expiry``). If the missing one is here but cannot be read, the task is quarantined instead: waiting
  would be for something that came.
- A log that several tenants could own is quarantined as ``ambiguous``.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from hashlib import blake2b
from operator import attrgetter
from struct import Struct as Layout
from typing import Any, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

from flywheel.pool.doors import Unreadable, open_line
from flywheel.pool.parts import RawLine
from flywheel.records import (
    DataPoint,
    Evaluation,
    EvaluationPart,
    Execution,
    ExecutionPart,
    Feedback,
    HistoricalPerformance,
    Imported,
    Log,
    Provenance,
    RlLabels,
    Routing,
    RoutingDecision,
    Task,
    encode,
)

Part = TypeVar("Part", bound=Struct)

SIZE = Layout(">Q")
KINDS: dict[str, type[Struct]] = {"routing": RoutingDecision, "execution": Execution, "evaluation": Evaluation}


class Line(Struct, frozen=True, kw_only=True):
    """A readable line. ``content`` is its canonical encoding: the same for the same log, however it was written."""

    raw: RawLine
    log: Log
    content: bytes


class Rejection(Struct, frozen=True, kw_only=True):
    """A line that did not get into a point, with the gates it failed and the reasons in words."""

    raw: RawLine
    gates: tuple[str, ...]
    reasons: tuple[str, ...]


class Triple(Struct, frozen=True, kw_only=True):
    """The three logs of a task, chosen, and its feedback in order of time."""

    routing: RoutingDecision
    execution: Execution
    evaluation: Evaluation
    feedback: tuple[Feedback, ...]
    lines: tuple[Line, ...]


class Joined(Struct, frozen=True, kw_only=True):
    """All lines of one task, each in exactly one place: the triple, ``waiting``, ``duplicates`` or ``rejections``.

    ``since``: when the first readable line of a task that waits arrived.
    """

    triple: Triple | None = None
    waiting: tuple[Line, ...] = ()
    since: datetime | None = None
    duplicates: int = 0
    rejections: tuple[Rejection, ...] = ()

    @property
    def lines(self) -> int:
        """How many lines there were."""
        in_triple = len(self.triple.lines) if self.triple else 0
        return in_triple + len(self.waiting) + self.duplicates + len(self.rejections)

    @property
    def present(self) -> tuple[str, ...]:
        """The kinds of log that a task has while it waits, in the order of ``KINDS``, feedback last."""
        there = {type(line.log) for line in self.waiting}
        return tuple(kind for kind, struct in (*KINDS.items(), ("feedback", Feedback)) if struct in there)

    @property
    def missing(self) -> tuple[str, ...]:
        """The kinds of log that a waiting task lacks, in the order of ``KINDS``."""
        return tuple(kind for kind in KINDS if kind not in self.present)


def join(raw_lines: Iterable[RawLine]) -> Joined:
    """Join the lines of one task of one tenant. Their order decides only which copy is first."""
    readable, unreadable, duplicates = read_lines(raw_lines)
    rejections = [Rejection(raw=bad.raw, gates=(bad.gate,), reasons=(bad.reason,)) for bad in unreadable]
    ambiguous = [line for line in readable if line.raw.owner_key is None]
    if ambiguous:
        reason = "several tenants have a routing decision for this task, and the log names none"
        rejections += [Rejection(raw=line.raw, gates=("ambiguous",), reasons=(reason,)) for line in ambiguous]
        readable = [line for line in readable if line.raw.owner_key is not None]
    kinds = by_kind(readable)
    feedback = sorted(kinds.pop(Feedback, ()), key=lambda line: (line.log.timestamp, line.content))
    chosen, superseded = choose(kinds)
    rejections += superseded
    if len(chosen) == len(KINDS):
        triple = triple_of(chosen, feedback)
        return Joined(triple=triple, duplicates=duplicates, rejections=tuple(rejections))
    kept = [*chosen.values(), *feedback]
    came = {bad.raw.log: bad.reason for bad in unreadable if bad.raw.log in KINDS and bad.raw.log not in chosen}
    if came:
        reasons = tuple(f"its {kind} log cannot be used: {reason}" for kind, reason in sorted(came.items()))
        rejections += [Rejection(raw=line.raw, gates=("incomplete",), reasons=reasons) for line in kept]
        kept = []
    since = min(line.raw.arrived_at for line in readable) if kept else None
    return Joined(waiting=tuple(kept), since=since, duplicates=duplicates, rejections=tuple(rejections))


def read_lines(raw_lines: Iterable[RawLine]) -> tuple[list[Line], list[Unreadable], int]:
    """Readable lines and unreadable ones, each content once, and how many copies were left out."""
    readable: list[Line] = []
    unreadable: dict[bytes, Unreadable] = {}
    count = 0
    for raw in raw_lines:
        count += 1
        opened = open_line(raw)
        if isinstance(opened, Unreadable):
            unreadable.setdefault(raw.payload, opened)
        else:
            readable.append(Line(raw=raw, log=opened, content=encode(opened)))
    readable = distinct(readable)
    return readable, list(unreadable.values()), count - len(readable) - len(unreadable)


def distinct(lines: list[Line]) -> list[Line]:
    """The first line of each content. Logs of different kinds never have the same: most tasks need no comparison."""
    if len({type(line.log) for line in lines}) == len(lines):
        return lines
    first: dict[bytes, Line] = {}
    for line in lines:
        first.setdefault(line.content, line)
    return list(first.values())


def by_kind(lines: Iterable[Line]) -> dict[type[Struct], list[Line]]:
    """The lines of each kind of log that there is, in their order."""
    kinds: dict[type[Struct], list[Line]] = {}
    for line in lines:
        kinds.setdefault(type(line.log), []).append(line)
    return kinds


def choose(kinds: Mapping[type[Struct], list[Line]]) -> tuple[dict[str, Line], list[Rejection]]:
    """The line that is joined of each kind, and the earlier ones of that kind."""
    chosen: dict[str, Line] = {}
    superseded: list[Rejection] = []
    for kind, struct in KINDS.items():
        candidates = kinds.get(struct)
        if candidates is None:
            continue
        if len(candidates) > 1:
            agent = chosen["routing"].log.selected_agent_id if "routing" in chosen else None  # type: ignore[union-attr]
            candidates = sorted(candidates, key=partial(precedence, agent))
        *earlier, chosen[kind] = candidates
        reason = f"another {kind} log of this task took its place: of the chosen agent, or later"
        superseded += [Rejection(raw=line.raw, gates=("superseded",), reasons=(reason,)) for line in earlier]
    return chosen, superseded


def precedence(agent: str | None, line: Line) -> tuple[bool, datetime, bytes]:
    """What is compared between lines of one kind: the chosen agent's go first, then the latest."""
    return getattr(line.log, "agent_id", agent) == agent, line.log.timestamp, line.content


def triple_of(chosen: dict[str, Line], feedback: Sequence[Line]) -> Triple:
    """The chosen lines and the feedback as one triple."""
    routing, execution, evaluation = (chosen[kind].log for kind in KINDS)
    assert isinstance(routing, RoutingDecision)
    assert isinstance(execution, Execution)
    assert isinstance(evaluation, Evaluation)
    return Triple(
        routing=routing,
        execution=execution,
        evaluation=evaluation,
        feedback=tuple(line.log for line in feedback if isinstance(line.log, Feedback)),
        lines=(*chosen.values(), *feedback),
    )


def point_of(
    triple: Triple, *, historical: HistoricalPerformance, warnings: Sequence[str] = (), waived: Sequence[str] = ()
) -> DataPoint:
    """The data point of a triple. ``warnings`` and ``waived`` name gates that it did not hold."""
    routing, execution, evaluation = triple.routing, triple.execution, triple.evaluation
    return DataPoint(
        id=point_id(triple),
        timestamp=routing.timestamp,
        tenant_id=routing.tenant_id,
        task=task_of(routing),
        routing=routing_part(routing, historical=historical),
        execution=part_of(execution, ExecutionPart),
        evaluation=part_of(evaluation, EvaluationPart),
        rl_labels=labels_of(execution, evaluation),
        provenance=Provenance(
            human_reviewed=bool(waived) or any(item.source == "reviewer" for item in triple.feedback),
            segments=tuple(sorted({line.raw.segment for line in triple.lines})),
            warnings=tuple(warnings),
            waived=tuple(waived),
            imported=imported_of(triple),
            cached_from=execution.cached_from,
        ),
        feedback=triple.feedback,
        rl_ready=is_rl_ready(execution),
        caws=evaluation.caws,
    )


def imported_of(triple: Triple) -> Imported | UnsetType:
    """What the logs say of where they were imported from, together; unset where an arbiter wrote them all."""
    found = [log.imported for log in (triple.routing, triple.execution, triple.evaluation)]
    origins = [origin for origin in found if origin is not UNSET]
    if not origins:
        return UNSET
    return Imported(
        format=origins[0].format,
        rules=tuple(dict.fromkeys(rule for origin in origins for rule in origin.rules)),
        absent=tuple(dict.fromkeys(name for origin in origins for name in origin.absent)),
    )


def point_id(triple: Triple) -> str:
    """Digest of tenant, task, agent and content of the three logs; feedback that comes later changes nothing."""
    names = (triple.routing.tenant_id, triple.routing.task_id, triple.routing.selected_agent_id)
    parts = [*map(str.encode, names), *(line.content for line in triple.lines[:3])]
    return blake2b(
        b"".join([piece for part in parts for piece in (SIZE.pack(len(part)), part)]), digest_size=16
    ).hexdigest()


def task_of(routing: RoutingDecision) -> Task:
    """What was asked."""
    return Task(
        id=routing.task_id,
        type=routing.task_type,
        complexity=routing.complexity,
        description=routing.description,
        requirements=routing.requirements,
        source=routing.source,
    )


def routing_part(routing: RoutingDecision, *, historical: HistoricalPerformance) -> Routing:
    """How the arbiter chose, and what it could know of its choice."""
    return Routing(
        selected_agent_id=routing.selected_agent_id,
        strategy=routing.strategy,
        confidence=routing.confidence,
        candidate_agents=routing.candidate_agents,
        primary_reason=routing.primary_reason,
        secondary_factors=routing.secondary_factors,
        historical_performance=historical,
    )


def part_of(log: Struct, part: type[Part]) -> Part:
    """A log without its keys, as the part of a point that has the same fields."""
    names, values = fields_of(part)
    return part(**dict(zip(names, values(log), strict=True)))


@cache
def fields_of(part: type[Struct]) -> tuple[tuple[str, ...], "attrgetter[tuple[Any, ...]]"]:
    """The names of a part's fields, and what reads them all off a log."""
    return part.__struct_fields__, attrgetter(*part.__struct_fields__)


def labels_of(execution: Execution, evaluation: Evaluation) -> RlLabels:
    """What training learns from. The reward is the overall score: rubric weights and safety gate are in it already."""
    outcome: Literal["success", "failure", "partial"] = "partial" if execution.partial_success else "failure"
    if execution.success:
        outcome = "success"
    return RlLabels(final_outcome=outcome, total_reward=evaluation.overall_score, turns=evaluation.turn_data)


def is_rl_ready(execution: Execution) -> bool:
    """Whether there is a conversation to learn from, something asked and something answered, and what it took.

    An answer that was given again from a cache was learned from, or not, where it was first given.
    """
    roles = {message.role for message in execution.messages}
    return {"user", "assistant"} <= roles and not execution.unmeasured and execution.cached_from is UNSET
