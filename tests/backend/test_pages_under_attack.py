"""Pages under attack: what is private never stands on them, and a session that ended is none."""

import html
import re
from copy import deepcopy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest

from tests.backend.databases import Database
from tests.backend.operating import administered
from tests.backend.serving import PASSWORD, Client, Reply
from tests.backend.sums_stage import SumsStage, sums_stage
from tests.backend.test_rated_on_pages import OWN, Browser, form_token
from tests.backend.test_served_pages import BROWSER
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.conftest import CONSTRUCT_ID, episode

EPISODES = range(1, 9)
FAILING = 3
SAID = "cannot add"
"""What the construct says of the episode that fails."""
NAME = "planted-name-of-what-is-private"


def asked_in(number: int) -> str:
    return str(73_400_000 + number)


def answered_in(number: int) -> str:
    return str(73_400_000 + number + 11_000_000)


@pytest.fixture
def stage(tmp_path: Path) -> SumsStage:
    records = [
        episode(number, [int(asked_in(number)), 11_000_000], "err" if number == FAILING else None)
        for number in EPISODES
    ]
    policy = {"retry_policy": {"max_retries": 0}, "on_threshold": "continue"}
    return sums_stage(tmp_path / "stage", records, template_changes={"execution_policy": policy})


def closed(stage: SumsStage, **config: object) -> dict[str, Any]:
    template = deepcopy(dict[str, Any](stage.template))
    template["product_theatre_config"] |= config
    template["display_name"] = NAME
    template["metadata"] = {"author": NAME, "description": NAME}
    return template


def crawl(client: Client, starts: list[str], cookie: str) -> dict[str, Reply]:
    """Return all that a browser with this cookie is answered there, and behind every link."""
    seen: dict[str, Reply] = {}
    left = [*starts]
    while left:
        path = left.pop()
        if path not in seen:
            reply = seen[path] = client.get(path, Accept=BROWSER, Cookie=cookie)
            assert reply.status < 500, (path, reply)
            if reply.headers.get("content-type", "").startswith("text/html"):
                found = re.findall(r'(?:href|src|data-\w+)="(/[^"]*)"', reply.body.decode())
                left += [html.unescape(one).partition("#")[0] for one in found]
    return seen


def starts_of(template: dict[str, Any], *theatres: dict[str, Any]) -> list[str]:
    starts = ["/", f"/?search={NAME}", "/log", f"/constructs/{CONSTRUCT_ID}", "/no/such/page"]
    starts += ["/templates", f"/templates/{template['theatre_id']}", f"/badge/{CONSTRUCT_ID}.svg"]
    for theatre in theatres:
        path, certificate = f"/theatres/{theatre['id']}", theatre.get("certificate_id")
        ends = ("", "/live", "/certificate", "/sign-in", "/scores", "/commitment", "/hitl")
        starts += [path + end for end in ends]
        if certificate:
            starts += [f"/c/{certificate}", f"/compare?certificate={certificate}"]
            starts += [f"/certificates/{certificate}{end}" for end in ("", "/badge.svg")]
    return starts


def where(secrets: list[str], seen: dict[str, Reply]) -> set[tuple[str, str]]:
    return {
        (path, one)
        for path, reply in seen.items()
        for one in secrets
        if one.encode() in reply.body or one in str(reply.headers)
        if one not in path
    }


def test_nothing_private_stands_on_a_page_for_strangers_and_other_users(
    client: Client, stage: SumsStage
) -> None:
    ada = client.registered("ada")
    hashed = closed(stage, disclosure="hashes")
    draft = ada.post("/theatres", {"template_json": closed(stage)}).document
    waits = ada.get(committed(ada, hashed)).document
    over = run(ada, committed(ada, hashed)).document
    assert over["outcome"] == "certified", over
    client.add_user("eve")
    eve = Browser(client)
    assert eve.sign_in(f"/theatres/{over['id']}", "eve").status == 303
    cookies = ["", f"echelon_session={eve.cookies['echelon_session']}"]
    numbers = [text(one) for one in EPISODES for text in (asked_in, answered_in)]
    for cookie in cookies:
        seen = crawl(client, starts_of(hashed, draft, waits, over), cookie)
        assert {f"/c/{over['certificate_id']}", f"/theatres/{over['id']}"} <= set(seen)
        assert where([*numbers, SAID, NAME], seen) - {(f"/?search={NAME}", NAME)} == set()
        for theatre, status in ((draft, 404 if cookie else 303), (over, 200), (waits, 200)):
            assert seen[f"/theatres/{theatre['id']}"].status == status
            assert seen[f"/theatres/{theatre['id']}/live"].status == 404
    # Its owner does read it: the search finds what is there.
    own = crawl(ada, [f"/theatres/{over['id']}/commitment"], "")
    assert where([NAME], own)


