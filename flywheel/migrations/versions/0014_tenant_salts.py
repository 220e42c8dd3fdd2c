"""Rotation of the tenant salt: the salts by their ids, a tenant's two hashes, grants and tokens that hold through it.

Revision: 0014_tenant_salts
"""

import sqlalchemy as sa
from alembic import op

revision = "0014_tenant_salts"
down_revision = "0013_privacy_spending"

INSTANT = sa.DateTime(timezone=True)

# As in 0008_access; a tenant is shown whichever of its hashes a point carries.
# A tenant's spending goes with it: its hash may become the one of ``tenant_hashes``, and nothing else may change.
KEEP_SPENDING = """
CREATE OR REPLACE FUNCTION keep_privacy_spending() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.tenant_hash = current_setting('flywheel.erased_tenant', true) THEN
            RETURN OLD;
        END IF;
    END IF;
    {rehashed}
    RAISE EXCEPTION 'the ledger of privacy budgets only grows, % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$
"""
REHASHED = """
    IF TG_OP = 'UPDATE' THEN
        IF to_jsonb(OLD) - 'tenant_hash' = to_jsonb(NEW) - 'tenant_hash' AND EXISTS (
            SELECT FROM {schema}.tenant_hashes WHERE former = OLD.tenant_hash AND present = NEW.tenant_hash
        ) THEN
            RETURN NEW;
        END IF;
    END IF;
"""
IN_FORCE = """
CREATE OR REPLACE VIEW access_in_force WITH (security_barrier) AS
SELECT id, role, {tenants} AS tenants, tenant_keys, fields, coalesce(since, '-infinity') AS since,
    coalesce(until, 'infinity') AS until, expires_at
FROM access_grants
WHERE principal = current_user
    AND (approved_at IS NOT NULL OR NOT needs_approval)
    AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > clock_timestamp())
    AND coalesce(current_setting('flywheel.grant_id', true), '') IN ('', id::text)
"""

# As in 0008_access. What may change besides is how a grant's tenants are hashed, and only by the service: they have to
# be the same ones by the table of hashes. Only then is that table read, since admins may not.
GUARD_GRANTS = """
CREATE OR REPLACE FUNCTION guard_access_grants() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    decided CONSTANT text[] := '{approved_at,approved_by,revoked_at,revoked_by,revoked_because{hashes}}';
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
    {same_tenants}
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

SAME_TENANTS = """
    IF (NEW.tenants, NEW.aliases) IS DISTINCT FROM (OLD.tenants, OLD.aliases) THEN
        IF NOT service OR OLD.tenants IS NULL OR NEW.tenants IS NULL OR (
            SELECT count(DISTINCT tenants) > 1 FROM (
                SELECT array_agg(DISTINCT coalesce(known.present, given.hash)) AS tenants
                FROM (
                    SELECT 'old', unnest(OLD.tenants)
                    UNION ALL SELECT 'new', unnest(NEW.tenants)
                    UNION ALL SELECT 'both', unnest(NEW.tenants || NEW.aliases)
                ) AS given (named_by, hash)
                LEFT JOIN {schema}.tenant_hashes AS known ON known.former = given.hash
                GROUP BY named_by
            ) AS sets
        ) THEN
            RAISE EXCEPTION 'grant % cannot be changed to be for other tenants; request another', OLD.id
                USING ERRCODE = 'insufficient_privilege';
        END IF;
    END IF;
"""

# As in 0008_access. That a token's digest is keyed with another salt is nothing that was done with it.
AUDIT_TOKENS = """
CREATE OR REPLACE FUNCTION audit_access_tokens() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    {unless_rekeyed}
    INSERT INTO {schema}.access_audit (principal, role, grant_id, action, asked, allowed, reason)
    SELECT CASE WHEN TG_OP = 'INSERT' THEN NEW.issued_by ELSE coalesce(NEW.revoked_by, '?') END, held.role, held.id,
        CASE WHEN TG_OP = 'INSERT' THEN 'token.issue' ELSE 'token.revoke' END,
        jsonb_build_object('token', NEW.id, 'principal', held.principal, 'expires_at', NEW.expires_at), true, ''
    FROM {schema}.access_grants AS held WHERE held.id = NEW.grant_id;
    RETURN NULL;
END $$
"""

UNLESS_REKEYED = """
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - '{digest,salt}'::text[] = to_jsonb(OLD) - '{digest,salt}'::text[] THEN
        RETURN NULL;
    END IF;
"""


def upgrade() -> None:
    """Make the tables and columns. No salt is known yet: the next day that is anonymized enters its own."""
    op.create_table(
        "tenant_salts",
        sa.Column("number", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False, comment="a digest that tells salts apart; nothing of the salt"),
        sa.Column("began_at", INSTANT, nullable=False, comment="when it was first seen here"),
        sa.Column("forgotten_at", INSTANT, nullable=True, comment="when its rotation was finished"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_tenant_salts")),
        sa.UniqueConstraint("id", name=op.f("uq_tenant_salts_id")),
    )
    op.create_table(
        "tenant_hashes",
        sa.Column("former", sa.Text(), nullable=False, comment="a tenant's hash under the salt that is rotated away"),
        sa.Column("present", sa.Text(), nullable=False, comment="the same tenant's under the present one"),
        sa.PrimaryKeyConstraint("former", name=op.f("pk_tenant_hashes")),
    )
    op.create_index("ix_tenant_hashes_present", "tenant_hashes", ["present"])
    op.add_column(
        "access_grants",
        sa.Column(
            "aliases",
            sa.ARRAY(sa.Text()),
            comment="the same tenants' hashes under the other salt, while it is rotated",
        ),
    )
    op.add_column(
        "access_tokens",
        sa.Column(
            "salt", sa.Text(), comment="id of the salt its key is derived from; null where an earlier version issued it"
        ),
    )
    define(
        tenants="tenants || aliases",
        hashes=",tenants,aliases",
        same=SAME_TENANTS,
        unless_rekeyed=UNLESS_REKEYED,
        rehashed=REHASHED,
    )


def define(*, tenants: str, hashes: str, same: str, unless_rekeyed: str, rehashed: str) -> None:
    """Put the view and the functions in place that hold grants, tokens and budgets."""
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    guard = GUARD_GRANTS.replace("{hashes}", hashes).replace("{same_tenants}", same)
    audit = AUDIT_TOKENS.replace("{unless_rekeyed}", unless_rekeyed)
    spending = KEEP_SPENDING.replace("{rehashed}", rehashed)
    for statement in (IN_FORCE.replace("{tenants}", tenants), guard, audit, spending):
        verbatim(statement.replace("{schema}", schema))


def verbatim(statement: str) -> None:
    """Execute SQL whose colons name no parameters."""
    op.execute(sa.text(statement.replace(":", r"\:")))


def downgrade() -> None:
    """Take it back. Grants that are under way between two salts show the tenants' hashes they were made with."""
    define(tenants="tenants", hashes="", same="", unless_rekeyed="", rehashed="")
    op.drop_column("access_tokens", "salt")
    op.drop_column("access_grants", "aliases")
    op.drop_table("tenant_hashes")
    op.drop_table("tenant_salts")
