"""Who can write the database alone, without the issuer's key, raises no tier anywhere.

Every route that answers a stranger or the owner is asked, the list of them taken from the
description of the interface and from the routers of pages: a new one is asked, too.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from fastapi.routing import APIRoute
from securesystemslib.signer import CryptoSigner, Signer
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.embedded.cluster import SUPERUSER
from backend.main import PAGES
from backend.repositories.stored_certificates import certificate_row
from backend.repositories.transparency_log import queue_entries
from backend.runtime import now
from tests.backend.log_rows import await_all_logged
from tests.backend.serving import Client
from tests.backend.sums_stage import sums
from tests.backend.test_certificates import NOBODYS, Scene, scene
from tests.backend.test_served_pages import BROWSER
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.conftest import CONSTRUCT_ID
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object, sha256_hex
from theatre.files.trust_home import TrustHome
from theatre.transparency.entries import EntryType
from theatre.transparency.statements import IssuerKey, certificate_statement, sign_statement
from theatre.transparency.trust import Trust, TrustedKey, key_entry

__all__ = ["scene"]
DESCRIPTION = Path(__file__).parents[2] / "docs" / "openapi.json"
FORGED = 0.98765
SAYS_WHY = re.compile(rb"not-signed|signature that counts|NOT SIGNED")
SAYS_NOTHING_OF_NOW = {
    "/certificates/{certificate_id}/document": "the stored bytes: a reader verifies the signature",
    "/certificates/{certificate_id}/sigstore": "the signature itself",
    "/theatres/{theatre_id}/evidence-bundle": "sealed files, verified by their reader",
    "/theatres/{theatre_id}/evidence-bundle/{path}": "sealed files",
    "/theatres/{theatre_id}/replay": "the run's export, sealed",
    "/theatres/{theatre_id}/audit-events": "what happened at the time",
    "/theatres/{theatre_id}/events": "a stream of how far a run is",
    "/theatres/{theatre_id}/live": "a stream of how far a run is",
    "/log": "entries as they were logged: a monitor verifies them",
    "/log/proof/{statement_sha256}": "a proof that its reader verifies",
    "/log/tile/{path}": "a tile that its reader verifies",
    "/verify_bundle.py": "a program",
    "/static/{name}": "style and scripts",
    "/metrics": "counts of requests and runs",
}
"""Routes that show what was issued or happened, and claim nothing of what it is worth."""
FILTERED = ("?tier=PROVEN", "?tier=BACKTESTED", "?status=current")
Where = tuple[str, str, str]
"""Path, query, and who asks."""


def routes() -> Iterator[str]:
    """Yield the path of each route that is asked with GET, without the prefix."""
    described = json.loads(DESCRIPTION.read_bytes())["paths"]
    yield from (
        path.removeprefix("/api/v1")
        for path, operations in described.items()
        if "get" in operations
    )
    for router in PAGES:
        declared = cast("list[APIRoute]", router.routes)
        yield from (route.path_format for route in declared if "GET" in (route.methods or ()))


@dataclass(frozen=True, slots=True)
class Intruder:
    """Someone with all rights to the database, and no key of the issuer."""

    scene: Scene
    owner: Client
    theatre: Mapping[str, Any]

    def read(self, among: Iterable[Where] | None = None) -> dict[Where, bytes]:
        """Return what routes answer the owner and a browser; all, or those of `among`."""
        # Past the second for which a page may be kept.
        self.scene.clock.ahead += timedelta(seconds=2)
        clients = {"program": (self.owner, "*/*"), "browser": (self.scene.client, BROWSER)}
        said = {}
        for where in self.everywhere() if among is None else among:
            path, query, name = where
            filled = re.sub(r"\{(\w+)[^}]*\}", lambda found: self.named[found[1]], path)
            client, accept = clients[name]
            reply = client.get(filled + query, Accept=accept)
            assert reply.status < 500, (where, reply)
            if reply.status == 200:
                said[where] = reply.body
        return said

    def everywhere(self) -> Iterator[Where]:
        """Yield each route that speaks of the present, with the queries that it is asked with."""
        queries = {
            "/certificates": ("", *FILTERED),
            "/compare": (f"?certificate={self.named['certificate_id']}",),
        }
        for path in sorted(set(routes()) - SAYS_NOTHING_OF_NOW.keys()):
            for query in queries.get(path, ("",)):
                yield path, query, "program"
                yield path, query, "browser"

    @property
    def named(self) -> dict[str, str]:
        """Return a value for each parameter of a path; a new one needs its own here."""
        return {
            "certificate_id": str(self.theatre["certificate_id"]),
            "theatre_id": str(self.theatre["id"]),
            "construct_id": CONSTRUCT_ID,
            "template_id": str(self.theatre["template_id"]),
            "episode_id": "1",
            "slug": "not-found",
            **dict.fromkeys(("sha256", "debate_run_id", "key_id", "job_id"), NOBODYS),
        }

    def _one(self, column: str) -> Any:  # noqa: ANN401 - a column
        query = f"SELECT {column} FROM theatre_certificates WHERE id = %s"  # noqa: S608 - ours
        return self.scene.database.rows(query, self.theatre["certificate_id"])[0][column]

    @property
    def document(self) -> JsonObject:
        return parse_object(bytes(self._one("document")))

    @contextmanager
    def written(self, write: Callable[[psycopg.Connection[Any]], None]) -> Iterator[None]:
        """Have something in the rows, past every trigger, and the row as it was afterwards."""
        with self.scene.database.connected(SUPERUSER) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute("CREATE TEMP TABLE kept AS SELECT * FROM theatre_certificates")
            write(connection)
            yield
            connection.execute("DELETE FROM theatre_certificates")
            connection.execute("INSERT INTO theatre_certificates SELECT * FROM kept")

    def change(self, connection: psycopg.Connection[Any], row: Mapping[str, object]) -> None:
        given = ", ".join(f'"{name}" = %s' for name in row)
        statement = f"UPDATE theatre_certificates SET {given} WHERE id = %s"  # noqa: S608 - ours
        values = [json.dumps(one) if isinstance(one, dict | list) else one for one in row.values()]
        connection.execute(statement.encode(), [*values, self.theatre["certificate_id"]])

    def forged(self, signer: Signer | None) -> dict[str, object]:
        """Return the row of a certificate that was never earned, signed or under the old one."""
        scores = dict.fromkeys(cast("dict[str, object]", self.document["scores"]), FORGED)
        forged = {
            **self.document,
            "verification_tier": "PROVEN",
            "composite_score": FORGED,
            "scores": scores,
        }
        row: dict[str, object] = certificate_row(cast("JsonObject", forged))
        if signer is not None:
            statement = certificate_statement(cast("JsonObject", forged), None)
            row |= {
                "sigstore": sign_statement(statement, signer),
                "statement_sha256": sha256_hex(statement),
            }
        return row


@pytest.fixture
def intruder(scene: Scene) -> Intruder:
    owner = scene.owner("ada")
    theatre = scene.certified(owner)
    await_all_logged(scene.database)
    # As if a verification had come to it: so it stands in the list of those, too.
    with scene.database.connected(SUPERUSER) as connection:
        connection.execute(
            "INSERT INTO verifications (id, user_id, request, min_replays, phase, created_at,"
            " updated_at) SELECT id, user_id, '{}', 1, 'handed_over', now(), now() FROM theatres"
        )
    return Intruder(scene, owner, theatre)


def own_key() -> tuple[IssuerKey, Signer]:
    private = generate_private_key(SECP256R1())
    key = IssuerKey.of(private.public_key())
    return key, CryptoSigner(private, key.verifier)


def speaks(said: Mapping[Where, bytes]) -> list[Where]:
    """Return where a tier above UNVERIFIED was said of an honest certificate."""
    tier = re.compile(rb"BACKTESTED|backtested(?!</em>)|\bmid\b")
    return [where for where, body in said.items() if tier.search(body)]


@pytest.mark.parametrize("which", ["the worst", "many"])
def test_no_route_believes_a_row_that_is_not_signed(intruder: Intruder, which: str) -> None:
    honest = intruder.read()
    spoken = speaks(honest)
    assert {path for path, _, _ in spoken} == {
        "/",
        "/badge/{construct_id}.svg",
        "/c/{certificate_id}",
        "/c/{certificate_id}/file",
        "/certificates",
        "/certificates/{certificate_id}",
        "/certificates/{certificate_id}/badge.svg",
        "/constructs/{construct_id}",
        "/constructs/{construct_id}/routing",
        "/theatres/{theatre_id}",
        "/theatres/{theatre_id}/certificate",
        "/verification/certificates",
    }
    asked: list[Where] = [*spoken, ("/certificates", "?tier=PROVEN", "program")]
    key, signer = own_key()

    def trust_another(connection: psycopg.Connection[Any]) -> None:
        intruder.change(connection, intruder.forged(signer))
        query = "SELECT document FROM trust_documents ORDER BY seq DESC LIMIT 1"
        ((document,),) = (row.values() for row in connection.execute(query))
        trust = Trust.parse(bytes(document))
        own = TrustedKey.made(key, at=trust.keys[0].valid_from)
        trust = trust._replace(keys=(own, *trust.keys))
        connection.execute(
            "INSERT INTO trust_documents SELECT max(seq) + 1, %s, now() FROM trust_documents",
            [canonical_line(trust.as_document())],
        )

    changes: dict[str, Callable[[psycopg.Connection[Any]], None]] = {
        "the tier": lambda one: intruder.change(one, {"verification_tier": "PROVEN"}),
        "the score": lambda one: intruder.change(one, {"composite_score": FORGED}),
        "the document": lambda one: intruder.change(one, intruder.forged(None)),
        "another's signature": lambda one: intruder.change(one, intruder.forged(signer)),
        "no signature": lambda one: intruder.change(one, {"sigstore": b"{}"}),
        "a key of his own in trust.json": trust_another,
    }
    worst = "another's signature"
    for name, write in changes.items() if which == "many" else [(worst, changes[worst])]:
        with intruder.written(write):
            # Of the worst forgery every route is asked, of the others those that speak of a tier.
            read = intruder.read(None if name == worst else asked)
            for where, body in read.items():
                for word in (b"PROVEN", b"proven", b"premium"):
                    assert body.count(word) <= honest.get(where, b"").count(word), (name, where)
                if where[0] in {"/", "/certificates", "/verification/certificates"}:
                    assert str(FORGED).encode() not in body, (name, where)
            for where in asked:
                if "tier=" in where[1]:
                    assert b'"certificates":[]' in read[where], (name, where)
                else:
                    assert SAYS_WHY.search(read[where]), (name, where)
            routed = intruder.scene.client.get(f"/constructs/{CONSTRUCT_ID}/routing").document
            seen = (routed["effective_tier"], routed["routing_class"], routed["effective_review"])
            assert seen == ("UNVERIFIED", "baseline", "full"), name
            assert routed["reasons"] == ["not-signed"], name
    assert speaks(intruder.read(spoken)) == spoken


def test_a_thief_of_a_revoked_key_signs_in_vain(intruder: Intruder, tmp_path: Path) -> None:
    """The row's own entry stands in the log before the revocation; it is of another statement."""
    home = TrustHome(tmp_path / "home" / "trust")
    trust = cast("Trust", home.read())

    async def revoke(engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            entry = key_entry(trust.keys[-1], revoked_at=now())
            await queue_entries(connection, EntryType.KEY, [entry])

    intruder.scene.database.play(revoke)
    await_all_logged(intruder.scene.database)
    certificate = intruder.theatre["certificate_id"]
    # What it has signed before counts on.
    assert intruder.scene.worth(certificate)["effective_tier"] == "BACKTESTED"
    stolen = intruder.forged(home.signer(trust))
    with intruder.written(lambda one: intruder.change(one, stolen)):
        worth = intruder.scene.client.get(f"/certificates/{certificate}").document
        assert (worth["effective_tier"], worth["reasons"]) == ("UNVERIFIED", ["not-signed"])
        assert intruder.scene.routing()["reasons"] == ["not-signed"]


def test_what_was_signed_for_one_run_says_nothing_of_another(intruder: Intruder) -> None:
    """A run that earned nothing is given the certificate, and the evidence, of one that did."""
    scene, good = intruder.scene, intruder.theatre
    few = b"".join(map(canonical_line, sums(4)))
    (scene.stage.folder / "sums.jsonl").write_bytes(few)
    on_few = {**scene.stage.template, "dataset_hashes": {"sums": sha256_hex(few)}}
    weak = run(intruder.owner, committed(intruder.owner, on_few)).document
    assert scene.routing()["reasons"] == ["issued-unverified"]
    values = (good["certificate_id"], weak["id"])

    def give_the_run(connection: psycopg.Connection[Any]) -> None:
        connection.execute("UPDATE theatres SET certificate_id = %s WHERE id = %s", values)

    def give_the_row(connection: psycopg.Connection[Any]) -> None:
        connection.execute("DELETE FROM theatre_certificates WHERE theatre_id = %s", [weak["id"]])
        connection.execute(
            "UPDATE theatre_certificates SET theatre_id = %s WHERE id = %s", values[::-1]
        )

    with intruder.written(give_the_run):
        assert scene.routing()["reasons"] == ["not-signed"]
        with intruder.written(give_the_row):
            assert scene.routing()["reasons"] == ["not-signed"]
            shown = scene.client.get(f"/theatres/{weak['id']}/certificate").document
            assert (shown["effective_tier"], shown["reasons"]) == ("UNVERIFIED", ["not-signed"])
