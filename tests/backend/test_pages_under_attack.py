"""Pages under attack: what is private never stands on them, and a session that ended is none."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, served, settings_for
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


@pytest.fixture
def client(database: Database, tmp_path: Path, stage: SumsStage) -> Iterator[Client]:
    with served(create_app(settings_for(database, tmp_path / "home", **stage.settings))) as client:
        yield client


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
    over = run(ada, committed(ada, template)).document
    assert over["outcome"] == "certified", over
    listed = client.get(f"/theatres/{over['id']}/episodes?limit=100").document["episodes"]
    private = {one["seq"] for one in listed if one["withheld"]}
    assert 0 < len(private) < len(EPISODES), listed
    records = ada.get(f"/theatres/{over['id']}/episodes?limit=100").document["episodes"]
    numbers = {one["seq"]: str(one["record"]["input_data"]["numbers"][0]) for one in records}
    client.add_user("eve")
    eve = Browser(client)
    eve.sign_in(f"/theatres/{over['id']}", "eve")
    for cookie in ("", f"echelon_session={eve.cookies['echelon_session']}"):
        seen = crawl(client, starts_of(template, over), cookie)
        for seq, asked in numbers.items():
            secrets = [asked, str(int(asked) + 11_000_000)]
            found = where(secrets, seen)
            assert bool(found) is (seq not in private), (seq, found)
