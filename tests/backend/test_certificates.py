"""What a certificate is worth, to anybody who asks, and to whoever routes by it."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy.dialects.postgresql.asyncpg import dialect

from backend.main import create_app
from backend.repositories.certificate_views import _page
from backend.runtime import now
from tests.backend.databases import Database
from tests.backend.log_rows import await_all_logged, log_void
from tests.backend.operating import operate
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.echelon_process import until
from theatre.engine.canonical_json import canonical_line, sha256_hex
from theatre.engine.commitment import content_hash

WORTH_ITS_TIER = {
    "verification_tier": "BACKTESTED",
    "effective_tier": "BACKTESTED",
    "issued_verification_tier": "BACKTESTED",
    "status": "current",
    "reasons": [],
    "findings": ["network-open", "within-item-variance-unknown"],
    "run_by": "ada",
    "owner_confirmed": True,
    "template_accepted": True,
}
NOTHING = {"verification_tier": "UNVERIFIED", "effective_tier": "UNVERIFIED"}
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

    def decide(self, decision: str, username: str) -> None:
        """Decide about the construct id as the operator does."""
        operate(self.database, self.stage.folder, decision, CONSTRUCT_ID, user=username)

    def owner(self, username: str) -> Client:
        """Return a new user, confirmed as the owner of the construct id."""
        client = self.client.registered(username)
        assert client.post("/constructs", {"construct_id": CONSTRUCT_ID}).status == 201
        self.decide("confirm", username)
        return client

    def certified(self, client: Client) -> dict[str, Any]:
        theatre = run(client, committed(client, self.stage.template)).document
        assert theatre["outcome"] == "certified", theatre
        return dict(theatre)

    def worth(self, certificate_id: str) -> dict[str, Any]:
        """Return what is said of a certificate; the list and both views say the same."""
        view = self.client.get(f"/certificates/{certificate_id}").document
        assert view.items() >= {"certificate_id": certificate_id}.items()
        pages = (
            self.client.get(f"/certificates?{query}").document["certificates"]
            for query in ("limit=100", f"tier={view['effective_tier']}&limit=100")
        )
        by_theatre = self.client.get(f"/theatres/{view['theatre_id']}/certificate").document
        said = [{name: one[name] for name in WORTH_ITS_TIER} for one in (view, by_theatre)]
        for page in pages:
            (listed,) = (one for one in page if one["certificate_id"] == certificate_id)
            said.append({name: listed[name] for name in WORTH_ITS_TIER})
        assert all(one == said[0] for one in said)
        return said[0]

    def routing(self, query: str = "") -> dict[str, Any]:
        """Return a routing answer without its moments; its record is that of its version."""
        await_all_logged(self.database)
        reply = self.client.get(f"/constructs/{CONSTRUCT_ID}/routing{query}")
        assert reply.status == 200
        document = dict(reply.document)
        version = document["construct_version"]
        named = "" if version is None else f"?construct_version={version}"
        whole = self.client.get(f"/constructs/{CONSTRUCT_ID}/record{named}").document
        record = document.pop("record")
        assert record == {name: whole[name] for name in record}
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
    theatre = scene.certified(scene.owner("ada"))
    path = f"/certificates/{theatre['certificate_id']}"
    read = scene.client.get(path)
    assert read.headers["cache-control"] == "public, max-age=30"
    issued = scene.client.get(f"{path}/document")
    assert issued.headers["cache-control"] == "public, max-age=31536000, immutable"
    shown = dict(read.document)
    assert shown.pop("as_of").endswith("Z")
    assert shown == {
        **issued.document,
        **WORTH_ITS_TIER,
        "run": {
            "number": 1,
            "of": 1,
            "others": {"commitments": 0, "certified": 0, "void": {}, "open": 0, "overdue": 0},
            "text": "run 1 of 1",
        },
        "disclosure": "public",
        "episodes_withheld": 0,
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


def loops_of_subplans(database: Database, **window: int) -> Iterator[int]:
    """Yield how often each subquery of a page of certificates was asked."""
    untyped: Any = dialect
    compiled = _page((), is_later=False).compile(dialect=untyped())
    values = {**compiled.params, "accepted": [], **window}
    explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {compiled}"

    async def plan() -> Any:  # noqa: ANN401 - PostgreSQL's own document
        engine = database.engine()
        async with engine.connect() as connection:
            named = tuple(values[name] for name in compiled.positiontup or ())
            answer = await connection.exec_driver_sql(explained, named)
            found = answer.scalar_one()
        await engine.dispose()
        return found

    nodes = [asyncio.run(plan())[0]["Plan"]]
    for node in nodes:
        nodes += node.get("Plans", ())
        if node.get("Parent Relationship") == "SubPlan":
            yield node["Actual Loops"]


def test_certificates_are_listed_by_construct_and_by_what_they_are_worth(scene: Scene) -> None:
    ada = scene.owner("ada")
    ids = [scene.certified(ada)["certificate_id"] for _ in range(3)][::-1]
    listed = "/certificates?construct_id=sums"
    page = scene.client.get(f"{listed}&limit=2").document
    assert [one["certificate_id"] for one in page["certificates"]] == ids[:2]
    assert (page["total"], page["limit"], page["offset"]) == (3, 2, 0)
    rest = scene.client.get(f"{listed}&limit=2&cursor={page['next_cursor']}").document
    assert [one["certificate_id"] for one in rest["certificates"]] == ids[2:]
    passed_over = scene.client.get(f"{listed}&limit=2&offset=2").document
    assert passed_over["certificates"] == rest["certificates"]
    assert max(loops_of_subplans(scene.database, limit=1, offset=2)) == 1
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
    scene.clock.ahead = -timedelta(minutes=6)
    worth, routed = scene.worth(ids[0]), scene.routing()
    for said in (worth, routed):
        assert (said["effective_tier"], said["reasons"]) == ("UNVERIFIED", ["issued-in-the-future"])
    for tier, total in (("UNVERIFIED", 3), ("BACKTESTED", 0)):
        found = scene.client.get(f"{listed}&tier={tier}&status=current").document
        assert found["total"] == total


def test_a_run_waits_for_a_clock_that_is_behind_the_key_that_signs_it(scene: Scene) -> None:
    ada = scene.owner("ada")
    path = committed(ada, scene.stage.template)
    scene.clock.ahead = -timedelta(minutes=10)
    assert ada.post(f"{path}/run", b"").status == 202

    def waits() -> bool:
        return "expected a clock past" in str(ada.get(path).document["error"])

    until(waits, "what the run waits for", pause=0.05)
    assert ada.get(path).document["state"] == "COMMITTED"


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
        "findings": [],
        "run_by": None,
        "owner_confirmed": None,
        "template_accepted": None,
    }
    ada, mallory = scene.client.registered("ada"), scene.client.registered("mallory")
    scene.certified(mallory)
    assert scene.routing() == unknown
    claimed = ada.post("/constructs", {"construct_id": CONSTRUCT_ID})
    assert (claimed.status, claimed.document["confirmed_at"]) == (201, None)
    assert mallory.post("/constructs", {"construct_id": CONSTRUCT_ID}).status == 409
    assert scene.routing() == unknown
    scene.decide("confirm", "ada")
    assert scene.routing() == {**unknown, "reasons": ["no-run"]}
    easier = {**scene.stage.template, "display_name": "Sums, but easier"}
    unaccepted = run(ada, committed(ada, easier)).document["certificate_id"]
    assert scene.worth(unaccepted) == {
        **WORTH_ITS_TIER,
        **NOTHING,
        "reasons": ["template-not-accepted"],
        "template_accepted": False,
    }
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
        "findings": WORTH_ITS_TIER["findings"],
        "run_by": "ada",
        "owner_confirmed": True,
        "template_accepted": True,
    }
    assert scene.routing() == trusted
    assert scene.routing("?declared_review=skip") == {
        **trusted,
        "declared_review": "skip",
        "effective_review": "skip",
    }
    scene.certified(mallory)
    assert scene.routing() == trusted
    listed = scene.client.get("/certificates").document["certificates"]
    assert [one["run"]["text"] for one in listed] == [
        f"run {number} of 4, the other 3: 3 certified" for number in (4, 3, 2, 1)
    ]
    other = scene.routing("?construct_version=other&declared_review=skip")
    assert (other["effective_tier"], other["effective_review"], other["overridden"]) == (
        "UNVERIFIED",
        "full",
        True,
    )
    scene.clock.ahead = timedelta(days=90)
    late = scene.routing("?declared_review=skip")
    assert (late["effective_tier"], late["reasons"]) == ("UNVERIFIED", ["run-older-than-90-days"])


def test_the_newest_run_decides_not_the_best_nor_the_one_of_a_clock_ahead(scene: Scene) -> None:
    ada = scene.owner("ada")
    scene.clock.ahead = timedelta(hours=1)
    scene.certified(ada)
    assert scene.routing()["effective_tier"] == "BACKTESTED"
    rehearsal = run(ada, committed(ada, scene.stage.template), is_certificate_run=False)
    assert rehearsal.document["outcome"] == "no_certificate"
    assert scene.routing()["effective_tier"] == "BACKTESTED"
    few = b"".join(map(canonical_line, sums(4)))
    (scene.stage.folder / "sums.jsonl").write_bytes(few)
    on_few = {**scene.stage.template, "dataset_hashes": {"sums": sha256_hex(few)}}
    scene.clock.ahead = timedelta()
    assert run(ada, committed(ada, on_few)).document["outcome"] == "certified"
    waiting = committed(ada, on_few)
    scene.clock.ahead = timedelta(hours=2)
    worth = scene.routing()
    assert (worth["effective_tier"], worth["effective_review"], worth["reasons"]) == (
        "UNVERIFIED",
        "full",
        ["issued-unverified"],
    )
    # One that ended after the backup from which this database was restored.
    log_void(scene.database, waiting)
    assert scene.routing()["reasons"] == ["newest-run-lost"]


def test_a_run_begins_with_the_environment_of_the_certificate_before(scene: Scene) -> None:
    ada = scene.client.registered("ada")
    first, second = scene.certified(ada), scene.certified(ada)
    path = f"/certificates/{first['certificate_id']}/document"
    certified = json.loads(scene.client.get(path).body)["environment"]
    begun = scene.database.rows(
        "SELECT detail_json FROM theatre_audit_events"
        " WHERE event_type = 'activated' ORDER BY created_at"
    )
    assert certified is not None
    assert second["outcome"] == "certified"
    assert [row["detail_json"]["previous_environment"] for row in begun] == [None, certified]


def test_a_run_counts_only_if_its_owner_was_confirmed_when_it_ended(scene: Scene) -> None:
    # The service's clock runs ahead of the operator's: the log's order says what came first.
    scene.clock.ahead = timedelta(minutes=10)
    ada = scene.client.registered("ada")
    ada.post("/constructs", {"construct_id": CONSTRUCT_ID})
    early = scene.certified(ada)["certificate_id"]
    unconfirmed = {
        **WORTH_ITS_TIER,
        **NOTHING,
        "reasons": ["owner-not-confirmed"],
        "owner_confirmed": False,
    }
    assert scene.worth(early) == unconfirmed
    scene.decide("confirm", "ada")
    assert scene.worth(early) == unconfirmed
    assert scene.routing()["reasons"] == ["owner-not-confirmed"]
    own = scene.certified(ada)["certificate_id"]
    assert scene.worth(own) == WORTH_ITS_TIER
    assert scene.worth(early) == unconfirmed


def test_old_certificates_say_who_was_the_owner_then_and_count_no_more(scene: Scene) -> None:
    ada = scene.owner("ada")
    old = scene.certified(ada)["certificate_id"]
    tag = scene.client.get(f"/certificates/{old}").headers["etag"]
    scene.decide("release", "ada")
    formerly = {**WORTH_ITS_TIER, **NOTHING, "reasons": ["owner-changed"]}
    assert scene.worth(old) == formerly
    assert scene.client.get(f"/certificates/{old}", **{"If-None-Match": tag}).status == 200
    assert scene.routing()["reasons"] == ["construct-not-registered"]
    bob = scene.owner("bob")
    late = scene.certified(ada)["certificate_id"]
    new = scene.certified(bob)["certificate_id"]
    assert scene.worth(old) == formerly
    assert scene.worth(late) == {
        **formerly,
        "reasons": ["owner-not-confirmed"],
        "owner_confirmed": False,
    }
    assert scene.worth(new) == {**WORTH_ITS_TIER, "run_by": "bob"}
    assert (scene.routing()["certificate_id"], scene.routing()["run_by"]) == (new, "bob")
    counts = {
        tier: scene.client.get(f"/certificates?tier={tier}").document["total"]
        for tier in ("UNVERIFIED", "BACKTESTED")
    }
    assert counts == {"UNVERIFIED": 2, "BACKTESTED": 1}
