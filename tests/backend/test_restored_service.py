"""Two services that restore the same backup: the second one is found by their witness.

Both are real, with a database each; the witness is a real one, over HTTP on loopback.
"""

import asyncio
import base64
import contextlib
import json
import logging
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.embedded.programs import find_programs
from backend.errors import SettingsError
from backend.main import create_app
from backend.repositories.transparency_log import PostgresLog, find_revocation, queue_entries
from backend.runtime import now, open_runtime
from backend.services.integrity.backups import DUMP
from tests.backend.databases import Database
from tests.backend.serving import PASSWORD, Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_backups import administer
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.echelon_process import until
from tests.theatre.transparency.log_stage import signer
from tests.theatre.transparency.loopback_log import serving, witness_in
from theatre.cli.exits import ExitCode
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.coin import Coin
from theatre.files.log_folder import LogFolder
from theatre.files.trust_home import TrustHome
from theatre.transparency.audits import AuditRequest
from theatre.transparency.continuation import recover
from theatre.transparency.entries import EntryType
from theatre.transparency.errors import SigningKeyError
from theatre.transparency.notes import KeyKind
from theatre.transparency.policy import Policy
from theatre.transparency.trust import Trust, TrustedKey, key_entry
from theatre.transparency.witness import Witness

WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)


@contextlib.contextmanager
def witnessing(trust: Trust, folder: Path) -> Iterator[str]:
    """Serve a witness that follows a log, in a thread with a loop of its own."""
    followed = Witness(WITNESS.key, WITNESS.sign, {trust.log.name: [trust.log]})
    found: list[str] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def work() -> None:
        async with serving(witness_in(folder, followed)) as url:
            found.append(url)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(work(),))
    thread.start()
    try:
        ready.wait()
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def policed(home: TrustHome, url: str) -> None:
    """Name the witness in the policy of a service's own keys."""
    trust = home.open(issuer="local", at=now())
    text = f"log {trust.log}\nwitness w {WITNESS.key} {url}\nquorum none\n"
    home.write(trust._replace(policy=Policy.parse(text.encode()), policy_text=text))


@dataclass(frozen=True)
class Operator:
    """Who has two homes, a database for each, and a log of what the services say."""

    stage: SumsStage
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    caplog: pytest.LogCaptureFixture

    def administer(self, database: Database, home: str, *arguments: str) -> tuple[ExitCode, Any]:
        """Run `echelon admin`; return how it ended and what it printed."""
        self.capsys.readouterr()
        code = administer(self.monkeypatch, database, self.folder / home, *arguments)
        return code, self.capsys.readouterr()

    @contextlib.contextmanager
    def served(self, database: Database, home: str) -> Iterator[Client]:
        settings = settings_for(database, self.folder / home, **self.stage.settings)
        with self.caplog.at_level(logging.ERROR), served(create_app(settings)) as client:
            yield client

    def await_refusal(self, size: int) -> None:
        """Wait until the log's writer says that it does not sign."""

        def said() -> bool:
            fields = [str(getattr(record, "fields", "")) for record in self.caplog.records]
            return any("log-behind" in one and f"has seen {size}" in one for one in fields)

        until(said, "the refusal of the log's writer")
        self.caplog.clear()


def certify(user: Client, path: str) -> dict[str, Any]:
    """Run a theatre; return its certificate."""
    assert run(user, path).document["outcome"] == "certified"
    certificate: dict[str, Any] = user.get(f"{path}/certificate").document
    return certificate


def request_audit(user: Client, certificate: dict[str, Any]) -> None:
    """Have an audit of a certificate logged."""
    path = f"/certificates/{certificate['certificate_id']}"
    signed = user.get(f"{path}/sigstore").document
    asked = AuditRequest.of(
        user.get(f"{path}/document").document,
        statement_sha256=sha256_hex(base64.b64decode(signed["dsseEnvelope"]["payload"])),
        draw=1,
        coin=Coin(bytes(32)),
        open_by=now().replace(microsecond=0) + timedelta(days=30),
    )
    assert user.post(f"{path}/audits", json.loads(bytes(asked))).status == HTTPStatus.OK


def require_found(operator: Operator, database: Database, waiting: str) -> None:
    """Require that fsck names what ended after the backup, and what was committed after it."""
    _, said = operator.administer(database, "second", "fsck", "--json")
    found = [(one["code"], one["subject"]) for one in json.loads(said.out)["findings"]]
    assert found[0] == ("log-closing-differs", f"theatre {waiting.rpartition('/')[2]}")
    assert [one[0] for one in found[1:]] == ["log-theatre-missing"]


def audits_of(reader: Client, certificate: dict[str, Any]) -> object:
    """Return how many audits the record of a certificate's construct counts."""
    return reader.get(f"/constructs/{certificate['construct_id']}/record").document["audits"]


async def revoke(engine: AsyncEngine, key: TrustedKey) -> None:
    """Have the revocation of a key logged."""
    async with engine.begin() as connection:
        await queue_entries(connection, EntryType.KEY, [key_entry(key, revoked_at=now())])


async def is_revoked(engine: AsyncEngine, key: TrustedKey) -> bool:
    async with engine.connect() as connection:
        return await find_revocation(connection, key.key.kid) is not None


def await_size(database: Database, size: int) -> None:
    """Wait for the log's writer, whom no run that has ended waits for."""
    until(lambda: size_of(database) == size, f"{size} entries in the log")


def size_of(database: Database) -> int:
    (row,) = database.rows("SELECT max(size) AS size FROM log_checkpoints")
    return int(row["size"] or 0)


