"""The pool's tables in PostgreSQL: what changes, what is counted, what is asked. Large things live in the lake.

``segments``, ``tasks`` and ``days`` are the ledger: which lines came, to which day a task belongs, what became of it.
Their history is in ``flywheel/migrations``.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from flywheel.database import Instant, metadata

SPLIT = "train, validation or held-out: a task is in one"
RELEASED = "its batch failed: the point may be chosen for the phase again"
UNKNOWN = "null where counted before this was"
TIMED = "tasks that have a latency; null where all have, as in rows of earlier versions"

segments = Table(
    "segments",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("lines", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("torn", BigInteger, nullable=False, comment="frames lost to a torn tail or a failed checksum"),
    Column("written_at", Instant, nullable=False),
    Column("written_day", Date, nullable=False, comment="the day of lines without a readable task or time"),
    Column("stray_lines", BigInteger, nullable=False, comment="lines without a readable task or time"),
    Column("indexed_at", Instant, nullable=False),
)
Index("ix_segments_stray_day", segments.c.written_day, postgresql_where=segments.c.stray_lines > 0)

tasks = Table(
    "tasks",
    metadata,
    Column("task_key", LargeBinary, primary_key=True, comment="blake2b of taskId"),
    Column("tenant_key", LargeBinary, primary_key=True, comment="blake2b of tenantId; empty where the logs name none"),
    Column("first_at", Instant, nullable=False, comment="the earliest timestamp under exactly this tenant key"),
    Column("routed", Boolean, nullable=False, comment="a routing decision is among the logs"),
    Column("owner_key", LargeBinary, comment="the tenant its lines are joined under; null where several claim them"),
    Column("day", Date, comment="the partition; null only while a segment is indexed"),
    Column("segments", ARRAY(Integer), nullable=False),
)
Index("ix_tasks_day", tasks.c.day)

days = Table(
    "days",
    metadata,
    Column("day", Date, primary_key=True),
    Column("revision", BigInteger, nullable=False, comment="raised whenever the day's lines or reviews change"),
    Column("changed_at", Instant, nullable=False),
    Column("validated_revision", BigInteger, nullable=False, server_default=text("0")),
    Column("validated_at", Instant),
    Column("anonymized_revision", BigInteger, nullable=False, server_default=text("0")),
    Column("statistics_revision", BigInteger, nullable=False, server_default=text("0")),
    Column("lines", BigInteger, nullable=False, server_default=text("0")),
    Column("lines_in_points", BigInteger, nullable=False, server_default=text("0")),
    Column("quarantined", BigInteger, nullable=False, server_default=text("0"), comment="lines"),
    Column("duplicates", BigInteger, nullable=False, server_default=text("0"), comment="lines"),
    Column("waiting", BigInteger, nullable=False, server_default=text("0"), comment="lines"),
    Column("points", BigInteger, nullable=False, server_default=text("0")),
    Column("report", JSONB, comment="the last ValidationReport, whole"),
    Column("points_removed_at", Instant, comment="when retention emptied what the tiers are made from"),
    Column("privacy_violations", BigInteger, comment="found by the last check; null before the first"),
    Column("verified_digest", Text, comment="of the anonymized points that the last check looked at"),
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Text, primary_key=True, comment="digest of day and line"),
    Column("day", Date, nullable=False, index=True),
    Column("task_id", Text, comment="null where it cannot be read"),
    Column("owner_key", LargeBinary, comment="blake2b of the tenant its task is joined under; null where nobody's"),
    Column("gates", ARRAY(Text), nullable=False),
    Column("reasons", ARRAY(Text), nullable=False),
    Column("line", LargeBinary, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'pending'")),
    Column("note", Text, nullable=False, server_default=text("''")),
    Column("reviewed_at", Instant),
    CheckConstraint("state IN ('pending', 'approved', 'rejected')", name="state_known"),
)

waiting_tasks = Table(
    "waiting_tasks",
    metadata,
    Column("day", Date, primary_key=True),
    Column("task_key", LargeBinary, primary_key=True, comment="blake2b of taskId"),
    Column("owner_key", LargeBinary, primary_key=True, comment="as in quarantine; empty where the logs name no tenant"),
    Column("task_id", Text, nullable=False),
    Column("tenant_id", LargeBinary, comment="its name as UTF-8; null where the logs name none"),
    Column("present", ARRAY(Text), nullable=False, comment="the logs that came"),
    Column("missing", ARRAY(Text), nullable=False, comment="the logs that it lacks to be a point"),
    Column("since", Instant, nullable=False, comment="when the first of its lines was taken in"),
    Column("lines", BigInteger, nullable=False),
)
Index("ix_waiting_tasks_since", waiting_tasks.c.since)

watermark = Table(
    "watermark",
    metadata,
    Column("singleton", Boolean, primary_key=True, server_default=text("true")),
    Column("at", Instant, nullable=False, comment="all that collectors wrote before it is in the ledger"),
    Column("observed_at", Instant, nullable=False, comment="when collectors' folder was last looked at"),
    Column("held_by", Text, comment="the open segment that holds it back; null where none does"),
    Column("open_segments", Integer, nullable=False),
    CheckConstraint("singleton", name="one_row"),
)

hot_points = Table(
    "hot_points",
    metadata,
    Column("id", Text, primary_key=True),
    Column("day", Date, nullable=False, index=True),
    Column("timestamp", Instant, nullable=False),
    Column("tenant_id", Text, nullable=False, index=True),
    Column("task_id", Text, nullable=False),
    Column("source", Text),
    Column("task_type", Text, nullable=False),
    Column("complexity", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("success", Boolean, nullable=False),
    Column("overall_score", Double, nullable=False),
    Column("total_reward", Double, nullable=False),
    Column("latency_ms", Double, comment="null where the point was imported from where nobody took it"),
    Column("tokens_used", BigInteger, comment="null as latency_ms"),
    Column("tool_calls", BigInteger, comment="null in rows of earlier versions"),
    Column("rl_ready", Boolean, nullable=False),
    Column("warnings", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("waived", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("payload", Text, nullable=False, comment="the point's wire JSON, compressed by lz4 where the server has it"),
)
Index("ix_hot_points_agent_task_type_timestamp", hot_points.c.agent_id, hot_points.c.task_type, hot_points.c.timestamp)
Index("ix_hot_points_task_type_timestamp", hot_points.c.task_type, hot_points.c.timestamp)

tier_days = Table(
    "tier_days",
    metadata,
    Column("tier", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("revision", BigInteger, nullable=False, comment="of the day it was made from"),
    Column("rows", BigInteger, nullable=False),
    Column("digest", Text, nullable=False, comment="of the points the tier's day was made from"),
    Column("placed_at", Instant, nullable=False),
    CheckConstraint("tier IN ('hot', 'warm', 'cold')", name="tier_known"),
)

agent_statistics = Table(
    "agent_statistics",
    metadata,
    Column("hour", Instant, primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("task_type", Text, primary_key=True),
    Column("day", Date, primary_key=True, comment="the partition that made the row"),
    Column("tasks", BigInteger, nullable=False),
    Column("successes", BigInteger, nullable=False),
    Column("quality_sum", Double, nullable=False),
    Column("latency_ms_sum", Double, nullable=False),
    Column("tokens_sum", BigInteger, nullable=False),
    Column("tool_tasks", BigInteger, comment=f"tasks with a tool call; {UNKNOWN}"),
    Column("reward_sum", Double, comment=UNKNOWN),
    Column("reward_square_sum", Double, comment=UNKNOWN),
    Column("timed_tasks", BigInteger, comment=TIMED),
)
Index("ix_agent_statistics_agent", agent_statistics.c.agent_id, agent_statistics.c.task_type, agent_statistics.c.hour)
Index("ix_agent_statistics_day", agent_statistics.c.day)

daily_statistics = Table(
    "daily_statistics",
    metadata,
    Column("agent_id", Text, primary_key=True),
    Column("date", Date, primary_key=True, comment="the UTC day of the tasks"),
    Column("task_type", Text, primary_key=True),
    Column("complexity", Text, primary_key=True, comment="unknown where an older version counted"),
    Column("day", Date, primary_key=True, comment="the partition that made the row"),
    Column("tasks", BigInteger, nullable=False),
    Column("successes", BigInteger, nullable=False),
    Column("quality_sum", Double, nullable=False),
    Column("latency_ms_sum", Double, nullable=False),
    Column("tokens_sum", BigInteger, nullable=False),
    Column("timed_tasks", BigInteger, comment=TIMED),
)
Index("ix_daily_statistics_day", daily_statistics.c.day)

task_type_profiles = Table(
    "task_type_profiles",
    metadata,
    Column("day", Date, primary_key=True),
    Column("task_type", Text, primary_key=True),
    Column("points", BigInteger, nullable=False),
    Column("latency_ms", JSONB, nullable=False, comment="histogram: bucket of a logarithmic scale to count"),
    Column("tokens", JSONB, nullable=False, comment="histogram: bucket of a logarithmic scale to count"),
)

batches = Table(
    "batches",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("first_at", Instant, nullable=False, comment="the oldest point's timestamp"),
    Column("last_at", Instant, nullable=False, comment="the newest point's timestamp"),
    Column("criteria", JSONB, nullable=False),
    Column("distribution", JSONB, nullable=False),
    Column("quality", JSONB, nullable=False),
    Column("released_at", Instant, comment="when its marks were lifted"),
    Column("released_because", Text, comment="why, in words"),
)

batch_points = Table(
    "batch_points",
    metadata,
    Column("batch_id", Text, ForeignKey("batches.id"), primary_key=True),
    Column("phase", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("point_id", Text, nullable=False),
    Column("source_task", Text, nullable=False, comment="what no two phases of one batch share"),
    Column("day", Date, nullable=False),
    Column("split", Text, nullable=False, server_default=text("'train'"), comment=SPLIT),
    Column("released", Boolean, nullable=False, server_default=text("false"), comment=RELEASED),
    CheckConstraint("phase IN ('sft', 'turn-level-rl', 'grpo', 'curriculum')", name="phase_known"),
    CheckConstraint("split IN ('train', 'validation', 'held-out')", name="split_known"),
)
Index(
    "uq_batch_points_phase_point",
    batch_points.c.phase,
    batch_points.c.point_id,
    unique=True,
    postgresql_where=text("NOT released"),
)
Index("ix_batch_points_point", batch_points.c.point_id)
Index("ix_batch_points_heldout", batch_points.c.source_task, postgresql_where=text("split = 'held-out'"))

halts = Table(
    "halts",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("day", Date, nullable=False, comment="whose anonymized points hold what they should not"),
    Column("reason", Text, nullable=False),
    Column("opened_at", Instant, nullable=False),
    Column("lifted_at", Instant),
    Column("lifted_by", Text, comment="who looked at it"),
    Column("note", Text, nullable=False, server_default=text("''")),
)
Index("uq_halts_open_day", halts.c.day, unique=True, postgresql_where=text("lifted_at IS NULL"))

lake_readings = Table(
    "lake_readings",
    metadata,
    Column("day", Date, primary_key=True, comment="the UTC day on which the lake was asked"),
    Column("read_at", Instant, nullable=False),
    Column("reading", JSONB, nullable=False, comment="the day's last LakeReading, whole"),
)

erasures = Table(
    "erasures",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("tenant_hash", Text, nullable=False, comment="the keyed hash: the name itself is gone"),
    Column("requested_at", Instant, nullable=False),
    Column("finished_at", Instant, comment="null while it is under way"),
    Column("report", JSONB, comment="what was removed; batches and models it had touched"),
)

privacy_spending = Table(
    "privacy_spending",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("tenant_hash", Text, nullable=False, comment="the keyed hash of whose budget it is"),
    Column("batch_id", Text, ForeignKey("batches.id"), nullable=False, comment="the export that spent it"),
    Column("spent_at", Instant, nullable=False),
    Column("mechanism", Text, nullable=False),
    Column("epsilon", Numeric, nullable=False),
    Column("delta", Numeric, nullable=False, server_default=text("0")),
    CheckConstraint("mechanism IN ('laplace', 'gaussian')", name="mechanism_known"),
    CheckConstraint("epsilon > 0 AND epsilon < 'Infinity' AND delta >= 0 AND delta < 1", name="spending_bounded"),
)
Index("uq_privacy_spending_batch_tenant", privacy_spending.c.batch_id, privacy_spending.c.tenant_hash, unique=True)
Index("ix_privacy_spending_tenant_spent_at", privacy_spending.c.tenant_hash, privacy_spending.c.spent_at)

tenant_salts = Table(
    "tenant_salts",
    metadata,
    Column("number", Integer, Identity(), primary_key=True),
    Column("id", Text, nullable=False, unique=True, comment="a digest that tells salts apart; nothing of the salt"),
    Column("began_at", Instant, nullable=False, comment="when it was first seen here"),
    Column("forgotten_at", Instant, comment="when its rotation was finished"),
)

tenant_hashes = Table(
    "tenant_hashes",
    metadata,
    Column("former", Text, primary_key=True, comment="a tenant's hash under the salt that is rotated away"),
    Column("present", Text, nullable=False, comment="the same tenant's under the present one"),
)
Index("ix_tenant_hashes_present", tenant_hashes.c.present)
