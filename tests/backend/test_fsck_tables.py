"""`echelon admin fsck` holds every table against the evidence that it copies, and names each break.

Several breaks are made at once, each of a kind of its own: what is found is exactly what was done.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from backend.database.embedded.cluster import SUPERUSER
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage
from tests.backend.test_ratings import answers, rated, score, waiting
from tests.backend.test_theatre_bridge import committed
from tests.theatre.echelon_process import until
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded

UPLOAD = b'{"episode_id":"one"}\n'
_FIRST = "(SELECT min(episode_seq) FROM human_scores WHERE theatre_id = :certified)"
TABLES = (
    *("theatres", "theatre_templates", "theatre_certificates", "theatre_coins"),
    *("theatre_episode_scores", "theatre_audit_events", "human_scores", "sealed_bundles"),
    "datasets",
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A rated theatre that is certified, one that is committed, and an upload; by id or hash."""

    database: Database
    home: Path
    certified: str
    idle: str
    template: str
    upload: str

    @contextmanager
    def broken(self, *statements: str) -> Iterator[None]:
        """Change rows past every trigger, as only somebody who owns the server can."""
        with self.database.connected(SUPERUSER) as connection:
            for table in TABLES:
                connection.execute(f"CREATE TABLE {table}_before AS TABLE {table}".encode())
            connection.execute(b"SET session_replication_role = replica")
            try:
                for statement in statements:
                    connection.execute(self._told(statement))
                yield
            finally:
                for table in TABLES:
                    connection.execute(f"DELETE FROM {table}".encode())  # noqa: S608 - listed above
                    connection.execute(
                        f"INSERT INTO {table} SELECT * FROM {table}_before".encode()  # noqa: S608
                    )
                    connection.execute(f"DROP TABLE {table}_before".encode())

    def _told(self, statement: str) -> bytes:
        """Put in what was stored: `:certified`, `:idle`, `:template`, and the first rated item."""
        for name in ("certified", "idle", "template"):
            statement = statement.replace(f":{name}", f"'{getattr(self, name)}'")
        return statement.replace(
            ":first", _FIRST.replace(":certified", f"'{self.certified}'")
        ).encode()


