"""`echelon admin fsck` over a store with two theatres: each kind of damage is found and named."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backend.database.embedded.cluster import SUPERUSER
from backend.evidence_store import EvidenceStore
from backend.main import create_app
from backend.services.sealed_bundles import pack_bundle
from tests.backend.databases import A_TEMPLATE, A_USER, Database
from tests.backend.serving import served, settings_for
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.echelon_process import until
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded
from theatre.files.published_bundle import unpack_bundle
from theatre.files.trust_home import TrustHome
from theatre.transparency.notes import Checkpoint, Note, sign_text

UPLOAD = b'{"episode_id":"one"}\n'


@dataclass(frozen=True, slots=True)
class Kept:
    """A home and a database with one certified theatre, one commitment and one upload."""

    database: Database
    home: Path
    certified: str
    fsck: Callable[[], tuple[ExitCode, Any]]

    @property
    def shelves(self) -> Path:
        return self.home / "evidence"

    def change(self, statement: str) -> None:
        """Change rows past every trigger, as only somebody who owns the server can."""
        with self.database.connected(SUPERUSER) as connection:
            connection.execute(b"SET session_replication_role = replica")
            connection.execute(statement.encode())

    def one(self, query: str) -> Any:  # noqa: ANN401 - a column
        (row,) = self.database.rows(query)
        (value,) = row.values()
        return value


@pytest.fixture(scope="module")
def module_home(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fsck")
    stage = sums_stage(folder / "stage", sums(3))
    with served(
        create_app(settings_for(module_database, folder / "home", **stage.settings))
    ) as client:
        ada = client.registered("ada")
        committed(ada, {**stage.template, "display_name": "Another one"})
        assert run(ada, committed(ada, stage.template)).document["outcome"] == "certified"
        jsonl = {"Content-Type": "application/x-ndjson"}
        assert ada.post("/api/v1/datasets", UPLOAD, headers=jsonl).status == 201
        # The log's writer is not waited for by a run that has ended.
        logged = "SELECT 1 FROM log_entries WHERE log_index = 1"
        until(lambda: module_database.rows(logged), "the end of the run in the log")
    return folder / "home"


@pytest.fixture
def kept(
    module_database: Database,
    module_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Kept:
    monkeypatch.setenv("ECHELON_HOME", str(module_home))
    monkeypatch.setenv("ECHELON_DATABASE_URL", module_database.application)

    def fsck() -> tuple[ExitCode, Any]:
        code = run_guarded(cli, ["admin", "fsck", "--json"])
        return code, json.loads(capsys.readouterr().out)

    certified = module_database.rows("SELECT theatre_id FROM theatre_certificates")
    return Kept(module_database, module_home, str(certified[0]["theatre_id"]), fsck)


def test_what_is_whole_is_said_to_be_whole(kept: Kept) -> None:
    # An archive that a crash left, say: no damage, but nobody needs it.
    stray = kept.shelves / "bundles" / ("ab" * 32)
    stray.write_bytes(b"left")
    assert kept.fsck() == (
        ExitCode.OK,
        {
            "verdict": "intact",
            "theatres": 2,
            "templates": 2,
            "uploads": 1,
            "entries": 2,
            "bundles": 1,
            "objects": 5,
            "findings": [],
            "unnamed": [f"bundles/{'ab' * 32}"],
        },
    )
    stray.unlink()


@contextmanager
def damaged_object(kept: Kept, shelf: str, *, name: str | None = None) -> Iterator[None]:
    """Change one bit of an object."""
    (path,) = (kept.shelves / shelf).glob(name or "*")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    yield
    path.write_bytes(content)


@contextmanager
def missing_object(kept: Kept, shelf: str, *, name: str | None = None) -> Iterator[None]:
    (path,) = (kept.shelves / shelf).glob(name or "*")
    content = path.read_bytes()
    path.unlink()
    yield
    path.write_bytes(content)


@pytest.mark.parametrize("shelf", ["bundles", "exports"])
@pytest.mark.parametrize(
    ("damage", "how"), [(damaged_object, "damaged"), (missing_object, "missing")]
)
def test_an_object_of_a_run_that_is_damaged_or_missing_is_named(
    kept: Kept, shelf: str, damage: Callable[..., Any], how: str
) -> None:
    with damage(kept, shelf):
        code, report = kept.fsck()
    assert code is ExitCode.CHECK_FAILED
    (finding,) = report["findings"]
    assert finding["code"] == f"{shelf.removesuffix('s')}-{how}"
    assert finding["subject"] == f"theatre {kept.certified}"
    assert finding["expected"].startswith(f"{shelf}/")


@pytest.mark.parametrize(
    ("damage", "how"), [(damaged_object, "damaged"), (missing_object, "missing")]
)
def test_ground_truth_is_named_for_everybody_who_rests_on_it(
    kept: Kept, damage: Callable[..., Any], how: str
) -> None:
    upload = kept.one("SELECT sha256 FROM datasets")
    theirs = next(
        path.name for path in (kept.shelves / "datasets").iterdir() if path.name != upload
    )
    for name, subjects in ((upload, 1), (theirs, 2)):
        with damage(kept, "datasets", name=name):
            _, report = kept.fsck()
        codes = [one["code"] for one in report["findings"]]
        assert codes == [f"dataset-{how}"] * subjects


ROWS = {
    "chain-broken": (
        "theatre_audit_events",
        "entry = replace(encode(entry, 'escape'), '\"episodes\":3', '\"episodes\":4')::bytea",
        "event_type = 'activated'",
    ),
    "chain-columns": ("theatre_audit_events", "detail_json = '{}'", "event_type = 'activated'"),
    "records-differ": (
        "theatre_episode_scores",
        "line = replace(encode(line, 'escape'), '\"sum\":2', '\"sum\":9')::bytea",
        "seq = 1",
    ),
    "cached-score": (
        "theatre_episode_scores",
        "line = replace(encode(line, 'escape'), ':1000000000', ':999999999')::bytea",
        "seq = 1",
    ),
    "result-columns": ("theatre_episode_scores", "scores_json = '{\"addition\": 0}'", "seq = 2"),
    "certificate-columns": ("theatre_certificates", "composite_score = 0.5", "true"),
    "result-unreadable": ("theatre_episode_scores", "line = 'x'", "seq = 3"),
    "commitment-broken": (
        "theatres",
        "receipt = replace(encode(receipt, 'escape'), 'RFC8785', 'RFC0000')::bytea",
        "outcome = 'certified'",
    ),
    "theatre-columns": ("theatres", "outcome_reason = 'because'", "outcome = 'certified'"),
    "commitment-columns": ("theatres", "version_pins = '{}'", "outcome = 'certified'"),
}


CODES = {"cached-score": "records-differ"}


@pytest.mark.parametrize("code", ROWS)
def test_a_row_that_its_bytes_do_not_bear_out_is_named(kept: Kept, code: str) -> None:
    table, change, which = ROWS[code]
    kept.change(f"CREATE TABLE before AS SELECT * FROM {table} WHERE {which}")  # noqa: S608
    column = change.partition(" ")[0]
    try:
        kept.change(f"UPDATE {table} SET {change} WHERE {which}")  # noqa: S608
        exit_code, report = kept.fsck()
    finally:
        key = {"theatres": "id", "theatre_certificates": "id"}.get(table, "theatre_id, seq")
        kept.change(
            f"UPDATE {table} SET {column} = before.{column} FROM before"  # noqa: S608
            f" WHERE ROW({', '.join(f'{table}.{one}' for one in key.split(', '))})"
            f" = ROW({', '.join(f'before.{one}' for one in key.split(', '))})"
        )
        kept.change("DROP TABLE before")
    assert exit_code is ExitCode.CHECK_FAILED
    codes = {one["code"] for one in report["findings"]}
    assert CODES.get(code, code) in codes
    assert {one["subject"] for one in report["findings"]} == {f"theatre {kept.certified}"}


def test_a_bundle_that_was_packed_anew_with_another_answer_fails_its_check(
    kept: Kept, tmp_path: Path
) -> None:
    sha256 = kept.one("SELECT sha256 FROM sealed_bundles")
    size = kept.one("SELECT size_bytes FROM sealed_bundles")
    bundle = tmp_path / "bundle"
    unpack_bundle(kept.shelves / "bundles" / sha256, bundle)
    answer = bundle / "invocations" / "episode_000002.json"
    answer.write_bytes(answer.read_bytes().replace(b'"sum":3', b'"sum":4'))
    archive = pack_bundle(EvidenceStore(None, kept.shelves), bundle)
    # The forger also knows the size, which compression makes another one or not.
    rewrite = "UPDATE sealed_bundles SET sha256 = '{}', size_bytes = {}"
    kept.change(rewrite.format(archive.sha256, archive.size_bytes))
    code, report = kept.fsck()
    kept.change(rewrite.format(sha256, size))
    (kept.shelves / "bundles" / archive.sha256).unlink()
    assert code is ExitCode.CHECK_FAILED
    assert {one["code"] for one in report["findings"]} == {"bundle-invalid"}
    assert report["unnamed"] == [f"bundles/{sha256}"]


def test_a_certificate_without_a_bundle_is_named(kept: Kept) -> None:
    kept.change("CREATE TABLE before AS SELECT * FROM sealed_bundles")
    kept.change("DELETE FROM sealed_bundles")
    _, report = kept.fsck()
    kept.change("INSERT INTO sealed_bundles SELECT * FROM before")
    kept.change("DROP TABLE before")
    assert [one["code"] for one in report["findings"]] == ["bundle-unnamed"]


def test_a_certificate_that_is_not_the_sealed_one_is_named(kept: Kept) -> None:
    document = bytes(kept.one("SELECT document FROM theatre_certificates"))
    forged = document.replace(b'"issuer":"local"', b'"issuer":"other"')
    assert forged != document
    for content in (forged, document):
        kept.change(
            f"UPDATE theatre_certificates SET document = '\\x{content.hex()}',"  # noqa: S608
            f" document_sha256 = encode(sha256('\\x{content.hex()}'), 'hex')"
        )
        code, report = kept.fsck()
        codes = {one["code"] for one in report["findings"]}
        if content == forged:
            assert codes >= {"certificate-document", "certificate-columns", "bundle-invalid"}
        else:
            # The forged one is gone: all is as it was.
            assert (code, codes) == (ExitCode.OK, set())


def test_a_report_for_people_says_where_and_what(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    with missing_object(kept, "exports"):
        code = run_guarded(cli, ["admin", "fsck"])
    assert code is ExitCode.CHECK_FAILED
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"export-missing  theatre {kept.certified}"
    assert told[-1] == (
        "DAMAGED; 1 findings, 2 theatres, 2 templates, 1 uploads, 2 entries of the log, "
        "1 bundles, 3 objects, 0 of them named by nothing"
    )


def replaced(column: str, old: str, new: str) -> str:
    """Return SQL for bytes with a text in them replaced by another."""
    return f"{column} = decode(replace(encode({column}, 'escape'), '{old}', '{new}'), 'escape')"


LOG_DAMAGE: dict[str, tuple[str, str, list[str]]] = {
    "an entry is another": (
        "log_entries",
        f"UPDATE log_entries SET {replaced('entry', 'UNVERIFIED', 'PROVEN')}",  # noqa: S608
        ["log-root", "statement-differs"],
    ),
    "an entry is gone": (
        "log_entries",
        "DELETE FROM log_entries WHERE log_index = 1",
        ["log-entries-missing"],
    ),
    "an earlier checkpoint was changed": (
        "log_checkpoints",
        f"UPDATE log_checkpoints SET {replaced('checkpoint', 'echelon', 'others')} WHERE seq = 1",  # noqa: S608
        ["log-signature"],
    ),
    "a run's end was not queued": (
        "log_queue",
        "DELETE FROM log_queue WHERE type <> 'commitment/v1'",
        ["log-closing-differs", "log-closing-missing"],
    ),
    "nothing was queued": ("log_queue", "DELETE FROM log_queue", ["log-closing-differs"]),
    "the keys are gone": ("trust_documents", "DELETE FROM trust_documents", ["log-trust"]),
    "a certificate is not signed": (
        "theatre_certificates",
        "UPDATE theatre_certificates SET sigstore = '{}'",
        ["statement-invalid"],
    ),
    "a certificate is signed under another hash": (
        "theatre_certificates",
        "UPDATE theatre_certificates SET statement_sha256 = reverse(statement_sha256)",
        ["statement-columns"],
    ),
}


@pytest.mark.parametrize("case", LOG_DAMAGE)
def test_a_log_that_differs(kept: Kept, case: str) -> None:
    table, damage, codes = LOG_DAMAGE[case]
    # One column follows from another.
    columns = "log_index, queue_id, entry" if table == "log_entries" else "*"
    into = f"log_entries ({columns})" if table == "log_entries" else table
    kept.change(f"CREATE TABLE before AS SELECT {columns} FROM {table}")  # noqa: S608
    kept.change(damage)
    code, report = kept.fsck()
    kept.change(f"DELETE FROM {table}")  # noqa: S608
    kept.change(f"INSERT INTO {into} OVERRIDING SYSTEM VALUE SELECT * FROM before")  # noqa: S608
    kept.change("DROP TABLE before")
    assert (code, [one["code"] for one in report["findings"]]) == (ExitCode.CHECK_FAILED, codes)


def test_an_earlier_checkpoint_of_another_tree_is_named(kept: Kept) -> None:
    """Signed with the true key: the service showed two trees of one size."""
    home = TrustHome(kept.home / "trust")
    trust = home.read()
    assert trust is not None
    sign = home.log_signer(trust)
    text = str(Checkpoint(trust.log.name, 1, bytes(32)))
    forged = bytes(Note(text, (sign_text(text, trust.log, sign),))).hex()
    signed = kept.one("SELECT checkpoint FROM log_checkpoints WHERE seq = 1").hex()
    codes = []
    for content in (forged, signed):
        kept.change(f"UPDATE log_checkpoints SET checkpoint = '\\x{content}' WHERE seq = 1")  # noqa: S608
        codes.append([one["code"] for one in kept.fsck()[1]["findings"]])
    assert codes == [["log-root"], []]


def test_nothing_to_check_is_not_said_to_be_intact(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is left where a restore has failed: the objects, and a database without rows."""
    EvidenceStore(None, tmp_path / "home" / "evidence")
    stray = tmp_path / "home" / "evidence" / "bundles" / ("ab" * 32)
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ECHELON_DATABASE_URL", database.application)
    for there in (False, True):
        if there:
            stray.parent.mkdir(exist_ok=True)
            stray.write_bytes(b"left")
        assert run_guarded(cli, ["admin", "fsck", "--json"]) is ExitCode.NOT_FOUND
        report = json.loads(capsys.readouterr().out)
        assert (report["verdict"], report["findings"]) == ("empty", [])
        assert report["unnamed"] == [f"bundles/{stray.name}"] * there
    # A row that could be held against its document is something to check.
    database.add("users", A_USER)
    assert run_guarded(cli, ["admin", "fsck"]) is ExitCode.NOT_FOUND
    assert capsys.readouterr().out.splitlines()[-1].startswith("EMPTY: no row to check")
    database.add("theatre_templates", A_TEMPLATE)
    assert run_guarded(cli, ["admin", "fsck"]) is ExitCode.CHECK_FAILED
