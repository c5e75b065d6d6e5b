"""Users, their keys, constructs, answers and datasets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

IDENTIFIER = sa.UUID(as_uuid=False)
MOMENT = sa.DateTime(timezone=True)
SHA256 = sa.String(length=64)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "users",
        sa.Column("id", IDENTIFIER, nullable=False),
        sa.Column("username", sa.String(length=100), nullable=False),
        sa.Column("email", sa.String(length=254), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("disabled_at", MOMENT, nullable=True),
        sa.CheckConstraint("username <> ''", name=op.f("ck_users_username")),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
    )
    op.create_index("uq_users_email", "users", [sa.literal_column("lower(email)")], unique=True)
    op.create_index(
        "uq_users_username", "users", [sa.literal_column("lower(username)")], unique=True
    )
    op.create_table(
        "api_keys",
        sa.Column("id", IDENTIFIER, nullable=False),
        sa.Column("user_id", IDENTIFIER, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("secret_sha256", SHA256, nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.String(length=50)), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("last_used_at", MOMENT, nullable=True),
        sa.Column("revoked_at", MOMENT, nullable=True),
        sa.CheckConstraint(
            "secret_sha256 ~ '^[0-9a-f]{64}$'", name=op.f("ck_api_keys_secret_sha256")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_api_keys_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("secret_sha256", name="uq_api_keys_secret_sha256"),
    )
    op.create_index("ix_api_keys_user_id", "api_keys", ["user_id"])
    op.create_table(
        "registered_constructs",
        sa.Column("construct_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", IDENTIFIER, nullable=False),
        sa.Column("author", sa.String(length=200), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("confirmed_at", MOMENT, nullable=True),
        sa.CheckConstraint(
            "construct_id <> ''", name=op.f("ck_registered_constructs_construct_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_registered_constructs_user_id"),
        sa.PrimaryKeyConstraint("construct_id", name="pk_registered_constructs"),
    )
    op.create_index("ix_registered_constructs_user_id", "registered_constructs", ["user_id"])
    op.create_table(
        "idempotency_keys",
        sa.Column("user_id", IDENTIFIER, nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("method", sa.String(length=10), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("body_sha256", SHA256, nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=True),
        sa.Column("headers", JSONB(none_as_null=True), nullable=True),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.CheckConstraint(
            "body_sha256 ~ '^[0-9a-f]{64}$'", name=op.f("ck_idempotency_keys_body_sha256")
        ),
        sa.CheckConstraint(
            "num_nonnulls(status, headers, answer) IN (0, 3)",
            name=op.f("ck_idempotency_keys_whole_answer"),
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name="fk_idempotency_keys_user_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_id", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])
    op.create_table(
        "datasets",
        sa.Column("sha256", SHA256, nullable=False),
        sa.Column("user_id", IDENTIFIER, nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("lines_total", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.CheckConstraint("sha256 ~ '^[0-9a-f]{64}$'", name=op.f("ck_datasets_sha256")),
        sa.CheckConstraint(
            "size_bytes > 0 AND lines_total > 0", name=op.f("ck_datasets_not_empty")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_datasets_user_id"),
        sa.PrimaryKeyConstraint("sha256", "user_id", name="pk_datasets"),
    )


def downgrade() -> None:
    """Drop them, with what is in them."""
    op.drop_table("datasets")
    op.drop_table("idempotency_keys")
    op.drop_table("registered_constructs")
    op.drop_table("api_keys")
    op.drop_table("users")
