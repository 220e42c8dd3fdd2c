"""The registry of agents: revisions, limits, prices of input and output, load, and measured capabilities.

Revision: 0019_agent_registry
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0019_agent_registry"
down_revision = "0018_routing"

INSTANT = sa.DateTime(timezone=True)
TEXTS = sa.ARRAY(sa.Text())
# What agents of an earlier version are filled with; nobody fills a column by leaving it out.
AGENTS = (
    (sa.Column("function", sa.Text(), comment="of a Python agent, module:function"), "''"),
    (sa.Column("command", TEXTS, comment="program and arguments; empty: none"), "'{}'"),
    (sa.Column("max_concurrent", sa.Integer(), comment="calls at once in a process"), "10"),
    (sa.Column("usd_per_million_input_tokens", sa.Double()), "usd_per_million_tokens"),
    (sa.Column("usd_per_million_output_tokens", sa.Double()), "usd_per_million_tokens"),
    (sa.Column("revision", sa.Integer(), comment="counts the changes of this profile, from 1"), "1"),
)
OUTCOMES = (
    (sa.Column("languages", TEXTS, comment="of the task, where its log tells; else empty"), "'{}'"),
    (sa.Column("specializations", TEXTS, comment="the same"), "'{}'"),
)
LIMITS = ("requests_per_minute", "tokens_per_minute")
FIRST_REVISIONS = """
INSERT INTO agent_revisions (agent_id, revision, changed_at, changed_by, reason, profile)
SELECT id, 1, now(), '', 'known before revisions were kept', to_jsonb(agents) - 'revision' FROM agents
"""


def upgrade() -> None:
    """Add the columns, fill them from what is known, and begin every agent's history."""
    for table, columns in (("agents", AGENTS), ("task_outcomes", OUTCOMES)):
        for column, _ in columns:
            op.add_column(table, sa.Column(column.name, column.type, comment=column.comment))
        op.execute(f"UPDATE {table} SET {', '.join(f'{column.name} = {filling}' for column, filling in columns)}")  # noqa: S608 - our own names
        for column, _ in columns:
            op.alter_column(table, column.name, nullable=False)
    for name in LIMITS:
        op.add_column("agents", sa.Column(name, sa.Integer(), comment="null: no limit"))
    op.drop_column("agents", "usd_per_million_tokens")
    op.create_index("ix_task_outcomes_agent", "task_outcomes", ["agent_id", "evaluated_at"])
    add_tables()
    op.execute(FIRST_REVISIONS)


def add_tables() -> None:
    """History, load and capability events."""
    op.create_table(
        "agent_revisions",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("changed_at", INSTANT, nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("profile", JSONB(), nullable=False, comment="whole, from then on"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_agent_revisions_agent_id_agents")),
        sa.PrimaryKeyConstraint("agent_id", "revision", name=op.f("pk_agent_revisions")),
    )
    op.create_table(
        "agent_loads",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("process", sa.Text(), nullable=False, comment="who says so: each process has rows of its own"),
        sa.Column("active", sa.Integer(), nullable=False, comment="tasks worked on"),
        sa.Column("queued", sa.Integer(), nullable=False, comment="tasks that wait for the agent"),
        sa.Column("unavailable_until", INSTANT, comment="its endpoint failed too often; null: it can be asked"),
        sa.Column("unavailable_because", sa.Text(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False, comment="not renewed until then: the process is gone"),
        sa.PrimaryKeyConstraint("agent_id", "process", name=op.f("pk_agent_loads")),
    )
    op.create_table(
        "capability_events",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False, comment="task_types, languages or specializations of a profile"),
        sa.Column("name", sa.Text(), nullable=False, comment="which of them"),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("detected_at", INSTANT, nullable=False),
        sa.Column("evidence", JSONB(), nullable=False, comment="the test and its numbers"),
        sa.Column(
            "seen_until", INSTANT, nullable=False, comment="the newest outcome in it; the next test begins after"
        ),
        sa.Column("proposal", sa.Text(), comment="add or remove the name in the profile; null: nothing to change"),
        sa.Column("applied_at", INSTANT, comment="null: not applied"),
        sa.Column("applied_by", sa.Text()),
        sa.CheckConstraint("kind IN ('added', 'improved', 'degraded')", name=op.f("ck_capability_events_kind")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_capability_events_agent_id_agents")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_capability_events")),
    )
    op.create_index("ix_capability_events_agent", "capability_events", ["agent_id", "field", "name"])


def downgrade() -> None:
    """Take it back. An agent keeps the higher of its two prices; agents of kinds that were not known are disabled."""
    for table in ("capability_events", "agent_loads", "agent_revisions"):
        op.drop_table(table)
    op.drop_index("ix_task_outcomes_agent", "task_outcomes")
    op.add_column("agents", sa.Column("usd_per_million_tokens", sa.Double()))
    op.execute(
        "UPDATE agents SET usd_per_million_tokens ="
        " greatest(usd_per_million_input_tokens, usd_per_million_output_tokens),"
        " status = CASE WHEN kind IN ('python', 'command') THEN 'disabled' ELSE status END"
    )
    op.alter_column("agents", "usd_per_million_tokens", nullable=False)
    for name in (*LIMITS, *(column.name for column, _ in AGENTS)):
        op.drop_column("agents", name)
    for column, _ in OUTCOMES:
        op.drop_column("task_outcomes", column.name)
