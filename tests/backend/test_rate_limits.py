"""How often anybody may ask: so often at once, then as often as fits, and nobody for another."""

import http.client
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from backend.api.http import rate_limits
from backend.api.http.forwarded import client_of
from backend.api.http.rate_limits import Rate, RateLimiter, RateLimits
from backend.errors import RateLimitedError
from backend.main import create_app
from backend.settings import Settings
from tests.backend.databases import Database
from tests.backend.serving import PASSWORD, Client, Reply, served, settings_for
from tests.backend.theatre_templates import cartograph
from tests.theatre.echelon_process import until


class Hand:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def admitted(limiter: RateLimiter, who: str, times: int) -> int:
    """Ask so many times; return how many were admitted."""
    count = 0
    for _ in range(times):
        try:
            limiter.admit(who)
        except RateLimitedError:
            continue
        count += 1
    return count


@pytest.mark.parametrize("per_minute", [1, 2, 7, 60, 1000, 60_000])
def test_a_minutes_worth_may_come_at_once_and_comes_again_in_a_minute(per_minute: int) -> None:
    clock = Hand()
    limiter = RateLimiter(per_minute, of="questions", monotonic=clock)
    assert admitted(limiter, "ada", per_minute + 5) == per_minute
    clock.seconds += 60 / per_minute
    assert admitted(limiter, "ada", 5) == 1
    clock.seconds += 1_000_000
    assert admitted(limiter, "ada", per_minute + 5) == per_minute


def test_whoever_is_refused_is_told_when_to_come_again_and_may_then() -> None:
    clock = Hand()
    limiter = RateLimiter(6, of="questions", monotonic=clock)
    assert admitted(limiter, "ada", 6) == 6
    with pytest.raises(RateLimitedError, match=r"^expected at most 6 questions a minute") as caught:
        limiter.admit("ada")
    assert caught.value.retry_after == 10
    clock.seconds += 9
    assert admitted(limiter, "ada", 1) == 0
    clock.seconds += 1
    assert admitted(limiter, "ada", 1) == 1


def test_nobody_is_refused_for_what_another_asked() -> None:
    limiter = RateLimiter(1, of="questions", monotonic=Hand())
    assert [admitted(limiter, who, 2) for who in ("ada", "bob", "ada")] == [1, 1, 0]


def test_addresses_of_one_network_of_ipv6_count_together() -> None:
    limits = RateLimits(Settings(requests_per_minute=1))
    limits.admit_address(Rate.READ, "2001:db8::1")
    limits.admit_address(Rate.READ, "2001:db8:0:1::1")
    limits.admit_address(Rate.READ, "::ffff:192.0.2.1%eth0")
    limits.admit_address(Rate.READ, "not:an:address")
    with pytest.raises(RateLimitedError):
        limits.admit_address(Rate.READ, "2001:db8::ffff:2")


def test_as_many_are_remembered_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "_REMEMBERED", 2)
    limiter = RateLimiter(1, of="questions", monotonic=Hand())
    assert [admitted(limiter, who, 1) for who in ("ada", "bob", "eve", "ada")] == [1, 1, 1, 1]
    assert admitted(limiter, "eve", 1) == 0


@pytest.fixture
def few(database: Database, tmp_path: Path) -> Iterator[Client]:
    settings = settings_for(
        database, tmp_path, requests_per_minute=12, writes_per_minute=2, logins_per_minute=3
    )
    with served(create_app(settings)) as client:
        yield replace(client, database=None)  # Registrations count.


@pytest.fixture
def usual(database: Database, tmp_path: Path) -> Iterator[Client]:
    with served(create_app(settings_for(database, tmp_path))) as client:
        yield client


def refused(reply: Reply) -> bool:
    if reply.status != 429:
        return False
    assert reply.slug == "rate-limited"
    assert 1 <= int(reply.headers["retry-after"]) <= 60
    return True


