"""Which runs count for routing: their owner, and objections to their tier (docs/adr/0175).

`OBJECTIONS` is the one rule: every list, view and filter of certificates and every routing answer
asks the database for it, with the content hashes that the operator accepts as `accepted`. Only a
run without objections counts.

The statements are built once: building them for each request took longer than answering it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    String,
    Text,
    and_,
    any_,
    bindparam,
    case,
    func,
    literal,
    null,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, array
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import (
    ConstructDecision,
    LoggedEntry,
    QueuedEntry,
    RegisteredConstruct,
    Theatre,
    TheatreCertificate,
    TheatreTemplate,
    User,
)
from backend.repositories.stored_certificates import STORED, StoredCertificate

OWNER_NOT_CONFIRMED = "owner-not-confirmed"
"""The user was not the confirmed owner of the construct id when the run was resolved."""
OWNER_CHANGED = "owner-changed"
"""The user was the confirmed owner then, and is not now."""
TEMPLATE_NOT_ACCEPTED = "template-not-accepted"
"""The operator does not accept the template."""


def if_confirmed(
    value: ColumnElement[Any], construct_id: ColumnElement[Any], *conditions: ColumnElement[bool]
) -> ScalarSelect[Any]:
    """Return `value` of the newest decision about whose an id is; null unless that confirms.

    `conditions` restrict the decisions, for example to those up to a moment.
    """
    decision = ConstructDecision
    is_about = (decision.construct_id == construct_id, decision.decision != "rejected")
    return (
        select(case((decision.decision == "confirmed", value)))
        .where(*is_about, *conditions)
        .order_by(decision.seq.desc())
        .limit(1)
        .correlate(Theatre, RegisteredConstruct)
        .scalar_subquery()
    )


OWNER: ColumnElement[str] = ConstructDecision.user_id.expression
_construct_id = Theatre.construct_id.expression
# The log's order, which no clock can change: one that ran ahead would keep an old run the newest,
# and have a run count that its user was confirmed after.
_closed = (
    select(QueuedEntry.id)
    .where(QueuedEntry.theatre_id == Theatre.id, text("type IN ('certificate/v1', 'void/v1')"))
    .correlate(Theatre)
    .scalar_subquery()
)
_until_then = ConstructDecision.queue_end < _closed
_owner_then = if_confirmed(OWNER, _construct_id, _until_then)
_owner_now = if_confirmed(OWNER, _construct_id)
_is_accepted = TheatreTemplate.content_hash == any_(bindparam("accepted", type_=ARRAY(Text)))
_objections: list[ColumnElement[Any]] = [
    case(
        (_owner_then.is_distinct_from(Theatre.user_id), OWNER_NOT_CONFIRMED),
        (_owner_now.is_distinct_from(Theatre.user_id), OWNER_CHANGED),
    ),
    case((_is_accepted, null()), else_=literal(TEMPLATE_NOT_ACCEPTED, Text)),
]
# As `text`: asyncpg knows its arrays, those of `varchar` it has to look up.
OBJECTIONS: ColumnElement[list[str]] = func.array_remove(
    array[Any](_objections, type_=Text), null()
)
"""What speaks against a run, as codes; of a Theatre joined with its TheatreTemplate."""


class CountedRun(NamedTuple):
    """How a run ended that counts for routing; `stored` is the row of its certificate, if it has.

    `outcome` is None where the log has its end, and this database does not. `log_end` is the place
    of the log's last entry, read in the same statement.
    """

    run_by: str
    outcome: str | None
    outcome_reason: str | None
    certificate_id: str | None
    construct_version: str | None
    log_end: int | None
    stored: StoredCertificate | None


class OwnRuns(NamedTuple):
    """What there is of a construct by its confirmed owner, where no run counts."""

    has_owner: bool
    runs: int
    on_accepted: bool
    counted: bool
    log_end: int | None


async def find_newest_run(
    connection: AsyncConnection,
    construct_id: str,
    *,
    construct_version: str | None,
    accepted: Sequence[str],
) -> CountedRun | None:
    """Return how the newest run of a construct ended that counts."""
    wanted = {"construct_id": construct_id, "accepted": accepted}
    if construct_version is None:
        found = await connection.execute(_NEWEST, wanted)
    else:
        version = {"construct_version": construct_version}
        found = await connection.execute(_NEWEST_OF_A_VERSION, wanted | version)
    row = found.first()
    if row is None:
        return None
    *run, has_row = row[:_OF_A_RUN]
    stored = StoredCertificate._make(row[_OF_A_RUN:]) if has_row else None
    return CountedRun._make((*run, stored))


async def find_runs_of_owner(
    connection: AsyncConnection, construct_id: str, *, accepted: Sequence[str]
) -> OwnRuns:
    """Return what there is of a construct by its confirmed owner: why none counts."""
    wanted = {"construct_id": construct_id, "accepted": accepted}
    return OwnRuns._make((await connection.execute(_OWN, wanted)).one())


_wanted = bindparam("construct_id", type_=String)
_owner = if_confirmed(OWNER, _wanted)
_pinned = func.jsonb_extract_path_text(Theatre.version_pins, "constructs", Theatre.construct_id)
_has_none = func.cardinality(OBJECTIONS) == 0
# That it is the owner's is among the objections; alone it spares strangers' runs the look-up.
_ran = and_(
    Theatre.construct_id == _wanted,
    Theatre.user_id == _owner,
    # Not by its state: what ended after a backup is closed in the log, and unfinished here.
    _closed.is_not(None),
)
_log_end = select(func.max(LoggedEntry.log_index)).scalar_subquery()
_is_template = TheatreTemplate.sha256 == Theatre.template_sha256
_OF_A_RUN = 7
_NEWEST = (
    select(
        User.username,
        Theatre.outcome,
        Theatre.outcome_reason,
        Theatre.certificate_id,
        _pinned,
        _log_end,
        TheatreCertificate.id.is_not(None),
        *STORED,
    )
    .select_from(Theatre)
    .join(User, User.id == Theatre.user_id)
    .join(TheatreTemplate, _is_template)
    .outerjoin(
        TheatreCertificate,
        # Of this run: the row of another run, signed for that, says nothing about this construct.
        and_(
            TheatreCertificate.id == Theatre.certificate_id,
            TheatreCertificate.theatre_id == Theatre.id,
            TheatreCertificate.construct_id == Theatre.construct_id,
            TheatreCertificate.construct_version == _pinned,
        ),
    )
    .where(_ran, _has_none)
    .order_by(_closed.desc())
    .limit(1)
)
_NEWEST_OF_A_VERSION = _NEWEST.where(_pinned == bindparam("construct_version", type_=String))
_OWN = (
    select(
        _owner.is_not(None),
        func.count(Theatre.id),
        func.coalesce(func.bool_or(_is_accepted), literal(value=False)),
        func.coalesce(func.bool_or(_has_none), literal(value=False)),
        _log_end,
    )
    .select_from(Theatre)
    .join(TheatreTemplate, _is_template)
    .where(_ran)
)
