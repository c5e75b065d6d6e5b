"""A theatre can be ended from outside: cancelled before a call, or not closed in time."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar, cast

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.sessions import OWNER
from backend.main import create_app
from backend.repositories.run_journal import PostgresRunJournal
from backend.repositories.theatre_runs import claim_run
from backend.runtime import now
from backend.services import theatres
from backend.services.resources import TheatreResources
from backend.services.theatres import end_overdue
from backend.settings import Settings
from tests.backend.databases import Database
from tests.backend.log_rows import await_logged, record_of_rows
from tests.backend.serving import PASSWORD, Client, at_once, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import MARKETS, WAIT, bundle_of, committed, run
from tests.theatre.echelon_process import until
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import StateConflictError

T = TypeVar("T")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LAST_DAY, OVERDUE = NOW + timedelta(days=30), NOW + timedelta(days=30, seconds=1)
VOID = ("RESOLVED", "void")
STEPS = ["created", "committed", "activated", "settling", "resolved"]


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def settings(database: Database, tmp_path: Path, stage: SumsStage) -> Settings:
    return settings_for(database, tmp_path / "home", **stage.settings, worker_in_api=False)


def ending(client: Client, path: str) -> tuple[str, str, str]:
    theatre = client.get(path).document
    return theatre["state"], theatre["outcome"], theatre["outcome_reason"]


def logged_in(client: Client, name: str) -> Client:
    token = client.form("/auth/token", username=name, password=PASSWORD).document
    return client.bearing(token["access_token"])


def steps(database: Database) -> list[str]:
    rows = database.rows("SELECT event_type FROM theatre_audit_events ORDER BY theatre_id, seq")
    return [str(row["event_type"]) for row in rows]


def swept(database: Database, settings: Settings, at: datetime) -> int:
    resources = TheatreResources.of(settings, clock=lambda: at)
    return database.play(lambda engine: end_overdue(engine, resources, at=at))


def claimed(database: Database, path: str) -> str:
    """Take up the queued run of a theatre, as a worker does; return the theatre's id."""
    theatre_id = path.rpartition("/")[2]
    (row,) = database.rows("SELECT run_job_id FROM theatres")

    async def work(engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            stored = await claim_run(connection, theatre_id, job_id=row["run_job_id"], at=NOW)
            assert stored is not None

    database.play(work)
    return theatre_id


def activated(database: Database, theatre_id: str) -> None:
    """Begin a run as the worker does that claimed it first."""
    event = AuditEvent(
        event_type="activated",
        from_state="COMMITTED",
        to_state="ACTIVE",
        detail={"episodes": 4},
        at="2026-11-21T12:00:00.000000Z",
    )
    database.play(lambda engine: PostgresRunJournal(engine, theatre_id, epoch=1).note(event))


def test_what_was_committed_is_cancelled_at_once_and_without_a_call(
    settings: Settings, stage: SumsStage, database: Database
) -> None:
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        reply = ada.post(f"{path}/cancel", b"")
        whole = {**reply.document, "parameters": stage.template, "ending": None, "usage": None}
        assert (reply.status, whole) == (200, ada.get(path).document)
        assert ending(ada, path) == (*VOID, "cancelled")
        assert reply.document["run"]["status"] == "cancelled"
        assert steps(database) == STEPS
        for command in ("run", "cancel", "commit"):
            assert ada.post(f"{path}/{command}", b"").slug == "invalid-transition"
        public = client.get(f"{path}/audit-events").document["audit_events"]
        assert [one["event_type"] for one in public] == STEPS
    assert stage.calls == []
    assert database.rows("SELECT id FROM theatre_certificates") == []


def test_a_queued_run_that_is_cancelled_is_taken_up_by_no_worker(
    settings: Settings, stage: SumsStage, database: Database, tmp_path: Path
) -> None:
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        other = committed(ada, stage.template)
        for one in (path, other):
            assert ada.post(f"{one}/run", b"").document["run"]["status"] == "queued"
        assert ada.post(f"{path}/cancel", b"").status == 200
    working = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(working)) as client:
        again = Client(client.port, ada.headers)
        until(lambda: again.get(other).document["outcome"] == "certified", "the other run")
        assert ending(again, path) == (*VOID, "cancelled")
    assert {theatre for theatre, _, _ in stage.calls} == {other.rpartition("/")[2]}