def test_each_kind_of_request_has_its_measure(few: Client) -> None:
    ada = few.registered("ada")  # A registration and a log-in of three.
    assert [
        refused(few.form("/auth/token", username="a", password=PASSWORD)) for _ in range(3)
    ] == [False, True, True]
    claims = [ada.post("/constructs", {"construct_id": name}) for name in "abc"]
    assert [refused(one) for one in claims] == [False, False, True]
    assert claims[2].document["detail"] == "expected at most 2 writes a minute, got more"
    assert [refused(ada.get("/keys")) for _ in range(9)] == [False] * 9
    assert refused(ada.get("/keys"))
    assert refused(few.get("/templates"))
    assert refused(few.bearing("nobody").get("/keys"))
    assert [few.get(path).status for path in ("/livez", "/readyz", "/metrics")] == [200] * 3


def test_with_the_usual_limits_nobody_notices_them(usual: Client) -> None:
    assert {usual.get("/version").status for _ in range(100)} == {200}


def test_a_user_has_five_streams_at_once_and_not_more(usual: Client) -> None:
    ada, bob = usual.registered("ada"), usual.registered("bob")
    path = f"/theatres/{drafted(ada)}/events"
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(opening(ada, path))) for _ in range(5)]
        assert [one.getresponse().status for one in opened] == [200] * 5
        assert refused(ada.get(path))
        other = stack.enter_context(closing(opening(bob, f"/theatres/{drafted(bob)}/events")))
        assert other.getresponse().status == 200

    def is_admitted() -> bool:
        with closing(opening(ada, path)) as again:
            return again.getresponse().status == 200

    until(is_admitted, "the streams that have ended to be out of the count")


def drafted(client: Client) -> str:
    made = client.post("/theatres", {"template_json": cartograph()})
    return str(made.document["id"])


def opening(client: Client, path: str) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    connection.request("GET", path, headers=dict(client.headers))
    return connection


PROXIES = Settings.model_validate({"trusted_proxies": "10.0.0.0/8,2001:db8:9::/48"}).trusted_proxies


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        pytest.param("192.0.2.1", ["X-Forwarded-For: 198.51.100.7"], "192.0.2.1", id="of-others"),
        pytest.param("192.0.2.1", ["Forwarded: for=198.51.100.7"], "192.0.2.1", id="of-others-rfc"),
        pytest.param("10.0.0.1", [], "10.0.0.1", id="without-a-header"),
        pytest.param("10.0.0.1", ["X-Forwarded-For: 198.51.100.7"], "198.51.100.7", id="one-hop"),
        pytest.param("::ffff:10.0.0.1", ["X-Forwarded-For: 198.51.100.7"], "198.51.100.7", id="v4"),
        pytest.param(
            "10.0.0.1", ["X-Forwarded-For: 203.0.113.9, 198.51.100.7"], "198.51.100.7", id="spoofed"
        ),
        pytest.param(
            "10.0.0.1",
            ["X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 198.51.100.7"],
            "198.51.100.7",
            id="spoofed-in-a-line-of-its-own",
        ),
        pytest.param(
            "10.0.0.1", ["X-Forwarded-For: 10.9.9.9, 198.51.100.7"], "198.51.100.7", id="as-proxy"
        ),
        pytest.param(
            "10.0.0.1",
            ["X-Forwarded-For: 203.0.113.9, 198.51.100.7, 10.0.0.2"],
            "198.51.100.7",
            id="two-proxies",
        ),
        pytest.param("10.0.0.1", ["X-Forwarded-For: 10.0.0.3"], "10.0.0.3", id="from-within"),
        pytest.param("10.0.0.1", ["X-Forwarded-For: 203.0.113.9, x"], "10.0.0.1", id="no-address"),
        pytest.param("10.0.0.1", ["X-Forwarded-For: "], "10.0.0.1", id="empty"),
        pytest.param(
            "10.0.0.1", ["X-Forwarded-For: 198.51.100.7:8443"], "198.51.100.7", id="with-a-port"
        ),
        pytest.param(
            "2001:db8:9::1",
            ['Forwarded: for="[2001:db8::7]:99";proto=https;by=_x'],
            "2001:db8::7",
            id="rfc-7239",
        ),
        pytest.param(
            "10.0.0.1",
            ['Forwarded: for="203.0.113.9, for=198.51.100.7'],
            "198.51.100.7",
            id="an-open-quote",
        ),
        pytest.param(
            "10.0.0.1", ["Forwarded: for=203.0.113.9, for=_hidden"], "10.0.0.1", id="hidden"
        ),
        pytest.param("10.0.0.1", ["Forwarded: by=203.0.113.9"], "10.0.0.1", id="without-for"),
        pytest.param(
            "10.0.0.1",
            ["X-Forwarded-For: 198.51.100.7", "Forwarded: for=203.0.113.9"],
            "10.0.0.1",
            id="both-one-of-which-may-be-the-clients",
        ),
        pytest.param(
            "10.0.0.1",
            [f"X-Forwarded-For: {'203.0.113.9, ' * 5000}198.51.100.7"],
            "198.51.100.7",
            id="a-long-list",
        ),
        pytest.param("", ["X-Forwarded-For: 198.51.100.7"], "", id="a-socket-without-address"),
    ],
)
def test_a_proxy_is_believed_from_the_right_and_a_client_never(
    peer: str, headers: list[str], client: str
) -> None:
    sent = [
        (name.lower().encode(), value.strip().encode())
        for name, value in (line.split(":", 1) for line in headers)
    ]
    assert client_of(peer, sent, PROXIES) == client


