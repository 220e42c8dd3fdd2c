"""Access to the pool: grants, tokens, an audit that only grows; roles and row-level security that hold them.

Revision: 0008_access
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from flywheel.errors import DatabaseError

revision = "0008_access"
down_revision = "0007_erasures"

INSTANT = sa.DateTime(timezone=True)
GROUPS = ("flywheel_rl_trainer", "flywheel_analyst", "flywheel_arbiter", "flywheel_reviewer", "flywheel_admin")
DAYS = (
    "SELECT (day, changed_at, validated_at, lines, lines_in_points, quarantined, duplicates, waiting, points,"
    " points_removed_at, privacy_violations)"
)
ASKED = (
    "principal, role, tenants, tenant_keys, fields, since, until, reason, expires_at,"
    " requested_at, requested_by, needs_approval"
)
DECIDED = "approved_at, approved_by, revoked_at, revoked_by, revoked_because"
RIGHTS = (
    ("flywheel_rl_trainer", "hot_points", "SELECT"),
    ("flywheel_rl_trainer", "batches", "SELECT"),
    ("flywheel_rl_trainer", "batch_points", "SELECT"),
    ("flywheel_analyst", "hot_points", "SELECT"),
    ("flywheel_analyst", "agent_statistics", "SELECT"),
    ("flywheel_analyst", "tier_days", "SELECT"),
    ("flywheel_analyst", "days", DAYS),
    ("flywheel_arbiter", "agent_statistics", "SELECT"),
    ("flywheel_arbiter", "task_type_profiles", "SELECT"),
    ("flywheel_reviewer", "quarantine", "SELECT"),
    ("flywheel_admin", "access_grants", f"SELECT, INSERT ({ASKED}), UPDATE ({DECIDED})"),
    ("flywheel_admin", "access_tokens", "SELECT (id, grant_id, issued_at, issued_by, expires_at, revoked_at)"),
    ("flywheel_admin", "access_audit", "SELECT"),
)

# Tables of principals: who asks is current_user, which is the login of a session of its own and the role that the
# service took with SET LOCAL ROLE. clock_timestamp() goes on while a transaction is open; now() would stand still.
IN_FORCE = """
CREATE VIEW access_in_force WITH (security_barrier) AS
SELECT id, role, tenants, tenant_keys, fields, coalesce(since, '-infinity') AS since,
    coalesce(until, 'infinity') AS until, expires_at
FROM access_grants
WHERE principal = current_user
    AND (approved_at IS NOT NULL OR NOT needs_approval)
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > clock_timestamp())
    AND coalesce(current_setting('flywheel.grant_id', true), '') IN ('', id::text)
