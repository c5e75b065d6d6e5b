"""JSON that two readers could read differently is refused wherever JSON comes in.

One table over every route that takes a document, and over the lines of a dataset: what is hashed
has one reading, and what is not hashed is read by the same parser.
"""

import json
from collections.abc import Callable, Mapping

import pytest

from backend.api import theatre_routes
from backend.api.http.access_policy import DeclaredRoute
from backend.api.http.bodies import MAX_MEMBERS
from backend.main import RESOURCES
from tests.backend.databases import Database
from tests.backend.recorded_examples import A_DEBATE, A_REQUEST, A_TURN, AN_ANSWER
from tests.backend.serving import PASSWORD, Client
from tests.backend.theatre_templates import cartograph
from tests.theatre.conftest import episode

NOBODYS = "018f0000-0000-7000-8000-00000000dead"
JSON = "application/json"
BARE = "application/vnd.theatre.template+json"
LINES = "application/x-ndjson"


def as_json(document: object) -> bytes:
    return json.dumps(document).encode()


DOCUMENTS: Mapping[str, tuple[str, str, bytes]] = {
    "create_theatre": ("/theatres", JSON, as_json({"template_json": cartograph()})),
    "create_theatre, bare": ("/theatres", BARE, as_json(cartograph())),
    "commit_theatre": (
        f"/theatres/{NOBODYS}/commit",
        JSON,
        as_json({"expected_commitment_hash": "ab" * 32}),
    ),
    "run_theatre": (f"/theatres/{NOBODYS}/run", JSON, as_json({"is_certificate_run": True})),
    "submit_scores": (
        f"/theatres/{NOBODYS}/hitl/taste/scores",
        JSON,
        as_json({"scores": [{"episode_id": "a", "value": 1}], "rubric_sha256": "ab" * 32}),
    ),
    "request_audit": (f"/certificates/{NOBODYS}/audits", JSON, as_json(A_REQUEST)),
    "answer_audit": (f"/certificates/{NOBODYS}/audits/answer", JSON, as_json(AN_ANSWER)),
    "register_construct": ("/constructs", JSON, as_json({"construct_id": "a"})),
    "change_password": (
        "/auth/password",
        JSON,
        # A wrong one: the token of the test must stay good.
        as_json({"old_password": f"{PASSWORD}!", "new_password": PASSWORD}),
    ),
    "create_key": ("/keys", JSON, as_json({"name": "a", "scopes": ["read"], "expires_in_days": 1})),
    "register": (
        "/auth/register",
        JSON,
        as_json({"username": "eve", "email": "eve@example.org", "password": PASSWORD}),
    ),
    "run_verification": (
        "/verification/run",
        JSON,
        as_json(
            {
                "source": {"kind": "clone", "path": "nowhere"},
                "construct": {"construct_id": "change_extractive"},
            }
        ),
    ),
    "submit_debate": ("/debates", JSON, as_json(A_DEBATE)),
    "append_debate_events": (f"/debates/{NOBODYS}/events", JSON, as_json({"events": A_TURN})),
    "evaluate_debate": (f"/debates/{NOBODYS}/evaluations", JSON, as_json({"evaluators": ["crit"]})),
    "upload_dataset": ("/datasets", LINES, as_json(episode(1, [1, 2]))),
}
"""Operation id → path, media type, and a document that would be taken."""

WITHOUT_JSON = {"issue_token", "cancel_theatre", "cancel_verification", "settle_theatre"}


def whole(body: bytes) -> Callable[[bytes], bytes]:
    return lambda _: body


def member(text: bytes) -> Callable[[bytes], bytes]:
    """Put a further member before those of a good document."""
    return lambda document: b"{" + text + b"," + document[1:]


