"""Pages for people: who is given HTML, what stands on a page, and how long it may be kept."""

import re
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from backend.api.http.html import prefers_html
from backend.database.embedded.cluster import SUPERUSER
from tests.backend.log_rows import await_all_logged
from tests.backend.serving import Client, Reply
from tests.backend.test_certificates import Scene, scene
from tests.backend.test_theatre_bridge import committed, run
from theatre.engine.canonical_json import canonical_sha256
from theatre.engine.clock import parse_rfc3339

__all__ = ["scene"]
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
UNKNOWN = "018f0000-0000-7000-8000-00000000dead"


def page(client: Client, path: str, **headers: str) -> Reply:
    """Ask as a browser does; what is answered is a page."""
    reply = client.get(path, Accept=BROWSER, **headers)
    if reply.status == 200:
        assert reply.headers["content-type"] == "text/html; charset=utf-8", reply
        assert "script-src 'self'" in reply.headers["content-security-policy"]
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert_asks_nothing_elsewhere(reply.body.decode())
    return reply


def assert_asks_nothing_elsewhere(html: str) -> None:
    """Every address that a page loads or sends to is of this service."""
    loaded = re.findall(r'(?:src|href|action)="([^"]*)"', html)
    assert loaded
    assert all(re.match(r"/(?!/)|#|data:,", one) for one in loaded), loaded
    assert "<style" not in html
    assert not re.search(r"\son\w+=|<script(?! src=)", html)


@pytest.mark.parametrize(
    ("accept", "is_page"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("text/html, */*;q=0.1", True),
        ("text/html;q=0.5, application/json", False),
        ("application/json, text/html", False),
        ("text/html;q=0", False),
        ("*/*", False),
        ("", False),
        ("text/html;q=0.5, */*", False),
        ("text/html" + "," * 2000, False),
    ],
)
def test_html_is_for_who_prefers_it(accept: str, *, is_page: bool) -> None:
    assert prefers_html(accept) is is_page


def test_pages_show_what_programs_are_answered_at_the_same_paths(scene: Scene) -> None:
    theatre = scene.certified(scene.owner("ada"))
    await_all_logged(scene.database)
    client, certificate = scene.client, theatre["certificate_id"]
    for path in (f"/certificates/{certificate}", f"/theatres/{theatre['id']}/certificate"):
        for prefix in ("", "/api/v1"):
            shown = page(client, prefix + path)
            said = client.get(prefix + path)
            assert said.headers["content-type"] == "application/json"
            assert {shown.headers["vary"], said.headers["vary"]} == {"Accept"}
            assert said.document["certificate_id"] == certificate
            assert b"BACKTESTED" in shown.body
    template = f"/templates/{theatre['template_id']}"
    assert client.get(template).document["sha256"].encode() in page(client, template).body
    squatted = {**scene.stage.template, "display_name": "Sums, but easier"}
    committed(client.registered("mallory"), squatted)
    assert client.get(template).document["display_name"] == "Sums"
    over = page(client, f"/theatres/{theatre['id']}").body.decode()
    assert f'href="{template}?sha256={canonical_sha256(scene.stage.template)}"' in over
    home = page(client, "/")
    assert f'href="/c/{certificate}"' in home.body.decode()
    assert f"/c/{certificate}" in page(client, "/?search=SuM").body.decode()
    for nothing in ("%25", "_u_s", "nothing", "%5C"):
        assert f"/c/{certificate}" not in page(client, f"/?search={nothing}").body.decode()
    construct = page(client, "/constructs/sums").body.decode()
    assert "1 run was committed in the log before the first call, by any user; 1 ended" in construct
    log = page(client, "/log").body.decode()
    assert f"/c/{certificate}" in log
    assert client.get("/log?before=0", Accept=BROWSER).status == 200
    assert "set-cookie" not in home.headers