def test_ipv4_addresses_in_ipv6_are_not_one_network() -> None:
    limits = RateLimits(Settings(requests_per_minute=1))
    for host in ("::ffff:192.0.2.1", "::ffff:192.0.2.2", "fe80::1%eth0"):
        limits.admit_address(Rate.READ, host)
    for host in ("192.0.2.1", "fe80::2%eth1"):
        with pytest.raises(RateLimitedError):
            limits.admit_address(Rate.READ, host)


def asked(client: Client, who: str) -> bool:
    return refused(client.get("/version", **{"X-Forwarded-For": who}))


def test_behind_a_trusted_proxy_each_client_has_its_measure(
    database: Database, tmp_path: Path
) -> None:
    behind = {"trusted_proxies": "127.0.0.0/8", "worker_in_api": False, "requests_per_minute": 2}
    settings = settings_for(database, tmp_path, **behind)
    with served(create_app(settings)) as client:
        assert [asked(client, "198.51.100.7") for _ in range(3)] == [False, False, True]
        assert not asked(client, "198.51.100.8")
        assert asked(client, "198.51.100.9, 198.51.100.7")
    with served(create_app(settings.model_copy(update={"trusted_proxies": ()}))) as client:
        assert [asked(client, f"198.51.100.{i}") for i in range(3)] == [False, False, True]


def test_one_name_is_tried_so_often_from_all_addresses_together() -> None:
    limits = RateLimits(Settings(account_logins_per_minute=2))
    for name in ("Ada", "aDA", "bob"):
        limits.admit_log_in(name)
    with pytest.raises(RateLimitedError, match=r"^expected at most 2 log-ins of one name"):
        limits.admit_log_in("ada")


def test_the_log_ins_of_one_name_are_limited_whether_it_is_a_user_or_not(
    database: Database, tmp_path: Path
) -> None:
    settings = settings_for(database, tmp_path, worker_in_api=False, account_logins_per_minute=1)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        change = {"old_password": "a guess of one", "new_password": PASSWORD}
        assert refused(ada.post("/auth/password", change))
        assert refused(client.form("/auth/token", username="ADA", password=PASSWORD))
        tries = [client.form("/auth/token", username="no", password=PASSWORD) for _ in "ab"]
        assert [refused(one) for one in tries] == [False, True]
