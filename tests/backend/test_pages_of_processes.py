"""Page, badge and document of a certificate, from two processes of one service: right in both.

Each process keeps pages in its own memory, and no message goes between them. What is decided is
seen in the second after it, a lapse at its second: the first request that begins then is right.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from backend.database.embedded.cluster import SUPERUSER
from backend.repositories.stored_certificates import certificate_row
from backend.runtime import now
from tests.backend.databases import Database
from tests.backend.log_rows import await_all_logged
from tests.backend.operating import operate
from tests.backend.serving import Client
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_serve import serving
from tests.backend.test_served_pages import BROWSER
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.echelon_process import until
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.engine.clock import format_rfc3339
from theatre.engine.commitment import content_hash
from theatre.files.trust_home import TrustHome
from theatre.transparency.statements import certificate_statement, sign_statement
from theatre.transparency.trust import Trust

LIVES = timedelta(days=90)
"""How long a run bears a tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Two processes of a service, and the certificate that they show."""

    database: Database
    stage: SumsStage
    clients: list[Client]
    certificate: str
    trust: TrustHome

    def seen(self) -> list[tuple[str, str, str]]:
        """Return what each of them says now: on the page, on the badge, to a program."""
        return [self._seen_by(client) for client in self.clients]

    def _seen_by(self, client: Client) -> tuple[str, str, str]:
        page = client.get(f"/c/{self.certificate}", Accept=BROWSER).body.decode()
        badge = client.get(f"/certificates/{self.certificate}/badge.svg")
        assert int(badge.headers["cache-control"].rpartition("=")[2]) <= 30
        said = client.get(f"/certificates/{self.certificate}").document["effective_tier"]
        standing = page.partition('class="tier">')[2].partition("<")[0]
        return standing, "UNVERIFIED" if b"UNVERIFIED" in badge.body else "BACKTESTED", said

    @contextmanager
    def tampered(self, **columns: object) -> Iterator[None]:
        """Have other values in the certificate's row, as only one with all rights can."""
        names = ", ".join(columns)
        (was,) = self.database.rows(f"SELECT {names} FROM theatre_certificates")  # noqa: S608 - ours
        self._store(columns)
        yield
        self._store(dict(was))

    def lapsing(self, at: datetime) -> dict[str, object]:
        """Return the row of the same certificate, issued by this service to lapse at `at`."""
        (row,) = self.database.rows("SELECT document FROM theatre_certificates")
        dates = {
            "theatre_resolved_at": format_rfc3339(at - LIVES),
            "expires_at": format_rfc3339(at),
        }
        document: JsonObject = {**parse_object(row["document"]), **dates}
        trust = cast("Trust", self.trust.read())
        statement = certificate_statement(document, None)
        names = ("document", "document_sha256", "theatre_resolved_at", "expires_at")
        columns = certificate_row(document)
        return {
            **{name: columns[name] for name in names},
            "sigstore": sign_statement(statement, self.trust.signer(trust)),
            "statement_sha256": sha256_hex(statement),
        }

    def _store(self, columns: Mapping[str, object]) -> None:
        given = ", ".join(f"{name} = %s" for name in columns)
        with self.database.connected(SUPERUSER) as intruder:
            intruder.execute("SET session_replication_role = replica")
            intruder.execute(f"UPDATE theatre_certificates SET {given}", [*columns.values()])  # noqa: S608 - ours


@pytest.fixture
def processes(database: Database, tmp_path: Path) -> Iterator[Processes]:
    stage = sums_stage(tmp_path / "stage", sums(60))
    registry = stage.folder / "constructs.toml"
    accepted = f'\n[accepted_templates]\nsums = "{content_hash(stage.template)}"\n'
    registry.write_text(registry.read_text() + accepted)
    variables = {"ECHELON_DATABASE_URL": database.application, **stage.variables}
    with ExitStack() as services:
        # One after the other: the first makes the keys of both.
        clients = [
            services.enter_context(serving(tmp_path / "home", name, **variables)).client
            for name in ("first", "second")
        ]
        ada = Client(clients[0].port, database=database.application).registered("ada")
        assert ada.post("/constructs", {"construct_id": CONSTRUCT_ID}).status == 201
        operate(database, stage.folder, "confirm", CONSTRUCT_ID, user="ada")
        theatre = run(ada, committed(ada, stage.template)).document
        assert theatre["outcome"] == "certified", theatre
        await_all_logged(database)
        yield Processes(
            database=database,
            stage=stage,
            clients=clients,
            certificate=theatre["certificate_id"],
            trust=TrustHome(tmp_path / "home" / "trust"),
        )


def test_two_processes_are_right_in_the_second_of_whatever_changes(processes: Processes) -> None:
    good = [("BACKTESTED",) * 3] * 2
    assert processes.seen() == good
    with processes.tampered(sigstore=b"{}"):
        await_a_second()
        assert [one[:2] for one in processes.seen()] == [("NOT SIGNED", "UNVERIFIED")] * 2
    lapse, before = now() + timedelta(seconds=4), []
    with processes.tampered(**processes.lapsing(lapse)):
        await_a_second()
        while now() < lapse:
            seen = processes.seen()
            # What straddles the lapse may be either.
            before += seen if now() < lapse else []
        assert set(before) == set(good)
        assert processes.seen() == [("EXPIRED", "UNVERIFIED", "UNVERIFIED")] * 2
    await_a_second()
    assert processes.seen() == good
    operate(processes.database, processes.stage.folder, "release", CONSTRUCT_ID, user="ada")
    await_a_second()
    assert processes.seen() == [("UNVERIFIED",) * 3] * 2


def await_a_second() -> None:
    decided = now()
    until(lambda: now() >= decided + timedelta(seconds=1), "the second after", pause=0.1)