def test_certificates_of_one_template_are_compared_and_others_are_refused(scene: Scene) -> None:
    ada = scene.owner("ada")
    first, second = (scene.certified(ada)["certificate_id"] for _ in range(2))
    private = deepcopy(dict[str, Any](scene.stage.template))
    private["product_theatre_config"]["disclosure"] = "hashes"
    closed = run(ada, committed(ada, private)).document["certificate_id"]

    def compared(*certificates: str) -> Reply:
        query = "&".join(f"certificate={one}" for one in certificates)
        return page(scene.client, f"/compare?{query}")

    assert f'href="/compare?certificate={first}"' in page(scene.client, f"/c/{first}").body.decode()
    choice = compared(first).body.decode()
    assert re.findall(r'type="checkbox" name="certificate" value="([^"]+)"', choice) == [second]
    for _ in range(2):
        shown = compared(first, second).body.decode()
        assert "The data do not tell them apart." in shown
        assert f'href="/c/{first}"' in shown
        assert f'href="/c/{second}"' in shown
    record = page(scene.client, "/constructs/sums").body.decode()
    bars = re.findall('<polygon [^>]*fill-opacity="0.35"', record)
    assert (len(bars), "composite scores by issue" in record) == (3, True)
    scene.clock.ahead = until_lapse(scene, second)
    assert "now EXPIRED" in compared(first, second).body.decode()
    for certificates, status, words in (
        ((first, first), 422, "expected each run once"),
        ((first, closed), 422, "whose evidence is public as a whole"),
        ((first, second, first, second, first), 422, "expected at most 4 certificates"),
        ((first, UNKNOWN), 404, "Not found"),
        ((UNKNOWN,), 404, "Not found"),
        ((first, "none"), 422, "certificate"),
    ):
        refused = compared(*certificates)
        assert (refused.status, words in refused.body.decode()) == (status, True), refused.body
    assert page(scene.client, "/compare").status == 422


