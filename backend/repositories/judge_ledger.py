"""Calls to judges as they are paid: reserved before, settled after; budgets of users.

What is reserved and spent follows from the calls by triggers: a call that no balance covers has no
row, whatever asks for it (docs/adr/0195).
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import and_, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import JudgeBudget, JudgeCall, JudgeLimit
from backend.errors import BudgetError, BudgetSpentError
from backend.repositories.theatre_runs import read_claim
from theatre.engine.errors import StateConflictError

WORKER_LOST = "worker-lost"
_BALANCES = frozenset({"ck_judge_budgets_balance", "ck_judge_limits_balance"})


class NewCall(NamedTuple):
    """A call that is to be made, and the most that it can cost in `unit`."""

    id: str
    theatre_id: str
    epoch: int
    provider: str
    model: str
    request_sha256: str
    unit: str
    reserved: int
    reserved_at: datetime


class Settlement(NamedTuple):
    """What a call cost in its unit, and how that is known; `answer` ends what was asked."""

    spent: int
    settled_as: str
    answer: bytes | None = None


class LostCall(NamedTuple):
    """A call that lost its worker before it was settled."""

    id: str
    theatre_id: str
    unit: str
    reserved: int


class Balance(NamedTuple):
    """What may be spent of something, what is reserved for calls under way, and what is spent."""

    allowed: int
    reserved: int
    spent: int

    @property
    def left(self) -> int:
        """Return what a next call may cost."""
        return self.allowed - self.reserved - self.spent


class UserBudget(NamedTuple):
    """A user's budget in one unit; `lost` is the part of `total.spent` that lost its worker."""

    unit: str
    total: Balance
    today: Balance
    per_run: int
    lost: int


class UnitTotals(NamedTuple):
    """What all users' calls came to in one unit."""

    unit: str
    reserved: int
    spent: int
    lost: int


async def reserve_call(connection: AsyncConnection, call: NewCall) -> None:
    """Reserve the most that a call can cost, from the budget of its theatre's owner.

    Raises BudgetSpentError where the balance of user, run or day does not cover it, and
    StateConflictError where another worker has the run. The transaction is of no more use then.
    """
    claim = await read_claim(connection, call.theatre_id)
    if claim.run_epoch != call.epoch:
        raise StateConflictError(
            f"expected to hold the run of theatre {call.theatre_id} in epoch {call.epoch}, got "
            f"epoch {claim.run_epoch}: another worker has it"
        )
    # The day is the one on which it is reserved, also where it is settled after midnight.
    row = {**call._asdict(), "user_id": None, "day": call.reserved_at.date()}
    try:
        await connection.execute(insert(JudgeCall).values(row))
    except IntegrityError as error:
        broken = getattr(getattr(error.orig, "__cause__", None), "constraint_name", None)
        if broken not in _BALANCES:
            raise
        raise BudgetSpentError(
            f"expected a budget that covers {call.reserved} {call.unit}, the most that the next "
            f"call of {call.model} can cost, got less"
        ) from error


async def settle_call(
    connection: AsyncConnection, call_id: str, settlement: Settlement, *, at: datetime
) -> bool:
    """Settle a call; False where that was done before: only the first counts."""
    settled = (
        update(JudgeCall)
        .where(JudgeCall.id == call_id, JudgeCall.settled_at.is_(None))
        .values(**settlement._asdict(), settled_at=at)
    )
    return (await connection.execute(settled)).rowcount == 1


_LOST = text("""
    SELECT calls.id, calls.theatre_id, calls.unit, calls.reserved FROM judge_calls AS calls
    JOIN theatres ON theatres.id = calls.theatre_id
    WHERE calls.settled_at IS NULL
        AND (theatres.run_epoch <> calls.epoch OR theatres.run_status IS DISTINCT FROM 'running')
    ORDER BY calls.reserved_at
""")


async def find_lost_calls(connection: AsyncConnection) -> Sequence[LostCall]:
    """Return the calls that are not settled and whose attempt at the run is over."""
    found = await connection.execute(_LOST)
    return [LostCall(str(row[0]), str(row[1]), row[2], row[3]) for row in found]


async def find_answers(connection: AsyncConnection, theatre_id: str) -> Sequence[tuple[str, bytes]]:
    """Return the SHA-256 of each request of a run that has its answer, and that; oldest first."""
    query = (
        select(JudgeCall.request_sha256, JudgeCall.answer)
        .where(JudgeCall.theatre_id == theatre_id, JudgeCall.answer.is_not(None))
        .order_by(JudgeCall.settled_at, JudgeCall.id)
    )
    return [(row[0], row[1] or b"") for row in await connection.execute(query)]


_FORGET = text("""
    UPDATE judge_calls SET answer = NULL FROM theatres
    WHERE theatres.id = theatre_id AND answer IS NOT NULL
        AND theatres.state IN ('RESOLVED', 'ARCHIVED')
""")


async def forget_answers(connection: AsyncConnection) -> int:
    """Delete the answers of runs that are over, whose evidence has them; return how many."""
    return (await connection.execute(_FORGET)).rowcount


# Budgets, as the operator sets them and their users see them.


async def read_balances(
    connection: AsyncConnection, theatre_id: str, *, unit: str, day: date
) -> Mapping[str, Balance]:
    """Return what is left for a run: of its user in all, of the run, and of the day."""
    query = text("""
        SELECT 'user' AS whose, b.allowed, b.reserved, b.spent
        FROM judge_budgets b JOIN theatres t USING (user_id)
        WHERE t.id = CAST(:theatre_id AS uuid) AND b.unit = :unit
        UNION ALL
        SELECT CASE WHEN subject = :day THEN 'day' ELSE 'run' END, l.allowed, l.reserved, l.spent
        FROM judge_limits l JOIN theatres t USING (user_id)
        WHERE t.id = CAST(:theatre_id AS uuid) AND l.unit = :unit
            AND subject IN (:day, CAST(:theatre_id AS text))
    """)
    values = {"theatre_id": theatre_id, "unit": unit, "day": day.isoformat()}
    return {row[0]: Balance(*row[1:]) for row in await connection.execute(query, values)}