@pytest.fixture(scope="module")
def stored(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    folder = tmp_path_factory.mktemp("tables")
    stage = rated(folder / "stage")
    settings = settings_for(module_database, folder / "home", **stage.settings)
    with served(create_app(settings)) as client:
        certified, idle, upload = _filled(client, module_database, stage)
    (row,) = module_database.rows("SELECT template_sha256 FROM theatres WHERE id = %s", idle)
    template = str(row["template_sha256"])
    return Stored(module_database, folder / "home", certified, idle, template, upload)


def _filled(client: Client, database: Database, stage: SumsStage) -> tuple[str, str, str]:
    ada, bob, eve = map(client.registered, ("ada", "Bob", "eve"))
    path, cancelled = waiting(ada, stage), waiting(ada, stage)
    for one in (path, cancelled):
        asked = bob.get(f"{one}/hitl").document
        assert score(bob, one, answers(asked)).status == 200
    # As a crash between the entries and their copies would leave it: they are copied later.
    with database.connected(SUPERUSER) as connection:
        connection.execute(b"SET session_replication_role = replica")
        connection.execute(b"DELETE FROM human_scores")
    asked = eve.get(f"{path}/hitl").document
    assert score(eve, path, answers(asked, 5)).status == 200
    assert ada.ask("POST", f"{cancelled}/cancel", headers={"Prefer": "wait=60"}).status == 200
    assert len(database.rows("SELECT 1 FROM human_scores")) == 6
    until(lambda: ada.get(path).document["state"] == "ARCHIVED", "the end of the run")
    assert ada.get(path).document["outcome"] == "certified"
    idle = committed(ada, {**stage.template, "display_name": "Another one"})
    jsonl = {"Content-Type": "application/x-ndjson"}
    upload = ada.post("/api/v1/datasets", UPLOAD, headers=jsonl).document["sha256"]
    return path.rpartition("/")[2], idle.rpartition("/")[2], upload


def found(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[tuple[str, str]]:
    """Return code and subject of every finding, sorted."""
    monkeypatch.setenv("ECHELON_HOME", str(stored.home))
    monkeypatch.setenv("ECHELON_DATABASE_URL", stored.database.application)
    code = run_guarded(cli, ["admin", "fsck", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert (code is ExitCode.OK) == (report["findings"] == [])
    return sorted((one["code"], one["subject"]) for one in report["findings"])


def test_a_column_that_its_evidence_does_not_bear_out_is_named(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found(stored, monkeypatch, capsys) == []
    theatre, idle = f"theatre {stored.certified}", f"theatre {stored.idle}"
    breaks = {
        "UPDATE human_scores SET score = 1 WHERE theatre_id = :certified AND identity = 'bob'"
        " AND episode_seq = :first": ("human-score-columns", theatre),
        "UPDATE human_scores SET user_id = (SELECT id FROM users WHERE username = 'ada')"
        " WHERE identity = 'eve' AND theatre_id = :certified AND episode_seq = :first": (
            "human-score-columns",
            theatre,
        ),
        "DELETE FROM human_scores WHERE theatre_id = :certified AND identity = 'bob'"
        " AND episode_seq <> :first": ("human-score-missing", theatre),
        "INSERT INTO human_scores SELECT theatre_id, step_id, 'zed', episode_seq, user_id, score,"
        " comment, audit_seq, created_at FROM human_scores WHERE episode_seq = :first"
        " AND identity = 'eve'": ("human-score-unvouched", theatre),
        "INSERT INTO theatre_episode_scores SELECT theatre_id, 5, episode_id, invocation_status,"
        " outcome, latency_ms, scores_json, line, scored_at FROM theatre_episode_scores"
        " WHERE theatre_id = :certified AND seq = 4": ("result-unvouched", theatre),
        "UPDATE theatres SET failure_count = 2 WHERE id = :certified": ("theatre-counts", theatre),
        "UPDATE theatres SET usage_sums = '{}' WHERE id = :certified": ("theatre-counts", theatre),
        "UPDATE theatres SET started_at = now() WHERE id = :certified": (
            "theatre-columns",
            theatre,
        ),
        "UPDATE sealed_bundles SET size_bytes = 1 WHERE theatre_id = :certified": (
            "bundle-columns",
            theatre,
        ),
        "UPDATE theatre_coins SET coin = sha256('another') WHERE theatre_id = :certified": (
            "coin-lost",
            theatre,
        ),
        "DELETE FROM theatre_coins WHERE theatre_id = :idle": ("coin-lost", idle),
        "UPDATE theatres SET construct_id = 'other' WHERE id = :idle": ("commitment-columns", idle),
        "UPDATE theatre_templates SET display_name = 'x' WHERE sha256 = :template": (
            "template-columns",
            f"template {stored.template}",
        ),
        "UPDATE datasets SET lines_total = 2": ("upload-columns", f"upload {stored.upload}"),
    }
    # The row of episode 5 is a copy of that of episode 4: its number and the progress are wrong.
    follows = [("result-columns", theatre), ("theatre-counts", theatre)]
    with stored.broken(*breaks):
        seen = found(stored, monkeypatch, capsys)
    assert seen == sorted([*breaks.values(), *follows])


def test_rows_that_were_taken_away_or_put_there_are_named(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = stored.database.rows(
        "SELECT string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position) AS names"
        " FROM information_schema.columns WHERE table_name = 'theatre_certificates'"
        " AND column_name NOT IN ('id', 'theatre_id', 'statement_sha256')"
    )[0]["names"]
    theatre, idle = f"theatre {stored.certified}", f"theatre {stored.idle}"
    with stored.broken(
        # One who wants a certificate for another theatre moves the one that there is.
        f"INSERT INTO theatre_certificates (id, theatre_id, statement_sha256, {columns})"  # noqa: S608
        f" SELECT gen_random_uuid(), :idle, reverse(statement_sha256), {columns}"
        " FROM theatre_certificates",
        "DELETE FROM theatre_certificates WHERE theatre_id = :certified",
        "UPDATE datasets SET size_bytes = 1",
    ):
        seen = found(stored, monkeypatch, capsys)
    assert set(seen) == {
        ("certificate-missing", theatre),
        # The log has the statement that went with the row.
        ("statement-missing", theatre),
        ("certificate-unvouched", idle),
        ("certificate-columns", idle),
        ("bundle-unnamed", idle),
        ("upload-columns", f"upload {stored.upload}"),
    }
    # A theatre that is made to look like a draft is looked at all the same.
    with stored.broken(
        "DELETE FROM theatre_audit_events WHERE theatre_id = :certified AND seq >="
        " (SELECT min(seq) FROM theatre_audit_events"
        " WHERE theatre_id = :certified AND event_type = 'sealed')",
        "UPDATE theatres SET state = 'DRAFT', commitment_hash = NULL, committed_at = NULL,"
        " version_pins = NULL, dataset_hashes = NULL, receipt = NULL"
        " WHERE id = :idle",
    ):
        seen = found(stored, monkeypatch, capsys)
    assert set(seen) == {
        ("certificate-unvouched", theatre),
        ("chain-of-another-bundle", theatre),
        ("theatre-columns", theatre),
        ("commitment-broken", idle),
        ("theatre-columns", idle),
    }


def test_documents_that_are_none_are_named(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check = "ck_theatre_templates_sha256"
    with stored.broken(
        f"ALTER TABLE theatre_templates DROP CONSTRAINT {check}",
        "UPDATE theatre_templates SET document = 'x' WHERE sha256 = :template",
        "UPDATE theatre_certificates SET document = 'x',"
        " document_sha256 = encode(sha256('x'), 'hex')",
    ):
        seen = found(stored, monkeypatch, capsys)
    with stored.database.connected(SUPERUSER) as connection:
        connection.execute(
            f"ALTER TABLE theatre_templates ADD CONSTRAINT {check}"
            " CHECK (sha256 = encode(sha256(document), 'hex'))".encode()
        )
    theatre = f"theatre {stored.certified}"
    assert set(seen) == {
        ("template-unreadable", f"template {stored.template}"),
        ("certificate-unreadable", theatre),
        ("certificate-document", theatre),
        ("statement-certificate", theatre),
        ("bundle-invalid", theatre),
    }
    assert found(stored, monkeypatch, capsys) == []
