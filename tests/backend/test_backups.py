"""`echelon admin backup` and `restore`: another home serves the same certificates.

So does another database with another bucket, through real servers."""

import json
import shutil
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import errors

from backend.database.sessions import APPLICATION, OWNER
from backend.evidence_store.parts import PART_BYTES
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.object_stores import ObjectStore, free_port, moto, rclone
from tests.backend.serving import PASSWORD, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.echelon_process import until
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded


def administer(
    monkeypatch: pytest.MonkeyPatch, database: Database, home: Path, *arguments: str
) -> ExitCode:
    monkeypatch.setenv("ECHELON_HOME", str(home))
    monkeypatch.setenv("ECHELON_DATABASE_URL", database.application)
    monkeypatch.setenv("ECHELON_MIGRATION_URL", database.owner)
    return run_guarded(cli, ["admin", *arguments])


def test_a_backup_of_a_running_service_is_the_same_service_elsewhere(
    database: Database,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(3))
    backup = tmp_path / "backup"
    with served(create_app(settings_for(database, tmp_path / "home", **stage.settings))) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        assert run(ada, path).document["outcome"] == "certified"
        waiting = committed(ada, stage.template)
        assert (
            administer(monkeypatch, database, tmp_path / "home", "backup", str(backup), "--json")
            is ExitCode.OK
        )
        taken = json.loads(capsys.readouterr().out)
        assert (taken["objects"], taken["damaged"]) == (3, [])
        names = ("certificate", "evidence-bundle", "replay", "commitment", "audit-events")
        before = [client.get(f"{path}/{name}").body for name in names]
    home = tmp_path / "restored"
    # The keys are no part of a backup.
    shutil.copytree(tmp_path / "home" / "trust", home / "trust")
    assert administer(monkeypatch, empty_database, home, "restore", str(backup)) is ExitCode.OK
    assert administer(monkeypatch, empty_database, home, "fsck") is ExitCode.OK
    said = capsys.readouterr()
    assert "intact; 0 findings, 2 theatres, " in said.out
    # No one could have said that the log has gone on since.
    assert "warning: the log was compared with nothing" in said.err
    with served(create_app(settings_for(empty_database, home, **stage.settings))) as client:
        after = [client.get(f"{path}/{name}").body for name in names]
        # `as_of` is the time of the question.
        assert [document.partition(b'"as_of"')[0] for document in after] == [
            document.partition(b'"as_of"')[0] for document in before
        ]
        login = client.form("/api/v1/auth/token", username="ada", password=PASSWORD)
        ada = client.bearing(login.document["access_token"])
        assert run(ada, waiting).document["outcome"] == "certified"
        # What may not be changed may not be changed here either.
        for role, refusal in (
            (APPLICATION, errors.InsufficientPrivilege),
            (OWNER, errors.IntegrityConstraintViolation),
        ):
            with empty_database.connected(role) as connection, pytest.raises(refusal):
                connection.execute("DELETE FROM theatre_certificates")
    # A second time there is something to lose.
    assert administer(monkeypatch, empty_database, home, "restore", str(backup)) is ExitCode.INVALID
    assert "got one with tables" in capsys.readouterr().err
    assert administer(monkeypatch, database, home, "backup", str(backup)) is ExitCode.INVALID
    assert "expected an empty folder" in capsys.readouterr().err


