"""A person is asked on the page of a theatre: sign-in, the rubric, and what is not accepted."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fastapi.routing import iter_route_contexts

from backend.api.http.access_policy import DeclaredRoute, walk_dependencies
from backend.api.http.visitors import READ_FORM
from backend.main import PAGES
from tests.backend.databases import Database
from tests.backend.serving import PASSWORD, Client, Reply
from tests.backend.sums_stage import SumsStage
from tests.backend.test_ratings import rated, waiting
from tests.backend.test_served_pages import BROWSER, UNKNOWN, page

OWN = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
ELSEWHERE: tuple[dict[str, str], ...] = (
    {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "same-site", "Origin": "https://other.example.org"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {},
)


@dataclass(slots=True)
class Browser:
    """Keeps cookies as a browser does that is only here; their attributes are looked at."""

    client: Client
    cookies: dict[str, str] = field(default_factory=dict)

    def open(self, path: str) -> Reply:
        return self._took(page(self.client, path, Cookie=self._cookie()))

    def send(
        self, path: str, fields: Mapping[str, str], *, where: Mapping[str, str] | None = None
    ) -> Reply:
        given = {"Accept": BROWSER, "Cookie": self._cookie(), **(OWN if where is None else where)}
        client = Client(self.client.port, given)
        return self._took(client.form(path, **fields))

    def sign_in(self, path: str, username: str, password: str = PASSWORD) -> Reply:
        address = f"{path}/sign-in"
        token = form_token(self.open(address), address)
        return self.send(address, {"form_token": token, "username": username, "password": password})

    def _cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def _took(self, reply: Reply) -> Reply:
        given = reply.headers.get("set-cookie")
        if given is not None:
            pair, *attributes = given.split("; ")
            assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/theatres"} <= set(attributes)
            name, _, value = pair.partition("=")
            self.cookies[name] = value.strip('"')
        return reply


def form_token(reply: Reply, action: str) -> str:
    form = re.search(rf'action="{action}"[^>]*>\s*<input[^>]* value="([0-9a-f]*)"', text(reply))
    assert form is not None, text(reply)
    return form[1]


def text(reply: Reply) -> str:
    return reply.body.decode()


@pytest.fixture
def stage(tmp_path: Path) -> SumsStage:
    return rated(tmp_path / "stage")


def whole_form(reply: Reply, path: str, value: str = "4") -> dict[str, str]:
    found = text(reply)
    hidden = dict(re.findall(r'name="(step_id|rubric_sha256)" value="([^"]*)"', found))
    values = dict.fromkeys(re.findall(r'name="(value\.\d+)"', found), value)
    return {"form_token": form_token(reply, f"{path}/scores"), "agreed": "yes", **hidden, **values}


def test_a_person_signs_in_and_scores_item_by_item(
    client: Client, stage: SumsStage, database: Database
) -> None:
    ada = client.registered("ada")
    path = waiting(ada, stage).removeprefix("/api/v1")
    client.add_user("bob")
    bob = Browser(client)
    # Committed: its receipt is open to everybody, what is asked is not.
    assert "What people are asked" not in text(bob.open(path))
    wrong = bob.sign_in(path, "bob", "not his")
    assert (wrong.status, "echelon_session" in bob.cookies) == (422, False)
    signed_in = bob.sign_in(path, "bob")
    assert (signed_in.status, signed_in.headers["location"]) == (303, path)
    asked = bob.open(path)
    assert "Item 2 of 2" in text(asked)
    assert "How far they agree" in text(asked)
    form = whole_form(asked, path)
    part = bob.send(f"{path}/scores", {k: v for k, v in form.items() if k != "value.1"})
    assert part.status == 422
    assert "got 1 less" in text(part)
    assert 'value="4" required checked' in text(part)
    assert bob.send(f"{path}/scores", {**form, "value.1": "9"}).status == 422
    unread = bob.send(f"{path}/scores", {**form, "agreed": ""})
    assert "Nothing was recorded" in text(unread)
    assert not database.rows("SELECT 1 FROM human_scores")
    scored = bob.send(f"{path}/scores", form)
    assert (scored.status, scored.headers["location"]) == (303, path)
    rows = database.rows("SELECT identity, score FROM human_scores")
    assert [(row["identity"], row["score"]) for row in rows] == [("bob", 4), ("bob", 4)]
    assert "Your scores are recorded" in text(after := bob.open(path))
    assert "Send all scores" not in text(after)
    again = bob.send(f"{path}/scores", form)
    assert (again.status, "expected one score a person" in text(again)) == (422, True)
    leave = form_token(bob.open(path), f"{path}/sign-out")
    assert bob.send(f"{path}/sign-out", {"form_token": leave}).status == 303
    assert bob.cookies["echelon_session"] == ""


def test_a_score_from_another_origin_is_refused(
    client: Client, stage: SumsStage, database: Database
) -> None:
    path = waiting(client.registered("ada"), stage).removeprefix("/api/v1")
    client.add_user("bob")
    bob = Browser(client)
    bob.sign_in(path, "bob")
    form = whole_form(bob.open(path), path)
    for where in ELSEWHERE:
        refused = bob.send(f"{path}/scores", form, where=where)
        assert (refused.status, "Form not accepted" in text(refused)) == (403, True), where
    own = {"Origin": f"http://127.0.0.1:{client.port}"}
    for token in ("", "0" * 64, form_token(bob.open(path), f"{path}/sign-out")):
        refused = bob.send(f"{path}/scores", {**form, "form_token": token}, where=own)
        assert refused.status == 403
    assert not database.rows("SELECT 1 FROM human_scores")
    assert bob.send(f"{path}/scores", form, where=own).status == 303


def test_a_session_is_no_credential_of_the_interface_and_a_key_is_no_session(
    client: Client, stage: SumsStage
) -> None:
    ada = client.registered("ada")
    path = waiting(ada, stage).removeprefix("/api/v1")
    browser = Browser(client)
    browser.sign_in(path, "ada")
    cookie = f"echelon_session={browser.cookies['echelon_session']}"
    assert client.get(path, Cookie=cookie).slug == "unauthenticated"
    assert client.get(f"{path}/hitl", Cookie=cookie).slug == "unauthenticated"
    assert "How far it is" in text(browser.open(path))
    key = ada.post("/keys", {"name": "k", "scopes": ["read"], "expires_in_days": 1})
    browser.cookies["echelon_session"] = key.document["key"]
    assert "How far it is" not in text(browser.open(path))


def test_who_is_not_signed_in_is_told_of_no_theatre(client: Client, stage: SumsStage) -> None:
    ada = client.registered("ada")
    draft = ada.post("/theatres", {"template_json": stage.template}).document["id"]
    for theatre_id in (draft, UNKNOWN):
        asked = client.get(f"/theatres/{theatre_id}", Accept=BROWSER)
        assert (asked.status, asked.body) == (303, b"")
        assert asked.headers["location"] == f"/theatres/{theatre_id}/sign-in"
        assert client.get(f"/theatres/{theatre_id}/live", Accept=BROWSER).status == 404
    client.add_user("bob")
    bob = Browser(client)
    bob.sign_in(f"/theatres/{draft}", "bob")
    seen = [bob.open(f"/theatres/{theatre_id}") for theatre_id in (draft, UNKNOWN)]
    assert [one.status for one in seen] == [404, 404]
    assert seen[0].body == seen[1].body


def test_every_form_of_a_page_is_verified() -> None:
    found = 0
    for router in PAGES:
        for context in iter_route_contexts(router.routes):
            route = context.original_route
            assert isinstance(route, DeclaredRoute)
            if set(context.methods or ()) - {"GET"}:
                calls = [one.call for one in walk_dependencies(route.dependant)]
                assert READ_FORM in [getattr(call, "__name__", "") for call in calls], route.path
                found += 1
    assert found == 3
