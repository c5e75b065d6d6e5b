"""Rehearsals, on other ground truth or with canned answers: they never certify anything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import errors

from backend.database.sessions import APPLICATION, OWNER
from backend.main import create_app
from backend.services.ground_truth import MAX_ANSWERS_BYTES
from tests.backend.databases import Database
from tests.backend.recorded_examples import LINES
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_lost_workers import Company, a_company
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.echelon_process import until
from theatre.engine.audit_chain import verify_chain
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object

TWO = b"".join(map(canonical_line, sums(2)))
REHEARSED = ("RESOLVED", "no_certificate", "rehearsal")
NO_EVIDENCE = ("sealed_bundles", "theatre_certificates", "human_scores")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> SumsStage:
    folder = tmp_path_factory.mktemp("rehearsals")
    stage = sums_stage(folder / "stage", sums(4))
    (stage.folder / "two.jsonl").write_bytes(TWO)
    (folder / "secret.jsonl").write_bytes(TWO)
    (stage.folder / "link.jsonl").symlink_to(folder / "secret.jsonl")
    (stage.folder / "none.jsonl").write_bytes(b"")
    return stage


@pytest.fixture(scope="module")
def client(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory, stage: SumsStage
) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("home")
    with served(create_app(settings_for(module_database, home, **stage.settings))) as client:
        yield client


@pytest.fixture(scope="module")
def ada(client: Client) -> Client:
    return client.registered("ada")


def uploaded(client: Client, body: bytes = TWO) -> str:
    return str(client.ask("POST", "/datasets", body=body, headers=LINES).document["name"])


def answers(*totals: int) -> bytes:
    """Right answers to the sums are 2, 3, 4…"""
    return b"".join(
        canonical_line({"episode_id": f"sum-{number}", "output_data": {"sum": total}})
        for number, total in enumerate(totals, 1)
    )


def ending(theatre: JsonObject) -> tuple[object, ...]:
    return theatre["state"], theatre["outcome"], theatre["outcome_reason"]


def assert_nothing_earned(client: Client, database: Database, path: str) -> None:
    """No bundle, no certificate, no training records; the trail says what answered, and why."""
    for table in NO_EVIDENCE:
        assert database.rows(f"SELECT * FROM {table}") == []  # noqa: S608 - a constant
    for part in ("certificate", "evidence-bundle", "replay"):
        assert client.get(f"{path}/{part}").status in {404, 409}, part
    theatre_id = path.rpartition("/")[2]
    rows = database.rows(
        "SELECT entry FROM theatre_audit_events WHERE theatre_id = %s ORDER BY seq", theatre_id
    )
    trail: list[Any] = [parse_object(row["entry"]) for row in rows]
    verify_chain(trail, theatre_id=theatre_id)
    details = {entry["event_type"]: entry["detail"] for entry in trail}
    assert set(details["activated"]["adapters"].values()) == {"mock@1"}
    assert details["resolved"]["outcome"] != "certified"


def test_a_rehearsal_runs_on_what_it_names_and_certifies_nothing(
    ada: Client, stage: SumsStage, module_database: Database
) -> None:
    for named in ("two.jsonl", uploaded(ada)):
        path = committed(ada, stage.template)
        theatre = run(ada, path, is_certificate_run=False, ground_truth_path=named).document
        assert ending(theatre) == REHEARSED
        assert (theatre["run"]["progress"], theatre["run"]["total"]) == (2, 2)
    assert module_database.rows("SELECT id FROM theatre_certificates") == []


@pytest.mark.parametrize("named", ["ground_truth_path", "answers_path"])
def test_a_run_that_may_certify_runs_on_what_it_committed(
    ada: Client, stage: SumsStage, named: str
) -> None:
    path = committed(ada, stage.template)
    value = "two.jsonl" if named == "ground_truth_path" else uploaded(ada, answers(2))
    for body in ({"is_certificate_run": True}, {}, {"is_certificate_run": None}):
        refused = ada.post(f"{path}/run", {**body, named: value})
        assert (refused.status, refused.slug) == (422, "validation-error")
        pointers = {one["pointer"] for one in refused.document["errors"]}
        assert f"/{named}" in pointers
    assert ada.get(path).document["run"] is None


def test_canned_answers_stand_in_for_the_construct_and_certify_nothing(
    ada: Client, stage: SumsStage, module_database: Database
) -> None:
    path = committed(ada, stage.template)
    called = len(stage.calls)
    named = uploaded(ada, answers(2, 3, 5))
    asked = {"is_certificate_run": False, "answers_path": named}
    accepted = ada.post(f"{path}/run", asked)
    # From its first row on.
    assert (accepted.status, accepted.document["is_certificate_run"]) == (202, False)
    (row,) = module_database.rows(
        "SELECT is_certificate_run, answers_sha256 FROM theatres WHERE id = %s",
        path.rpartition("/")[2],
    )
    assert row == {"is_certificate_run": False, "answers_sha256": named.removeprefix("dataset:")}
    until(
        lambda: ada.get(path).document["run"]["status"] not in {"queued", "running"},
        "the rehearsal's end",
    )
    assert ending(ada.get(path).document) == REHEARSED
    episodes = ada.get(f"{path}/episodes").document["episodes"]
    assert [one["scores"] for one in episodes[:3]] == [
        {"addition": 1},
        {"addition": 1},
        {"addition": 0},
    ]
    assert episodes[3]["invocation_status"] == "error"
    assert len(stage.calls) == called
    assert_nothing_earned(ada, module_database, path)
    again = run(ada, path, is_certificate_run=True)
    assert (again.status, again.slug) == (409, "invalid-transition")


@pytest.mark.parametrize(
    "body",
    [
        canonical_line({"output_data": {}}),
        canonical_line({"episode_id": "sum-1", "score": "s3cret"}),
        canonical_line({"episode_id": "sum-1", "construct_id": 3}),
        answers(2) * 2,
        b"".join(
            canonical_line({"episode_id": str(number) * 1_000_000})
            for number in range(1, MAX_ANSWERS_BYTES // 1_000_000 + 2)
        ),
    ],
    ids=["no episode", "more members", "no construct", "twice", "too much"],
)
def test_what_are_no_canned_answers_begins_nothing(
    ada: Client, stage: SumsStage, body: bytes
) -> None:
    path = committed(ada, stage.template)
    asked = {"is_certificate_run": False, "answers_path": uploaded(ada, body)}
    refused = ada.post(f"{path}/run", asked)
    assert (refused.status, refused.slug) == (422, "dataset-unavailable")
    assert len(refused.body) < 1000
    assert ada.get(path).document["run"] is None


def test_canned_answers_are_an_upload_of_ones_own(
    client: Client, ada: Client, stage: SumsStage
) -> None:
    """What answers is shown as an answer: no file of the operator, and none of another user."""
    path = committed(ada, stage.template)
    others = uploaded(client.registered("carl"), answers(9))
    for named, slug in (
        ("two.jsonl", "validation-error"),
        ("dataset:two.jsonl", "validation-error"),
        (f"{others}\n", "validation-error"),
        (others, "dataset-unavailable"),
        ("dataset:" + "ab" * 32, "dataset-unavailable"),
    ):
        refused = ada.post(f"{path}/run", {"is_certificate_run": False, "answers_path": named})
        assert (refused.status, refused.slug) == (422, slug), named
    assert ada.get(path).document["run"] is None


# A liar kills his rehearsal and has what it left run to a certificate.


@pytest.fixture
def company(database: Database, tmp_path: Path) -> Iterator[Company]:
    stage = sums_stage(tmp_path / "stage", sums(4))
    with a_company(database, tmp_path, stage) as company:
        yield company


def killed(company: Company, point: str) -> str:
    """Return the path of a rehearsal with right answers whose worker was killed at a point."""
    path = committed(company.ada, company.stage.template)
    named = uploaded(company.ada, answers(2, 3, 4, 5))
    asked = {"is_certificate_run": False, "answers_path": named}
    assert company.ada.post(f"{path}/run", asked).status == 202
    company.await_death_of(company.pool.fork(point))
    return path


@pytest.mark.parametrize(
    "point", ["after:claim", "after:activated", "before:batch", "after:batch", "before:resolved"]
)
def test_a_killed_rehearsal_goes_on_as_one(company: Company, point: str) -> None:
    path = killed(company, point)
    refused = company.ada.post(f"{path}/run", {"is_certificate_run": True})
    # The database may still be taking back what the worker had not committed, and hold the row.
    assert (refused.status, refused.slug in {"invalid-transition", "state-conflict"}) == (409, True)
    company.pool.miss()
    company.pool.start()
    until(lambda: company.ada.get(path).document["outcome"], "the rehearsal's end")
    theatre = company.ada.get(path).document
    assert (ending(theatre), theatre["is_certificate_run"]) == (REHEARSED, False)
    assert company.stage.calls == []
    assert_nothing_earned(company.ada, company.database, path)


def test_no_role_turns_what_has_begun_into_a_certificate_run(company: Company) -> None:
    path = killed(company, "after:activated")
    for role in (APPLICATION, OWNER):
        for changed in (
            "is_certificate_run = true, answers_sha256 = NULL",
            "answers_sha256 = NULL",
        ):
            with (
                pytest.raises(errors.IntegrityConstraintViolation, match="stay what it began as"),
                company.database.connected(role) as connection,
            ):
                connection.execute(f"UPDATE theatres SET {changed}".encode())  # noqa: S608
    assert company.ada.get(path).document["is_certificate_run"] is False


def test_canned_answers_in_the_records_refuse_the_certificate_whatever_the_row_says(
    company: Company,
) -> None:
    """With the trigger off: the engine goes by who answered."""
    path = killed(company, "after:batch")
    with company.database.connected(OWNER) as connection:
        for statement in (
            b"ALTER TABLE theatres DISABLE TRIGGER guard_theatre",
            b"UPDATE theatres SET is_certificate_run = true, answers_sha256 = NULL",
            b"ALTER TABLE theatres ENABLE TRIGGER guard_theatre",
        ):
            connection.execute(statement)
    company.pool.miss()
    company.pool.start()
    until(lambda: company.ada.get(path).document["outcome"], "the end")
    assert ending(company.ada.get(path).document) == ("RESOLVED", "failed", "certificate-refused")
    assert_nothing_earned(company.ada, company.database, path)


@pytest.mark.parametrize(
    "named",
    [
        "absent.jsonl",
        "../secret.jsonl",
        "link.jsonl",
        "none.jsonl",
        "/etc/passwd",
        "x" * 1000,
        "dataset:" + "ab" * 32,
        "dataset:../../secret.jsonl",
        "bob's",
    ],
)
def test_what_lies_outside_the_roots_or_is_anothers_is_not_rehearsed_on(
    client: Client, ada: Client, stage: SumsStage, named: str, tmp_path: Path
) -> None:
    if named == "bob's":
        named = uploaded(client.registered("bob"))
        ada = client.registered("eve")
    path = committed(ada, stage.template)
    body = {"is_certificate_run": False, "ground_truth_path": named}
    refused = ada.post(f"{path}/run", body)
    assert (refused.status, refused.slug) == (422, "dataset-unavailable")
    assert str(tmp_path.parent) not in refused.body.decode()
    assert ada.get(path).document["state"] == "COMMITTED"