def test_only_a_whole_backup_is_restored_and_a_damaged_store_is_told(
    database: Database,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup"
    shelf = home / "evidence" / "datasets"
    shelf.mkdir(parents=True)
    (shelf / ("ab" * 32)).write_bytes(b"other bytes")
    code = administer(monkeypatch, database, home, "backup", str(backup))
    assert code is ExitCode.CHECK_FAILED
    assert capsys.readouterr().out.startswith(
        f"damaged in the store, not in the backup  datasets/{'ab' * 32}\nbacked up: 0 objects"
    )
    dump = backup / "database.dump"
    for damage, refusal in (
        (lambda: dump.write_bytes(dump.read_bytes()[:-1]), "expected the dump "),
        (dump.unlink, "expected the dump "),
        ((backup / "backup.json").unlink, "expected a whole backup "),
    ):
        damage()
        again = administer(monkeypatch, empty_database, tmp_path / "new", "restore", str(backup))
        assert again is ExitCode.INVALID
        assert f"error (backup): {refusal}" in capsys.readouterr().err
    assert empty_database.rows("SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []


LINE = json.dumps({"episode_id": "one", "text": "x" * 1_000_000}).encode() + b"\n"
UPLOAD = LINE * (PART_BYTES // len(LINE) + 1)
"""Two parts of it."""
COUNTED = (
    "intact; 0 findings, 1 theatres, 1 templates, 1 uploads, 2 entries of the log, "
    "1 bundles, 4 objects, 0 of them named by nothing"
)


@pytest.fixture(params=["moto", "rclone"])
def serving(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractContextManager[ObjectStore]:
    port = free_port()
    return moto(port) if request.param == "moto" else rclone(port, tmp_path / "served")


def filled(database: Database, home: Path, stage: SumsStage, store: ObjectStore) -> None:
    """Certify a theatre, and upload what is sent in parts."""
    settings = settings_for(database, home, **stage.settings, evidence_url=store.url)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        assert run(ada, path).document["outcome"] == "certified"
        until(lambda: ada.get(path).document["state"] == "ARCHIVED", "the end of the run")
        jsonl = {"Content-Type": "application/x-ndjson"}
        assert ada.post("/api/v1/datasets", UPLOAD, headers=jsonl).status == 201


def test_a_backup_from_a_bucket_is_restored_into_another_database_and_bucket(
    serving: AbstractContextManager[ObjectStore],
    database: Database,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(2))
    with serving as store:
        for name, value in store.variables.items():
            monkeypatch.setenv(name, value)
        filled(database, tmp_path / "home", stage, store)

        def does(at: Database, bucket: ObjectStore, home: str, *words: str) -> tuple[ExitCode, str]:
            monkeypatch.setenv("ECHELON_EVIDENCE_URL", bucket.url)
            capsys.readouterr()
            code = administer(monkeypatch, at, tmp_path / home, *words)
            return code, capsys.readouterr().out

        here = (database, store, "home")
        code, said = does(*here, "backup", str(tmp_path / "backup"), "--json")
        assert code is ExitCode.OK
        taken = json.loads(said)
        assert (taken["objects"], taken["damaged"]) == (4, [])
        # Parts are a matter of the bucket: in a backup every object is one file under its hash.
        files = [path for path in (tmp_path / "backup" / "objects").rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) == taken["bytes"]
        assert len(UPLOAD) in {path.stat().st_size for path in files}
        empty = replace(store, prefix="elsewhere")
        assert empty.sizes() == {}
        there = (empty_database, empty, "restored")
        assert does(*there, "restore", str(tmp_path / "backup"))[0] is ExitCode.OK
        assert empty.sizes() == store.sizes()
        code, said = does(*there, "fsck")
        assert (code, said.splitlines()[-1]) == (ExitCode.OK, COUNTED)
        # And a part that goes missing is missed.
        lost = next(key for key in empty.sizes() if key.startswith("parts/"))
        empty.remove(lost)
        code, said = does(*there, "fsck", "--json")
        assert code is ExitCode.CHECK_FAILED
        assert [one["code"] for one in json.loads(said)["findings"]] == ["dataset-missing"]
        # What is there no more does not stop a backup; it is named.
        code, said = does(*there, "backup", str(tmp_path / "damaged"), "--json")
        assert code is ExitCode.CHECK_FAILED
        assert (len(json.loads(said)["damaged"]), json.loads(said)["objects"]) == (1, 3)
