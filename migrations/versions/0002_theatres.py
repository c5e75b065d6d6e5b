"""Templates by content, theatres, certificates."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

IDENTIFIER = sa.UUID(as_uuid=False)
MOMENT = sa.DateTime(timezone=True)
SHA256 = sa.String(length=64)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "theatre_templates",
        sa.Column("sha256", SHA256, nullable=False),
        sa.Column("template_id", sa.Text(), nullable=False),
        sa.Column("template_family", sa.String(length=50), nullable=False),
        sa.Column("execution_path", sa.String(length=10), nullable=True),
        sa.Column("display_name", sa.String(length=100), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("schema_version", sa.String(length=20), nullable=False),
        sa.Column("template_json", JSONB(none_as_null=True), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.CheckConstraint(
            "execution_path IN ('replay', 'market')",
            name=op.f("ck_theatre_templates_execution_path"),
        ),
        sa.CheckConstraint(
            "sha256 = encode(sha256(document), 'hex')", name=op.f("ck_theatre_templates_sha256")
        ),
        sa.PrimaryKeyConstraint("sha256", name="pk_theatre_templates"),
        sa.UniqueConstraint(
            "template_id", "sha256", name="uq_theatre_templates_template_id_sha256"
        ),
    )
    op.create_index("ix_theatre_templates_execution_path", "theatre_templates", ["execution_path"])
    op.create_index(
        "ix_theatre_templates_template_family", "theatre_templates", ["template_family"]
    )
    op.create_table(
        "theatres",
        sa.Column("id", IDENTIFIER, nullable=False),
        sa.Column("user_id", IDENTIFIER, nullable=False),
        sa.Column("template_id", sa.Text(), nullable=False),
        sa.Column("template_sha256", SHA256, nullable=False),
        sa.Column("construct_id", sa.Text(), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("commitment_hash", SHA256, nullable=True),
        sa.Column("committed_at", MOMENT, nullable=True),
        sa.Column("version_pins", JSONB(none_as_null=True), nullable=True),
        sa.Column("dataset_hashes", JSONB(none_as_null=True), nullable=True),
        sa.Column("receipt", sa.LargeBinary(), nullable=True),
        sa.Column("is_certificate_run", sa.Boolean(), nullable=True),
        sa.Column("run_status", sa.String(length=20), nullable=True),
        sa.Column("run_epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("progress", sa.Integer(), server_default="0", nullable=False),
        sa.Column("total_episodes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failure_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("refused_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("pending_step", sa.Text(), nullable=True),
        sa.Column("error", sa.String(length=2000), nullable=True),
        sa.Column("started_at", MOMENT, nullable=True),
        sa.Column("heartbeat_at", MOMENT, nullable=True),
        sa.Column("cancel_requested_at", MOMENT, nullable=True),
        sa.Column("outcome", sa.String(length=20), nullable=True),
        sa.Column("outcome_reason", sa.String(length=2000), nullable=True),
        sa.Column("resolved_at", MOMENT, nullable=True),
        sa.Column("certificate_id", IDENTIFIER, nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.CheckConstraint(
            "(certificate_id IS NOT NULL) = (outcome IS NOT DISTINCT FROM 'certified')",
            name=op.f("ck_theatres_certified_with_a_certificate"),
        ),
        sa.CheckConstraint(
            "(state IN ('RESOLVED', 'ARCHIVED')) = (outcome IS NOT NULL)"
            " AND (outcome IS NULL) = (resolved_at IS NULL)",
            name=op.f("ck_theatres_resolved_with_an_outcome"),
        ),
        sa.CheckConstraint(
            "commitment_hash ~ '^[0-9a-f]{64}$'", name=op.f("ck_theatres_commitment_hash")
        ),
        sa.CheckConstraint(
            "outcome IN ('certified', 'no_certificate', 'failed', 'void')",
            name=op.f("ck_theatres_outcome"),
        ),
        sa.CheckConstraint(
            "run_status IN ('queued', 'running', 'waiting_hitl', 'succeeded', 'failed',"
            " 'cancelled')",
            name=op.f("ck_theatres_run_status"),
        ),
        sa.CheckConstraint(
            "state = 'DRAFT' OR commitment_hash IS NOT NULL",
            name=op.f("ck_theatres_committed_before_it_moves"),
        ),
        sa.CheckConstraint(
            "state IN ('DRAFT', 'COMMITTED', 'ACTIVE', 'SETTLING', 'RESOLVED', 'ARCHIVED')",
            name=op.f("ck_theatres_state"),
        ),
        sa.CheckConstraint(
            "num_nonnulls(commitment_hash, committed_at, version_pins, dataset_hashes, receipt)"
            " IN (0, 5)",
            name=op.f("ck_theatres_whole_commitment"),
        ),
        sa.CheckConstraint(
            "progress >= 0 AND total_episodes >= 0 AND failure_count >= 0 AND refused_count >= 0",
            name=op.f("ck_theatres_counts"),
        ),
        sa.ForeignKeyConstraint(
            ["template_id", "template_sha256"],
            ["theatre_templates.template_id", "theatre_templates.sha256"],
            name="fk_theatres_template_id_template_sha256",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_theatres_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_theatres"),
    )
    op.create_index("ix_theatres_construct_id", "theatres", ["construct_id"])
    op.create_index("ix_theatres_state", "theatres", ["state"])
    op.create_index(
        "ix_theatres_template_id_template_sha256", "theatres", ["template_id", "template_sha256"]
    )
    op.create_index(
        "ix_theatres_user_id_created_at_id", "theatres", ["user_id", "created_at", "id"]
    )
    op.create_table(
        "theatre_certificates",
        sa.Column("id", IDENTIFIER, nullable=False),
        sa.Column("theatre_id", IDENTIFIER, nullable=False),
        sa.Column("template_id", sa.Text(), nullable=False),
        sa.Column("construct_id", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("document_sha256", SHA256, nullable=False),
        sa.Column("criteria_json", JSONB(none_as_null=True), nullable=False),
        sa.Column("scores_json", JSONB(none_as_null=True), nullable=False),
        sa.Column("composite_score", sa.Double(), nullable=True),
        sa.Column("precision", sa.Double(), nullable=True),
        sa.Column("recall", sa.Double(), nullable=True),
        sa.Column("reply_accuracy", sa.Double(), nullable=True),
        sa.Column("brier_score", sa.Double(), nullable=True),
        sa.Column("ece", sa.Double(), nullable=True),
        sa.Column("replay_count", sa.Integer(), nullable=False),
        sa.Column("evidence_bundle_hash", SHA256, nullable=False),
        sa.Column("ground_truth_hash", SHA256, nullable=False),
        sa.Column("results_hash", SHA256, nullable=True),
        sa.Column("audit_head", SHA256, nullable=False),
        sa.Column("construct_version", sa.Text(), nullable=False),
        sa.Column("construct_chain_versions", JSONB(none_as_null=True), nullable=True),
        sa.Column("scorer_version", sa.Text(), nullable=False),
        sa.Column("methodology_version", sa.Text(), nullable=False),
        sa.Column("dataset_hash", SHA256, nullable=True),
        sa.Column("verification_tier", sa.String(length=20), nullable=False),
        sa.Column("commitment_hash", SHA256, nullable=False),
        sa.Column("issuer", sa.String(length=200), nullable=False),
        sa.Column("ground_truth_source", sa.String(length=100), nullable=False),
        sa.Column("execution_path", sa.String(length=10), nullable=False),
        sa.Column("issued_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=True),
        sa.Column("theatre_committed_at", MOMENT, nullable=False),
        sa.Column("theatre_resolved_at", MOMENT, nullable=False),
        sa.CheckConstraint(
            "(verification_tier = 'UNVERIFIED') = (expires_at IS NULL)",
            name=op.f("ck_theatre_certificates_expires_at"),
        ),
        sa.CheckConstraint(
            "audit_head ~ '^[0-9a-f]{64}$'", name=op.f("ck_theatre_certificates_audit_head")
        ),
        sa.CheckConstraint(
            "commitment_hash ~ '^[0-9a-f]{64}$'",
            name=op.f("ck_theatre_certificates_commitment_hash"),
        ),
        sa.CheckConstraint(
            "dataset_hash ~ '^[0-9a-f]{64}$'", name=op.f("ck_theatre_certificates_dataset_hash")
        ),
        sa.CheckConstraint(
            "document_sha256 = encode(sha256(document), 'hex')",
            name=op.f("ck_theatre_certificates_document_sha256"),
        ),
        sa.CheckConstraint(
            "evidence_bundle_hash ~ '^[0-9a-f]{64}$'",
            name=op.f("ck_theatre_certificates_evidence_bundle_hash"),
        ),
        sa.CheckConstraint(
            "execution_path IN ('replay', 'market')",
            name=op.f("ck_theatre_certificates_execution_path"),
        ),
        sa.CheckConstraint(
            "ground_truth_hash ~ '^[0-9a-f]{64}$'",
            name=op.f("ck_theatre_certificates_ground_truth_hash"),
        ),
        sa.CheckConstraint(
            "results_hash ~ '^[0-9a-f]{64}$'", name=op.f("ck_theatre_certificates_results_hash")
        ),
        sa.CheckConstraint(
            "verification_tier IN ('UNVERIFIED', 'BACKTESTED', 'PROVEN')",
            name=op.f("ck_theatre_certificates_verification_tier"),
        ),
        sa.CheckConstraint("replay_count > 0", name=op.f("ck_theatre_certificates_replay_count")),
        sa.ForeignKeyConstraint(
            ["theatre_id"], ["theatres.id"], name="fk_theatre_certificates_theatre_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_theatre_certificates"),
        sa.UniqueConstraint("id", "theatre_id", name="uq_theatre_certificates_id_theatre_id"),
        sa.UniqueConstraint("theatre_id", name="uq_theatre_certificates_theatre_id"),
    )
    op.create_index(
        "ix_theatre_certificates_construct_id_issued_at_id",
        "theatre_certificates",
        ["construct_id", "issued_at", "id"],
    )
    op.create_index("ix_theatre_certificates_template_id", "theatre_certificates", ["template_id"])
    op.create_index(
        "ix_theatre_certificates_verification_tier", "theatre_certificates", ["verification_tier"]
    )
    op.create_foreign_key(
        "fk_theatres_certificate_id_id",
        "theatres",
        "theatre_certificates",
        ["certificate_id", "id"],
        ["id", "theatre_id"],
    )


def downgrade() -> None:
    """Drop them, with what is in them."""
    op.drop_constraint("fk_theatres_certificate_id_id", "theatres", type_="foreignkey")
    op.drop_table("theatre_certificates")
    op.drop_table("theatres")
    op.drop_table("theatre_templates")
