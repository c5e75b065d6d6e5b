"""What a reader has already, what changed since, parts of files, and the methods of a path.

And what a browser may do with answers: read what is public, run nothing, send nothing."""

import base64
import hashlib
from collections.abc import Iterator

import pytest
from fastapi.routing import iter_route_contexts
from starlette.routing import compile_path

from backend.api import operation_routes
from backend.api.http.access_policy import Access, DeclaredRoute
from backend.main import RESOURCES, create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run

IMMUTABLE = "public, max-age=31536000, immutable"
FRESH = "public, max-age=30"
PRIVATE = "private, no-store"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> SumsStage:
    return sums_stage(tmp_path_factory.mktemp("conditional") / "stage", sums(4))


@pytest.fixture(scope="module")
def client(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory, stage: SumsStage
) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("home")
    with served(create_app(settings_for(module_database, home, **stage.settings))) as client:
        yield client


@pytest.fixture(scope="module")
def ada(client: Client) -> Client:
    return client.registered("ada")


@pytest.fixture(scope="module")
def archived(ada: Client, stage: SumsStage) -> dict[str, str]:
    theatre = run(ada, committed(ada, stage.template)).document
    assert theatre["state"] == "ARCHIVED"
    return {
        "theatre": f"/api/v1/theatres/{theatre['id']}",
        "certificate": f"/api/v1/certificates/{theatre['certificate_id']}",
        "template": f"/api/v1/templates/{theatre['template_id']}",
        "exact template": f"/api/v1/templates/{theatre['template_id']}"
        f"?sha256={theatre['template_sha256']}",
    }


def digest_of(body: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


@pytest.mark.parametrize(
    ("which", "below", "caching"),
    [
        ("theatre", "/commitment", IMMUTABLE),
        ("theatre", "/commitment?format=canonical", IMMUTABLE),
        ("theatre", "/replay", IMMUTABLE),
        ("theatre", "/evidence-bundle", FRESH),
        ("theatre", "/evidence-bundle/manifest.json", IMMUTABLE),
        ("theatre", "/evidence-bundle/SHA256SUMS", IMMUTABLE),
        ("certificate", "/document", IMMUTABLE),
        ("exact template", "", IMMUTABLE),
        ("template", "", FRESH),
        ("certificate", "", FRESH),
        ("theatre", "/certificate", FRESH),
    ],
)
def test_what_a_reader_has_already_is_not_sent_again(
    client: Client, archived: dict[str, str], which: str, below: str, caching: str
) -> None:
    path = archived[which] + below
    first = client.get(path)
    assert (first.status, first.headers["cache-control"]) == (200, caching)
    etag = first.headers["etag"]
    assert etag.startswith("W/") == below.endswith("certificate") or which == "certificate"
    if "repr-digest" in first.headers:
        assert first.headers["repr-digest"] == digest_of(first.body)
    else:
        assert which.endswith("template") or caching == FRESH
    for known in (etag, f'"other", {etag}', "*"):
        again = client.get(path, **{"If-None-Match": known})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
        assert again.headers["cache-control"] == caching
    assert client.get(path, **{"If-None-Match": '"other"'}).status == 200


def test_what_was_asked_with_a_credential_is_for_nobody_else(
    ada: Client, archived: dict[str, str]
) -> None:
    for below in ("", "/evidence-bundle", "/evidence-bundle/manifest.json", "/episodes"):
        reply = ada.get(archived["theatre"] + below)
        assert (reply.headers["cache-control"], reply.headers["vary"]) == (PRIVATE, "Authorization")


def test_routing_and_lists_are_good_for_half_a_minute(client: Client) -> None:
    for path in ("/constructs/sums/routing", "/certificates", "/templates"):
        assert client.get(path).headers["cache-control"] == FRESH


def test_a_theatre_that_changed_since_it_was_read_is_not_moved(
    ada: Client, stage: SumsStage
) -> None:
    made = ada.post("/api/v1/theatres", {"template_json": stage.template})
    path, draft = made.headers["location"], made.headers["etag"]
    for other in ('"v99"', f"W/{draft}", "v1", ""):
        refused = ada.post(f"{path}/commit", {}, headers={"If-Match": other})
        assert (refused.status, refused.slug) == (412, "precondition-failed"), other
    assert ada.get(path).headers["etag"] == draft
    assert ada.post(f"{path}/commit", {}, headers={"If-Match": f'"v99", {draft}'}).status == 200
    for step in ("run", "cancel"):
        stale = ada.post(f"{path}/{step}", b"", headers={"If-Match": draft})
        assert (stale.status, stale.slug) == (412, "precondition-failed")
    assert ada.get(path).document["run"] is None
    now = ada.get(path).headers["etag"]
    assert ada.post(f"{path}/run", {}, headers={"If-Match": now}).status == 202
    # Any version will do, but it runs already, or is held by its run just then.
    again = ada.post(f"{path}/run", b"", headers={"If-Match": "*"})
    assert again.slug in {"invalid-transition", "state-conflict"}


def asked_for(client: Client, path: str, given: str, **headers: str) -> Reply:
    return client.get(path, Range=given, **headers)


def test_one_range_is_sent_alone_and_anything_else_is_answered_whole(
    client: Client, archived: dict[str, str]
) -> None:
    path = archived["theatre"] + "/evidence-bundle"
    whole = client.get(path)
    assert whole.headers["accept-ranges"] == "bytes"
    size, etag = len(whole.body), whole.headers["etag"]
    for given, expected in (
        ("bytes=0-0", whole.body[:1]),
        (f"bytes=10-{size + 5}", whole.body[10:]),
        ("bytes=-3", whole.body[-3:]),
        (f"bytes={size - 1}-", whole.body[-1:]),
    ):
        part = asked_for(client, path, given)
        assert (part.status, part.body) == (206, expected), given
        assert part.headers["repr-digest"] == digest_of(whole.body)
        assert asked_for(client, path, given, **{"If-Range": etag}).status == 206
        assert asked_for(client, path, given, **{"If-Range": '"older"'}).body == whole.body
    for ignored in ("bytes=5-3", "bytes=x-", "bytes=", "lines=1-2", "bytes=0-1,4-5", "nonsense"):
        reply = asked_for(client, path, ignored)
        assert (reply.status, reply.body) == (200, whole.body), ignored
    for behind in (f"bytes={size}-", "bytes=-0"):
        refused = asked_for(client, path, behind)
        assert (refused.status, refused.slug) == (416, "range-not-satisfiable")
        assert refused.headers["content-range"] == f"bytes */{size}"


def test_a_head_is_that_of_the_answer_to_get(
    client: Client, ada: Client, archived: dict[str, str]
) -> None:
    theatre, certificate = archived["theatre"], archived["certificate"]
    for who, path in (
        (client, "/livez"),
        (client, f"{certificate}/document"),
        (client, f"{theatre}/evidence-bundle"),
        (client, f"{theatre}/no-such-thing"),
        (ada, theatre),
        (ada, f"{theatre}/events"),
        (client, theatre),
    ):
        whole, head = who.get(path), who.ask("HEAD", path)
        assert head.body == b""
        ignored = {"date", "content-length" if "errors" in whole.body.decode("latin-1") else ""}
        assert head.status == whole.status
        assert {n: v for n, v in head.headers.items() if n not in ignored} == {
            n: v for n, v in whole.headers.items() if n not in ignored
        }
    measured = client.get("/metrics").body.decode()
    assert 'method="HEAD",route="/livez",status="200"' in measured


def test_options_says_what_a_path_has(client: Client, archived: dict[str, str]) -> None:
    for path, allowed in (
        ("/livez", "GET, HEAD, OPTIONS"),
        ("/api/v1/theatres", "GET, HEAD, OPTIONS, POST"),
        (f"{archived['theatre']}/run", "OPTIONS, POST"),
    ):
        reply = client.ask("OPTIONS", path)
        assert (reply.status, reply.headers["allow"], reply.body) == (204, allowed, b"")
        refused = client.ask("PATCH", path)
        assert (refused.slug, refused.headers["allow"]) == ("method-not-allowed", allowed)
    assert client.ask("OPTIONS", "/nothing/here").slug == "not-found"
    assert client.ask("HEAD", "/api/v1/theatres/x/run").status == 405


ORIGIN = {"Origin": "https://elsewhere.example"}
INERT = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}
FILLED = {
    "theatre_id": "018f0000-0000-7000-8000-00000000dead",
    "certificate_id": "018f0000-0000-7000-8000-00000000dead",
    "key_id": "018f0000-0000-7000-8000-00000000dead",
    "sha256": "ab" * 32,
}