async def read_budgets(
    connection: AsyncConnection, user_id: str, *, day: date
) -> Sequence[UserBudget]:
    """Return a user's budgets by unit; a day on which nothing was reserved has its whole limit."""
    of_today = and_(
        JudgeLimit.user_id == JudgeBudget.user_id,
        JudgeLimit.unit == JudgeBudget.unit,
        JudgeLimit.subject == day.isoformat(),
    )
    lost = (
        select(func.coalesce(func.sum(JudgeCall.spent), 0))
        .where(
            JudgeCall.user_id == JudgeBudget.user_id,
            JudgeCall.unit == JudgeBudget.unit,
            JudgeCall.settled_as == WORKER_LOST,
        )
        .scalar_subquery()
    )
    query = (
        select(
            JudgeBudget.unit,
            JudgeBudget.allowed,
            JudgeBudget.reserved,
            JudgeBudget.spent,
            func.coalesce(JudgeLimit.allowed, JudgeBudget.per_day),
            func.coalesce(JudgeLimit.reserved, 0),
            func.coalesce(JudgeLimit.spent, 0),
            JudgeBudget.per_run,
            lost,
        )
        .outerjoin(JudgeLimit, of_today)
        .where(JudgeBudget.user_id == user_id)
        .order_by(JudgeBudget.unit)
    )
    return [
        UserBudget(row[0], Balance(*row[1:4]), Balance(*row[4:7]), row[7], int(row[8]))
        for row in await connection.execute(query)
    ]


_SET = text("""
    INSERT INTO judge_budgets (user_id, unit, allowed, per_run, per_day, updated_at)
    VALUES (:user_id, :unit, :allowed, :per_run, :per_day, :at)
    ON CONFLICT (user_id, unit) DO UPDATE SET allowed = excluded.allowed,
        per_run = excluded.per_run, per_day = excluded.per_day, updated_at = excluded.updated_at
""")
_SET_BEGUN = text("""
    UPDATE judge_limits SET allowed = greatest(reserved + spent,
        CASE WHEN length(subject) = length('2026-11-21') THEN CAST(:per_day AS bigint)
            ELSE CAST(:per_run AS bigint) END)
    WHERE user_id = :user_id AND unit = :unit
""")


async def set_budget(
    connection: AsyncConnection,
    user_id: str,
    *,
    unit: str,
    allowed: int,
    per_run: int,
    per_day: int,
    at: datetime,
) -> None:
    """Set what a user may spend: in all, by each run and on each day, those begun included.

    `connection` is of the owner of the tables. BudgetError for less than what is spent and reserved
    in all; a run or a day that has more behind it just has nothing left.
    """
    values = {
        "user_id": user_id,
        "unit": unit,
        "allowed": allowed,
        "per_run": per_run,
        "per_day": per_day,
        "at": at,
    }
    try:
        await connection.execute(_SET, values)
    except IntegrityError as error:
        raise BudgetError(
            f"expected at least what is spent and reserved in {unit}, got {allowed}"
        ) from error
    await connection.execute(_SET_BEGUN, values)


_TOTALS = text("""
    SELECT unit, sum(reserved), sum(spent), (
        SELECT coalesce(sum(spent), 0) FROM judge_calls
        WHERE settled_as = 'worker-lost' AND unit = judge_budgets.unit
    ) FROM judge_budgets GROUP BY unit ORDER BY unit
""")


async def judge_totals(connection: AsyncConnection) -> Sequence[UnitTotals]:
    """Return what the calls of all users came to, by unit."""
    found = await connection.execute(_TOTALS)
    return [UnitTotals(row[0], *map(int, row[1:])) for row in found]


_WRONG = text("""
    WITH calls AS (
        SELECT user_id, unit, theatre_id::text AS run, day::text AS day,
            coalesce(spent, 0) AS spent,
            CASE WHEN settled_at IS NULL THEN reserved ELSE 0 END AS reserved
        FROM judge_calls
    ), summed AS (
        SELECT user_id, unit, subject, sum(calls.reserved) AS reserved, sum(calls.spent) AS spent
        FROM calls CROSS JOIN LATERAL (VALUES ('all'), (run), (day)) AS whose (subject)
        GROUP BY user_id, unit, subject
    ), balances AS (
        SELECT user_id, unit, 'all' AS subject, reserved, spent FROM judge_budgets
        UNION ALL SELECT user_id, unit, subject, reserved, spent FROM judge_limits
    )
    SELECT concat_ws(' ', user_id, unit, subject), coalesce(summed.reserved, 0),
        coalesce(summed.spent, 0), balances.reserved, balances.spent
    FROM balances FULL JOIN summed USING (user_id, unit, subject)
    WHERE (coalesce(summed.reserved, 0), coalesce(summed.spent, 0))
        IS DISTINCT FROM (balances.reserved, balances.spent)
    ORDER BY 1
""")


class WrongBalance(NamedTuple):
    """A balance that is not the sum of its calls."""

    whose: str
    reserved: int
    spent: int
    actual_reserved: int | None
    actual_spent: int | None


async def find_wrong_balances(connection: AsyncConnection) -> Sequence[WrongBalance]:
    """Return every balance of user, run and day that is not the sum of its calls."""
    return [WrongBalance._make(row) for row in await connection.execute(_WRONG)]
