"""Two users, every route that serves an owner, every id: what is another's is not there."""

import json
import re
from collections.abc import Callable, Iterator

import pytest
from fastapi.routing import iter_route_contexts
from starlette.routing import compile_path

from backend.api.http.access_policy import Access, DeclaredRoute
from backend.main import RESOURCES
from tests.backend.recorded_examples import AN_ANSWER
from tests.backend.serving import Client, Reply
from tests.backend.theatre_templates import cartograph

BODIES: dict[str, object] = {
    "append_debate_events": {
        "events": [{"event_type": "debate_closed", "detail": {"members": {}}}]
    },
    "evaluate_debate": {"evaluators": ["crit"]},
    "answer_audit": AN_ANSWER,
}
"""Operation id → a body that its owner may send. Routes without a body have no line."""

LINES = {"Content-Type": "application/x-ndjson"}
NOT_NOW = {
    "answer_audit": 404,
    "cancel_theatre": 409,
    "settle_theatre": 409,
    "get_commitment": 404,
    "get_episode": 404,
    "get_evidence_bundle": 404,
    "get_evidence_file": 404,
    "get_verification_result": 409,
}
"""Operation id → what the owner is answered about a theatre that has not run."""


def owned_routes() -> Iterator[tuple[str, str, str]]:
    """Yield operation id, method and path of each route for an owner."""
    for router in RESOURCES:
        for context in iter_route_contexts(router.routes):
            route = context.original_route
            assert isinstance(route, DeclaredRoute)
            if route.declared.access in (Access.OWNER, Access.DISCLOSED):
                for method in sorted(context.methods or ()):
                    yield str(route.operation_id), method, str(context.path)


ROUTES = [pytest.param(*one, id=one[0]) for one in owned_routes()]


@pytest.fixture(scope="module")
def ada(anybody: Client) -> Client:
    return anybody.registered("ada")


@pytest.fixture(scope="module")
def bob(anybody: Client) -> Client:
    return anybody.registered("bob")


A_KEY = {"name": "adas", "scopes": ["read"], "expires_in_days": 1}
A_VERIFICATION = {
    "source": {"kind": "clone", "path": "nowhere"},
    "construct": {"construct_id": "change_extractive"},
}


def theatre(ada: Client) -> str:
    return str(ada.post("/theatres", {"template_json": cartograph()}).document["id"])


def dataset(ada: Client) -> str:
    body = json.dumps({"of": theatre(ada)}).encode()
    return str(ada.ask("POST", "/datasets", body=body, headers=LINES).document["sha256"])


ADAS: dict[str, Callable[[Client], str]] = {
    # It has none: what another test asks of one is that it is no one else's either.
    "certificate_id": theatre,
    "debate_run_id": lambda ada: str(
        ada.post("/debates?goes_on=true", a_debate(theatre(ada))).document["id"]
    ),
    "job_id": lambda ada: str(ada.post("/verification/run", A_VERIFICATION).document["job_id"]),
    "key_id": lambda ada: str(ada.post("/keys", A_KEY).document["id"]),
    "theatre_id": theatre,
    "sha256": dataset,
    "episode_id": lambda _: "of-a-theatre",
    "path": lambda _: "manifest.json",
}
"""What makes something of Ada's, by the path parameter that names it."""


def a_debate(run_id: str) -> dict[str, object]:
    """Return a debate of one turn."""
    turn = {"turn_id": "t", "turn_index": 0, "speaker_id": "ada", "content": "Yes."}
    return {
        "schema_version": "2.0.0",
        "debate_id": "of-adas",
        "run_id": run_id,
        "run_metadata": {"generation_mode": "mock"},
        "metadata": {"created_at": "2026-11-22T00:00:00Z"},
        "participants": [{"agent_id": "ada", "role": "analyst"}],
        "turns": [turn],
    }


def ask(client: Client, operation_id: str, method: str, path: str) -> Reply:
    if operation_id in BODIES:
        return client.post(path, BODIES[operation_id])
    return client.ask(method, path)


@pytest.mark.parametrize(("operation_id", "method", "path"), ROUTES)
def test_what_is_anothers_is_not_there(
    ada: Client, bob: Client, operation_id: str, method: str, path: str
) -> None:
    # Where a route names nothing, no list of Bob's has anything of hers.
    named = set(re.findall(r"\{(\w+)", path)) or set(ADAS)
    assert named <= set(ADAS), f"{operation_id} needs something of Ada's in this test"
    adas = {name: ADAS[name](ada) for name in named}
    if operation_id == "run_theatre":
        assert ada.post(f"/theatres/{adas['theatre_id']}/commit", b"").status == 200
    filled = compile_path(path)[1].format(**adas)
    refused = ask(bob, operation_id, method, filled)
    if "{" in path:
        assert (refused.status, refused.slug) == (404, "not-found")
    assert not any(one in refused.body.decode() for one in adas.values())
    if operation_id == "watch_theatre":
        return  # A stream lasts as long as a run: what its owner is told is tested with runs.
    answered = ask(ada, operation_id, method, filled).status
    assert answered == NOT_NOW.get(operation_id, answered if answered < 400 else None)
