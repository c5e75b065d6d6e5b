"""Rows of a run that somebody changed, and drafts that the own check refuses, over HTTP."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from backend.database.embedded.cluster import SUPERUSER
from tests.backend.databases import Database
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_lost_workers import Company, a_company
from tests.backend.worker_pool import is_dead
from tests.theatre.echelon_process import until
from tests.theatre.journal_edits import EDITS, batch_of
from tests.theatre.runs import checked
from theatre.engine.canonical_json import JsonObject, parse_object

EPISODES = 4
GATED = 4
CHANGED = 1
"""The index of the row that is changed, of the three that are recorded before the gate."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one theatre, changed past every trigger: as only the server's owner can."""

    database: Database
    theatre_id: str

    def edit(self, name: str) -> None:
        rows = self.database.rows(
            "SELECT seq, line FROM theatre_episode_scores WHERE theatre_id = %s ORDER BY seq",
            self.theatre_id,
        )
        edited = EDITS[name]([bytes(row["line"]) for row in rows], CHANGED)
        with self.database.connected(SUPERUSER) as connection:
            connection.execute(b"SET session_replication_role = replica")
            if len(edited) < len(rows):
                connection.execute(
                    "DELETE FROM theatre_episode_scores WHERE theatre_id = %s AND seq = %s",
                    [self.theatre_id, rows[CHANGED]["seq"]],
                )
                return
            for row, line in zip(rows, edited, strict=True):
                connection.execute(
                    "UPDATE theatre_episode_scores SET line = %s"
                    " WHERE theatre_id = %s AND seq = %s",
                    [line, self.theatre_id, row["seq"]],
                )

    def trail(self) -> list[JsonObject]:
        rows = self.database.rows(
            "SELECT entry FROM theatre_audit_events WHERE theatre_id = %s ORDER BY seq",
            self.theatre_id,
        )
        return [parse_object(row["entry"]) for row in rows]


@pytest.fixture
def company(database: Database, tmp_path: Path) -> Iterator[Company]:
    stage = sums_stage(tmp_path / "stage", sums(EPISODES, gate_at=GATED))
    with a_company(database, tmp_path, stage, ECHELON_RUNS_AT_A_TIME="16") as company:
        yield company


def id_of(path: str) -> str:
    return path.rpartition("/")[2]


def assert_refused(company: Company, path: str, edit: str) -> None:
    rows = Rows(company.database, id_of(path))
    theatre = company.ada.get(path).document
    assert (theatre["state"], theatre["outcome"], theatre["outcome_reason"]) == (
        *("RESOLVED", "failed", "journal-corrupt"),
    ), edit
    trail = rows.trail()
    assert trail[-1]["event_type"] == "resolved"
    told = str(cast("JsonObject", trail[-1]["detail"])["error_detail"])
    where = batch_of(trail, CHANGED + 1)
    assert told.startswith(f"expected {where} as it was recorded, got "), edit
    assert theatre["error"] == f"journal-corrupt: {told}"
    for name in ("evidence-bundle", "replay", "evidence-bundle/certificate.json"):
        assert company.ada.get(f"{path}/{name}").status == 404


def assert_nothing_is_certified(company: Company) -> None:
    assert company.database.rows("SELECT id FROM theatre_certificates") == []
    assert list((company.home / "evidence").rglob("certificate.json")) == []


def test_a_run_whose_rows_are_changed_is_never_certified(company: Company) -> None:
    company.pool.start()
    going_on = dict(zip(company.ask_for_runs(len(EDITS)), EDITS, strict=True))
    company.await_recorded(3 * len(EDITS))
    for path, edit in going_on.items():
        Rows(company.database, id_of(path)).edit(edit)

    def all_have_ended() -> bool:
        company.stage.let_through()
        return company.database.rows(
            "SELECT count(*) FROM theatres WHERE run_status = 'failed'"
        ) == [{"count": len(going_on)}]

    until(all_have_ended, "the end of all runs")
    for path, edit in going_on.items():
        assert_refused(company, path, edit)
    assert_nothing_is_certified(company)


def test_a_killed_run_whose_rows_are_changed_is_never_certified(company: Company) -> None:
    worker = company.pool.start()
    killed = dict(zip(company.ask_for_runs(len(EDITS)), EDITS, strict=True))
    company.await_recorded(3 * len(EDITS))
    company.pool.kill(worker)
    company.await_death_of(worker)
    calls = len(company.stage.calls)
    for path, edit in killed.items():
        Rows(company.database, id_of(path)).edit(edit)
    company.pool.miss()
    company.pool.start()
    company.await_ended(len(killed))
    for path, edit in killed.items():
        assert_refused(company, path, edit)
    # Refused before anybody was called again.
    assert len(company.stage.calls) == calls
    assert_nothing_is_certified(company)


def test_a_refused_draft_is_kept_for_the_operator_and_shown_to_nobody(company: Company) -> None:
    """The scorer is another one when the run settles; each process but the last one dies."""
    company.stage.let_through()
    (path,) = company.ask_for_runs(1)
    theatre_id = id_of(path)
    evidence = company.home / "evidence"
    refused = evidence / "drafts" / theatre_id

    for point, drafts in (
        ("other scorer before:settling", 0),
        ("before:self-check-failed", 1),
        ("after:self-check-failed", 1),
    ):
        dying = company.pool.fork(point)

        def has_died(pid: int = dying) -> bool:
            company.stage.let_through()
            return is_dead(pid)

        until(has_died, "the end of a worker")
        company.pool.miss()
        found = list(evidence.glob(f"theatres/{theatre_id}/.*.partial"))
        assert (len(found), refused.exists()) == (drafts, False), point
    company.pool.start()
    company.await_ended(1)

    theatre = company.ada.get(path).document
    assert (theatre["state"], theatre["outcome"], theatre["outcome_reason"]) == (
        *("RESOLVED", "failed", "self-check"),
    )
    assert theatre["certificate_id"] is None
    events = Rows(company.database, theatre_id).trail()
    assert [event["event_type"] for event in events[-3:]] == [
        *("step_completed", "self-check-failed", "resolved")
    ]
    report = checked(refused)
    assert events[-2]["detail"] == {"checks": [line.id for line in report.failed]}
    assert report.failed
    for name in ("evidence-bundle", "replay", "evidence-bundle/certificate.json"):
        assert company.ada.get(f"{path}/{name}").status == 404
    for table in ("theatre_certificates", "sealed_bundles"):
        assert company.database.rows(f"SELECT * FROM {table}") == []  # noqa: S608
    kept = [one.relative_to(evidence) for one in evidence.rglob("certificate.json")]
    assert kept == [Path("drafts", theatre_id, "certificate.json")]
