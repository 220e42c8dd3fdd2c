"""The account of an import: what was read, what became of it, and what the source did not have."""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from flywheel.collection.completion import Completed
from flywheel.collection.importers.interface import Rejected, Run
from flywheel.records import Evaluation, Execution, Log, RoutingDecision, RubricScores

NAMES_KEPT = 1000
"""Of agents and task types; a source with more uses something else in their place."""
EXAMPLES_PER_REASON = 5
TERMS_BESIDE_SAFETY = len(RubricScores.__struct_fields__) - 1
FIELDS = (
    "timestamp",
    "latencyMs",
    "tokensUsed",
    "timeToFirstAction",
    "costUsd",
    "messages",
    "toolCallSuccessRate",
    "reward",
    "safety",
    "routing",
    "rubric",
    "tokenIds",
)


class Example(Struct, frozen=True, kw_only=True):
    """A rejection with its place. ``line`` counts from 1; None where a place has none."""

    file: str
    line: int | None
    item: str
    reason: str
    detail: str

    def __str__(self) -> str:
        place = ":".join(filter(None, (self.file, str(self.line or ""), self.item)))
        return f"{place}: {self.reason}" + (f": {self.detail}" if self.detail else "")


class FidelityReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """What an import did.

    Of traces: read = points + waiting + duplicates + rejected, always. Of native logs ``read`` counts lines, of which
    three make a point; what is ``rejected`` of them the pool quarantines.

    Attributes:
        format: of the files; several, or none, with commas.
        read: records.
        points: data points made, before the pool judges them.
        rejected: records by the reason why they became none.
        duplicates: records that were there already, in these files or in one imported before.
        waiting: runs that wait in the pool for an evaluation or another log.
        tool_calls: calls of tools in points and what waits.
        agents: who did the tasks, sorted; the first ``NAMES_KEPT``.
        task_types: of the tasks, sorted.
        fields: share 0–1 of points and waiting runs whose source has the field.
        seconds: wall-clock time.
        rules: how often each rule completed or derived something.
        fit: points by what they are fit for: ``sft`` has a conversation, ``onPolicyRl`` token ids too.
        examples: some rejections of each reason, with file and line.
        files: taken now.
        known_files: imported before, with the same terms; they are not read again.
        bytes: size of the files taken.
        segments: written.
    """

    format: str
    read: int = 0
    points: int = 0
    rejected: dict[str, int] = {}
    duplicates: int = 0
    waiting: int = 0
    tool_calls: int = 0
    agents: tuple[str, ...] = ()
    task_types: tuple[str, ...] = ()
    fields: dict[str, float] = {}
    seconds: float = 0.0
    rules: dict[str, int] = {}
    fit: dict[str, int] = {}
    examples: tuple[Example, ...] = ()
    files: int = 0
    known_files: int = 0
    bytes: int = 0
    segments: int = 0


class Tally(Struct, frozen=True, kw_only=True):
    """What is counted of one record whose logs are written; the fields are those of the account."""

    points: int = 0
    waiting: int = 0
    tool_calls: int = 0
    agents: tuple[str, ...] = ()
    task_types: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    fit: tuple[str, ...] = ()


