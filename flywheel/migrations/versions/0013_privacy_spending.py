"""What exports spend of the tenants' privacy budgets: a ledger that only grows, but for a tenant that is erased.

Revision: 0013_privacy_spending
"""

import sqlalchemy as sa
from alembic import op

revision = "0013_privacy_spending"
down_revision = "0012_verified_points"

# Who erases a tenant names its hash for the transaction, and may delete the rows of that tenant alone.
KEEP = """
CREATE FUNCTION keep_privacy_spending() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.tenant_hash = current_setting('flywheel.erased_tenant', true) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'the ledger of privacy budgets only grows, % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$
"""
TRIGGERS = (
    ("keep", "BEFORE UPDATE OR DELETE ON privacy_spending FOR EACH ROW"),
    ("keep_truncate", "BEFORE TRUNCATE ON privacy_spending FOR EACH STATEMENT"),
)
POLICY = """
CREATE POLICY of_grants ON privacy_spending FOR SELECT TO flywheel_admin USING (
    EXISTS (SELECT FROM access_in_force AS held WHERE held.role = 'admin')
)
"""


def upgrade() -> None:
    """Make the table, what keeps it, and the right of admins to read it."""
    op.create_table(
        "privacy_spending",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("tenant_hash", sa.Text(), nullable=False, comment="the keyed hash of whose budget it is"),
        sa.Column("batch_id", sa.Text(), nullable=False, comment="the export that spent it"),
        sa.Column("spent_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("mechanism", sa.Text(), nullable=False),
        sa.Column("epsilon", sa.Numeric(), nullable=False),
        sa.Column("delta", sa.Numeric(), nullable=False, server_default=sa.text("0")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_privacy_spending")),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name=op.f("fk_privacy_spending_batch_id_batches")),
        sa.CheckConstraint("mechanism IN ('laplace', 'gaussian')", name=op.f("ck_privacy_spending_mechanism_known")),
        sa.CheckConstraint(
            "epsilon > 0 AND epsilon < 'Infinity' AND delta >= 0 AND delta < 1",
            name=op.f("ck_privacy_spending_spending_bounded"),
        ),
    )
    op.create_index("uq_privacy_spending_batch_tenant", "privacy_spending", ["batch_id", "tenant_hash"], unique=True)
    op.create_index("ix_privacy_spending_tenant_spent_at", "privacy_spending", ["tenant_hash", "spent_at"])
    op.execute(KEEP)
    for name, when in TRIGGERS:
        op.execute(f"CREATE TRIGGER {name}_privacy_spending {when} EXECUTE FUNCTION keep_privacy_spending()")
        op.execute(f"ALTER TABLE privacy_spending ENABLE ALWAYS TRIGGER {name}_privacy_spending")
    op.execute("GRANT SELECT ON privacy_spending TO flywheel_admin")
    op.execute("ALTER TABLE privacy_spending ENABLE ROW LEVEL SECURITY")
    op.execute(POLICY)


def downgrade() -> None:
    """Drop it, and with it the memory of what was spent."""
    op.drop_table("privacy_spending")
    op.execute("DROP FUNCTION keep_privacy_spending()")
