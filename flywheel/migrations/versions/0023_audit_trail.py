"""The audit trail: signed verdicts in a chain that only grows, their contents beside it, readable by tenant.

Revision: 0023_audit_trail
"""

import sqlalchemy as sa
from alembic import op

revision = "0023_audit_trail"
down_revision = "0022_judges"

INSTANT = sa.DateTime(timezone=True)

KEEP = """
CREATE FUNCTION keep_audit_trail() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail only grows: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END $$
"""
# No gap, and no second successor of an entry, whoever appends.
FOLLOW = """
CREATE FUNCTION follow_audit_trail() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last record;
BEGIN
    SELECT sequence, hash INTO last FROM {schema}.audit_entries ORDER BY sequence DESC LIMIT 1;
    IF NEW.sequence <> coalesce(last.sequence, 0) + 1
            OR NEW.previous <> coalesce(last.hash, decode(repeat('00', 32), 'hex')) THEN
        RAISE EXCEPTION 'entry % does not follow the last one of the audit trail, %', NEW.sequence, last.sequence
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$
"""
# A content goes whole, with all that names it, and only by an erasure that is a later entry.
ERASE = """
CREATE FUNCTION erase_audit_contents() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF OLD.content IS NULL OR NEW.content IS NOT NULL OR NEW.sequence <> OLD.sequence OR NEW.at <> OLD.at
            OR NEW.verdict_id IS NOT NULL OR NEW.owner_key IS NOT NULL OR NEW.task_key IS NOT NULL
            OR NEW.erased_in <= OLD.sequence
            OR NOT EXISTS (
                SELECT FROM {schema}.audit_entries WHERE sequence = NEW.erased_in AND kind = 'erasure')
            OR NOT EXISTS (
                SELECT FROM {schema}.audit_entries WHERE sequence = OLD.sequence AND kind = 'verdict') THEN
        RAISE EXCEPTION 'the audit trail only grows: UPDATE of audit_contents is refused'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$
"""
# name, table, when, function
TRIGGERS = (
    ("keep", "audit_entries", "BEFORE UPDATE OR DELETE OR TRUNCATE ON {} FOR EACH STATEMENT", "keep_audit_trail"),
    ("follow", "audit_entries", "BEFORE INSERT ON {} FOR EACH ROW", "follow_audit_trail"),
    ("keep", "audit_contents", "BEFORE DELETE OR TRUNCATE ON {} FOR EACH STATEMENT", "keep_audit_trail"),
    ("erase", "audit_contents", "BEFORE UPDATE ON {} FOR EACH ROW", "erase_audit_contents"),
)
# Contents name tenants and tasks as logs do: they are for reviewers of all fields, like quarantined lines.
OF_REVIEWERS = """
EXISTS (
    SELECT FROM access_in_force AS held
    WHERE held.role = 'reviewer' AND held.fields = 'all'
        AND (held.tenants IS NULL OR {owned})
        AND {table}.at >= held.since AND {table}.at < held.until
)
"""
POLICIES = (
    (
        "audit_contents",
        "of_grants",
        "flywheel_reviewer",
        OF_REVIEWERS.format(table="audit_contents", owned="audit_contents.owner_key = ANY (held.tenant_keys)"),
    ),
    (
        "audit_entries",
        "of_grants",
        "flywheel_reviewer",
        OF_REVIEWERS.format(
            table="audit_entries", owned="audit_entries.sequence IN (SELECT sequence FROM audit_contents)"
        ),
    ),
    (
        "audit_entries",
        "of_admins",
        "flywheel_admin",
        "EXISTS (SELECT FROM access_in_force AS held WHERE held.role = 'admin')",
    ),
)
RIGHTS = (
    ("flywheel_reviewer", "audit_entries"),
    ("flywheel_reviewer", "audit_contents"),
    ("flywheel_admin", "audit_entries"),
)


