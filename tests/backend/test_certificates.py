"""What a certificate is worth, to anybody who asks, and to whoever routes by it."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from backend.main import create_app
from backend.runtime import now
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_runs import committed, run
from tests.backend.theatre_templates import with_config
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.echelon_process import ECHELON, environment
from theatre.engine.canonical_json import canonical_line, sha256_hex
from theatre.engine.commitment import content_hash

NOBODYS = "018f0000-0000-7000-8000-00000000dead"


@dataclass(slots=True)
class MovingClock:
    ahead: timedelta = field(default=timedelta())

    def __call__(self) -> datetime:
        return now() + self.ahead


@dataclass(frozen=True, slots=True)
class Scene:
    """A service with an operator who accepts the stage's template."""

    client: Client
    stage: SumsStage
    clock: MovingClock
    database: Database

    def confirm(self, username: str) -> None:
        """Confirm the construct id as the operator does."""
        self.operate("confirm", username)

    def operate(self, decision: str, username: str) -> None:
        """Decide about the construct id as the operator does."""
        subprocess.run(
            [ECHELON, "admin", "construct", decision, CONSTRUCT_ID, "--user", username],
            env=environment(
                self.stage.folder / "home",
                more={
                    "ECHELON_DATABASE_URL": self.database.application,
                    "ECHELON_MIGRATION_URL": self.database.owner,
                },
            ),
            check=True,
            capture_output=True,
        )

    def certified(self, client: Client) -> dict[str, Any]:
        theatre = run(client, committed(client, self.stage.template)).document
        assert theatre["outcome"] == "certified", theatre
        return dict(theatre)

    def routing(self, query: str = "") -> dict[str, Any]:
        reply = self.client.get(f"/constructs/{CONSTRUCT_ID}/routing{query}")
        assert reply.status == 200
        document = dict(reply.document)
        for moment in ("as_of", "valid_until"):
            assert document.pop(moment).endswith("Z")
        return document


@pytest.fixture
def scene(database: Database, tmp_path: Path) -> Iterator[Scene]:
    stage = sums_stage(tmp_path / "stage", sums(60))
    registry = stage.folder / "constructs.toml"
    accepted = f'\n[accepted_templates]\nsums = "{content_hash(stage.template)}"\n'
    registry.write_text(registry.read_text() + accepted)
    clock = MovingClock()
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings, clock=clock)) as client:
        yield Scene(client, stage, clock, database)


def test_a_certificate_is_read_with_what_it_is_worth_now(scene: Scene) -> None:
    theatre = scene.certified(scene.client.registered("ada"))
    path = f"/certificates/{theatre['certificate_id']}"
    read = scene.client.get(path)
    assert read.headers["cache-control"] == "public, max-age=30"
    issued = scene.client.get(f"{path}/document")
    assert issued.headers["cache-control"] == "public, max-age=31536000, immutable"
    shown = dict(read.document)
    assert shown.pop("as_of").endswith("Z")
    assert shown == {
        **issued.document,
        "verification_tier": "BACKTESTED",
        "issued_verification_tier": "BACKTESTED",
        "status": "current",
        "reasons": [],
        "document_sha256": hashlib.sha256(issued.body.removesuffix(b"\n")).hexdigest(),
    }
    bundle = f"/theatres/{theatre['id']}/evidence-bundle"
    assert issued.body == scene.client.get(f"{bundle}/certificate.json").body
    assert issued.body == canonical_line(issued.document)
    digest = base64.b64encode(hashlib.sha256(issued.body).digest()).decode()
    assert issued.headers["repr-digest"] == f"sha-256=:{digest}:"
    assert issued.headers["etag"] == f'"{read.document["document_sha256"]}"'
    by_theatre = scene.client.get(f"/theatres/{theatre['id']}/certificate").document
    assert {**by_theatre, "as_of": None} == {**read.document, "as_of": None}
    scene.clock.ahead = timedelta(days=90)
    late = scene.client.get(path).document
    assert (late["verification_tier"], late["issued_verification_tier"], late["status"]) == (
        "UNVERIFIED",
        "BACKTESTED",
        "expired",
    )
    for address in (f"{path}/document", f"/api/v1{path}/document"):
        again = scene.client.get(address)
        assert (again.status, again.body) == (200, issued.body)
        assert {**again.headers, "date": ""} == {**issued.headers, "date": ""}
        assert scene.client.get(address, **{"If-None-Match": again.headers["etag"]}).status == 304
        assert scene.client.get(f"{address}?other=1").slug == "validation-error"
        assert scene.client.post(address, {}).slug == "method-not-allowed"


def test_certificates_are_listed_by_construct_and_by_what_they_are_worth(scene: Scene) -> None:
    ada = scene.client.registered("ada")
    ids = [scene.certified(ada)["certificate_id"] for _ in range(3)][::-1]
    listed = "/certificates?construct_id=sums"
    page = scene.client.get(f"{listed}&limit=2").document
    assert [one["certificate_id"] for one in page["certificates"]] == ids[:2]
    assert (page["total"], page["limit"], page["offset"]) == (3, 2, 0)
    rest = scene.client.get(f"{listed}&limit=2&cursor={page['next_cursor']}").document
    assert [one["certificate_id"] for one in rest["certificates"]] == ids[2:]
    counts = {
        query: scene.client.get(f"/certificates?{query}").document["total"]
        for query in (
            "tier=BACKTESTED",
            "tier=UNVERIFIED",
            "status=current",
            "status=expired",
            "status=revoked",
            "construct_id=nobody",
            "construct_version=other",
        )
    }
    assert list(counts.values()) == [3, 0, 3, 0, 0, 0, 0]
    scene.clock.ahead = timedelta(days=90)
    late = scene.client.get(f"{listed}&tier=UNVERIFIED&status=expired").document
    assert late["total"] == 3
    assert {one["verification_tier"] for one in late["certificates"]} == {"UNVERIFIED"}
    assert scene.client.get("/certificates?construct_id=%00").slug == "validation-error"


