"""Ground truth that users upload, templates that were committed, and events as they happen."""

import hashlib
import http.client
import json
from pathlib import Path

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, served, settings_for
from tests.backend.sums_stage import SumsStage
from tests.backend.test_theatre_bridge import committed, run
from tests.backend.theatre_templates import cartograph, with_config
from tests.theatre.echelon_process import CARTOGRAPH
from theatre.engine.canonical_json import canonical_sha256
from theatre.engine.commitment import content_hash

LINES = {"Content-Type": "application/x-ndjson"}


def uploaded(client: Client, body: bytes) -> Reply:
    return client.ask("POST", "/api/v1/datasets", body=body, headers=LINES)


def test_a_theatre_runs_on_what_its_owner_uploaded_and_nobody_elses(
    client: Client, stage: SumsStage
) -> None:
    data = (stage.folder / "sums.jsonl").read_bytes()
    (stage.folder / "sums.jsonl").unlink()
    ada, bob = client.registered("ada"), client.registered("bob")
    reply = uploaded(ada, data)
    digest = hashlib.sha256(data).hexdigest()
    known = reply.document
    assert reply.status == 201
    assert {**known, "created_at": None} == {
        "sha256": digest,
        "name": f"dataset:{digest}",
        "size_bytes": len(data),
        "lines_total": 4,
        "created_at": None,
    }
    assert uploaded(ada, data).document == known
    assert ada.get(f"/datasets/{digest}").document == known
    assert bob.get(f"/datasets/{digest}").slug == "not-found"
    template = with_config(stage.template, replay_data_path=known["name"])
    assert run(ada, committed(ada, template)).document["outcome"] == "certified"
    his = bob.post("/api/v1/theatres", {"template_json": template}).headers["location"]
    assert bob.post(f"{his}/commit", b"").slug == "dataset-unavailable"


def test_what_is_no_upload_is_refused_and_leaves_nothing(client: Client, tmp_path: Path) -> None:
    ada = client.registered("ada")
    assert uploaded(ada, b"").slug == "dataset-unavailable"
    assert ada.post("/datasets", {"not": "lines"}).slug == "unsupported-media-type"
    assert uploaded(client, b"{}\n").slug == "unauthenticated"
    assert ada.get("/datasets/..%2fx").slug in {"validation-error", "not-found"}
    store = tmp_path / "home" / "evidence" / "datasets"
    assert not store.exists() or list(store.iterdir()) == []


def test_only_templates_that_were_committed_are_public(client: Client, stage: SumsStage) -> None:
    ada = client.registered("ada")
    ada.post("/theatres", {"template_json": stage.template})
    assert client.get("/templates").document["templates"] == []
    assert client.get("/templates/product_sums_v1").slug == "not-found"
    committed(ada, stage.template)
    (listed,) = client.get("/templates").document["templates"]
    assert (listed["id"], listed["display_name"]) == ("product_sums_v1", "Sums")
    whole = client.get(f"/templates/product_sums_v1?sha256={listed['sha256']}").document
    assert whole["template_json"] == stage.template
    assert whole["json_schema"]["properties"]["schema_version"]
    assert client.get(f"/templates/product_sums_v1?sha256={'ab' * 32}").slug == "not-found"


def test_what_ships_and_what_is_accepted_is_listed_with_name_hash_and_family(
    database: Database, tmp_path: Path, stage: SumsStage
) -> None:
    constructs = stage.folder / "constructs.toml"
    own, shipped = content_hash(stage.template), content_hash(cartograph())
    accepted = f'[accepted_templates]\nadding = "{own}"\nmaps = "{shipped}"\n'
    constructs.write_text(constructs.read_text() + accepted)
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings)) as client:
        committed(client.registered("ada"), stage.template)
        page = client.get("/templates").document
    (listed,) = page["templates"]
    assert (listed["id"], listed["accepted"]) == ("product_sums_v1", True)
    available = {one["name"]: one for one in page["available"]}
    files = CARTOGRAPH.parent.rglob("*.json")
    ships = {path.stem for path in files if not path.name.endswith(".expected.json")}
    assert set(available) == ships | {"adding"}
    assert available["product_cartograph_v1"] == {
        "name": "product_cartograph_v1",
        "content_hash": shipped,
        "sha256": canonical_sha256(cartograph()),
        "template_family": "PRODUCT",
        "display_name": cartograph()["display_name"],
        "ships": True,
        "accepted": True,
    }
    assert [name for name, one in available.items() if one["accepted"]] == [
        "product_cartograph_v1",
        "adding",
    ]
    assert available["adding"] == {
        "name": "adding",
        "content_hash": own,
        "sha256": None,
        "template_family": None,
        "display_name": None,
        "ships": False,
        "accepted": True,
    }


def events(client: Client, path: str, **headers: str) -> list[tuple[str, str, dict[str, object]]]:
    """Listen until the stream ends; return (id, event, data) of each event."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    connection.request("GET", f"{path}/events", headers={**client.headers, **headers})
    answer = connection.getresponse()
    assert answer.getheader("content-type", "").startswith("text/event-stream")
    blocks = answer.read().decode().strip().split("\n\n")
    connection.close()
    found = [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]
    return [(one["id"], one["event"], json.loads(one["data"])) for one in found if "id" in one]


def test_who_watches_is_told_until_the_end_and_resumes_where_it_was(
    client: Client, stage: SumsStage
) -> None:
    ada, bob = client.registered("ada"), client.registered("bob")
    path = committed(ada, stage.template)
    assert ada.post(f"{path}/run", b"").status == 202
    told = events(ada, path)
    assert told[-1][1] == "end"
    whole = {**told[-1][2], "parameters": stage.template, "ending": None, "usage": None}
    assert whole == ada.get(path).document
    assert [int(version) for version, _, _ in told] == sorted(int(one) for one, _, _ in told)
    again = events(ada, path, **{"Last-Event-ID": told[-1][0]})
    assert [(version, kind) for version, kind, _ in again] == [(told[-1][0], "end")]
    ahead = events(ada, path, **{"Last-Event-ID": "9" * 5000})
    assert [kind for _, kind, _ in ahead] == ["end"]
    assert bob.get(f"{path}/events").slug == "not-found"
    assert client.get(f"{path}/events").slug == "unauthenticated"
