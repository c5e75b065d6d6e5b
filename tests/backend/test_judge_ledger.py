"""What the database itself holds of budgets: no balance below zero, and none that is written."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.sessions import APPLICATION, OWNER
from backend.repositories.judge_ledger import WrongBalance, find_wrong_balances
from backend.runtime import now
from tests.backend.databases import A_TEMPLATE, A_USER, HASH, USER_ID, Database
from tests.backend.judged_stage import Treasury
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded

THEATRE_ID = "018f0000-0000-7000-8000-00000000000a"
CALL: Mapping[str, Any] = {
    "id": "018f0000-0000-7000-8000-0000000000ca",
    "theatre_id": THEATRE_ID,
    "epoch": 1,
    "provider": "anthropic",
    "model": "a-model",
    "request_sha256": HASH,
    "unit": "tokens",
    "day": "2026-11-21",
    "reserved": 60,
    "reserved_at": "2026-11-21T12:00:00Z",
}
SETTLE = "UPDATE judge_calls SET settled_at = now(), settled_as = 'counted', spent = "
ANOTHER_LIMIT = f"""
    INSERT INTO judge_limits (user_id, unit, subject, allowed)
    VALUES ('{USER_ID}', 'tokens', 'x', 1)
"""  # noqa: S608 - a constant


@pytest.fixture
def funded(database: Database) -> Database:
    """Ada has a theatre, and 100 tokens."""
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    database.add_theatre(THEATRE_ID)
    Treasury(database=database).allow("ada", 100)
    return database


def change(database: Database, statement: str, role: str = APPLICATION) -> None:
    with database.connected(role) as connection:
        connection.execute(statement.encode())


def balances(database: Database) -> set[tuple[int, int]]:
    """Return what is reserved and spent of user, run and day: all the same, where all is well."""
    query = (
        "SELECT reserved, spent FROM judge_budgets UNION SELECT reserved, spent FROM judge_limits"
    )
    return {(row["reserved"], row["spent"]) for row in database.rows(query)}


def test_a_call_is_reserved_settled_once_and_never_changed(funded: Database) -> None:
    funded.add("judge_calls", CALL)
    assert balances(funded) == {(60, 0)}
    change(funded, f"{SETTLE} 20, answer = 'yes'")
    assert balances(funded) == {(0, 20)}
    unsettled = "UPDATE judge_calls SET spent = NULL, settled_as = NULL, settled_at = NULL"
    for statement in (f"{SETTLE} 10", unsettled):
        with pytest.raises(errors.IntegrityConstraintViolation):
            change(funded, statement)
    with pytest.raises(errors.IntegrityConstraintViolation):
        change(funded, "UPDATE judge_calls SET reserved = 1", OWNER)
    with pytest.raises(errors.IntegrityConstraintViolation):
        change(funded, "DELETE FROM judge_calls", OWNER)
    change(funded, "UPDATE judge_calls SET answer = NULL")
    assert balances(funded) == {(0, 20)}


def test_a_balance_below_zero_is_refused_and_so_is_what_costs_more_than_was_reserved(
    funded: Database,
) -> None:
    funded.add("judge_calls", CALL)
    with pytest.raises(errors.CheckViolation, match="ck_judge_budgets_balance"):
        funded.add("judge_calls", {**CALL, "id": USER_ID, "reserved": 41})
    with pytest.raises(errors.CheckViolation, match="ck_judge_calls_amounts"):
        change(funded, f"{SETTLE} 61")
    assert balances(funded) == {(60, 0)}
    funded.add("judge_calls", {**CALL, "id": USER_ID, "reserved": 40})
    assert balances(funded) == {(100, 0)}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE judge_budgets SET allowed = 1000000",
        "UPDATE judge_budgets SET spent = 0",
        "UPDATE judge_limits SET reserved = 0",
        ANOTHER_LIMIT,
        "UPDATE judge_calls SET reserved = 1",
        "DELETE FROM judge_budgets",
    ],
)
def test_the_service_cannot_write_what_may_be_spent(funded: Database, statement: str) -> None:
    funded.add("judge_calls", CALL)
    with pytest.raises(errors.InsufficientPrivilege):
        change(funded, statement)


def test_another_users_theatre_is_paid_by_its_owner(funded: Database) -> None:
    funded.add("users", {**A_USER, "id": HASH[:8] + USER_ID[8:], "username": "bob", "email": "b"})
    funded.add("judge_calls", {**CALL, "user_id": HASH[:8] + USER_ID[8:]})
    assert balances(funded) == {(60, 0)}
    assert funded.rows("SELECT user_id::text FROM judge_calls") == [{"user_id": USER_ID}]


def test_without_a_budget_nothing_is_reserved(database: Database) -> None:
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    database.add_theatre(THEATRE_ID)
    with pytest.raises(psycopg.errors.CheckViolation, match="a user with a budget in tokens"):
        database.add("judge_calls", CALL)


def test_a_balance_that_is_not_the_sum_of_its_calls_is_found(funded: Database) -> None:
    funded.add("judge_calls", CALL)
    change(funded, f"{SETTLE} 20")
    assert funded.play(wrong) == []
    change(funded, "UPDATE judge_budgets SET spent = 19", OWNER)
    change(funded, "DELETE FROM judge_limits WHERE subject = '2026-11-21'", OWNER)
    assert funded.play(wrong) == [
        (f"{USER_ID} tokens 2026-11-21", 0, 20, None, None),
        (f"{USER_ID} tokens all", 0, 20, 0, 19),
    ]


async def wrong(engine: AsyncEngine) -> list[WrongBalance]:
    async with engine.connect() as connection:
        return [*await find_wrong_balances(connection)]


def test_the_operator_sets_and_shows_a_budget(
    funded: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path))
    monkeypatch.setenv("ECHELON_DATABASE_URL", funded.application)
    monkeypatch.setenv("ECHELON_MIGRATION_URL", funded.owner)
    funded.add("judge_calls", {**CALL, "day": str(now().date())})

    def typed(*arguments: str) -> tuple[ExitCode, str, str]:
        code = run_guarded(cli, ["admin", "budget", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    wish = ("set", "ada", "--unit", "tokens", "--total")
    assert typed(*wish, "90", "--per-day", "80", "--per-run", "50")[0] is ExitCode.OK
    code, said, _ = typed("show", "ada", "--json")
    assert (code, json.loads(said)["budgets"]) == (
        ExitCode.OK,
        [
            {
                "unit": "tokens",
                "total": {"allowed": 90, "reserved": 60, "spent": 0, "left": 30},
                "today": {"allowed": 80, "reserved": 60, "spent": 0, "left": 20},
                "per_run": 50,
                "lost": 0,
            }
        ],
    )
    # The run has more behind it than it may have now: it has nothing left.
    assert funded.rows("SELECT allowed FROM judge_limits ORDER BY subject DESC") == [
        {"allowed": 80},
        {"allowed": 60},
    ]
    code, _, why = typed(*wish, "59")
    assert (code, "at least what is spent and reserved in tokens, got 59" in why) == (
        ExitCode.INVALID,
        True,
    )
    assert "unit" in typed("show", "ada")[1]