def test_of_a_run_that_withholds_episodes_only_the_open_ones_stand_on_pages(
    client: Client, stage: SumsStage
) -> None:
    ada = client.registered("ada")
    template = closed(stage, disclosure="withheld", withheld={"share": 0.5})
    template["schema_version"] = "2.2.0"
    over = run(ada, committed(ada, template)).document
    assert over["outcome"] == "certified", over
    listed = client.get(f"/theatres/{over['id']}/episodes?limit=100").document["episodes"]
    private = {one["seq"] for one in listed if one["withheld"]}
    assert 0 < len(private) < len(EPISODES), listed
    numbers = {}
    for one in listed:
        whole = ada.get(f"/theatres/{over['id']}/episodes/{one['episode_id']}").body.decode()
        (numbers[one["seq"]],) = set(re.findall("734000[0-9]{2}", whole))
    client.add_user("eve")
    eve = Browser(client)
    eve.sign_in(f"/theatres/{over['id']}", "eve")
    for cookie in ("", f"echelon_session={eve.cookies['echelon_session']}"):
        seen = crawl(client, starts_of(template, over), cookie)
        for seq, asked in numbers.items():
            secrets = [asked, str(int(asked) + 11_000_000)]
            found = where(secrets, seen)
            assert bool(found) is (seq not in private), (seq, found)


def test_a_session_ends_on_the_server_with_sign_out_password_and_account(
    client: Client, stage: SumsStage, database: Database, tmp_path: Path
) -> None:
    ada = client.registered("ada")
    path = committed(ada, stage.template).removeprefix("/api/v1")

    def signed_in(password: str = PASSWORD) -> tuple[Browser, Browser]:
        """Return a browser, and one of a thief who copied its cookies."""
        browser = Browser(client)
        assert browser.sign_in(path, "ada", password).status == 303
        thief = Browser(client, dict(browser.cookies))
        assert is_owner(thief)
        return browser, thief

    def is_owner(browser: Browser) -> bool:
        return b"How far it is" in replace(browser, cookies={**browser.cookies}).open(path).body

    browser, thief = signed_in()
    leave = form_token(browser.open(path), f"{path}/sign-out")
    body = {"form_token": leave}
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert browser.send(f"{path}/sign-out", body, where=foreign).status == 403
    assert is_owner(thief)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    form = Client(client.port, {"Accept": BROWSER, "Cookie": cookie, **OWN})
    typed = {"Content-Type": "application/x-www-form-urlencoded"}
    huge = {**typed, "Content-Length": "90000000"}
    assert form.ask("POST", f"{path}/sign-out", body=b"a=", headers=huge).status == 413
    for raw, status in (
        (f"form_token={leave}&form_token={leave}".encode(), 422),
        (b"&".join(b"a%d=1" % number for number in range(1001)), 422),
        (b"form_token=%ff", 422),
    ):
        refused = form.ask("POST", f"{path}/sign-out", body=raw, headers=typed)
        assert refused.status == status, (raw[:40], refused)
        assert refused.headers["content-type"] == "text/html; charset=utf-8"
        assert "script-src 'self'" in refused.headers["content-security-policy"]
        assert refused.headers["x-content-type-options"] == "nosniff"
        assert "no-store" in refused.headers["cache-control"]
    assert is_owner(thief)
    assert browser.send(f"{path}/sign-out", body).status == 303
    assert not is_owner(thief)

    _, thief = signed_in()
    ada = client.bearing(token_of(client))
    changed = {"old_password": PASSWORD, "new_password": f"{PASSWORD} anew"}
    reply = ada.post("/api/v1/auth/password", changed)
    assert reply.status == 200, reply
    assert not is_owner(thief)
    _, thief = signed_in(f"{PASSWORD} anew")
    administered(database, tmp_path, "user", "disable", "ada")
    assert not is_owner(thief)


