"""Names that are paths, programs or markup: nothing is read, run or rendered for them."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from backend.database.embedded.cluster import SUPERUSER
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.log_rows import await_all_logged
from tests.backend.serving import Client, Reply, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_ratings import answers, rated
from tests.backend.test_theatre_bridge import committed, run
from tests.backend.theatre_templates import cartograph, with_config
from tests.theatre.echelon_process import until
from tests.theatre.rated_runs import AGGREGATE, rating, rubric_step
from tests.theatre.template_leaves import leaves, with_leaf
from theatre.engine.canonical_json import JsonObject

SCRIPT = "<script>alert(1)</script>"
INERT_TYPES = {
    "application/json",
    "application/problem+json",
    "application/x-ndjson",
    "application/gzip",
    "text/plain; charset=utf-8",
}
OUTSIDE = (
    "../outside/sums.jsonl",
    "./../outside/sums.jsonl",
    "inside/../../outside/sums.jsonl",
    "..\\outside\\sums.jsonl",
    "linked/sums.jsonl",
    "link.jsonl",
    "loop.jsonl",
    "pipe.jsonl",
    "{outside}/sums.jsonl",
    "file://{outside}/sums.jsonl",
    "sums.jsonl\0.txt",
    "%2e%2e/outside/sums.jsonl",
    "dataset:../../outside/sums.jsonl",
    "dataset:{sha256}",
    "dataset:",
    "/proc/self/environ",
    "~/sums.jsonl",
    ".",
    "",
)
IDS = ("..%2f..%2f..%2fetc%2fpasswd", "%2e%2e", "..%5c..", "a%00b", "%c0%ae", "%ff", "%0d%0aa:%20b")
PATHS = (
    "/theatres/{id}",
    "/theatres/{id}/commitment",
    "/theatres/{id}/evidence-bundle/{id}",
    "/certificates/{id}/document",
    "/constructs/{id}/routing",
    "/templates/{id}",
    "/datasets/{id}",
    "/problems/{id}",
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> SumsStage:
    """A stage whose dataset lies outside of its root, with ways that lead there."""
    folder = tmp_path_factory.mktemp("stage")
    made = sums_stage(folder / "root", sums(2))
    outside = folder / "outside"
    outside.mkdir()
    root = made.folder
    (root / "sums.jsonl").rename(outside / "sums.jsonl")
    (root / "link.jsonl").symlink_to(outside / "sums.jsonl")
    (root / "linked").symlink_to(outside)
    (root / "loop.jsonl").symlink_to(root / "loop.jsonl")
    os.mkfifo(root / "pipe.jsonl")
    (root / "inside").mkdir()
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def ada(module_database: Database, home: Path, stage: SumsStage) -> Iterator[Client]:
    with served(create_app(settings_for(module_database, home, **stage.settings))) as client:
        yield client.registered("ada")


def committing(client: Client, template: Mapping[str, Any]) -> Reply:
    """Make a theatre and commit it; return the first refusal, or the commitment."""
    made = client.post("/theatres", {"template_json": template})
    return made if made.status >= 400 else client.post(f"{made.headers['location']}/commit", b"")


@pytest.mark.parametrize("member", ["replay_data_path", "gold_label_set", "dataset_paths"])
def test_no_path_leads_out_of_a_dataset_root(
    ada: Client, stage: SumsStage, home: Path, member: str
) -> None:
    outside = stage.folder.parent / "outside"
    # The true hash: only that nothing is read there keeps it from being committed.
    sha256 = stage.template["dataset_hashes"]["sums"]
    for name in OUTSIDE:
        path = name.replace("{outside}", str(outside)).replace("{sha256}", str(sha256))
        value: object = {"log": path} if member == "dataset_paths" else path
        template = with_config(stage.template, **{member: value})
        hashed = {"gold_label_set": "gold_labels", "dataset_paths": "log"}.get(member, "sums")
        template["dataset_hashes"] = {**template["dataset_hashes"], hashed: sha256}
        refused = committing(ada, template)
        assert (refused.status, refused.slug) in {
            (422, "template-invalid"),
            (422, "dataset-unavailable"),
        }, name
        assert str(stage.folder.parent) not in refused.body.decode(), name
        assert str(home) not in refused.body.decode(), name
    assert not (home / "evidence" / "datasets").exists()


def test_an_id_that_is_a_path_names_nothing(ada: Client) -> None:
    for path in PATHS:
        for one in (*IDS, "x" * 3000):
            reply = ada.get(path.replace("{id}", one))
            if reply.status == 200:
                assert path.endswith("/routing")
                assert reply.document["effective_tier"] == "UNVERIFIED"
            else:
                assert reply.slug in {"not-found", "validation-error"}, (path, one)
            assert "root:" not in reply.body.decode()


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is written by whatever runs what the requests of a test name."""
    written = tmp_path / "marker"
    code = f"open({str(written)!r}, 'w').close()\ndef run(*_): return {{}}\n"
    (tmp_path / "hostile_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    return written


def test_no_program_and_no_module_that_a_request_names_is_run(
    ada: Client, stage: SumsStage, marker: Path
) -> None:
    program = marker.with_name("hostile_module.py")
    for adapter, endpoint in (
        ("local", f'["{sys.executable}", "{program}"]'),
        ("local", f"{sys.executable} {program}"),
        ("local", f"sh -c 'touch {marker}'"),
        ("python", "hostile_module:run"),
        ("python", "construct:hostile_module:run"),
        ("mock", "hostile_module:run"),
        ("shell", f"touch {marker}"),
        ("http", f"file://{program}"),
        ("http", "unix:///run/construct.sock"),
    ):
        alone = with_config(stage.template, adapter_type=adapter, adapter_endpoint=endpoint)
        mapped = with_config(
            stage.template,
            construct_endpoints={"sums": {"adapter_type": adapter, "endpoint": endpoint}},
        )
        for template in (alone, mapped):
            refused = committing(ada, template)
            assert refused.slug == "template-invalid", (adapter, endpoint)
            pointers = {one["pointer"] for one in refused.document["errors"]}
            assert any(one.startswith("/product_theatre_config/") for one in pointers)
    for member in ("argv", "command", "module", "callable", "construct", "adapter_endpoint"):
        for path in ("/theatres", "/constructs"):
            assert ada.post(path, {member: "hostile_module:run"}).slug == "validation-error"
        template = cartograph(**{member: "hostile_module:run"})
        assert committing(ada, template).slug == "template-invalid"
    assert not marker.exists()
    assert "hostile_module" not in sys.modules


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://user:password@construct.example/",
        "https://user@construct.example/",
        "https://@construct.example/",
        "https://construct.example/?a=1",
        "https://construct.example/?",
        "https://construct.example/#a",
        "https://construct.example/?key=abc",
    ],
)
def test_an_endpoint_is_a_place_and_carries_nothing(ada: Client, endpoint: str) -> None:
    template = with_config(cartograph(), adapter_type="http", adapter_endpoint=endpoint)
    refused = ada.post("/theatres", {"template_json": template})
    assert "/product_theatre_config/adapter_endpoint" in {
        one["pointer"] for one in refused.document["errors"]
    }


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_" + "a1B2" * 9,
        "sk-" + "a1B2" * 12,
        "-----BEGIN PRIVATE KEY-----\nMIGH",
        "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmVk",
    ],
)
def test_a_secret_in_a_template_is_refused_where_it_stands_and_not_repeated(
    ada: Client, secret: str
) -> None:
    reply = ada.post("/theatres", {"template_json": cartograph(display_name=f"see {secret}")})
    found = [(one["pointer"], one["rule"]) for one in reply.document["errors"]]
    assert found == [("/display_name", "no-credentials")]
    assert secret not in reply.body.decode()
    named = ada.post("/theatres", {"template_json": cartograph(**{secret: 1})})
    assert "no-credentials" in {one["rule"] for one in named.document["errors"]}
    assert secret not in named.body.decode()