def test_of_a_cancellation_and_a_worker_that_begins_the_first_wins(
    settings: Settings, stage: SumsStage, database: Database
) -> None:
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        theatre_id = claimed(database, path)
        assert ada.post(f"{path}/cancel", b"").status == 200
        with pytest.raises(StateConflictError, match="epoch 1, got epoch 2"):
            activated(database, theatre_id)
        assert ending(ada, path) == (*VOID, "cancelled")
        assert steps(database) == STEPS


async def die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_worker_that_begins_too_late_writes_nothing_behind_the_sweep(
    settings: Settings, stage: SumsStage, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    with served(create_app(settings, clock=clock)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        # Of a certificate run the log would have to have the commitment.
        assert ada.post(f"{path}/run", {"is_certificate_run": False}).status == 202
        theatre_id = claimed(database, path)
        activated(database, theatre_id)
        assert swept(database, settings, LAST_DAY) == 0
        with monkeypatch.context() as dying:
            # A sweep that dies between its steps has done nothing.
            dying.setattr(theatres, "change_run", die)
            with pytest.raises(KeyboardInterrupt):
                swept(database, settings, OVERDUE)
        assert ada.get(path).document["state"] == "ACTIVE"
        assert swept(database, settings, OVERDUE) == 1
        assert swept(database, settings, OVERDUE) == 0
        assert ending(ada, path) == (*VOID, "not-closed-in-time")
        with pytest.raises(StateConflictError, match="epoch 1, got epoch 2"):
            activated(database, theatre_id)
        assert steps(database) == STEPS


def test_a_run_that_goes_on_past_its_day_is_cancelled_and_void(
    database: Database, tmp_path: Path
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(3, gate_at=3))
    settings = settings_for(database, tmp_path / "home", **stage.settings, runs_at_a_time=1)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        until(lambda: ada.get(path).document["progress"] == 2, "two episodes")
        assert swept(database, settings, now() + timedelta(days=29)) == 0
        assert swept(database, settings, now() + timedelta(days=31)) == 1
        shown = ada.get(path).document
        assert (shown["outcome"], shown["outcome_reason"]) == ("void", "not-closed-in-time")
        assert (shown["run"]["status"], shown["ending"]["statuses"]["success"]) == ("cancelled", 2)
        await_logged(database, 2)
        # The worker is free again: the next run has its only place.
        again = committed(ada, stage.template)
        assert ada.post(f"{again}/run", b"").status == 202

        def is_over() -> bool:
            stage.let_through()
            return ada.get(again).document["outcome"] is not None

        until(is_over, "the next run", pause=0.05)
        await_logged(database, 4)
        assert ada.get(path).document["progress"] == 2
    first, second = record_of_rows(database).commitments.values()
    assert (first.void_reason, second.void_reason, second.is_open) == ("abandoned", None, False)
    assert [one["theatre_id"] for one in database.rows("SELECT * FROM theatre_certificates")] != []
    assert steps(database).count("resolved") == 2


def test_a_result_that_comes_past_its_day_is_void_before_any_sweep(
    database: Database, tmp_path: Path
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(1, gate_at=1))
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    clock = Clock()
    with served(create_app(settings, clock=clock)) as client:
        path = committed(ada := client.registered("ada"), stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        until(lambda: stage.calls, "the call")
        clock.now = OVERDUE
        stage.let_through()
        ada = logged_in(client, "ada")
        until(lambda: ada.get(path).document["outcome"] is not None, "the end")
        assert ending(ada, path) == (*VOID, "not-closed-in-time")
        await_logged(database, 2)
    (run_of,) = record_of_rows(database).commitments.values()
    assert run_of.void_reason == "abandoned"
    assert database.rows("SELECT id FROM theatre_certificates") == []


def test_twenty_runs_and_a_cancellation_at_once_have_one_end(
    database: Database, tmp_path: Path, stage: SumsStage
) -> None:
    with served(create_app(settings_for(database, tmp_path / "home", **stage.settings))) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        commands = itertools.chain(["run", "run", "cancel"], itertools.repeat("run"))
        replies = at_once(21, lambda: ada.post(f"{path}/{next(commands)}", b"", headers=WAIT))
        assert {reply.status for reply in replies} <= {200, 202, 409}
        until(lambda: ada.get(path).document["outcome"] is not None, "an end")
        theatre = ada.get(path).document
        calls = len(stage.calls)
    assert steps(database).count("resolved") == 1
    assert theatre["outcome"] in {"certified", "void"}
    assert calls == theatre["progress"]


def test_what_does_not_begin_in_time_is_refused_and_then_void(
    settings: Settings, stage: SumsStage, database: Database
) -> None:
    clock = Clock()
    with served(create_app(settings, clock=clock)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        queued = committed(ada, stage.template)
        of_a_market = committed(ada, json.loads(min(MARKETS.glob("*.json")).read_bytes()))
        assert ada.post(f"{queued}/run", b"").status == 202
        assert swept(database, settings, LAST_DAY) == 0
        clock.now = OVERDUE
        ada = logged_in(client, "ada")
        refused = run(ada, path)
        assert (refused.status, refused.slug) == (409, "invalid-transition")
        assert "begin by 2026-12-21T12:00:00Z" in refused.document["detail"]
        assert "Commit its template again" in refused.document["detail"]
        assert swept(database, settings, OVERDUE) == 2
        assert swept(database, settings, OVERDUE) == 0
        for one in (path, queued):
            assert ending(ada, one) == (*VOID, "not-closed-in-time")
        assert ada.get(of_a_market).document["state"] == "COMMITTED"
        assert ada.post(f"{of_a_market}/cancel", b"").document["outcome"] == "void"
    assert stage.calls == []


def test_a_template_says_itself_how_long_it_waits(
    settings: Settings, stage: SumsStage, database: Database
) -> None:
    policy = cast("JsonObject", stage.template.get("execution_policy", {}))
    changes = {"schema_version": "2.2.0", "execution_policy": policy | {"close_within_days": 2}}
    with served(create_app(settings, clock=Clock())) as client:
        ada = client.registered("ada")
        short, usual = committed(ada, stage.template | changes), committed(ada, stage.template)
        assert swept(database, settings, NOW + timedelta(days=2)) == 0
        assert swept(database, settings, NOW + timedelta(days=2, seconds=1)) == 1
        assert ending(ada, short) == (*VOID, "not-closed-in-time")
        assert ada.get(usual).document["state"] == "COMMITTED"


def test_the_service_looks_for_what_is_overdue_by_itself(
    settings: Settings, stage: SumsStage
) -> None:
    clock = Clock()
    with served(create_app(settings, clock=clock)) as client:
        path = committed(client.registered("ada"), stage.template)
    clock.now = OVERDUE
    working = settings.model_copy(update={"worker_in_api": True})
    with served(create_app(working, clock=clock)) as client:
        ada = logged_in(client, "ada")
        until(lambda: ada.get(path).document["outcome"] == "void", "the sweep")


DEAF = {"lease_seconds": 3600.0}
"""Without an announcement, a run looks for its cancellation four times in a lease."""


def test_a_cancellation_of_which_the_run_never_hears_leaves_no_certificate(
    database: Database, tmp_path: Path
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(3, gate_at=3))
    home = tmp_path / "home"
    with database.connected(OWNER) as connection:
        connection.execute("DROP TRIGGER announce_theatre ON theatres")
    settings = settings_for(database, home, **DEAF, **stage.settings)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        until(lambda: ada.get(path).document["progress"] == 2, "two episodes")
        assert ada.post(f"{path}/cancel", b"").status == 202

        def is_over() -> bool:
            # A call that has just come before the gate may have missed it.
            stage.let_through()
            return ada.get(path).document["outcome"] is not None

        until(is_over, "the end of the run")
        theatre = ada.get(path).document
    # The last episode was called and recorded: between it and the settlement came the refusal.
    assert (theatre["state"], theatre["outcome"], theatre["outcome_reason"]) == (
        "RESOLVED",
        "void",
        "cancelled",
    )
    assert theatre["progress"] == 3
    assert not bundle_of(home, path).exists()
    assert database.rows("SELECT id FROM theatre_certificates") == []