def token_of(client: Client) -> str:
    reply = client.form("/api/v1/auth/token", username="ada", password=PASSWORD)
    return str(reply.document["access_token"])


HOSTILE = {
    "script": "<script>alert(1)</script>",
    "attribute": '"><img src=x onerror=alert(1)>',
    "quote": "' onmouseover='alert(1)",
    "template": "{{ 'qz' * 3 }}{% raw %}",
    "address": "javascript:alert(1)//",
    "title": "</title></svg><script>alert(1)</script>",
    "direction": "\u202eright\u2066\u200b",
    "long": "x" * 3000,
}


class Inert(HTMLParser):
    """Refuses a page on which something of others would run, or load."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on") or name == "style"], attrs
        assert tag not in {"iframe", "object", "embed", "base", "style"}, tag
        assert tag != "script" or str(given.get("src")).startswith("/static/"), attrs
        for name in {"href", "src", "action"} & set(given):
            assert re.match("/(?!/)|#|data:,", str(given[name])), attrs


def with_words(stage: SumsStage, words: str) -> dict[str, Any]:
    template = deepcopy(dict[str, Any](stage.template))
    template["display_name"] = words[:200]
    template["metadata"] = {"author": words, "description": words}
    template["criteria"]["criteria_human"] = words
    return template


def test_hostile_words_are_text_on_every_page_and_badge(client: Client, stage: SumsStage) -> None:
    ada = client.registered("ada")
    taken = set()
    for name, words in HOSTILE.items():
        made = ada.post("/api/v1/theatres", {"template_json": with_words(stage, words)})
        claimed = ada.post("/api/v1/constructs", {"construct_id": words[:200], "author": words})
        assert {made.status, claimed.status} <= {201, 409, 422}, (name, made, claimed)
        starts = [f"/?search={quote(words[:200])}", f"/constructs/{quote(words[:200], safe='')}"]
        starts += [f"/badge/{quote(words[:200], safe='')}.svg", "/templates/product_sums_v1"]
        starts += [f"/templates/{quote(words[:200], safe='')}", f"/{quote(words[:200])}"]
        if made.status == 201:
            taken.add(name)
            over = run(ada, committed(ada, with_words(stage, words))).document
            assert over["outcome"] == "certified", over
            sha256 = re.search(r"Template</dt><dd class=\"hash\">(\w+)", text_at(client, over))
            starts += [f"/templates/product_sums_v1?sha256={sha256[1]}"] if sha256 else []
            starts += [f"/c/{over['certificate_id']}", f"/theatres/{over['id']}"]
            starts += [f"/certificates/{over['certificate_id']}/badge.svg"]
        for path in starts:
            reply = client.get(path, Accept=BROWSER)
            assert reply.status < 500, (path, reply)
            body = reply.body.decode()
            kind = reply.headers.get("content-type", "")
            if kind.startswith("image/svg+xml"):
                tags = {one.tag.rpartition("}")[2] for one in ET.fromstring(body).iter()}  # noqa: S314 - ours
                assert not tags & {"script", "image", "foreignObject", "a"}, path
            elif reply.body:
                assert kind.startswith("text/html"), (path, kind)
                Inert().feed(body)
                assert "qzqzqz" not in body
                assert not set(body) & set("\u202e\u2066\u200b"), path
    assert {"script", "attribute", "template", "direction"} <= taken, taken


def text_at(client: Client, theatre: dict[str, Any]) -> str:
    """Return the page of the newest template with this id."""
    return client.get(f"/templates/{theatre['template_id']}", Accept=BROWSER).body.decode()