def test_what_is_not_there_is_not_found(scene: Scene) -> None:
    for path in ("/certificates/", "/theatres/"):
        for rest in ("", "/document", "/certificate"):
            assert scene.client.get(f"{path}{NOBODYS}{rest}").status in {404, 401}


def test_routing_trusts_the_confirmed_owner_of_a_construct_and_nobody_else(scene: Scene) -> None:
    unknown = {
        "construct_id": CONSTRUCT_ID,
        "construct_version": None,
        "effective_tier": "UNVERIFIED",
        "routing_class": "baseline",
        "declared_review": None,
        "effective_review": "full",
        "overridden": False,
        "reasons": ["construct-not-registered"],
        "certificate_id": None,
    }
    ada, mallory = scene.client.registered("ada"), scene.client.registered("mallory")
    scene.certified(mallory)
    assert scene.routing() == unknown
    claimed = ada.post("/constructs", {"construct_id": CONSTRUCT_ID})
    assert (claimed.status, claimed.document["confirmed_at"]) == (201, None)
    assert mallory.post("/constructs", {"construct_id": CONSTRUCT_ID}).status == 409
    assert scene.routing() == unknown
    scene.confirm("ada")
    assert scene.routing() == {**unknown, "reasons": ["no-run"]}
    easier = {**scene.stage.template, "display_name": "Sums, but easier"}
    assert run(ada, committed(ada, easier)).document["outcome"] == "certified"
    assert scene.routing() == {**unknown, "reasons": ["template-not-accepted"]}
    own = scene.certified(ada)
    pins = cast("Any", scene.stage.template["version_pins"])
    version = pins["constructs"][CONSTRUCT_ID]
    trusted = {
        **unknown,
        "construct_version": version,
        "effective_tier": "BACKTESTED",
        "routing_class": "mid",
        "reasons": [],
        "certificate_id": own["certificate_id"],
    }
    assert scene.routing() == trusted
    assert scene.routing("?declared_review=skip") == {
        **trusted,
        "declared_review": "skip",
        "effective_review": "skip",
    }
    scene.certified(mallory)
    assert scene.routing() == trusted
    other = scene.routing("?construct_version=other&declared_review=skip")
    assert (other["effective_tier"], other["effective_review"], other["overridden"]) == (
        "UNVERIFIED",
        "full",
        True,
    )
    scene.clock.ahead = timedelta(days=90)
    late = scene.routing("?declared_review=skip")
    assert (late["effective_tier"], late["reasons"]) == (
        "UNVERIFIED",
        ["run-older-than-90-days"],
    )


def test_the_newest_run_decides_not_the_best(scene: Scene) -> None:
    ada = scene.client.registered("ada")
    ada.post("/constructs", {"construct_id": CONSTRUCT_ID})
    scene.confirm("ada")
    scene.certified(ada)
    assert scene.routing()["effective_tier"] == "BACKTESTED"
    rehearsal = run(ada, committed(ada, scene.stage.template), is_certificate_run=False)
    assert rehearsal.document["outcome"] == "no_certificate"
    assert scene.routing()["effective_tier"] == "BACKTESTED"
    few = b"".join(map(canonical_line, sums(4)))
    (scene.stage.folder / "sums.jsonl").write_bytes(few)
    on_few = {**scene.stage.template, "dataset_hashes": {"sums": sha256_hex(few)}}
    assert run(ada, committed(ada, on_few)).document["outcome"] == "certified"
    worth = scene.routing()
    assert (worth["effective_tier"], worth["effective_review"], worth["reasons"]) == (
        "UNVERIFIED",
        "full",
        ["issued-unverified"],
    )


ECHO = """
import http.server, json, sys


class Echo(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        numbers = asked["input_data"]["numbers"]
        echoed = ("invocation_id", "construct_id", "construct_version")
        answer = {name: asked[name] for name in echoed}
        answer |= {"status": "success", "output_data": {"sum": sum(numbers)}}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def test_a_strangers_echo_server_under_the_name_of_a_construct_moves_no_routing(
    database: Database, tmp_path: Path
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(60))
    registry = stage.folder / "constructs.toml"
    accepted = f'\n[accepted_templates]\nsums = "{content_hash(stage.template)}"\n'
    registry.write_text(registry.read_text() + accepted)
    settings = settings_for(
        database, tmp_path / "home", **stage.settings, outbound_allow=("127.0.0.1",)
    )
    with (
        subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE) as echo,
        served(create_app(settings)) as client,
    ):
        try:
            assert echo.stdout is not None
            port = int(echo.stdout.readline())
            scene = Scene(client, stage, MovingClock(), database)
            ada, mallory = client.registered("ada"), client.registered("mallory")
            ada.post("/constructs", {"construct_id": CONSTRUCT_ID})
            scene.confirm("ada")
            before = scene.routing()
            named = with_config(
                stage.template, adapter_type="http", adapter_endpoint=f"http://127.0.0.1:{port}/"
            )
            named["version_pins"] = {**named["version_pins"], "adapter_version": "http@1"}
            theatre = run(mallory, committed(mallory, named)).document
            assert theatre["outcome"] == "certified", theatre
            found = client.get(f"/certificates/{theatre['certificate_id']}").document
            assert (found["construct_id"], found["verification_tier"]) == ("sums", "BACKTESTED")
            assert scene.routing() == before
            own = run(ada, committed(ada, named)).document
            assert own["outcome"] == "certified"
            assert scene.routing()["reasons"] == ["template-not-accepted"]
        finally:
            echo.kill()
