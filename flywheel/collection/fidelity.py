"""The account of an import: what was read, what became of it, and what the source did not have."""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

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

    def take(self, run: Run, completed: Completed) -> None:
        """Count a run whose logs were written."""
        self.points += not completed.waits
        self.waiting += completed.waits
        self.tool_calls += sum(tally.calls for tally in run.tools.values())
        self._name(completed.agent_id, completed.task_type)
        add(self.rules, completed.rules)
        add(self.present, (name for name, there in presence(run, completed) if there))
        self._fits(bool(run.messages) and not completed.waits, token_ids=run.token_ids)

    def take_logs(self, logs: Sequence[Log]) -> None:
        """Count the logs of one task as they came; without all three kinds it waits for the others."""
        whole = {type(log) for log in logs} >= {RoutingDecision, Execution, Evaluation}
        self.points += whole
        self.waiting += not whole
        for log in logs:
            self.take_log(log)

    def take_log(self, log: Log) -> None:
        """Count what one log has. Which tasks are complete is counted elsewhere."""
        if isinstance(log, RoutingDecision):
            self._name(log.selected_agent_id, log.task_type)
            add(self.present, ("timestamp", *(("routing",) if log.candidate_agents else ())))
        elif isinstance(log, Execution):
            self.tool_calls += log.tool_call_count
            measured = {
                "latencyMs": log.latency_ms,
                "tokensUsed": log.tokens_used,
                "timeToFirstAction": log.time_to_first_action,
                "messages": log.messages or None,
                "toolCallSuccessRate": log.tool_call_success_rate,
            }
            add(self.present, (name for name, value in measured.items() if value is not None))
            self._fits(bool(log.messages), token_ids=False)
        elif isinstance(log, Evaluation):
            add(self.present, ("reward", "safety", "rubric"))

    def _name(self, agent_id: str, task_type: str) -> None:
        if len(self.agents) < NAMES_KEPT:
            self.agents.add(agent_id)
        if len(self.task_types) < NAMES_KEPT:
            self.task_types.add(task_type)

    def _fits(self, conversation: bool, *, token_ids: bool) -> None:
        add(self.fit, ("sft",) * conversation + ("onPolicyRl",) * (conversation and token_ids))

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
