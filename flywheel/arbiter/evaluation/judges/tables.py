"""The judges' tables in PostgreSQL: what they said, so that nobody pays for it twice, and how often they abstained."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Table, Text

from flywheel.database import Instant, metadata

judge_opinions = Table(
    "judge_opinions",
    metadata,
    Column("tenant_id", Text, primary_key=True, comment="whose answer it is about; nobody else is given it"),
    Column("digest", LargeBinary, primary_key=True, comment="of judge, prompts, criterion, material and sample"),
    Column("finding", LargeBinary, nullable=False, comment="the score and its reason, as JSON"),
    Column("created_at", Instant, nullable=False),
)
Index("ix_judge_opinions_created_at", judge_opinions.c.created_at)

judge_counts = Table(
    "judge_counts",
    metadata,
    Column("judge", Text, primary_key=True, comment="its id; panel: all together"),
    Column("criterion", Text, primary_key=True),
    Column("outcome", Text, primary_key=True, comment="score, cached, or the kind of an abstention"),
    Column("findings", BigInteger, nullable=False),
)
