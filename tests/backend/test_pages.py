"""Pages of every list: bounds, cursors that go on, and cursors that belong elsewhere."""

import base64
import json

import pytest

from backend.api.http.pages import MAX_OFFSET, Listing
from backend.database.sessions import OWNER
from tests.backend.databases import Database
from tests.backend.serving import Client
from tests.backend.theatre_templates import cartograph
from theatre.engine.canonical_json import sha256_hex


@pytest.fixture(scope="module")
def ada(anybody: Client) -> Client:
    return anybody.registered("ada")


@pytest.fixture(scope="module")
def key_names(ada: Client) -> list[str]:
    """Three keys, the newest first."""
    for name in ("one", "two", "three"):
        body = {"name": name, "scopes": ["read"], "expires_in_days": 1}
        assert ada.post("/keys", body).status == 201
    return ["three", "two", "one"]


@pytest.fixture(scope="module")
def construct_ids(ada: Client, module_database: Database) -> list[str]:
    """Four construct ids, the newest first; those of one moment in the order of their hashes."""
    made = ["x" * 255, "Zeichen \u2713" * 25, "b", "a"]
    for construct_id in made:
        assert ada.post("/constructs", {"construct_id": construct_id}).status == 201
    with module_database.connected(OWNER) as connection:
        connection.execute(
            "UPDATE registered_constructs SET created_at = '2026-01-01Z'"
            " WHERE length(construct_id) > 1"
        )
    tied = [one for one in made if len(one) > 1]
    return ["a", "b", *sorted(tied, key=lambda one: sha256_hex(one.encode()), reverse=True)]


@pytest.fixture(scope="module")
def theatres(ada: Client) -> list[str]:
    """Three committed theatres of three templates, the newest first."""
    made: list[str] = []
    for number in range(3):
        body = {"template_json": cartograph(display_name=f"Number {number}")}
        path = ada.post("/theatres", body).headers["location"]
        assert ada.post(f"{path}/commit", b"").status == 200
        made.insert(0, path)
    return made


def walked(client: Client, path: str, name: str) -> list[object]:
    """Follow a list by its cursors, one at a time."""
    page = client.get(f"{path}?limit=1").document
    items: list[object] = list(page[name])
    while page["next_cursor"] is not None:
        page = client.get(f"{path}?limit=1&cursor={page['next_cursor']}").document
        items += page[name]
    return items


def test_every_list_is_walked_by_its_cursors(
    anybody: Client,
    ada: Client,
    theatres: list[str],
    key_names: list[str],
    construct_ids: list[str],
) -> None:
    bob = anybody.registered("bob")
    for who, path, name, total in (
        (ada, "/keys", "keys", len(key_names)),
        (bob, "/keys", "keys", 0),
        (ada, "/constructs", "constructs", len(construct_ids)),
        (bob, "/constructs", "constructs", 0),
        (ada, "/theatres", "theatres", 3),
        (anybody, "/templates", "templates", 3),
        (ada, f"{theatres[0]}/audit-events", "audit_events", 2),
        (ada, f"{theatres[0]}/episodes", "episodes", 0),
        (anybody, "/certificates", "certificates", 0),
    ):
        whole = who.get(path).document
        assert (whole["total"], len(whole[name]), whole["offset"]) == (total, total, 0), path
        assert whole["next_cursor"] is None
        assert walked(who, path, name) == whole[name]
    assert [one["name"] for one in ada.get("/keys").document["keys"]] == key_names
    listed = ada.get("/constructs").document["constructs"]
    assert [one["construct_id"] for one in listed] == construct_ids


def test_a_cursor_is_refused_where_it_is_of_another_list(
    anybody: Client, ada: Client, theatres: list[str], key_names: list[str]
) -> None:
    assert len(key_names) > 1

    def cursor(who: Client, path: str) -> str:
        return str(who.get(path).document["next_cursor"])

    bob = anybody.registered("robert")
    own = cursor(ada, "/theatres?limit=1")
    keys = cursor(ada, "/keys?limit=1")
    events = cursor(ada, f"{theatres[0]}/audit-events?limit=1")
    for who, path, given in (
        (ada, "/theatres?state=COMMITTED", own),
        (ada, "/theatres?construct_id=cartograph", own),
        (bob, "/theatres?limit=1", own),
        (ada, "/keys?limit=1", own),
        (ada, "/constructs?limit=1", keys),
        (bob, "/keys?limit=1", keys),
        (anybody, "/certificates?limit=1", own),
        (anybody, "/templates?limit=1", own),
        (ada, f"{theatres[1]}/audit-events?limit=1", events),
        (ada, f"{theatres[0]}/episodes?limit=1", events),
    ):
        refused = who.get(f"{path}&cursor={given}")
        assert (refused.status, refused.slug) == (422, "validation-error"), path
        assert refused.document["errors"][0]["pointer"] == "query:cursor"
    assert ada.get(f"/theatres?limit=2&cursor={own}").status == 200


@pytest.mark.parametrize(
    "place",
    [
        ["2026-11-22T00:00:00+00:00", "no-uuid"],
        ["2026-11-22T00:00:00", "018f0000-0000-7000-8000-00000000dead"],
        ["0001-01-01T00:00:00+23:00", "018f0000-0000-7000-8000-00000000dead"],
        ["2026-11-22T00:00:00+00:00", 7],
        [1],
        [],
    ],
)
def test_a_forged_cursor_is_refused_and_breaks_nothing(client: Client, place: list[object]) -> None:
    fingerprint = Listing("certificates", (None, None, None, None)).fingerprint
    raw = json.dumps([fingerprint, *place]).encode()
    forged = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    assert client.get(f"/certificates?cursor={forged}").slug == "validation-error"


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "offset=-1", "offsets=1"])
def test_a_page_beyond_the_bounds_is_refused(client: Client, query: str) -> None:
    for path in ("/templates", "/certificates"):
        assert client.get(f"{path}?{query}").slug == "validation-error"


def test_a_deep_offset_points_to_the_cursor(client: Client) -> None:
    assert client.get(f"/certificates?offset={MAX_OFFSET}").status == 200
    (error,) = client.get(f"/certificates?offset={MAX_OFFSET + 1}").document["errors"]
    assert (error["pointer"], error["detail"]) == (
        "query:offset",
        "expected at most 10000; further on, send `next_cursor` of a page as `cursor`",
    )
