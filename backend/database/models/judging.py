"""What the operator lets users' runs spend on judges, and each call that was paid from it."""

from datetime import date

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Date,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from backend.database.models.base import (
    Base,
    CanonicalBytes,
    Identifier,
    Moment,
    Sha256,
    is_one_of,
    is_sha256,
)

UNITS = ("micros", "tokens")
"""Millionths of the currency of the operator's prices; tokens where a model has no price."""
SETTLEMENTS = ("counted", "refused", "not-sent", "not-counted", "above-maximum", "worker-lost")
_BALANCE = "reserved >= 0 AND spent >= 0 AND allowed - reserved - spent >= 0"


class JudgeBudget(Base):
    """What a user's runs may spend in one unit: in all, each run, each day; and what is spent.

    The operator writes the limits, triggers write `reserved` and `spent` (docs/adr/0195).
    """

    __tablename__ = "judge_budgets"
    __table_args__ = (
        is_one_of("unit", UNITS),
        CheckConstraint("per_run >= 0 AND per_day >= 0", name="limits"),
        CheckConstraint(_BALANCE, name="balance"),
    )

    user_id: Mapped[Identifier] = mapped_column(ForeignKey("users.id"), primary_key=True)
    unit: Mapped[str] = mapped_column(String(10), primary_key=True)
    allowed: Mapped[int] = mapped_column(BigInteger)
    per_run: Mapped[int] = mapped_column(BigInteger)
    per_day: Mapped[int] = mapped_column(BigInteger)
    reserved: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    spent: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    updated_at: Mapped[Moment]


class JudgeLimit(Base):
    """The same for one run, whose `subject` is its theatre, or for one day in UTC."""

    __tablename__ = "judge_limits"
    __table_args__ = (
        ForeignKeyConstraint(
            ["user_id", "unit"],
            ["judge_budgets.user_id", "judge_budgets.unit"],
            name="fk_judge_limits_user_id_unit",
        ),
        CheckConstraint(_BALANCE, name="balance"),
    )

    user_id: Mapped[Identifier] = mapped_column(primary_key=True)
    unit: Mapped[str] = mapped_column(String(10), primary_key=True)
    subject: Mapped[str] = mapped_column(String(36), primary_key=True)
    allowed: Mapped[int] = mapped_column(BigInteger)
    reserved: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    spent: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))


class JudgeCall(Base):
    """One call to a judge: reserved at its maximum before it is made, settled once.

    `day` and `user_id` say whose budget of which day it is paid from, `epoch` which attempt at the
    run makes it. `answer` is what the judge said, kept until the run is over: a run that goes on
    asks nothing again.
    """

    __tablename__ = "judge_calls"
    __table_args__ = (
        ForeignKeyConstraint(
            ["user_id", "unit"],
            ["judge_budgets.user_id", "judge_budgets.unit"],
            name="fk_judge_calls_user_id_unit",
        ),
        is_sha256("request_sha256"),
        is_one_of("settled_as", SETTLEMENTS),
        CheckConstraint("reserved >= 0 AND spent BETWEEN 0 AND reserved", name="amounts"),
        CheckConstraint(
            "num_nonnulls(spent, settled_as, settled_at) IN (0, 3)"
            " AND (answer IS NULL OR settled_at IS NOT NULL)",
            name="whole_settlement",
        ),
        Index("ix_judge_calls_open", "theatre_id", postgresql_where=text("settled_at IS NULL")),
        Index(None, "theatre_id"),
        Index(
            "ix_judge_calls_lost",
            "user_id",
            "unit",
            postgresql_where=text("settled_as = 'worker-lost'"),
        ),
    )

    id: Mapped[Identifier] = mapped_column(primary_key=True)
    theatre_id: Mapped[Identifier] = mapped_column(ForeignKey("theatres.id"))
    user_id: Mapped[Identifier]
    epoch: Mapped[int] = mapped_column(Integer)
    provider: Mapped[str] = mapped_column(String(20))
    model: Mapped[str] = mapped_column(String(200))
    request_sha256: Mapped[Sha256]
    unit: Mapped[str] = mapped_column(String(10))
    day: Mapped[date] = mapped_column(Date)
    reserved: Mapped[int] = mapped_column(BigInteger)
    reserved_at: Mapped[Moment]
    spent: Mapped[int | None] = mapped_column(BigInteger)
    settled_as: Mapped[str | None] = mapped_column(String(20))
    settled_at: Mapped[Moment | None]
    answer: Mapped[CanonicalBytes | None]
