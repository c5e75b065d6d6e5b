"""Every route says whom it serves, and serves nobody else."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from backend.api.http.access_policy import (
    Access,
    DeclaredRoute,
    get_current_user,
    get_reader,
    public,
    resource_router,
    walk_dependencies,
)
from backend.api.http.idempotency import get_transaction
from backend.api.http.visitors import PageRoute
from backend.main import PREFIX, create_app
from backend.settings import Settings
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for

DESCRIPTION = f"{PREFIX}/openapi.json"
"""The only route that is not ours: the framework's, public, the same for everybody."""

SECURITY: dict[Access, list[dict[str, list[str]]] | None] = {
    Access.PUBLIC: None,
    Access.USER: [{"bearer": []}],
    Access.OWNER: [{"bearer": []}],
    Access.DISCLOSED: [{"bearer": []}, {}],
}


@pytest.fixture(scope="module")
def app(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return create_app(settings_for(module_database, tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[Client]:
    with served(app) as client:
        yield client


def routes() -> Iterator[tuple[str, str, DeclaredRoute]]:
    """Yield method, path and route of everything that is served."""
    for context in iter_route_contexts(create_app(Settings(home=Path("unused"))).routes):
        path = str(context.path)
        if path != DESCRIPTION:
            assert isinstance(context.original_route, DeclaredRoute), path
            for method in sorted(context.methods or ()):
                yield method, path, context.original_route


ROUTES = [pytest.param(*one, id=f"{one[0]} {one[1]}") for one in routes()]


@pytest.mark.parametrize(("method", "path", "route"), ROUTES)
def test_a_route_is_declared_and_depends_on_whom_it_serves(
    method: str, path: str, route: DeclaredRoute
) -> None:
    calls = {one.call for one in walk_dependencies(route.dependant)}
    declared = route.declared
    # Whoever asks is in the route's hands exactly where its statements have to ask for it.
    assert (get_current_user in calls) == (declared.access in (Access.USER, Access.OWNER))
    assert (get_reader in calls) == (declared.access in (Access.DISCLOSED, Access.VISITOR))
    assert (declared.scope is None) == (declared.access is Access.PUBLIC)
    if method == "POST" and declared.idempotent:
        assert get_transaction in calls, f"{path} would not keep its Idempotency-Key"


@pytest.mark.parametrize(("method", "path", "route"), ROUTES)
def test_a_route_that_is_not_public_is_closed_to_the_public(
    client: Client, method: str, path: str, route: DeclaredRoute
) -> None:
    accept = {"Accept": "text/html"} if isinstance(route, PageRoute) else {}
    reply = client.ask(method, re.sub(r"\{[^}]+\}", str(uuid4()), path), headers=accept)
    closed = route.declared.access in (Access.USER, Access.OWNER)
    assert (reply.status == 401) == closed


def test_the_transaction_of_a_request_ends_before_its_answer() -> None:
    scopes = {
        one.scope
        for _, _, route in routes()
        for one in walk_dependencies(route.dependant)
        if one.call is get_transaction
    }
    assert scopes == {"function"}


def test_a_route_without_a_declaration_cannot_be_made() -> None:
    async def another() -> None:
        """Serve nothing."""

    with pytest.raises(TypeError, match="expected another to declare whom it serves"):
        resource_router("things").get("/another")(another)


def test_every_resource_is_served_with_the_prefix_and_without() -> None:
    served_paths = {path for _, path, _ in routes()}
    below = {path.removeprefix(PREFIX) for path in served_paths if path.startswith(PREFIX)}
    assert below
    assert below <= served_paths


def test_the_description_names_each_route_once_with_its_credentials(client: Client) -> None:
    described = client.get(DESCRIPTION).document
    programs = (route for _, _, route in routes() if not isinstance(route, PageRoute))
    by_operation = {route.operation_id: route for route in programs}
    seen = {
        operation["operationId"]: operation
        for methods in described["paths"].values()
        for operation in methods.values()
    }
    assert set(seen) == set(by_operation)
    for operation_id, operation in seen.items():
        assert operation.get("security") == SECURITY[by_operation[operation_id].declared.access]
    assert described["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    references = set(re.findall(r'"\$ref": "#/components/schemas/(\w+)"', str(described)))
    assert references <= set(described["components"]["schemas"])


def test_a_kind_of_problem_that_there_is_not_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="expected kinds of problems"):
        public("no-such-kind")