"""

WHOLE_DAY = (
    "held.tenants IS NULL AND {table}.day::timestamp AT TIME ZONE 'UTC' >= held.since"
    " AND ({table}.day + 1)::timestamp AT TIME ZONE 'UTC' <= held.until"
)
# table: the roles whose grants count, and what a grant must be to show a row. What sums over tenants, or mixes them,
# is shown by grants for all tenants only; what is known by the hour or day only if all of it is within the range.
POLICIES = {
    "hot_points": (
        ("rl-trainer", "analyst"),
        "(held.tenants IS NULL OR hot_points.tenant_id = ANY (held.tenants))"
        " AND hot_points.timestamp >= held.since AND hot_points.timestamp < held.until",
    ),
    "batches": (
        ("rl-trainer",),
        "held.tenants IS NULL AND batches.first_at >= held.since AND batches.last_at < held.until",
    ),
    "agent_statistics": (
        ("analyst", "arbiter"),
        "held.tenants IS NULL AND agent_statistics.hour >= held.since"
        " AND agent_statistics.hour + interval '1 hour' <= held.until",
    ),
    "task_type_profiles": (("arbiter",), WHOLE_DAY.format(table="task_type_profiles")),
    "days": (("analyst",), WHOLE_DAY.format(table="days")),
    "tier_days": (("analyst",), WHOLE_DAY.format(table="tier_days")),
    "quarantine": (
        ("reviewer",),
        "held.fields = 'all' AND (held.tenants IS NULL OR quarantine.owner_key = ANY (held.tenant_keys))"
        " AND quarantine.day::timestamp AT TIME ZONE 'UTC' >= held.since"
        " AND (quarantine.day + 1)::timestamp AT TIME ZONE 'UTC' <= held.until",
    ),
    "access_tokens": (("admin",), "true"),
    "access_audit": (("admin",), "true"),
}
GROUP_OF = {
    "rl-trainer": "flywheel_rl_trainer",
    "analyst": "flywheel_analyst",
    "arbiter": "flywheel_arbiter",
    "reviewer": "flywheel_reviewer",
    "admin": "flywheel_admin",
}

# Whoever is not the service signs with the own name, and with the server's clock.
GUARD_GRANTS = """
CREATE FUNCTION guard_access_grants() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    decided CONSTANT text[] := '{approved_at,approved_by,revoked_at,revoked_by,revoked_because}';
    service CONSTANT boolean := pg_has_role(
        current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE');
BEGIN
    IF TG_OP IN ('DELETE', 'TRUNCATE') THEN
        RAISE EXCEPTION 'grants are kept; revoke them instead' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF TG_OP = 'INSERT' THEN
        IF NEW.approved_at IS NOT NULL OR NEW.revoked_at IS NOT NULL THEN
            RAISE EXCEPTION 'a new grant is neither approved nor revoked' USING ERRCODE = 'insufficient_privilege';
        END IF;
        IF NOT service THEN
            NEW.needs_approval := true;
            NEW.requested_by := current_user;
            NEW.requested_at := clock_timestamp();
        END IF;
        RETURN NEW;
    END IF;
    IF to_jsonb(NEW) - decided IS DISTINCT FROM to_jsonb(OLD) - decided THEN
        RAISE EXCEPTION 'grant % cannot be changed, only approved or revoked; request another', OLD.id
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF (NEW.approved_at, NEW.approved_by) IS DISTINCT FROM (OLD.approved_at, OLD.approved_by) THEN
        IF OLD.approved_at IS NOT NULL OR OLD.revoked_at IS NOT NULL THEN
            RAISE EXCEPTION 'grant % was decided already', OLD.id USING ERRCODE = 'insufficient_privilege';
        END IF;
        IF NOT service THEN
            NEW.approved_by := current_user;
            NEW.approved_at := clock_timestamp();
        END IF;
    END IF;
    IF (NEW.revoked_at, NEW.revoked_by, NEW.revoked_because)
            IS DISTINCT FROM (OLD.revoked_at, OLD.revoked_by, OLD.revoked_because) THEN
        IF OLD.revoked_at IS NOT NULL THEN
            RAISE EXCEPTION 'grant % was revoked already', OLD.id USING ERRCODE = 'insufficient_privilege';
        END IF;
        IF NOT service THEN
            NEW.revoked_by := current_user;
            NEW.revoked_at := clock_timestamp();
        END IF;
    END IF;
    RETURN NEW;
END $$
"""

AUDIT_GRANTS = """
CREATE FUNCTION audit_access_grants() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    entry text[];
    asked CONSTANT jsonb := jsonb_strip_nulls(jsonb_build_object(
        'principal', NEW.principal, 'role', NEW.role, 'tenants', NEW.tenants, 'fields', NEW.fields,
        'since', NEW.since, 'until', NEW.until, 'expires_at', NEW.expires_at));
BEGIN
    FOREACH entry SLICE 1 IN ARRAY ARRAY[
        ARRAY['grant.request', CASE WHEN TG_OP = 'INSERT' THEN NEW.requested_by END, NEW.reason],
        ARRAY['grant.approve', CASE WHEN TG_OP = 'UPDATE' AND OLD.approved_at IS NULL THEN NEW.approved_by END, ''],
        ARRAY['grant.revoke', CASE WHEN TG_OP = 'UPDATE' AND OLD.revoked_at IS NULL THEN NEW.revoked_by END,
            NEW.revoked_because]
    ] LOOP
        IF entry[2] IS NOT NULL THEN
            INSERT INTO {schema}.access_audit (principal, role, grant_id, action, asked, allowed, reason)
            VALUES (entry[2], NEW.role, NEW.id, entry[1], asked, true, coalesce(entry[3], ''));
        END IF;
    END LOOP;
    RETURN NULL;
END $$
"""

AUDIT_TOKENS = """
CREATE FUNCTION audit_access_tokens() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO {schema}.access_audit (principal, role, grant_id, action, asked, allowed, reason)
    SELECT CASE WHEN TG_OP = 'INSERT' THEN NEW.issued_by ELSE coalesce(NEW.revoked_by, '?') END, held.role, held.id,
        CASE WHEN TG_OP = 'INSERT' THEN 'token.issue' ELSE 'token.revoke' END,
        jsonb_build_object('token', NEW.id, 'principal', held.principal, 'expires_at', NEW.expires_at), true, ''
    FROM {schema}.access_grants AS held WHERE held.id = NEW.grant_id;
    RETURN NULL;
END $$
"""

STAMP_AUDIT = """
CREATE FUNCTION stamp_access_audit() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.at := clock_timestamp();
    NEW.session := session_user;
    RETURN NEW;
END $$
"""

KEEP_AUDIT = """
CREATE FUNCTION keep_access_audit() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the audit of access only grows: % is refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END $$
"""

# name, table, when, function
TRIGGERS = (
    ("guard", "access_grants", "BEFORE INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW", "guard_access_grants"),
    ("guard_truncate", "access_grants", "BEFORE TRUNCATE ON {} FOR EACH STATEMENT", "guard_access_grants"),
    ("audit", "access_grants", "AFTER INSERT OR UPDATE ON {} FOR EACH ROW", "audit_access_grants"),
    ("audit", "access_tokens", "AFTER INSERT OR UPDATE ON {} FOR EACH ROW", "audit_access_tokens"),
    ("stamp", "access_audit", "BEFORE INSERT ON {} FOR EACH ROW", "stamp_access_audit"),
    ("keep", "access_audit", "BEFORE UPDATE OR DELETE OR TRUNCATE ON {} FOR EACH STATEMENT", "keep_access_audit"),
)


def upgrade() -> None:
    """Make roles, tables, triggers, rights and policies. Nobody holds a grant yet, so nobody new sees anything."""
    for group in GROUPS:
        create_group(group)
    create_grants()
    create_tokens()
    create_audit()
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    for function in (GUARD_GRANTS, AUDIT_GRANTS, AUDIT_TOKENS, STAMP_AUDIT, KEEP_AUDIT):
        verbatim(function.replace("{schema}", schema))
    for name, table, when, function in TRIGGERS:
        op.execute(f"CREATE TRIGGER {name}_{table} {when.format(table)} EXECUTE FUNCTION {function}()")
        op.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}_{table}")
    verbatim(IN_FORCE)
    op.execute(f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC")
    everyone = ", ".join(GROUPS)
    op.execute(f"GRANT USAGE ON SCHEMA {schema} TO {everyone}")
    op.execute(f"GRANT SELECT ON access_in_force TO {everyone}")
    for group, table, rights in RIGHTS:
        op.execute(f"GRANT {rights} ON {table} TO {group}")
    create_policies()


def create_group(group: str) -> None:
    """Create a role that nobody logs in as. Roles are the whole server's: another database may have made it.

    Raises:
        DatabaseError: it is not there and this user may not create it.
    """
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM pg_roles WHERE rolname = :name"), {"name": group}):
        return
    if not op.get_bind().scalar(sa.text("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = user")):
        raise DatabaseError(
            f"the role {group} is missing and this database user may not create it. Let an administrator of the "
            f"server run: {'; '.join(f'CREATE ROLE {name} NOLOGIN' for name in GROUPS)}. Then run this again"
        )
    op.execute(
        f"DO $$ BEGIN CREATE ROLE {group} NOLOGIN;"
        " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
    )


def create_grants() -> None:
    """Make the table of who may see what."""
    op.create_table(
        "access_grants",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False, comment="name of the PostgreSQL role whose access it is"),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("tenants", sa.ARRAY(sa.Text()), nullable=True, comment="their keyed hashes; null: all"),
        sa.Column(
            "tenant_keys",
            sa.ARRAY(sa.LargeBinary()),
            nullable=True,
            comment="the same as in quarantine; reviewers only",
        ),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("since", INSTANT, nullable=True, comment="of points, included"),
        sa.Column("until", INSTANT, nullable=True, comment="of points, not included"),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requested_at", INSTANT, nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("needs_approval", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        sa.Column("approved_at", INSTANT, nullable=True),
        sa.Column("approved_by", sa.Text(), nullable=True),
        sa.Column("expires_at", INSTANT, nullable=True, comment="null: never"),
        sa.Column("revoked_at", INSTANT, nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.Column("revoked_because", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_grants")),
        sa.CheckConstraint(
            "role IN ('rl-trainer', 'analyst', 'arbiter', 'reviewer', 'admin')",
            name=op.f("ck_access_grants_role_known"),
        ),
        sa.CheckConstraint("fields IN ('all', 'anonymized')", name=op.f("ck_access_grants_fields_known")),
        sa.CheckConstraint("cardinality(tenants) > 0", name=op.f("ck_access_grants_tenants_named")),
        sa.CheckConstraint("since < until", name=op.f("ck_access_grants_range_not_empty")),
        sa.CheckConstraint(
            "(approved_at IS NULL) = (approved_by IS NULL)", name=op.f("ck_access_grants_approval_signed")
        ),
        sa.CheckConstraint(
            "approved_by <> requested_by AND approved_by <> principal", name=op.f("ck_access_grants_four_eyes")
        ),
        sa.CheckConstraint(
            "(revoked_at IS NULL) = (revoked_by IS NULL)", name=op.f("ck_access_grants_revocation_signed")
        ),
    )
    op.create_index("ix_access_grants_principal", "access_grants", ["principal"])


def create_tokens() -> None:
    """Make the table of what proves a grant over HTTP."""
    op.create_table(
        "access_tokens",
        sa.Column("id", sa.Text(), nullable=False, comment="the part of the token that is no secret"),
        sa.Column("grant_id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="keyed hash of the whole token"),
        sa.Column("issued_at", INSTANT, nullable=False),
        sa.Column("issued_by", sa.Text(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("revoked_at", INSTANT, nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_tokens")),
        sa.ForeignKeyConstraint(
            ["grant_id"], ["access_grants.id"], name=op.f("fk_access_tokens_grant_id_access_grants")
        ),
    )


def create_audit() -> None:
    """Make the table of what was done with grants."""
    op.create_table(
        "access_audit",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("at", INSTANT, nullable=False, server_default=sa.text("clock_timestamp()")),
        sa.Column("principal", sa.Text(), nullable=False, comment="who did it, or tried to"),
        sa.Column("session", sa.Text(), nullable=False, server_default=sa.text("session_user")),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("grant_id", sa.Integer(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("asked", JSONB(), nullable=False, server_default=sa.text("'{}'")),
        sa.Column("rows", sa.BigInteger(), nullable=True, comment="that were given out; null where none are counted"),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column(
            "reason", sa.Text(), nullable=False, server_default=sa.text("''"), comment="of a refusal or decision"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_audit")),
    )
    op.create_index("ix_access_audit_principal_at", "access_audit", ["principal", "at"])


def create_policies() -> None:
    """Let each table show its rows to the grants in force. The owner, which is the service, is not bound."""
    for table, (roles, condition) in POLICIES.items():
        names = ", ".join(f"'{role}'" for role in roles)
        policy(
            table,
            f"FOR SELECT TO {', '.join(GROUP_OF[role] for role in roles)}",
            f"EXISTS (SELECT FROM access_in_force AS held WHERE held.role IN ({names}) AND {condition})",
        )
    policy("batch_points", "FOR SELECT TO flywheel_rl_trainer", "batch_id IN (SELECT id FROM batches)")
    admin = "EXISTS (SELECT FROM access_in_force AS held WHERE held.role = 'admin')"
    policy("access_grants", "TO flywheel_admin", admin)


def policy(table: str, whom: str, condition: str) -> None:
    """Turn a table's row security on, with this one policy."""
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    verbatim(f"CREATE POLICY of_grants ON {table} {whom} USING ({condition})")


def verbatim(statement: str) -> None:
    """Execute SQL whose colons name no parameters."""
    op.execute(sa.text(statement.replace(":", r"\:")))


def downgrade() -> None:
    """Take it all back. The roles go where no other database of the server uses them."""
    for table in ("batch_points", *POLICIES, "access_grants"):
        op.execute(f"DROP POLICY of_grants ON {table}")
        op.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    for group, table, rights in RIGHTS:
        op.execute(f"REVOKE {rights} ON {table} FROM {group}")
    op.execute("DROP VIEW access_in_force")
    for table in ("access_audit", "access_tokens", "access_grants"):
        op.drop_table(table)
    for function in ("guard_access_grants", "audit_access_grants", "audit_access_tokens"):
        op.execute(f"DROP FUNCTION {function}()")
    for function in ("stamp_access_audit", "keep_access_audit"):
        op.execute(f"DROP FUNCTION {function}()")
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    for group in GROUPS:
        op.execute(f"REVOKE USAGE ON SCHEMA {schema} FROM {group}")
        op.execute(
            f"DO $$ BEGIN DROP ROLE IF EXISTS {group};"
            " EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN NULL; END $$"
        )