def test_the_second_of_two_services_that_restore_one_backup_is_found_by_its_witness(
    database: Database,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(3))
    operator = Operator(stage, tmp_path, monkeypatch, capsys, caplog)
    keys, restored = TrustHome(tmp_path / "first" / "trust"), empty_database
    stolen = TrustHome(tmp_path / "stolen").open(issuer="local", at=now()).keys[0]
    with witnessing(keys.open(issuer="local", at=now()), tmp_path / "w") as url:
        policed(keys, url)
        with operator.served(database, "first") as client:
            ada = client.registered("ada")
            first = certify(ada, committed(ada, stage.template))
            await_size(database, 2)
            waiting = committed(ada, stage.template)
            backup = str(tmp_path / "backup")
            assert operator.administer(database, "first", "backup", backup)[0] is ExitCode.OK
            certify(ada, waiting)
            certify(ada, committed(ada, stage.template))
            request_audit(ada, first)
            database.play(lambda engine: revoke(engine, stolen))
            await_size(database, 8)
            until(lambda: b"\n8\n" in seen_by(tmp_path / "w"), "the witness that has seen it")
            shown = "the witness on the checkpoint"
            until(lambda: b" witness.example " in client.get("/log/checkpoint").body, shown)

        shutil.copytree(keys.folder, tmp_path / "second" / "trust")
        # Who restores hears it at once; started all the same, the service signs nothing.
        code, said = operator.administer(restored, "second", "restore", backup)
        assert (code, "witness.example has seen 8" in said.err) == (ExitCode.WRONG_STATE, True)
        with operator.served(restored, "second"):
            operator.await_refusal(8)
        assert size_of(restored) == 2

        # With what a copy of the log has it goes on, and now the first one is behind.
        asyncio.run(copied(database, keys, tmp_path / "copy"))
        place = str(tmp_path / "copy")
        assert operator.administer(restored, "second", "recover", place)[0] is ExitCode.OK
        assert restored.play(lambda engine: is_revoked(engine, stolen))
        with operator.served(restored, "second") as client:
            assert audits_of(client, first) == {"requested": 1, "answered": 0, "overdue": 0}
            go_on(client, operator, waiting)
            await_size(restored, 10)
            until(lambda: b"\n10\n" in seen_by(tmp_path / "w"), "the witness that has seen it")
        with operator.served(database, "first"):
            operator.await_refusal(10)
    require_found(operator, restored, waiting)
    # No two trees were ever signed.
    assert not (tmp_path / "w" / "evidence").exists()


def test_a_service_without_the_keys_of_its_log_signs_as_no_one_else(
    database: Database, tmp_path: Path
) -> None:
    """A backup has no key: in a new home the service has others, and does not start with them."""
    with served(create_app(settings_for(database, tmp_path / "one"))):
        pass
    trusted = database.rows("SELECT document FROM trust_documents")

    async def started(home: Path) -> None:
        async with open_runtime(settings_for(database, home), works=True):
            pass

    with pytest.raises(SettingsError, match="expected the keys of the log"):
        asyncio.run(started(tmp_path / "two"))
    assert database.rows("SELECT document FROM trust_documents") == trusted
    asyncio.run(started(tmp_path / "one"))
    # A log key that is gone is not made anew next to the trust.json that names it.
    (tmp_path / "one" / "trust" / "log.pem").unlink()
    with pytest.raises(SigningKeyError, match=r"expected the private key log\.pem"):
        asyncio.run(started(tmp_path / "one"))


def test_a_backup_holds_no_private_key(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    with served(create_app(settings_for(database, home))):
        pass
    made = {path.name: path for path in home.rglob("*") if path.is_file()}
    assert {"issuer.pem", "log.pem"} <= made.keys()
    secrets = [base64_lines(made[name]) for name in ("issuer.pem", "log.pem")]
    backup = tmp_path / "backup"
    assert administer(monkeypatch, database, home, "backup", str(backup)) is ExitCode.OK
    dump = subprocess.run(
        [find_programs().bin / "pg_restore", "--file=-", backup / DUMP],
        check=True,
        capture_output=True,
    )
    files = [path.read_bytes() for path in backup.rglob("*") if path.is_file()]
    assert b"CREATE TABLE public.trust_documents" in dump.stdout
    assert not [1 for data in (dump.stdout, *files) for one in secrets if one in data]
    assert not [1 for data in (dump.stdout, *files) if b"PRIVATE KEY" in data]


def base64_lines(path: Path) -> bytes:
    """Return the first line of what a PEM file holds."""
    return path.read_bytes().splitlines()[1]


def go_on(client: Client, operator: Operator, waiting: str) -> None:
    """Run a new theatre; one that ended after the backup is not called a second time."""
    login = client.form("/api/v1/auth/token", username="ada", password=PASSWORD)
    ada = client.bearing(login.document["access_token"])
    certify(ada, committed(ada, operator.stage.template))
    calls = len(operator.stage.calls)
    refused = run(ada, waiting).document
    assert (refused["state"], len(operator.stage.calls)) == ("COMMITTED", calls)
    assert "whose end is in the log already" in refused["error"]


async def copied(database: Database, keys: TrustHome, folder: Path) -> None:
    """Copy the log of a service into a folder, as whoever reads it can."""
    engine = database.engine()
    trust = keys.read()
    assert trust is not None
    await recover(LogFolder(folder), PostgresLog(engine), trust.log)
    await engine.dispose()


def seen_by(folder: Path) -> bytes:
    """Return the checkpoint that a witness has kept."""
    return b"".join(path.read_bytes() for path in folder.glob("*.checkpoint"))