@pytest.fixture(scope="module")
def bob(client: Client) -> Client:
    return client.registered("bob")


def routes() -> Iterator[tuple[str, str, Access]]:
    """Yield method, path and whom it serves, of every route there is."""
    for router in (operation_routes.router, *RESOURCES):
        for context in iter_route_contexts(router.routes):
            route = context.original_route
            assert isinstance(route, DeclaredRoute)
            path = compile_path(str(context.path))[1]
            for name in route.param_convertors:
                path = path.replace(f"{{{name}}}", FILLED.get(name, "anything"))
            for method in sorted(context.methods or ()):
                yield method, path, route.declared.access


ROUTES = sorted(routes())


def shared(headers: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name.startswith("access-control-")}


def test_any_page_may_read_what_anybody_may_and_nothing_else(client: Client) -> None:
    for method, path, access in ROUTES:
        reply = client.ask(method, path, headers=ORIGIN)
        is_open = method == "GET" and access in {Access.PUBLIC, Access.DISCLOSED}
        allowed = {"access-control-allow-origin": "*"} if is_open else {}
        assert shared(dict(reply.headers)) == allowed, (method, path)


def test_an_answer_to_somebody_is_for_no_page_and_no_cache(bob: Client) -> None:
    for method, path, access in ROUTES:
        if access is not Access.PUBLIC and method == "GET":
            reply = bob.get(path, **ORIGIN)
            assert shared(dict(reply.headers)) == {}, path
            # A path that has a page, too, varies with `Accept` as well.
            assert reply.headers["vary"].split(", ")[0] == "Authorization", path
            assert "no-store" in reply.headers["cache-control"], path


def test_no_page_is_told_that_it_may_send(client: Client) -> None:
    for method, path, _ in ROUTES:
        if method != "GET":
            wanted = {
                "Access-Control-Request-Method": method,
                "Access-Control-Request-Headers": "authorization, content-type",
            }
            preflight = client.ask("OPTIONS", path, headers={**ORIGIN, **wanted})
            assert (preflight.status, shared(dict(preflight.headers))) == (204, {}), path


def test_every_answer_is_inert(client: Client, bob: Client) -> None:
    for asker in (client, bob):
        for method, path, _ in [*ROUTES, ("GET", "/no/such", Access.PUBLIC)]:
            reply = asker.ask(method, path)
            assert {name: reply.headers.get(name) for name in INERT} == INERT, path
            assert "set-cookie" not in reply.headers, path
            assert "html" not in reply.headers["content-type"], path
