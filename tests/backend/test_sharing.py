"""What a browser may do with answers: read what is public, run nothing, send nothing."""

from collections.abc import Iterator

import pytest
from fastapi.routing import iter_route_contexts
from starlette.routing import compile_path

from backend.api import operation_routes
from backend.api.http.access_policy import Access, DeclaredRoute
from backend.main import RESOURCES, create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for

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
def client(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    app = create_app(settings_for(module_database, tmp_path_factory.mktemp("home")))
    with served(app) as client:
        yield client


@pytest.fixture(scope="module")
def ada(client: Client) -> Client:
    return client.registered("ada")


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


def test_an_answer_to_somebody_is_for_no_page_and_no_cache(ada: Client) -> None:
    for method, path, access in ROUTES:
        if access is not Access.PUBLIC and method == "GET":
            reply = ada.get(path, **ORIGIN)
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


def test_every_answer_is_inert(client: Client, ada: Client) -> None:
    for asker in (client, ada):
        for method, path, _ in [*ROUTES, ("GET", "/no/such", Access.PUBLIC)]:
            reply = asker.ask(method, path)
            assert {name: reply.headers.get(name) for name in INERT} == INERT, path
            assert "set-cookie" not in reply.headers, path
            assert "html" not in reply.headers["content-type"], path
