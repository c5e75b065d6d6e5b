"""`echelon admin backup` and `restore` from one bucket into another, through real servers."""

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from backend.evidence_store.parts import PART_BYTES
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.object_stores import ObjectStore, free_port, moto, rclone
from tests.backend.serving import served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.echelon_process import until
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded

LINE = json.dumps({"episode_id": "one", "text": "x" * 1_000_000}).encode() + b"\n"
UPLOAD = LINE * (PART_BYTES // len(LINE) + 1)
"""Two parts of it."""
COUNTED = (
    "intact; 0 findings, 1 theatres, 1 templates, 1 uploads, 2 entries of the log, "
    "1 bundles, 4 objects, 0 of them named by nothing"
)


class Operator:
    """Whoever calls the commands, for one database and one bucket."""

    def __init__(
        self,
        database: Database,
        store: ObjectStore,
        home: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self._variables = {
            **store.variables,
            "ECHELON_HOME": str(home),
            "ECHELON_EVIDENCE_URL": store.url,
            "ECHELON_DATABASE_URL": database.application,
            "ECHELON_MIGRATION_URL": database.owner,
        }
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def does(self, *arguments: str) -> tuple[ExitCode, str]:
        for name, value in self._variables.items():
            self._monkeypatch.setenv(name, value)
        self._capsys.readouterr()
        code = run_guarded(cli, ["admin", *arguments])
        return code, self._capsys.readouterr().out


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
        one = Operator(database, store, tmp_path / "home", capsys, monkeypatch)
        code, told = one.does("backup", str(tmp_path / "backup"), "--json")
        assert code is ExitCode.OK
        taken = json.loads(told)
        assert (taken["objects"], taken["damaged"]) == (4, [])
        # Parts are a matter of the bucket: in a backup every object is one file under its hash.
        files = [path for path in (tmp_path / "backup" / "objects").rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) == taken["bytes"]
        assert len(UPLOAD) in {path.stat().st_size for path in files}
        empty = replace(store, prefix="elsewhere")
        assert empty.sizes() == {}
        other = Operator(empty_database, empty, tmp_path / "restored", capsys, monkeypatch)
        assert other.does("restore", str(tmp_path / "backup"))[0] is ExitCode.OK
        assert empty.sizes() == store.sizes()
        code, told = other.does("fsck")
        assert (code, told.splitlines()[-1]) == (ExitCode.OK, COUNTED)
        # And a part that goes missing is missed.
        lost = next(key for key in empty.sizes() if key.startswith("parts/"))
        empty.remove(lost)
        code, told = other.does("fsck", "--json")
        assert code is ExitCode.CHECK_FAILED
        assert [one["code"] for one in json.loads(told)["findings"]] == ["dataset-missing"]
        # What is there no more does not stop a backup; it is told.
        code, told = other.does("backup", str(tmp_path / "damaged"), "--json")
        assert code is ExitCode.CHECK_FAILED
        assert (len(json.loads(told)["damaged"]), json.loads(told)["objects"]) == (1, 3)
