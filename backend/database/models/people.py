"""Users, their keys, the constructs that are theirs, and what they were answered."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    SmallInteger,
    String,
    false,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from backend.database.models.base import (
    Base,
    CanonicalBytes,
    Identifier,
    JsonCopy,
    LongText,
    Moment,
    Sha256,
    is_one_of,
    is_sha256,
)

DECISIONS = ("confirmed", "rejected", "released")


class User(Base):
    """A user who owns theatres. Names and addresses are unique without regard to case."""

    __tablename__ = "users"
    __table_args__ = (
        Index("uq_users_username", text("lower(username)"), unique=True),
        Index("uq_users_email", text("lower(email)"), unique=True),
        CheckConstraint("username <> ''", name="username"),
    )

    id: Mapped[Identifier] = mapped_column(primary_key=True)
    username: Mapped[str] = mapped_column(String(100))
    email: Mapped[str] = mapped_column(String(254))
    password_hash: Mapped[LongText]
    created_at: Mapped[Moment]
    disabled_at: Mapped[Moment | None]
    is_operator: Mapped[bool] = mapped_column(server_default=false())
    token_generation: Mapped[int] = mapped_column(server_default=text("0"))
    """Raised to end all tokens that were issued before."""


class Invite(Base):
    """An invite to register, once. Only its hash is kept; the operator makes and revokes them."""

    __tablename__ = "invites"
    __table_args__ = (
        is_sha256("code_sha256"),
        CheckConstraint("num_nonnulls(used_at, used_by) IN (0, 2)", name="whole_use"),
    )

    id: Mapped[Identifier] = mapped_column(primary_key=True)
    code_sha256: Mapped[Sha256] = mapped_column(unique=True)
    note: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[Moment]
    expires_at: Mapped[Moment]
    revoked_at: Mapped[Moment | None]
    used_at: Mapped[Moment | None]
    used_by: Mapped[Identifier | None] = mapped_column(ForeignKey("users.id"))


class ApiKey(Base):
    """A key for tools. Only its hash is kept: it has 256 random bits."""

    __tablename__ = "api_keys"
    __table_args__ = (is_sha256("secret_sha256"),)

    id: Mapped[Identifier] = mapped_column(primary_key=True)
    user_id: Mapped[Identifier] = mapped_column(ForeignKey("users.id"), index=True)
    name: Mapped[str] = mapped_column(String(100))
    secret_sha256: Mapped[Sha256] = mapped_column(unique=True)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(String(50)))
    created_at: Mapped[Moment]
    expires_at: Mapped[Moment]
    last_used_at: Mapped[Moment | None]
    revoked_at: Mapped[Moment | None]


class RegisteredConstruct(Base):
    """A construct id that a user claims. Whose it is, the newest ConstructDecision says."""

    __tablename__ = "registered_constructs"
    __table_args__ = (CheckConstraint("construct_id <> ''", name="construct_id"),)

    construct_id: Mapped[str] = mapped_column(String(255), primary_key=True)
    user_id: Mapped[Identifier] = mapped_column(ForeignKey("users.id"), index=True)
    author: Mapped[str | None] = mapped_column(String(200))
    created_at: Mapped[Moment]


class ConstructDecision(Base):
    """What the operator decided about a user's claim of a construct id. Only added to.

    The service may read it and nothing else: the operator's commands write as the owner of the
    tables.
    """

    __tablename__ = "construct_decisions"
    __table_args__ = (is_one_of("decision", DECISIONS), Index(None, "construct_id", "seq"))

    seq: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    construct_id: Mapped[str] = mapped_column(String(255))
    user_id: Mapped[Identifier] = mapped_column(ForeignKey("users.id"))
    decision: Mapped[str] = mapped_column(String(20))
    decided_at: Mapped[Moment]
    queue_end: Mapped[int] = mapped_column(BigInteger)
    """The last entry that the log's queue had then: a run that ends later is closed behind it."""


class IdempotencyKey(Base):
    """A request that had an effect, and its answer, written in the transaction of the effect."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        is_sha256("body_sha256"),
        CheckConstraint("num_nonnulls(status, headers, answer) IN (0, 3)", name="whole_answer"),
    )

    user_id: Mapped[Identifier] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True
    )
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    method: Mapped[str] = mapped_column(String(10))
    path: Mapped[LongText]
    body_sha256: Mapped[Sha256]
    status: Mapped[int | None] = mapped_column(SmallInteger)
    headers: Mapped[JsonCopy | None]
    answer: Mapped[CanonicalBytes | None] = mapped_column(LargeBinary)
    created_at: Mapped[Moment] = mapped_column(index=True)
