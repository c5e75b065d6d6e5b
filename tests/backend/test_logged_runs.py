"""Runs of the service in its log: committed before the first call, closed once, proved to all."""

import io
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from backend.api.http.conditional import IMMUTABLE
from backend.cli.key_group import key
from backend.database.sessions import OWNER
from backend.errors import LogUnavailableError
from backend.main import create_app
from backend.repositories.transparency_log import WRITER_LOCK
from backend.runtime import now
from backend.services.runs import completion
from backend.services.transparency import closing
from backend.services.transparency.keys import IssuerKeys
from tests.backend.databases import Database
from tests.backend.log_rows import await_logged, log_commitment, log_void, record_of_rows
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_lost_workers import a_company
from tests.backend.test_theatre_bridge import committed, run
from tests.backend.test_uncalled import logged_in, swept
from tests.backend.theatre_templates import with_config
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.echelon_process import until
from theatre.api.bundle_proofs import Reader
from theatre.api.checks import check_folder
from theatre.engine.bundle_check.report import Verdict
from theatre.engine.canonical_json import JsonObject
from theatre.files.published_bundle import unpack_bundle
from theatre.files.trust_home import TrustHome
from theatre.transparency.bundle_proofs import (
    CERTIFICATE_PROOF,
    COMMITMENT_PROOF,
    STATEMENT,
    TRUST,
    run_nonce,
)
from theatre.transparency.entries import decode_entry
from theatre.transparency.notes import SignedCheckpoint
from theatre.transparency.proofs import LogProof
from theatre.transparency.record import LogRecord
from theatre.transparency.statements import SignedStatement
from theatre.transparency.tiles import edge_paths, read_tree
from theatre.transparency.trust import Trust


def has_come(ada: Client, path: str, episodes: int) -> bool:
    return bool(ada.get(path).document["progress"] == episodes)


def has_ended(ada: Client, path: str) -> bool:
    return ada.get(path).document["outcome"] is not None