def inert(reply: Reply) -> bool:
    """Tell whether a browser runs nothing of this answer, whatever it holds."""
    return (
        reply.headers["content-type"] in INERT_TYPES
        and reply.headers["x-content-type-options"] == "nosniff"
        and reply.headers["content-security-policy"].startswith("default-src 'none'")
    )


def test_markup_at_any_place_of_a_template_stays_text(ada: Client, stage: SumsStage) -> None:
    taken = 0
    for path in leaves(stage.template):

        def put(holder: Any, key: str | int) -> None:  # noqa: ANN401 - a part of a document
            holder[key] = SCRIPT

        changed = with_leaf(stage.template, path, put)
        reply = ada.post("/theatres", {"template_json": changed})
        taken += reply.status == 201
        assert inert(reply), path
        if reply.status != 201:
            assert SCRIPT not in reply.body.decode(), path
    assert taken >= 5
    assert inert(ada.get("/theatres"))


def test_markup_in_everything_that_a_run_says_stays_text(
    database: Database, tmp_path: Path
) -> None:
    own = rated(tmp_path / "stage")
    call = own.template["resolution_programme"][0]
    scale: JsonObject = {"min": 1, "max": 5, "labels": {"1": SCRIPT, "5": SCRIPT}}
    template: dict[str, Any] = {
        **own.template,
        "display_name": SCRIPT,
        "resolution_programme": [call, rubric_step(), AGGREGATE],
        "hitl_steps": [
            rating(criterion_id="addition", items=2, rubric=SCRIPT, scoring_scale=scale)
        ],
        "metadata": {"author": SCRIPT, "description": SCRIPT},
    }
    settings = settings_for(database, tmp_path / "home", issuer=SCRIPT, **own.settings)
    with served(create_app(settings)) as client:
        ada, bob, eve = map(client.registered, ("ada", "bob", "eve"))
        seen = [
            ada.post("/constructs", {"construct_id": SCRIPT, "author": SCRIPT}),
            ada.post("/keys", {"name": SCRIPT, "scopes": ["read"], "expires_in_days": 1}),
            ada.get("/constructs"),
            ada.get("/keys"),
            client.get("/constructs/%3Cscript%3E/routing?declared_review=%3Cscript%3E"),
            client.get("/certificates?construct_id=%3Cscript%3E"),
        ]
        path = committed(ada, template)
        seen += [run(ada, path), bob.get(f"{path}/hitl")]
        asked = seen[-1].document
        for scorer in (bob, eve):
            body = answers(asked)
            body["scores"] = [{**one, "rationale": SCRIPT} for one in body["scores"]]
            seen.append(scorer.post(f"{path}/hitl/taste/scores", body))
        until(lambda: ada.get(path).document["state"] == "ARCHIVED", "the end of the run")
        theatre = ada.get(path).document
        names = ("", "/commitment", "/certificate", "/replay", "/audit-events", "/episodes")
        seen += [ada.get(path + name) for name in (*names, "/evidence-bundle")]
        seen += [
            client.get(f"/certificates/{theatre['certificate_id']}{end}")
            for end in ("", "/document")
        ]
        seen += [client.get("/templates"), client.get("/templates/product_sums_v1")]
        files = [
            ada.get(f"{path}/evidence-bundle/{entry['path']}")
            for entry in ada.get(f"{path}/evidence-bundle/manifest.json").document["file_inventory"]
        ]
    assert {reply.status for reply in (*seen, *files)} <= {200, 201}
    assert [reply for reply in (*seen, *files) if not inert(reply)] == []
    assert all(one.headers["content-disposition"].startswith("attachment") for one in files)
    told = sum(SCRIPT.encode() in reply.body for reply in (*seen, *files))
    assert told > 10


