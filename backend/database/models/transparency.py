"""The transparency log: queue, entries, tiles, checkpoints, and the keys that sign (docs/adr/0184).

Everything is only ever added to. An entry waits in the queue as long as no row of the log names it.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Computed,
    ForeignKey,
    Identity,
    Index,
    Integer,
    String,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from backend.database.models.base import (
    Base,
    CanonicalBytes,
    Identifier,
    LongText,
    Moment,
    is_one_of,
)
from theatre.transparency.entries import MAX_ENTRY_BYTES, EntryType

_OF_A_THEATRE = "type IN ('commitment/v1', 'certificate/v1', 'void/v1')"
_CLOSES = text("type IN ('certificate/v1', 'void/v1')")
_COMMITS = text("type = 'commitment/v1'")


class QueuedEntry(Base):
    """What is to be logged, stored in the transaction of its effect.

    A void entry has a `reason` and no bytes: its commitment may have no place yet. `queued_in` is
    the transaction: what an older one than any that goes on has queued was seen by the writer.
    """

    __tablename__ = "log_queue"
    __table_args__ = (
        is_one_of("type", EntryType),
        CheckConstraint(f"octet_length(entry) <= {MAX_ENTRY_BYTES}", name="entry"),
        CheckConstraint(f"(theatre_id IS NOT NULL) = ({_OF_A_THEATRE})", name="of_a_theatre"),
        CheckConstraint(
            "num_nonnulls(construct_id, construct_version, close_by)"
            " = CASE type WHEN 'commitment/v1' THEN 3 ELSE 0 END",
            name="of_a_construct",
        ),
        CheckConstraint(
            "(type = 'void/v1') = (reason IS NOT NULL) AND (type = 'void/v1') = (entry IS NULL)",
            name="void_for_a_reason",
        ),
        Index("ix_log_queue_construct_id", "construct_id", postgresql_where=_COMMITS),
        Index(None, "queued_in"),
        Index("ix_log_queue_type", "type", postgresql_where=text("theatre_id IS NULL")),
        Index("uq_log_queue_closing", "theatre_id", unique=True, postgresql_where=_CLOSES),
        Index("uq_log_queue_commitment", "theatre_id", unique=True, postgresql_where=_COMMITS),
        Index("uq_log_queue_entry", text("sha256(entry)"), unique=True),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    type: Mapped[str] = mapped_column(String(20))
    theatre_id: Mapped[Identifier | None] = mapped_column(ForeignKey("theatres.id"))
    entry: Mapped[CanonicalBytes | None]
    reason: Mapped[str | None] = mapped_column(String(20))
    construct_id: Mapped[LongText | None]
    construct_version: Mapped[LongText | None]
    close_by: Mapped[Moment | None]
    queued_at: Mapped[Moment] = mapped_column(server_default=func.now())
    queued_in: Mapped[int] = mapped_column(
        BigInteger, server_default=text("pg_current_xact_id()::text::bigint")
    )


class LoggedEntry(Base):
    """An entry in its place. The tiles of the lowest level follow from these rows, and are none."""

    __tablename__ = "log_entries"
    __table_args__ = (
        UniqueConstraint("queue_id"),
        UniqueConstraint("leaf"),
        CheckConstraint("log_index >= 0", name="log_index"),
        CheckConstraint(f"octet_length(entry) <= {MAX_ENTRY_BYTES}", name="entry"),
    )

    log_index: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    leaf: Mapped[CanonicalBytes] = mapped_column(
        Computed("sha256('\\x00'::bytea || entry)", persisted=True)
    )
    queue_id: Mapped[int | None] = mapped_column(BigInteger, ForeignKey("log_queue.id"))
    entry: Mapped[CanonicalBytes]


class LogTile(Base):
    """A tile of hashes above the lowest level, by its path in the log."""

    __tablename__ = "log_tiles"

    path: Mapped[LongText] = mapped_column(primary_key=True)
    data: Mapped[CanonicalBytes]


class LogCheckpoint(Base):
    """A signed checkpoint; the last one is the log's state. One with cosignatures is a new row."""

    __tablename__ = "log_checkpoints"
    __table_args__ = (CheckConstraint("seq >= 0 AND size >= 0", name="counts"), Index(None, "size"))

    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    size: Mapped[int] = mapped_column(BigInteger)
    checkpoint: Mapped[CanonicalBytes]
    signed_at: Mapped[Moment] = mapped_column(server_default=func.now())


class TrustDocument(Base):
    """`trust.json` as it was at each start that changed it; the last one counts."""

    __tablename__ = "trust_documents"
    __table_args__ = (CheckConstraint("seq >= 0", name="seq"),)

    seq: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    document: Mapped[CanonicalBytes]
    created_at: Mapped[Moment]
