"""Large runs in parts that several workers carry at a time (docs/adr/0127)."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from backend.database.models.base import Base, Identifier, is_one_of

SHARD_STATES = ("waiting", "queued", "running", "done")


class RunShard(Base):
    """Consecutive episodes of one run. `epoch` is raised by each worker that takes the shard up.

    `share` is how many calls it may make at a time, out of what the template committed; one that
    has a share has a place among those that are worked on. `job_id` and `lost_workers` as of a
    theatre.
    """

    __tablename__ = "run_shards"
    __table_args__ = (
        is_one_of("state", SHARD_STATES),
        CheckConstraint("number > 0 AND first_seq BETWEEN 1 AND last_seq", name="span"),
        CheckConstraint(
            "(state IN ('queued', 'running')) = (share > 0) AND share >= 0", name="share"
        ),
        Index(
            "ix_run_shards_unfinished",
            "job_id",
            postgresql_where=text("state IN ('queued', 'running')"),
        ),
    )

    theatre_id: Mapped[Identifier] = mapped_column(ForeignKey("theatres.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    first_seq: Mapped[int] = mapped_column(Integer)
    last_seq: Mapped[int] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(String(20), server_default="waiting")
    epoch: Mapped[int] = mapped_column(Integer, server_default="0")
    share: Mapped[int] = mapped_column(Integer, server_default="0")
    job_id: Mapped[int | None] = mapped_column(BigInteger)
    lost_workers: Mapped[int] = mapped_column(Integer, server_default="0")