def test_what_is_not_there_is_a_page_too(scene: Scene) -> None:
    for path in (f"/c/{UNKNOWN}", f"/certificates/{UNKNOWN}", "/templates/none", "/no/such/page"):
        shown = page(scene.client, path)
        assert (shown.status, shown.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert scene.client.get(f"/certificates/{UNKNOWN}").slug == "not-found"
    assert scene.client.get("/no/such/page").slug == "not-found"
    assert page(scene.client, "/?other=1").status == 422


def until_lapse(scene: Scene, certificate_id: str) -> timedelta:
    """Return how long a certificate is still worth its tier."""
    expires = scene.client.get(f"/certificates/{certificate_id}").document["expires_at"]
    return parse_rfc3339(expires) - scene.clock()


def test_a_page_and_a_badge_are_right_at_the_second_of_a_lapse(scene: Scene) -> None:
    theatre = scene.certified(scene.owner("ada"))
    path = f"/c/{theatre['certificate_id']}"
    badge = f"/certificates/{theatre['certificate_id']}/badge.svg"
    first = page(scene.client, path)
    assert first.headers["cache-control"] == "public, no-cache"
    same = page(scene.client, path, **{"If-None-Match": first.headers["etag"]})
    assert (same.status, same.body) == (304, b"")
    assert "script-src" in same.headers["content-security-policy"]
    assert scene.client.get(badge).headers["cache-control"] == "public, max-age=30"
    expires = until_lapse(scene, theatre["certificate_id"])
    scene.clock.ahead = expires - timedelta(seconds=10)
    assert b"EXPIRED</strong>" not in page(scene.client, path).body.split(b"lapsed", 1)[0]
    kept = scene.client.get(badge)
    age = int(kept.headers["cache-control"].rpartition("=")[2])
    assert 0 <= age <= 10
    assert b"BACKTESTED" in kept.body
    scene.clock.ahead = expires
    assert b'class="tier">EXPIRED' in page(scene.client, path).body
    assert b"UNVERIFIED" in scene.client.get(badge).body
    assert b"UNVERIFIED" in scene.client.get("/badge/sums.svg").body


def test_many_who_open_a_page_at_once_are_all_shown_it(scene: Scene) -> None:
    theatre = scene.certified(scene.owner("ada"))
    address = f"/c/{theatre['certificate_id']}"

    def status(_: int) -> int:
        return page(Client(scene.client.port, {}), address).status

    # Before anything of it is kept: each of them has the bundle unpacked. They are fewer than the
    # database's connections: more may have to wait for one, and are right to hear 503 after 2 s.
    with ThreadPoolExecutor(8) as readers:
        assert set(readers.map(status, range(32))) == {200}


def test_a_page_says_of_its_signature_what_was_verified(scene: Scene) -> None:
    theatre = scene.certified(scene.owner("ada"))
    await_all_logged(scene.database)
    path = f"/c/{theatre['certificate_id']}"
    kid = scene.client.get("/.well-known/echelon/trust.json").document["keys"][-1]["kid"]
    shown = page(scene.client, path).body.decode()
    assert '<section class="verdict good"' in shown
    assert f"Signed by this service with its key {kid[:12]}…, and entry 1 of its log" in shown
    assert "run 1 of 1" in shown
    links = {*re.findall('href="(/[^"]*)"', shown)}
    # What a check takes that needs nothing of ours.
    assert {"/verify_bundle.py", f"/theatres/{theatre['id']}/evidence-bundle"} < links
    assert "/constructs/sums" in links
    assert {scene.client.get(one, Accept=BROWSER).status for one in links} == {200}
    # An intruder with all rights to the database puts another certificate under the signature.
    with scene.database.connected(SUPERUSER) as intruder:
        intruder.execute("SET session_replication_role = replica")
        intruder.execute(
            """
            WITH forged AS (SELECT convert_to(replace(convert_from(document, 'UTF8'),
                '"BACKTESTED"', '"PROVEN"'), 'UTF8') AS bytes FROM theatre_certificates)
            UPDATE theatre_certificates
            SET document = bytes, document_sha256 = encode(sha256(bytes), 'hex') FROM forged
            """
        )
    scene.clock.ahead = timedelta(seconds=1)
    forged = page(scene.client, path).body.decode()
    assert 'class="tier">NOT SIGNED' in forged
    assert "No signature that counts: it is of another certificate" in forged
    for badge in (f"/certificates/{theatre['certificate_id']}/badge.svg", "/badge/sums.svg"):
        drawn = scene.client.get(badge).body.decode()
        assert ("PROVEN" in drawn, "no signature that counts" in drawn) == (False, True), drawn


def test_a_page_follows_a_decision_within_a_second(scene: Scene) -> None:
    theatre = scene.certified(scene.owner("ada"))
    path = f"/c/{theatre['certificate_id']}"
    assert b'class="tier">BACKTESTED' in page(scene.client, path).body
    scene.decide("release", "ada")
    scene.clock.ahead = timedelta(seconds=1)
    assert b'class="tier">UNVERIFIED' in page(scene.client, path).body


def test_an_address_of_no_form_is_a_page_that_says_so(scene: Scene) -> None:
    """A program hears what an identifier looks like, a reader that nothing is there."""
    for path in ("/c/nope", "/theatres/nope", "/templates/nope", "/certificates/nope"):
        got = scene.client.get(path, accept="text/html")
        assert (got.status, b"It does not exist" in got.body) == (404, True), path
    assert scene.client.get("/certificates/nope").status == 422


def test_static_files_never_change_under_their_address(scene: Scene) -> None:
    home = page(scene.client, "/").body.decode()
    loaded = re.findall(r'"(/static/[^"]+)"', home)
    assert len(loaded) == 2
    for path in loaded:
        got = scene.client.get(path)
        assert got.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert scene.client.get(path, **{"If-None-Match": got.headers["etag"]}).status == 304
        older = scene.client.get(f"{path.partition('?')[0]}?v=0123")
        assert older.headers["cache-control"] == "public, max-age=30"
    for name in ("..", "no.css", "..%2frendering.py", "base.html"):
        assert scene.client.get(f"/static/{name}").status == 404