CASES: Mapping[str, Callable[[bytes], bytes]] = {
    "not JSON": member(b'"a": '),
    "nothing but a space": whole(b" "),
    "an array": lambda document: b"[" + document + b"]",
    "a text": whole(b'"a"'),
    "null": whole(b"null"),
    "two documents": lambda document: document + b" " + document,
    "something behind it": lambda document: document + b"x",
    "a comma behind the last member": lambda document: document[:-1] + b",}",
    "no end": lambda document: document[:-1],
    "a duplicate key": member(b'"a": 1, "a": 2'),
    "a duplicate key, spelt otherwise": member(b'"a": 1, "\\u0061": 2'),
    "a duplicate key further in": member(b'"a": [{"b": 1, "b": 1}]'),
    "a key without quotes": member(b"a: 1"),
    "single quotes": member(b"'a': 'b'"),
    "a comment": lambda document: document + b" // b",
    "a comment within": member(b'/* b */ "a": 1'),
    "NaN": member(b'"a": NaN'),
    "Infinity": member(b'"a": Infinity'),
    "-Infinity": member(b'"a": -Infinity'),
    "a number beyond a double": member(b'"a": 1e400'),
    "an integer beyond 2^53": member(b'"a": 9007199254740992'),
    "a negative integer beyond 2^53": member(b'"a": -9007199254740992'),
    "an unsafe integer spelt as a float": member(b'"a": 1e17'),
    "an integer of 500 digits": member(b'"a": ' + b"9" * 500),
    "a leading zero": member(b'"a": 01'),
    "a plus sign": member(b'"a": +1'),
    "a hexadecimal number": member(b'"a": 0x10'),
    "True": member(b'"a": True'),
    "half a surrogate pair": member(b'"a": "\\ud800"'),
    "half a surrogate pair in a key": member(b'"\\udfff": 1'),
    "a NUL as it is": member(b'"a": "\0"'),
    "a tab as it is": member(b'"a": "\t"'),
    "a byte order mark": lambda document: b"\xef\xbb\xbf" + document,
    "UTF-16": lambda document: document.decode().encode("utf-16"),
    "a byte that is no UTF-8": member(b'"a": "\xff"'),
    "overlong UTF-8": member(b'"a": "\xc0\xaf"'),
    "a surrogate in UTF-8": member(b'"a": "\xed\xa0\x80"'),
    "deep arrays": member(b'"a": ' + b"[" * 900 + b"]" * 900),
    "deep objects": member(b'"a": ' + b'{"a":' * 65 + b"1" + b"}" * 65),
}


@pytest.fixture(scope="module")
def ada(anybody: Client) -> Client:
    return anybody.registered("ada")


def asked(client: Client, name: str, body: bytes) -> tuple[int, str]:
    path, media_type, _ = DOCUMENTS[name]
    reply = client.ask("POST", path, body=body, headers={"Content-Type": media_type})
    return reply.status, reply.slug


def kept(database: Database) -> int:
    """Count the rows that a document could have become; the one user is who asks."""
    tables = ("theatres", "theatre_templates", "datasets", "registered_constructs", "api_keys")
    found = [database.rows(f"SELECT * FROM {table}") for table in (*tables, "users")]  # noqa: S608 - names of ours
    return sum(map(len, found)) - 1


def test_every_route_that_takes_a_document_is_in_the_table() -> None:
    posting = {
        route.operation_id
        for router in RESOURCES
        for route in router.routes
        if isinstance(route, DeclaredRoute) and (route.methods or set()) & {"POST", "PUT", "PATCH"}
    }
    assert posting == {name.partition(",")[0] for name in DOCUMENTS} | WITHOUT_JSON


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "upload_dataset"])
def test_a_body_that_is_no_strict_json_is_refused(
    ada: Client, module_database: Database, name: str
) -> None:
    good = DOCUMENTS[name][2]
    refused = {case: asked(ada, name, made(good)) for case, made in CASES.items()}
    assert refused == dict.fromkeys(CASES, (400, "malformed-json"))
    assert kept(module_database) == 0


def test_a_dataset_with_a_line_that_is_no_strict_json_is_refused(
    ada: Client, module_database: Database
) -> None:
    good = DOCUMENTS["upload_dataset"][2]
    refused = {
        case: asked(ada, "upload_dataset", good + b"\n" + made(good) + b"\n" + good)
        for case, made in CASES.items()
    }
    assert refused == dict.fromkeys(CASES, (422, "dataset-unavailable"))
    assert kept(module_database) == 0


def test_more_members_than_anybody_needs_are_refused_before_they_are_looked_at(ada: Client) -> None:
    for name in DOCUMENTS.keys() - {"upload_dataset"}:
        limit = theatre_routes.MAX_MEMBERS if name.startswith("create_theatre") else MAX_MEMBERS
        many = ",".join(f'"{number}":1' for number in range(limit)).encode()
        assert asked(ada, name, member(many)(DOCUMENTS[name][2])) == (400, "malformed-json")


def test_a_text_beyond_the_limit_of_a_body_is_refused(ada: Client) -> None:
    body = as_json({"template_json": cartograph(display_name="x" * 2**20)})
    assert asked(ada, "create_theatre", body) == (413, "content-too-large")