def test_names_with_slashes_line_ends_and_nul_are_found_and_keep_no_other_from_being(
    database: Database, tmp_path: Path
) -> None:
    named = [{**one, "episode_id": f"Sums/{number}\n"} for number, one in enumerate(sums(2))]
    own = sums_stage(tmp_path / "own", named, construct_id="maker/model:7b \0 " + SCRIPT)
    with served(create_app(settings_for(database, tmp_path / "home", **own.settings))) as client:
        ada = client.registered("ada")
        path = committed(ada, own.template)
        certified = run(ada, path).document
        assert certified["outcome"] == "certified", certified
        await_all_logged(database)
        with database.connected(SUPERUSER) as connection:
            # As it does by itself: rows of others are read now where an index was searched before.
            connection.execute("ANALYZE log_entries, log_queue")
        # PostgreSQL has no U+0000: where it is to find a name, it stands as U+FFFD.
        name = quote("maker/model:7b \ufffd " + SCRIPT, safe="")
        routing = client.get(f"/api/v1/constructs/{name}/routing")
        assert routing.document["record"]["certified"] == 1
        assert client.get(f"/constructs/{name}/record").document["certified"] == 1
        for page in (f"/constructs/{name}", f"/badge/{name}.svg", "/", "/log"):
            assert client.get(page, Accept="text/html").status == 200, page
        assert client.get("/certificates").document["total"] == 1
        # What follows a name in a path ends none: `%2F` is a slash of the name.
        for end in ("routing", "record"):
            page = client.get(f"/constructs/maker%2F{end}", Accept="text/html").body.decode()
            assert f'<h1><bdi dir="auto">maker/{end}</bdi></h1>' in page
        assert client.get("/constructs/maker/routing").document["construct_id"] == "maker"
        episode = client.get(f"{path}/episodes/Sums%2F1%0A").document
        assert episode["episode_id"] == "Sums/1\n"