class Stranger:
    """A stranger, who has the address of the service and nothing else."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def trust(self) -> Trust:
        return Trust.parse(self.client.get("/.well-known/echelon/trust.json").body)

    def entries(self) -> list[bytes]:
        """Read the log, and hold it to its signed root."""
        reply = self.client.get("/log/checkpoint")
        if reply.status == 404:
            # Before the writer has come to its first entry there is no checkpoint.
            return []
        data = reply.body
        signed = SignedCheckpoint.verify(data, [self.trust.log]).checkpoint
        files = {path: self.client.get(f"/log/{path}").body for path in edge_paths(signed.size)}
        tree = read_tree(signed.size, files)
        assert tree.root == signed.root
        return list(tree.entries)

    def record(self) -> LogRecord:
        record = LogRecord()
        for index, entry in enumerate(self.entries()):
            record.take(index, entry)
        assert record.faults == []
        return record

    def await_entries(self, count: int) -> list[tuple[str, JsonObject]]:
        until(lambda: len(self.entries()) >= count, f"{count} entries of the log", pause=0.05)
        return [(kind.value, members) for kind, members in map(decode_entry, self.entries())]

    def record_of(self, construct_id: str) -> Any:  # noqa: ANN401 - JSON
        return self.client.get(f"/constructs/{construct_id}/record").document


def downloaded(reader: Client, path: str, trust: Trust, folder: Path) -> Verdict:
    """Return what the bundle of a theatre is worth to a reader who trusts these keys."""
    data = reader.get(f"{path}/evidence-bundle").body
    bundle = folder / "bundle"
    unpack_bundle(io.BytesIO(data), bundle)
    return check_folder(bundle, reader=Reader(trust=trust, words="signed", log=None)).verdict


def assert_kept_while_true(client: Client, theatre: JsonObject, statement: str) -> None:
    """What is served of a log with two entries says how long it may be kept; nothing else is."""
    caching = {
        "/.well-known/echelon/trust.json": "public, max-age=30",
        "/log/checkpoint": "public, max-age=1",
        "/log/tile/0/000.p/2": IMMUTABLE,
        "/log/tile/entries/000.p/1": IMMUTABLE,
        f"/log/proof/{statement}": "public, max-age=30",
        f"/certificates/{theatre['certificate_id']}/sigstore": IMMUTABLE,
        f"/theatres/{theatre['id']}/evidence-bundle": "public, max-age=30",
    }
    for path, wanted in caching.items():
        for prefix in ("", "/api/v1"):
            answer = client.get(f"{prefix}{path}")
            assert (answer.status, answer.headers["cache-control"]) == (200, wanted), path
            again = client.get(f"{prefix}{path}", **{"If-None-Match": answer.headers["etag"]})
            assert (again.status, again.headers["cache-control"]) == (304, wanted)
    for path in (
        "/log/tile/0/000",
        "/log/tile/0/000.p/3",
        "/log/tile/0/0",
        "/log/tile/0/000.p/002",
        "/log/tile/0/x000/000.p/1",
        f"/log/tile/0/{'x001/' * 4}000",
        f"/log/tile/entries/{'x001/' * 8}000",
        "/log/tile/entries/000.p/0",
        f"/log/proof/{'ab' * 32}",
        f"/certificates/{theatre['id']}/sigstore",
    ):
        assert client.get(path).slug == "not-found", path


def test_a_certificate_is_signed_and_both_its_entries_are_proved(
    client: Client, stage: SumsStage, database: Database, tmp_path: Path
) -> None:
    ada, reader = client.registered("ada"), Stranger(client)
    path = committed(ada, stage.template)
    assert reader.entries() == []
    theatre = run(ada, path).document
    certificate = client.get(f"/certificates/{theatre['certificate_id']}/document").document
    committed_entry, closed = reader.await_entries(2)
    assert committed_entry[0] == "commitment/v1"
    for name in ("theatre_id", "commitment_hash", "coin_sha256", "construct_id"):
        assert committed_entry[1][name] == certificate[name]
    signed = client.get(f"/certificates/{theatre['certificate_id']}/sigstore")
    statement = SignedStatement.verify(signed.body, reader.trust.issuer_keys())
    assert closed == (
        "certificate/v1",
        {
            "theatre_id": theatre["id"],
            "commitment_index": 0,
            "statement_sha256": statement.sha256,
            "tier": certificate["verification_tier"],
            "expires_at": certificate["expires_at"],
        },
    )
    archive = tmp_path / "bundle.tar.gz"
    archive.write_bytes(client.get(f"{path}/evidence-bundle").body)
    bundle = tmp_path / "downloaded"
    unpack_bundle(archive, bundle)
    proofs = {one.name: one.read_bytes() for one in (bundle / "proofs").iterdir()}
    assert proofs.keys() == {COMMITMENT_PROOF, CERTIFICATE_PROOF, STATEMENT, TRUST}
    trusted = Reader(trust=reader.trust, words="signed", log=None)
    report = check_folder(bundle, reader=trusted)
    assert (report.failed, report.verdict) == ((), Verdict.LOGGED)
    for name, data in proofs.items():
        assert client.get(f"{path}/evidence-bundle/proofs/{name}").body == data
    proof = client.get(f"/log/proof/{statement.sha256}").body
    assert (proof, LogProof.parse(proof).extra) == (proofs[CERTIFICATE_PROOF], signed.body)
    checkpoint = LogProof.parse(proofs[COMMITMENT_PROOF]).checkpoint
    (activated,) = database.rows(
        "SELECT detail_json FROM theatre_audit_events WHERE event_type = 'activated'"
    )
    assert activated["detail_json"]["run_nonce"] == run_nonce(checkpoint).hex()
    counts = {"commitments": 1, "certified": 1, "void": {}, "open": 0, "overdue": 0}
    record = reader.record_of(certificate["construct_id"])
    (version,) = record["versions"]
    assert {name: record[name] for name in counts} == counts
    assert version == {"construct_version": certificate["construct_version"], **counts}
    shown = client.get(f"{path}/certificate").document["run"]
    assert (shown["number"], shown["of"], shown["text"]) == (1, 1, "run 1 of 1")
    assert_kept_while_true(client, theatre, statement.sha256)
    stage.template["version_pins"]["constructs"][CONSTRUCT_ID] = "1" * 64
    log_commitment(database, committed(ada, stage.template))
    reader.await_entries(3)
    shown = client.get(f"{path}/certificate").document["run"]
    assert (shown["of"], shown["text"]) == (1, "run 1 of 1; 2 runs of 2 versions")
    assert str(reader.record().place(0, now=now())) == shown["text"]


def test_with_hashes_alone_the_log_tells_no_commitment_before_its_coin_is_out(
    database: Database, tmp_path: Path, stage: SumsStage
) -> None:
    template = with_config(stage.template, disclosure="hashes")
    with served(create_app(settings_for(database, tmp_path / "home", **stage.settings))) as client:
        ada, reader = client.registered("ada"), Stranger(client)
        path = committed(ada, template)
        assert run(ada, path).document["outcome"] == "certified"
        (_, logged), _ = reader.await_entries(2)
        certificate = client.get(f"{path}/certificate").document
        verdict = downloaded(ada, path, reader.trust, tmp_path / "downloaded")
    assert logged["salted"] is True
    assert logged["commitment_hash"] != certificate["commitment_hash"]
    assert verdict is Verdict.LOGGED


def test_every_end_closes_its_commitment_and_the_record_counts_as_the_log_does(
    database: Database, tmp_path: Path
) -> None:
    """A rehearsal leaves nothing in the log, nor does what was never begun."""
    stage = sums_stage(tmp_path / "stage", sums(3, gate_at=3))
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings)) as client:
        ada, reader = client.registered("ada"), Stranger(client)
        never_begun = committed(ada, stage.template)
        assert ada.post(f"{never_begun}/cancel", b"").status == 200
        ended = []
        for end in ("rehearse", "cancel", "certify"):
            path = committed(ada, stage.template)
            body = {"is_certificate_run": end != "rehearse"}
            assert ada.post(f"{path}/run", body).status == 202
            until(partial(has_come, ada, path, 2), "two episodes", pause=0.05)
            if end == "cancel":
                assert ada.post(f"{path}/cancel", b"").status == 202

            def is_over(path: str = path) -> bool:
                stage.let_through()
                return ada.get(path).document["outcome"] is not None

            until(is_over, "the end of the run", pause=0.05)
            ended.append(ada.get(path).document)
        entries = reader.await_entries(4)
        assert [(kind, members.get("reason")) for kind, members in entries] == [
            ("commitment/v1", None),
            ("void/v1", "cancelled"),
            ("commitment/v1", None),
            ("certificate/v1", None),
        ]
        record, construct_id = reader.record(), ended[0]["construct_id"]
        assert list(record.commitments) == [theatre["id"] for theatre in ended[1:]]
        counts = record.counts(construct_id, now=now()).as_document()
        assert counts == {
            "commitments": 2,
            "certified": 1,
            "void": {"cancelled": 1},
            "open": 0,
            "overdue": 0,
        }
        shown = reader.record_of(construct_id)
        assert {name: shown[name] for name in counts} == counts
        path = f"/certificates/{ended[2]['certificate_id']}"
        assert client.get(path).document["run"] == {
            "number": 2,
            "of": 2,
            "others": {**counts, "commitments": 1, "certified": 0},
            "text": "run 2 of 2, the other: 1 cancelled",
        }
        assert reader.record_of("another")["commitments"] == 0


def test_no_construct_is_called_while_no_writer_signs(
    database: Database, tmp_path: Path, stage: SumsStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run gives way to others, says what it waits for, and goes on from there."""
    monkeypatch.setattr(closing, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(completion, "RETRY_SECONDS", 0.1)
    # The queue looks for what was postponed in a quarter of a lease.
    settings = settings_for(database, tmp_path / "home", **stage.settings, lease_seconds=4)
    with (
        database.connected(OWNER) as connection,
        # A writer of another process, which hangs.
        connection.cursor() as hanging,
    ):
        hanging.execute(f"SELECT pg_advisory_lock({WRITER_LOCK})")
        with served(create_app(settings)) as client:
            ada, reader = client.registered("ada"), Stranger(client)
            path = committed(ada, stage.template)
            assert ada.post(f"{path}/run", b"").status == 202

            def waits() -> bool:
                return "log-unavailable" in str(ada.get(path).document["error"])

            until(waits, "what the run waits for", pause=0.05)
            assert ada.get(path).document["state"] == "COMMITTED"
            assert client.get("/log/checkpoint").slug == "not-found"
            assert stage.calls == []
            hanging.execute("SELECT pg_advisory_unlock_all()")
            until(partial(has_ended, ada, path), "the end of the run", pause=0.2)
            assert len(reader.record().commitments) == 1
            certified = ada.get(path).document["outcome"]
    assert certified == "certified"


def test_a_theatre_whose_commitment_is_logged_cannot_be_rehearsed_and_is_abandoned_by_its_day(
    database: Database, tmp_path: Path, stage: SumsStage
) -> None:
    """As after a worker that died before its first call, when no other one took its run up."""
    settings = settings_for(database, tmp_path / "home", **stage.settings, worker_in_api=False)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        theatre_id = path.rpartition("/")[2]
        log_commitment(database, path)
        rehearsal = ada.post(f"{path}/run", {"is_certificate_run": False})
        assert (rehearsal.status, rehearsal.slug) == (409, "invalid-transition")
        assert swept(database, settings, now() + timedelta(days=31)) == 1
    with served(create_app(settings.model_copy(update={"worker_in_api": True}))) as client:
        entries = Stranger(client).await_entries(2)
    # The void was queued before its commitment had a place.
    assert entries[1] == (
        "void/v1",
        {"theatre_id": theatre_id, "commitment_index": 0, "reason": "abandoned"},
    )


def test_what_the_log_has_closed_is_not_run_or_closed_again(
    database: Database, tmp_path: Path
) -> None:
    """As in a database that was restored from a backup, whose log caught up with what came after.

    A theatre that was waiting then and one that was run, and the sweep goes on to the next one.
    """
    stage = sums_stage(tmp_path / "stage", sums(3, gate_at=3))
    settings = settings_for(database, tmp_path / "home", **stage.settings, drain_seconds=0)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        running, waiting, late = (committed(ada, stage.template) for _ in range(3))
        assert ada.post(f"{running}/run", b"").status == 202
        until(partial(has_come, ada, running, 2), "two episodes", pause=0.05)
    for path in (running, waiting):
        log_void(database, path)
    called = len(stage.calls)
    with served(create_app(settings)) as client:
        ada = logged_in(client, "ada")

        def is_refused() -> bool:
            return "whose end is in the log already" in str(ada.get(running).document["error"])

        until(is_refused, "the refusal of the run", pause=0.05)
        assert ada.get(running).document["run"]["status"] == "failed"
        assert ada.post(f"{waiting}/cancel", b"").slug == "invalid-transition"
        assert swept(database, settings, now() + timedelta(days=31)) == 1
        assert has_ended(ada, late)
    assert len(stage.calls) == called


async def look_away(*_: object) -> None:
    return


def test_a_revoked_key_signs_no_more_and_what_the_log_had_before_stays_valid(
    database: Database, tmp_path: Path, stage: SumsStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "RETRY_SECONDS", 0.0)
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ECHELON_DATABASE_URL", database.application)
    folder = tmp_path / "home" / "trust"
    settings = settings_for(database, tmp_path / "home", **stage.settings)

    def revoke(kid: str) -> Trust:
        done = CliRunner().invoke(key, ["trust", str(folder), "--issuer", "?", "--revoke", kid])
        assert done.exit_code == 0, done.output
        return Trust.parse((folder / "trust.json").read_bytes())

    def verdict(path: str) -> Verdict:
        return downloaded(ada, path, reader.trust, tmp_path / path.rpartition("/")[2])

    with served(create_app(settings)) as client:
        ada, reader = client.registered("ada"), Stranger(client)
        before, kid = committed(ada, stage.template), reader.trust.keys[-1].key.kid
        assert run(ada, before).document["outcome"] == "certified"
        reader.await_entries(2)
        trust = revoke(kid)
        assert [one.revoked_index for one in trust.keys] == [2, None]
        assert revoke(kid) == trust == reader.trust
        assert [kind for kind, _ in reader.await_entries(5)[2:]] == ["key/v1"] * 3
        behind = committed(ada, stage.template)
        assert ada.post(f"{behind}/run", b"").status == 202

        def waits() -> bool:
            return f"got {kid}, which is revoked: start" in str(ada.get(behind).document["error"])

        until(waits, "what the run waits for", pause=0.05)
        with monkeypatch.context() as stolen:
            # As one who has the key and the database would go on.
            stolen.setattr(closing, "require_unrevoked", look_away)
            stolen.setattr(IssuerKeys, "signer_at", lambda keys, _: keys.signer)
            until(partial(has_ended, ada, behind), "the end of the run", pause=0.1)
            reader.await_entries(7)
        assert (verdict(before), verdict(behind)) == (Verdict.LOGGED, Verdict.NOT_VALID)
        shown = [ada.get(f"{one}/certificate", Accept="text/html").body for one in (before, behind)]
        assert [b"NOT SIGNED" in one for one in shown] == [False, True]
        ids = [ada.get(f"{one}/certificate").document["certificate_id"] for one in (before, behind)]
        badges = [ada.get(f"/certificates/{one}/badge.svg").body for one in ids]
        assert [b"no signature that counts" in one for one in badges] == [False, True]
    with served(create_app(settings)) as client:
        ada, reader = Client(client.port, ada.headers), Stranger(client)
        new = committed(ada, stage.template)
        assert run(ada, new).document["outcome"] == "certified"
        reader.await_entries(9)
        assert verdict(new) is Verdict.LOGGED


def test_a_certificate_is_signed_with_the_key_of_its_time_across_a_rotation(
    database: Database, tmp_path: Path, stage: SumsStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "RETRY_SECONDS", 0.0)
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    home = TrustHome(tmp_path / "home" / "trust")

    async def is_away(*_: object) -> None:
        raise LogUnavailableError("expected the issuer's key to sign, got none")

    with served(create_app(settings)) as client:
        ada, reader = client.registered("ada"), Stranger(client)

        def begin(why: str) -> str:
            path = committed(ada, stage.template)
            assert ada.post(f"{path}/run", b"").status == 202
            until(lambda: why in str(ada.get(path).document["error"]), "its wait", pause=0.05)
            return path

        with monkeypatch.context() as unsigned:
            unsigned.setattr(closing, "require_unrevoked", is_away)
            before = begin("expected the issuer's key to sign")
            rotated = home.rotate(reader.trust, at=now() + timedelta(seconds=1))
            until(lambda: now() >= rotated.keys[-1].valid_from, "the next key's time", pause=0.05)
        behind = begin("start the service again")
    with served(create_app(settings)) as client:
        ada, reader = Client(client.port, ada.headers), Stranger(client)
        for path, key in zip((before, behind), rotated.keys, strict=True):
            until(partial(has_ended, ada, path), "the end of the run", pause=0.1)
            found = ada.get(f"{path}/certificate").document
            certificate = ada.get(f"/certificates/{found['certificate_id']}/sigstore").body
            signed = SignedStatement.verify(certificate, rotated.issuer_keys())
            assert signed.kid == key.key.kid
            worth = downloaded(ada, path, reader.trust, tmp_path / path.rpartition("/")[2])
            assert worth in {Verdict.VALID, Verdict.LOGGED}


def test_a_writer_that_is_killed_signs_one_tree_and_loses_no_entry(
    database: Database, tmp_path: Path, stage: SumsStage
) -> None:
    """Every other point of a run is in `test_crash_points`."""
    with a_company(database, tmp_path, stage) as company:
        paths = company.ask_for_runs(2)
        for point in ("before:signed", "after:placed"):
            company.await_death_of(company.pool.fork(point))
            company.pool.miss()
        company.pool.start()
        company.await_ended(len(paths))
        await_logged(database, 2 * len(paths))
    record = record_of_rows(database)
    assert [one.tier is not None for one in record.commitments.values()] == [True, True]
