"""The arbiter's tables in PostgreSQL: agents, what it learned about them, what it ran, which model served when.

Their history is in ``flywheel/migrations``.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB

from flywheel.database import Instant, metadata

agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("model", Text, nullable=False, comment="base, a folder, models:/NAME/VERSION, or an endpoint's model name"),
    Column("model_family", Text, nullable=False),
    Column("task_types", ARRAY(Text), nullable=False, comment="empty: all"),
    Column("languages", ARRAY(Text), nullable=False),
    Column("specializations", ARRAY(Text), nullable=False),
    Column("prompt", Text, nullable=False),
    Column("temperature", Double, nullable=False),
    Column("base_url", Text, nullable=False),
    Column("api_key_env", Text, nullable=False, comment="name of the variable, never the key"),
    Column("function", Text, nullable=False, comment="of a Python agent, module:function"),
    Column("command", ARRAY(Text), nullable=False, comment="program and arguments; empty: none"),
    Column("timeout_s", Double, nullable=False),
    Column("max_concurrent", Integer, nullable=False, comment="calls at once in a process"),
    Column("requests_per_minute", Integer, comment="null: no limit"),
    Column("tokens_per_minute", Integer, comment="null: no limit"),
    Column("usd_per_million_input_tokens", Double, nullable=False),
    Column("usd_per_million_output_tokens", Double, nullable=False),
    Column("error_rate", Double, nullable=False),
    Column("version", Text, nullable=False),
    Column("status", Text, CheckConstraint("status IN ('active', 'disabled')", name="status"), nullable=False),
    Column("revision", Integer, nullable=False, comment="counts the changes of this profile, from 1"),
)

agent_revisions = Table(
    "agent_revisions",
    metadata,
    Column("agent_id", Text, ForeignKey("agents.id"), primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("changed_at", Instant, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("profile", JSONB, nullable=False, comment="whole, from then on"),
)

agent_loads = Table(
    "agent_loads",
    metadata,
    Column("agent_id", Text, primary_key=True),
    Column("process", Text, primary_key=True, comment="who says so: each process has rows of its own"),
    Column("active", Integer, nullable=False, comment="tasks worked on"),
    Column("queued", Integer, nullable=False, comment="tasks that wait for the agent"),
    Column("unavailable_until", Instant, comment="its endpoint failed too often; null: it can be asked"),
    Column("unavailable_because", Text, nullable=False),
    Column("expires_at", Instant, nullable=False, comment="not renewed until then: the process is gone"),
)

capability_events = Table(
    "capability_events",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("field", Text, nullable=False, comment="task_types, languages or specializations of a profile"),
    Column("name", Text, nullable=False, comment="which of them"),
    Column("kind", Text, CheckConstraint("kind IN ('added', 'improved', 'degraded')", name="kind"), nullable=False),
    Column("detected_at", Instant, nullable=False),
    Column("evidence", JSONB, nullable=False, comment="the test and its numbers"),
    Column("seen_until", Instant, nullable=False, comment="the newest outcome in it; the next test begins after"),
    Column("proposal", Text, comment="add or remove the name in the profile; null: nothing to change"),
    Column("applied_at", Instant, comment="null: not applied"),
    Column("applied_by", Text),
)
Index("ix_capability_events_agent", capability_events.c.agent_id, capability_events.c.field, capability_events.c.name)

bandit_state = Table(
    "bandit_state",
    metadata,
    Column("agent_id", Text, ForeignKey("agents.id"), primary_key=True),
    Column("task_type", Text, primary_key=True),
    Column("tasks", BigInteger, nullable=False),
    Column("successes", BigInteger, nullable=False),
    Column("quality_sum", Double, nullable=False, comment="of overall scores, each 0-1"),
    Column("latency_ms_sum", Double, nullable=False),
    Column("weight", Double, nullable=False, comment="tasks, each counted by age at weighed_at, as all that follow"),
    Column("aged_quality", Double, nullable=False),
    Column("aged_squares", Double, nullable=False, comment="of qualities"),
    Column("aged_latency_ms", Double, nullable=False),
    Column("cost_weight", Double, nullable=False, comment="of tasks whose cost is known"),
    Column("aged_cost_usd", Double, nullable=False),
    Column("weighed_at", Instant, nullable=False, comment="moment of the newest outcome"),
)

routing_regressions = Table(
    "routing_regressions",
    metadata,
    Column("agent_id", Text, ForeignKey("agents.id"), primary_key=True),
    Column("features", ARRAY(Text), nullable=False, comment="names, in the order of the sums"),
    Column("precision", ARRAY(Double), nullable=False, comment="sum of x x', row by row, weights as in bandit_state"),
    Column("moment", ARRAY(Double), nullable=False, comment="sum of x times quality"),
    Column("squares", Double, nullable=False, comment="sum of squared qualities"),
    Column("weight", Double, nullable=False),
    Column("weighed_at", Instant, nullable=False),
)

task_outcomes = Table(
    "task_outcomes",
    metadata,
    Column("tenant_id", Text, primary_key=True, server_default="", comment="empty: of an earlier version"),
    Column("task_id", Text, primary_key=True),
    Column("label", Text, nullable=False, comment="the stream of traffic the task came in, for example before"),
    Column("source_id", Text, nullable=False, comment="the benchmark task"),
    Column("task_type", Text, nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("success", Boolean, nullable=False),
    Column("quality", Double, nullable=False, comment="overall score, 0-1"),
    Column("latency_ms", Double, nullable=False),
    Column("evaluated_at", Instant, nullable=False),
    Column("cost_usd", Double, comment="null: not known"),
    Column("languages", ARRAY(Text), nullable=False, comment="of the task, where its log tells; else empty"),
    Column("specializations", ARRAY(Text), nullable=False, comment="the same"),
)
Index("ix_task_outcomes_label", task_outcomes.c.label)
Index("ix_task_outcomes_agent", task_outcomes.c.agent_id, task_outcomes.c.evaluated_at)

task_runs = Table(
    "task_runs",
    metadata,
    Column("tenant_id", Text, primary_key=True),
    Column("task_id", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False, comment="of the task: another one must not have its id"),
    Column("claim", Text, nullable=False, comment="who runs it, or ran it"),
    Column("runner", Text, nullable=False, comment="the arbiter that has the claim"),
    Column("expires_at", Instant, nullable=False, comment="another may claim it then, unless it has a result"),
    Column("finished_at", Instant, comment="null: it runs"),
    Column("result", LargeBinary, comment="what became of it, as JSON"),
    Column("routed", LargeBinary, comment="where the caller does it: the decision, as JSON"),
    Column("cancel_reason", Text, comment="somebody asked its runner to end it"),
)
Index("ix_task_runs_runner", task_runs.c.runner, postgresql_where=task_runs.c.finished_at.is_(None))
Index("ix_task_runs_finished_at", task_runs.c.finished_at)

alias_history = Table(
    "alias_history",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("model_name", Text, nullable=False),
    Column("alias", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("set_at", Instant, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
)
Index("ix_alias_history_model", alias_history.c.model_name, alias_history.c.alias, alias_history.c.set_at)
