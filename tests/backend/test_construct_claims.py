"""Claims of construct ids: they lapse, and only the operator's own login decides about them."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backend.database.sessions import APPLICATION, OWNER, operator_engine
from backend.main import create_app
from backend.runtime import now
from backend.services.constructs import decide_claim
from tests.backend.databases import Database
from tests.backend.operating import administered, decided, operate
from tests.backend.serving import PASSWORD, Client, at_once, served, settings_for
from tests.backend.test_certificates import MovingClock
from tests.theatre.echelon_process import until
from theatre.cli.exits import ExitCode

LIFETIME = timedelta(days=14)


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """Where ids are claimed, with a clock that is set, and decided about."""

    client: Client
    clock: MovingClock
    database: Database
    folder: Path

    def user(self, username: str) -> Client:
        """Return a client of a user who logs in now: tokens are for an hour."""
        name = {"username": username, "password": PASSWORD}
        token = self.client.form("/api/v1/auth/token", **name).document["access_token"]
        return self.client.bearing(token)

    def claim(self, username: str, construct_id: str = "mine") -> str:
        """Claim an id; return the problem, or nothing."""
        reply = self.user(username).post("/constructs", {"construct_id": construct_id})
        return "" if reply.status == 201 else reply.slug

    def listed(self, username: str) -> list[dict[str, Any]]:
        return list(self.user(username).get("/constructs").document["constructs"])

    def operate(self, decision: str, *construct_ids: str, user: str) -> None:
        operate(self.database, self.folder, decision, *construct_ids, user=user)

    def fails(self, decision: str, *construct_ids: str, user: str) -> ExitCode:
        code = decided(self.database, self.folder, decision, *construct_ids, user=user)
        assert code is not ExitCode.OK
        return code

    def decisions(self) -> list[tuple[str, str, str]]:
        """Return what was decided, in order: id, user, decision."""
        query = """
            SELECT construct_id, username, decision FROM construct_decisions
            JOIN users ON users.id = user_id ORDER BY seq
        """
        return [
            (row["construct_id"], row["username"], row["decision"])
            for row in self.database.rows(query)
        ]


@pytest.fixture
def office(database: Database, tmp_path: Path) -> Iterator[Office]:
    clock = MovingClock()
    settings = settings_for(database, tmp_path / "home", worker_in_api=False)
    with served(create_app(settings, clock=clock)) as client:
        for username in ("ada", "bob"):
            client.registered(username)
        yield Office(client=client, clock=clock, database=database, folder=tmp_path)


def test_a_claim_lapses_after_14_days_and_goes_to_who_claims_next(office: Office) -> None:
    assert office.claim("ada") == ""
    (own,) = office.listed("ada")
    moments = {name: datetime.fromisoformat(own[name]) for name in ("created_at", "lapses_at")}
    assert moments["lapses_at"] - moments["created_at"] == LIFETIME
    assert own["confirmed_at"] is None
    assert office.claim("ada") == office.claim("bob") == "already-registered"
    office.clock.ahead = LIFETIME - timedelta(minutes=10)
    assert office.claim("bob") == "already-registered"
    office.clock.ahead = LIFETIME
    bob = office.user("bob")
    replies = at_once(4, lambda: bob.post("/constructs", {"construct_id": "mine"}))
    assert sorted(one.status for one in replies) == [201, 409, 409, 409]
    assert office.listed("ada") == []
    assert [one["construct_id"] for one in office.listed("bob")] == ["mine"]
    assert office.claim("ada") == "already-registered"


def test_a_claim_waits_while_the_operator_decides_about_the_id(office: Office) -> None:
    assert office.claim("ada") == ""
    (ada,) = office.database.rows("SELECT id FROM users WHERE username = 'ada'")
    office.clock.ahead = LIFETIME
    waiting = """
        SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
        WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()
    """

    async def confirmed_before_bobs_claim() -> str:
        engine = operator_engine(office.database.owner)
        async with engine.begin() as connection:
            await decide_claim(connection, "mine", "confirmed", user_id=str(ada["id"]), at=now())
            bobs = asyncio.create_task(asyncio.to_thread(office.claim, "bob"))
            await asyncio.to_thread(
                until, lambda: bobs.done() or office.database.rows(waiting), "the claim to wait"
            )
        return await bobs

    assert asyncio.run(confirmed_before_bobs_claim()) == "already-registered"
    assert [one["construct_id"] for one in office.listed("ada")] == ["mine"]


def test_a_confirmed_id_stays_its_owners_until_it_is_released(office: Office) -> None:
    assert office.claim("ada") == ""
    for _ in range(2):
        office.operate("confirm", "mine", user="ada")
    (own,) = office.listed("ada")
    assert own["confirmed_at"] is not None
    assert own["lapses_at"] is None
    office.clock.ahead = 100 * LIFETIME
    assert office.claim("bob") == "already-registered"
    for decision, user in (("reject", "ada"), ("release", "bob"), ("confirm", "bob")):
        assert office.fails(decision, "mine", user=user) is ExitCode.INVALID
    office.operate("release", "mine", user="ada")
    assert office.listed("ada") == []
    assert office.claim("bob") == ""
    assert office.decisions() == [("mine", "ada", "confirmed"), ("mine", "ada", "released")]


def test_who_was_rejected_may_claim_again_in_14_days(office: Office) -> None:
    assert office.claim("ada") == ""
    office.operate("reject", "mine", user="ada")
    assert office.claim("ada") == "claim-rejected"
    assert office.claim("ada", "another") == ""
    office.clock.ahead = LIFETIME - timedelta(minutes=10)
    assert office.claim("ada") == "claim-rejected"
    office.clock.ahead = LIFETIME
    assert office.claim("ada") == ""
    assert office.claim("bob") == "already-registered"


def test_the_operator_decides_about_all_or_none_and_only_about_claims(office: Office) -> None:
    assert office.claim("ada") == ""
    assert office.fails("confirm", "mine", "unclaimed", user="ada") is ExitCode.INVALID
    assert office.fails("confirm", "mine", user="nobody") is ExitCode.USAGE
    assert office.fails("release", "mine", user="ada") is ExitCode.INVALID
    assert office.decisions() == []
    with office.database.connected(OWNER) as connection:
        connection.execute("UPDATE registered_constructs SET created_at = now() - interval '14 d'")
    for name in ("ada", "bob"):
        assert administered(office.database, office.folder, "user", "disable", name) is ExitCode.OK
    assert office.fails("confirm", "mine", user="ada") is ExitCode.INVALID
    office.operate("reject", "mine", user="ADA")
    assert office.decisions() == [("mine", "ada", "rejected")]


def test_a_claim_that_only_the_application_knows_takes_no_id_from_its_owner(office: Office) -> None:
    assert office.claim("ada") == ""
    office.operate("confirm", "mine", user="ada")
    office.client.registered("eve")
    (bob,) = office.database.rows("SELECT id FROM users WHERE username = 'bob'")
    bobs = "UPDATE registered_constructs SET user_id = %s"
    with office.database.connected(APPLICATION) as connection:
        connection.execute(bobs, [bob["id"]])
    assert [one["confirmed_at"] for one in office.listed("bob")] == [None]
    assert office.fails("confirm", "mine", user="bob") is ExitCode.INVALID
    with office.database.connected(APPLICATION) as connection:
        connection.execute("UPDATE registered_constructs SET created_at = '2020-01-01Z'")
    assert office.claim("eve") == "already-registered"
    office.operate("reject", "mine", user="bob")
    assert office.claim("eve") == "already-registered"
    office.operate("release", "mine", user="ada")
    assert office.claim("eve") == ""