class Account(Struct, kw_only=True):
    """Counts as records come; of one file, or of several added up."""

    formats: set[str] = field(default_factory=set)
    read: int = 0
    points: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    waiting: int = 0
    tool_calls: int = 0
    agents: set[str] = field(default_factory=set)
    task_types: set[str] = field(default_factory=set)
    present: dict[str, int] = field(default_factory=dict)
    rules: dict[str, int] = field(default_factory=dict)
    fit: dict[str, int] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)

    def reject(self, rejected: Rejected, file: str) -> None:
        """Count a rejection, and keep it if there are few of its reason."""
        reason = rejected.reason
        add(self.rejected, (reason,))
        if self.rejected[reason] <= EXAMPLES_PER_REASON:
            self.examples.append(
                Example(file=file, line=rejected.line, item=rejected.item, reason=reason, detail=rejected.detail[:500])
            )

    def take(self, tally: Tally) -> None:
        """Count a record whose logs were written."""
        self.points += tally.points
        self.waiting += tally.waiting
        self.tool_calls += tally.tool_calls
        if len(self.agents) < NAMES_KEPT:
            self.agents.update(tally.agents)
        if len(self.task_types) < NAMES_KEPT:
            self.task_types.update(tally.task_types)
        add(self.rules, tally.rules)
        add(self.present, tally.present)
        add(self.fit, tally.fit)

    def merge(self, other: "Account") -> None:
        """Add another account."""
        for name in ("read", "points", "duplicates", "waiting", "tool_calls"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("rejected", "present", "rules", "fit"):
            total: dict[str, int] = getattr(self, name)
            for key, count in getattr(other, name).items():
                total[key] = total.get(key, 0) + count
        for name in ("formats", "agents", "task_types"):
            getattr(self, name).update(getattr(other, name))
        kept = Counter(example.reason for example in self.examples)
        for example in other.examples:
            kept[example.reason] += 1
            if kept[example.reason] <= EXAMPLES_PER_REASON:
                self.examples.append(example)

    def as_known(self) -> "Account":
        """The account of a file that was imported before: what it had is there already."""
        again = self.points + self.waiting + self.duplicates
        return Account(formats=self.formats, read=self.read, duplicates=again, rejected=dict(self.rejected))


def add(counts: dict[str, int], names: Iterable[str]) -> None:
    """Count each of the names once."""
    for name in names:
        counts[name] = counts.get(name, 0) + 1


def tally_of(run: Run, completed: Completed) -> Tally:
    """What is counted of a run with its logs."""
    return Tally(
        points=not completed.waits,
        waiting=completed.waits,
        tool_calls=sum(tally.calls for tally in run.tools.values()),
        agents=(completed.agent_id,),
        task_types=(completed.task_type,),
        rules=completed.rules,
        present=tuple(name for name, there in presence(run, completed) if there),
        fit=fit_for(bool(run.messages) and not completed.waits, token_ids=run.token_ids),
    )


def tally_of_task(logs: Sequence[Log]) -> Tally:
    """What is counted of the logs of one task as they came; without all three kinds it waits for the others."""
    whole = {type(log) for log in logs} >= {RoutingDecision, Execution, Evaluation}
    return replace(tally_of_logs(logs), points=whole, waiting=not whole)


def tally_of_logs(logs: Sequence[Log]) -> Tally:
    """What logs have. Which tasks are complete is counted elsewhere."""
    routed = [log for log in logs if isinstance(log, RoutingDecision)]
    executed = [log for log in logs if isinstance(log, Execution)]
    return Tally(
        tool_calls=sum(log.tool_call_count for log in executed),
        agents=tuple(log.selected_agent_id for log in routed),
        task_types=tuple(log.task_type for log in routed),
        present=tuple(name for log in logs for name in present_in(log)),
        fit=tuple(name for log in executed for name in fit_for(bool(log.messages), token_ids=False)),
    )


def present_in(log: Log) -> Iterable[str]:
    """Which fields of a complete point a log has."""
    if isinstance(log, RoutingDecision):
        return ("timestamp", *(("routing",) if log.candidate_agents else ()))
    if isinstance(log, Evaluation):
        return ("reward", "safety", "rubric")
    if not isinstance(log, Execution):
        return ()
    measured = {
        "latencyMs": log.latency_ms,
        "tokensUsed": log.tokens_used,
        "timeToFirstAction": log.time_to_first_action,
        "messages": log.messages or None,
        "toolCallSuccessRate": log.tool_call_success_rate,
    }
    return (name for name, value in measured.items() if value is not None)


def fit_for(conversation: bool, *, token_ids: bool) -> tuple[str, ...]:
    """What something with a conversation is fit for by its form."""
    return ("sft",) * conversation + ("onPolicyRl",) * (conversation and token_ids)


def presence(run: Run, completed: Completed) -> Iterable[tuple[str, bool]]:
    """Which fields of a complete point the source of a run has."""
    return (
        ("timestamp", run.started_at is not None),
        ("latencyMs", bool(run.latency_ms)),
        ("tokensUsed", run.tokens_used is not None),
        ("timeToFirstAction", run.first_action_ms is not None),
        ("costUsd", run.cost_usd is not None),
        ("messages", bool(run.messages)),
        ("toolCallSuccessRate", any(tally.failures is not None for tally in run.tools.values())),
        ("reward", not completed.waits),
        ("safety", run.safety is not None),
        ("rubric", len(run.rubric) == TERMS_BESIDE_SAFETY and run.safety is not None),
        ("tokenIds", run.token_ids),
    )


def report_of(account: Account, *, seconds: float, **files: int) -> FidelityReport:
    """The account as a report. ``files``, ``known_files``, ``bytes`` and ``segments`` are given by name."""
    tasks = account.points + account.waiting
    return FidelityReport(
        format=", ".join(sorted(account.formats)) or "none",
        read=account.read,
        points=account.points,
        rejected=account.rejected,
        duplicates=account.duplicates,
        waiting=account.waiting,
        tool_calls=account.tool_calls,
        agents=tuple(sorted(account.agents)),
        task_types=tuple(sorted(account.task_types)),
        fields={name: min(1.0, round(account.present.get(name, 0) / tasks, 6)) for name in FIELDS} if tasks else {},
        seconds=round(seconds, 3),
        rules=account.rules,
        fit={"sft": account.fit.get("sft", 0), "onPolicyRl": account.fit.get("onPolicyRl", 0)},
        examples=tuple(account.examples),
        **files,
    )