def upgrade() -> None:
    """Make tables, triggers, rights and policies. The trail begins with the first verdict, or the first key."""
    create_entries()
    create_contents()
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    for function in (KEEP, FOLLOW, ERASE):
        op.execute(function.replace("{schema}", schema))
    for name, table, when, function in TRIGGERS:
        op.execute(f"CREATE TRIGGER {name}_{table} {when.format(table)} EXECUTE FUNCTION {function}()")
        op.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}_{table}")
    op.execute("REVOKE UPDATE, DELETE, TRUNCATE ON audit_entries FROM PUBLIC, CURRENT_USER")
    op.execute("REVOKE DELETE, TRUNCATE ON audit_contents FROM PUBLIC, CURRENT_USER")
    for group, table in RIGHTS:
        op.execute(f"GRANT SELECT ON {table} TO {group}")
    for table in ("audit_entries", "audit_contents"):
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    for table, name, group, condition in POLICIES:
        op.execute(f"CREATE POLICY {name} ON {table} FOR SELECT TO {group} USING ({condition})")


def create_entries() -> None:
    """Make the chain."""
    op.create_table(
        "audit_entries",
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False, comment="from 1 on, without gaps"),
        sa.Column(
            "previous", sa.LargeBinary(), nullable=False, comment="hash of the entry before it; zeros for the first"
        ),
        sa.Column("hash", sa.LargeBinary(), nullable=False, comment="of all fields but signature"),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("content_digest", sa.LargeBinary(), nullable=False),
        sa.Column("verdict_signature", sa.Text(), comment="of a verdict, by the arbiter that decided"),
        sa.Column("signature", sa.Text(), nullable=False, comment="of hash, by whoever appended it"),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_audit_entries")),
        sa.UniqueConstraint("content_digest", name=op.f("uq_audit_entries_content_digest")),
        sa.CheckConstraint("kind IN ('verdict', 'key', 'erasure')", name=op.f("ck_audit_entries_kind_known")),
        sa.CheckConstraint(
            "(kind = 'verdict') = (verdict_signature IS NOT NULL)", name=op.f("ck_audit_entries_verdict_signed")
        ),
    )
    op.create_index("ix_audit_entries_keys", "audit_entries", ["sequence"], postgresql_where=sa.text("kind = 'key'"))


def create_contents() -> None:
    """Make the table of what entries say."""
    op.create_table(
        "audit_contents",
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", INSTANT, nullable=False, comment="of the entry"),
        sa.Column("verdict_id", sa.Text(), comment="null where it is no verdict, or was erased"),
        sa.Column("owner_key", sa.LargeBinary(), comment="blake2b of the tenant, as in quarantine; null as verdict_id"),
        sa.Column("task_key", sa.LargeBinary(), comment="blake2b of the task; null as verdict_id"),
        sa.Column("content", sa.LargeBinary(), comment="the bytes that were signed; null where they were erased"),
        sa.Column("erased_in", sa.BigInteger(), comment="the entry of the erasure that removed the content"),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_audit_contents")),
        sa.UniqueConstraint("verdict_id", name=op.f("uq_audit_contents_verdict_id")),
        sa.CheckConstraint(
            "(content IS NULL) = (erased_in IS NOT NULL)", name=op.f("ck_audit_contents_erased_or_there")
        ),
    )
    op.create_index("ix_audit_contents_owner", "audit_contents", ["owner_key", "task_key"])
    op.create_index(
        "ix_audit_contents_at", "audit_contents", ["at"], postgresql_where=sa.text("verdict_id IS NOT NULL")
    )


def downgrade() -> None:
    """Take it all back: the trail is gone. Export it first (`flywheel audit export`)."""
    for table, name, _, _ in POLICIES:
        op.execute(f"DROP POLICY {name} ON {table}")
    for table in ("audit_contents", "audit_entries"):
        op.drop_table(table)
    for function in ("keep_audit_trail", "follow_audit_trail", "erase_audit_contents"):
        op.execute(f"DROP FUNCTION {function}()")
