"""A rival certifies under the id and pin of Observer, and what anybody reads of that.

Twice: with a server of his own, which knows the published answers, and with the operator's own
Observer. The first stands on this machine and so is isolated from nothing, which caps its tier.
Of the second only the owner's word is missing.
"""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.operating import operate
from tests.backend.serving import Client, Reply, served, settings_for
from tests.backend.test_theatre_bridge import committed, run
from tests.backend.theatre_templates import with_config
from tests.theatre.echelon_process import REPOSITORY
from theatre.engine.commitment import content_hash

FIXTURES = REPOSITORY / "fixtures"
TRUTH = FIXTURES / "ground_truth"
ISSUED = "BACKTESTED"
OF_THE_RIVAL = {
    "verification_tier": "UNVERIFIED",
    "effective_tier": "UNVERIFIED",
    "issued_verification_tier": ISSUED,
    "status": "current",
    "reasons": ["owner-not-confirmed"],
    "run_by": "mallory",
    "owner_confirmed": False,
    "template_accepted": True,
}
VIEWS = {
    "get_certificate",
    "get_theatre_certificate",
    "list_certificates",
    "list_verification_certificates",
}
"""What shows the certificate, and says what it is worth in the same object."""
EXACT = {
    "get_certificate_document",
    "get_evidence_bundle",
    "get_evidence_file",
    "get_replay",
    "list_audit_events",
}
"""What gives what was hashed, as it was, and says in `Link` where its worth is read."""
OBSERVER = """
[constructs.observer]
argv = ["{{python}}", "-B", "{{folder}}/serve.py"]
folder = "{folder}"
files = ["*.py"]
serves_http = true
memory_mb = 512
"""
NO_ANSWER_ABOUT_IT = {"get_verifier"}
"""A program that knows the names of all tiers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivalry:
    """A service where ada owns `observer`, and mallory has certified it, and his own server as it.

    `theatre` is the run of the operator's Observer, `echo` that of the server.
    """

    client: Client
    theatre: dict[str, Any]
    echo: dict[str, Any]
    before: dict[str, Any]
    """What routing said before the rival came."""

    @property
    def named(self) -> dict[str, str]:
        """What paths name of it."""
        theatre_id = str(self.theatre["id"])
        return {
            "certificate_id": str(self.theatre["certificate_id"]),
            "construct_id": "observer",
            "debate_run_id": theatre_id,
            "episode_id": "obs-0001",
            "job_id": theatre_id,
            "sha256": str(self.theatre["template_sha256"]),
            "slug": "not-found",
            "statement_sha256": str(self.theatre["statement_sha256"]),
            "template_id": str(self.theatre["template_id"]),
            "theatre_id": theatre_id,
        }


@pytest.fixture(scope="module")
def rivalry(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rivalry]:
    folder = tmp_path_factory.mktemp("rival")
    program = FIXTURES / "adversaries" / "rival.py"
    published = [
        TRUTH / name for name in ("product_observer_v1.jsonl", "product_observer_gold_v1.jsonl")
    ]
    with subprocess.Popen(
        [sys.executable, "-B", program, *published], stdout=subprocess.PIPE
    ) as rival:
        try:
            assert rival.stdout is not None
            yield from _certified(module_database, folder, port=int(rival.stdout.readline()))
        finally:
            rival.kill()


def _certified(database: Database, folder: Path, *, port: int) -> Iterator[Rivalry]:
    shipped = json.loads((FIXTURES / "templates" / "product_observer_v1.json").read_bytes())
    own = with_config(shipped, adapter_endpoint=f"http://127.0.0.1:{port}/")
    constructs = folder / "constructs.toml"
    # Even an operator who accepts the rival's own template.
    constructs.write_text(
        OBSERVER.format(folder=FIXTURES / "constructs" / "observer")
        + "[accepted_templates]\n"
        + f'observer = "{content_hash(shipped)}"\necho = "{content_hash(own)}"\n'
    )
    settings = settings_for(
        database,
        folder / "home",
        constructs=constructs,
        dataset_roots=(FIXTURES,),
        outbound_allow=("127.0.0.1",),
    )
    with served(create_app(settings)) as client:
        ada, mallory = client.registered("ada"), client.registered("mallory")
        assert ada.post("/constructs", {"construct_id": "observer"}).status == 201
        operate(database, folder, "confirm", "observer", user="ada")
        before = routing(client)
        theatre, echo = (run(mallory, committed(mallory, one)).document for one in (shipped, own))
        assert [one["outcome"] for one in (theatre, echo)] == ["certified"] * 2, (theatre, echo)
        (signed,) = database.rows(
            "SELECT statement_sha256 FROM theatre_certificates WHERE theatre_id = %s", theatre["id"]
        )
        theatre |= signed
        database.add(
            "verifications",
            {
                "id": theatre["id"],
                "user_id": database.rows("SELECT id FROM users WHERE username = 'mallory'")[0][
                    "id"
                ],
                "request": "{}",
                "min_replays": 50,
                "phase": "handed_over",
                "created_at": theatre["created_at"],
                "updated_at": theatre["created_at"],
            },
        )
        yield Rivalry(client=client, theatre=theatre, echo=echo, before=before)


def routing(client: Client) -> dict[str, Any]:
    answer = client.get("/constructs/observer/routing?declared_review=skip").document
    return {name: value for name, value in answer.items() if name not in {"as_of", "valid_until"}}


def files_of(rivalry: Rivalry) -> list[str]:
    bundle = f"/theatres/{rivalry.theatre['id']}/evidence-bundle"
    manifest = rivalry.client.get(f"{bundle}/manifest.json").document
    return ["manifest.json", *(str(one["path"]) for one in manifest["file_inventory"])]


def public_answers(rivalry: Rivalry) -> Iterator[tuple[str, Reply]]:
    """Ask every GET operation of the description, without an account; what is public, yield."""
    described = rivalry.client.get("/api/v1/openapi.json").document
    for path, operations in described["paths"].items():
        if "get" not in operations:
            continue
        paths = files_of(rivalry) if "{path}" in path else [""]
        for within in paths:
            asked = path.format_map({**rivalry.named, "path": within})
            reply = rivalry.client.get(asked)
            assert reply.status in {200, 401, 404}, (asked, reply)
            if reply.status == 200:
                yield operations["get"]["operationId"], reply


def assert_says_what_it_is_worth(value: object) -> int:
    """Hold every object that has the issued tier to all that has to stand next to it."""
    if isinstance(value, list):
        return sum(map(assert_says_what_it_is_worth, value))
    if not isinstance(value, dict):
        assert value != ISSUED
        return 0
    if ISSUED not in value.values():
        return sum(map(assert_says_what_it_is_worth, value.values()))
    assert {name: value.get(name) for name in OF_THE_RIVAL} == OF_THE_RIVAL
    assert [name for name, one in value.items() if one == ISSUED] == ["issued_verification_tier"]
    return 1


def test_no_public_answer_shows_the_tier_of_a_rival_without_its_worth(rivalry: Rivalry) -> None:
    seen: dict[str, int] = {}
    for operation, reply in public_answers(rivalry):
        raw = gzip.decompress(reply.body) if reply.body[:2] == b"\x1f\x8b" else reply.body
        if ISSUED.encode() not in raw or operation in NO_ANSWER_ABOUT_IT:
            continue
        link = re.fullmatch(r'<(/[^>]+)>; rel="describedby"', reply.headers.get("link", ""))
        if link is None:
            found = assert_says_what_it_is_worth(reply.document)
        else:
            assert operation in EXACT
            found = assert_says_what_it_is_worth(rivalry.client.get(link[1]).document)
        assert found == 1, operation
        seen[operation] = seen.get(operation, 0) + 1
    assert set(seen) == VIEWS | EXACT
    assert seen["get_evidence_file"] > 1


def test_a_rival_moves_no_routing_and_is_in_no_list_of_his_tier(rivalry: Rivalry) -> None:
    assert rivalry.before == {
        "construct_id": "observer",
        "construct_version": None,
        "effective_tier": "UNVERIFIED",
        "routing_class": "baseline",
        "declared_review": "skip",
        "effective_review": "full",
        "overridden": True,
        "reasons": ["no-run"],
        "certificate_id": None,
        "findings": [],
        "run_by": None,
        "owner_confirmed": None,
        "template_accepted": None,
        "record": {"commitments": 0, "certified": 0, "void": {}, "open": 0, "overdue": 0},
    }
    after = routing(rivalry.client)
    # It counts all logged runs of a construct, no matter who made them.
    assert after.pop("record")["commitments"] == 2
    assert after == {name: rivalry.before[name] for name in after}
    listed = {
        tier: rivalry.client.get(f"/certificates?construct_id=observer&tier={tier}").document
        for tier in ("UNVERIFIED", "BACKTESTED", "PROVEN")
    }
    assert {tier: page["total"] for tier, page in listed.items()} == {
        "UNVERIFIED": 2,
        "BACKTESTED": 0,
        "PROVEN": 0,
    }
    scores = {
        one["certificate_id"]: one["composite_score"]
        for one in listed["UNVERIFIED"]["certificates"]
    }
    assert list(scores) == [one["certificate_id"] for one in (rivalry.echo, rivalry.theatre)]
    assert scores[rivalry.echo["certificate_id"]] > 0.9


def test_a_server_on_this_machine_is_isolated_from_nothing(rivalry: Rivalry) -> None:
    path = f"/certificates/{rivalry.echo['certificate_id']}"
    issued = rivalry.client.get(f"{path}/document").document
    assert (issued["verification_tier"], issued["caps"], issued["isolation"]["by"]) == (
        "UNVERIFIED",
        ["construct-not-isolated"],
        "none",
    )
    worth = rivalry.client.get(path).document
    assert {name: worth[name] for name in OF_THE_RIVAL} == {
        **OF_THE_RIVAL,
        "issued_verification_tier": "UNVERIFIED",
    }


def test_the_document_stays_as_it_was_issued(rivalry: Rivalry) -> None:
    bundle = f"/theatres/{rivalry.theatre['id']}/evidence-bundle/certificate.json"
    path = f"/certificates/{rivalry.theatre['certificate_id']}"
    issued = rivalry.client.get(f"{path}/document")
    assert issued.document["verification_tier"] == ISSUED
    assert issued.body == rivalry.client.get(bundle).body
    # The second answer is the one that is kept in memory.
    again = rivalry.client.get(f"{path}/document")
    assert again.headers["link"] == issued.headers["link"] == f'</api/v1{path}>; rel="describedby"'
