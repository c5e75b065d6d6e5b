"""Where calls may go: the table of ways round the policy, against a server that must not be hit."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from tests.theatre.oracles.loopback import (
    LoopbackServer,
    Received,
    envelope,
    honest,
    response,
    serving,
)
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.errors import AddressNotAllowedError, OutboundPolicyError, OutboundRefusedError
from theatre.oracles.http import HTTPOracleAdapter
from theatre.oracles.http_client import HttpClient
from theatre.oracles.outbound_policy import Lookup, OutboundPolicy, judged_lookup, system_lookup

RequestFor = Callable[..., OracleInvocationRequest]

NOW = datetime(2026, 11, 21, 2, 7, tzinfo=UTC)
PUBLIC_ONLY = OutboundPolicy()


def ask(
    url: str,
    request: OracleInvocationRequest,
    *,
    policy: OutboundPolicy = PUBLIC_ONLY,
    lookup: Lookup = system_lookup,
    times: int = 1,
) -> list[Attempt]:
    async def session() -> list[Attempt]:
        adapter = HTTPOracleAdapter(
            url, policy=policy, clock=lambda: NOW, monotonic=lambda: 0.0, lookup=lookup
        )
        try:
            return [await adapter.invoke(request) for _ in range(times)]
        finally:
            await adapter.aclose()

    return asyncio.run(session())


def answers(*rounds: Sequence[str]) -> tuple[Lookup, list[str]]:
    """A name that has these addresses, one list for each time it is asked; and who asked."""
    following = itertools.chain(rounds, itertools.repeat(rounds[-1]))
    asked: list[str] = []

    async def lookup(host: str, _: int) -> Sequence[str]:
        asked.append(host)
        return next(following)

    return lookup, asked


# Addresses that nobody gets to, and what they are.
REFUSED_ADDRESSES = {
    "0.0.0.0": "unspecified",  # noqa: S104 - an address to refuse
    "0.1.2.3": "unspecified",
    "127.0.0.1": "loopback",
    "127.0.0.2": "loopback",
    "127.255.255.254": "loopback",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "100.64.0.1": "shared",
    "100.127.255.255": "shared",
    "169.254.0.1": "link-local",
    "169.254.169.254": "metadata",
    "169.254.170.2": "metadata",
    "168.63.129.16": "metadata",
    "100.100.100.200": "metadata",
    "192.0.0.192": "metadata",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "192.0.0.8": "reserved",
    "192.0.2.1": "reserved",
    "198.18.0.1": "reserved",
    "198.51.100.1": "reserved",
    "203.0.113.1": "reserved",
    "192.88.99.1": "6to4",
    "::": "unspecified",
    "::1": "loopback",
    "fc00::1": "private",
    "fd12:3456::1": "private",
    "fd00:ec2::254": "metadata",
    "fd20:ce::254": "metadata",
    "fe80::1": "link-local",
    "fe80::1%1": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
    "::ffff:127.0.0.1": "ipv4-mapped",
    "::ffff:7f00:1": "ipv4-mapped",
    "::ffff:169.254.169.254": "ipv4-mapped",
    "::ffff:8.8.8.8": "ipv4-mapped",
    "::ffff:0:127.0.0.1": "ipv4-translated",
    "::127.0.0.1": "ipv4-compatible",
    "64:ff9b::7f00:1": "nat64",
    "64:ff9b::8.8.8.8": "nat64",
    "64:ff9b:1::7f00:1": "nat64",
    "2002:7f00:1::": "6to4",
    "2002:a9fe:a9fe::1": "6to4",
    "2002:808:808::1": "6to4",
    "2001:0:7f00:1::": "teredo",
    "2001:0:808:808:0:0:80ff:fffe": "teredo",
    "2001:2::1": "reserved",
    "2001:10::1": "reserved",
    "2001:db8::1": "reserved",
    "3fff::1": "reserved",
    "100::1": "reserved",
    "5f00::1": "reserved",
    "4000::1": "reserved",
}
PUBLIC_ADDRESSES = [
    *("8.8.8.8", "1.1.1.1", "93.184.215.14", "172.32.0.1", "100.128.0.1", "192.0.1.1"),
    *("2606:4700:4700::1111", "2a00:1450:4001::1", "2620:fe::fe"),
]


@pytest.mark.parametrize(("address", "kind"), REFUSED_ADDRESSES.items())
def test_an_address_that_is_not_public_is_refused_as_what_it_is(address: str, kind: str) -> None:
    with pytest.raises(AddressNotAllowedError, match=f"which is {kind}; only the operator"):
        PUBLIC_ONLY.judge(address, host="construct.example", port=443)


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_a_public_address_is_allowed_as_an_answer_and_in_a_url(address: str) -> None:
    PUBLIC_ONLY.judge(address, host="construct.example", port=443)
    host = f"[{address}]" if ":" in address else address
    assert PUBLIC_ONLY.check_url(f"https://{host}/").raw_host == address


@given(
    st.integers(0, 2**32 - 1).map(IPv4Address) | st.integers(2**125, 2**126 - 1).map(IPv6Address)
)
def test_what_is_allowed_is_global_to_the_standard_library_too(
    address: IPv4Address | IPv6Address,
) -> None:
    try:
        PUBLIC_ONLY.judge(str(address), host="construct.example", port=443)
    except OutboundRefusedError:
        return
    assert address.is_global


# URLs that lead to loopback, in one parser or another, and to nothing good in the rest.
REFUSED_URLS = {
    "loopback": "http://127.0.0.1:{port}/",
    "other loopback": "http://127.8.8.8:{port}/",
    "short": "http://127.1:{port}/",
    "shorter": "http://127.0.1:{port}/",
    "decimal": "http://2130706433:{port}/",
    "octal": "http://0177.0.0.1:{port}/",
    "octal whole": "http://017700000001:{port}/",
    "hexadecimal": "http://0x7f.0.0.1:{port}/",
    "hexadecimal short": "http://0x7f.1:{port}/",
    "hexadecimal whole": "http://0x7f000001:{port}/",
    "hexadecimal capital": "http://0X7F.1:{port}/",
    "bare 0x": "http://127.0.0.0x:{port}/",
    "leading zeros": "http://127.000.000.001:{port}/",
    "too large a number": "http://127.0.0.257:{port}/",
    "overflow": "http://4294967297:{port}/",
    "final dot": "http://127.0.0.1.:{port}/",
    "unspecified": "http://0.0.0.0:{port}/",
    "zero": "http://0:{port}/",
    "full-width digits": "http://１２７.0.0.1:{port}/",  # noqa: RUF001 - the case
    "circled digits": "http://①②⑦.0.0.1:{port}/",
    "ideographic dots": "http://127。0。0。1:{port}/",
    "percent-encoded": "http://%31%32%37.0.0.1:{port}/",
    "IPv6": "http://[::1]:{port}/",
    "IPv6 in full": "http://[0:0:0:0:0:0:0:1]:{port}/",
    "IPv6 unspecified": "http://[::]:{port}/",
    "mapped": "http://[::ffff:127.0.0.1]:{port}/",
    "mapped in hexadecimal": "http://[::ffff:7f00:1]:{port}/",
    "compatible": "http://[::127.0.0.1]:{port}/",
    "translated": "http://[::ffff:0:127.0.0.1]:{port}/",
    "NAT64": "http://[64:ff9b::7f00:1]:{port}/",
    "local NAT64": "http://[64:ff9b:1::7f00:1]:{port}/",
    "6to4": "http://[2002:7f00:1::]:{port}/",
    "Teredo": "http://[2001:0:7f00:1::]:{port}/",
    "zone": "http://[::1%25lo]:{port}/",
    "link-local with zone": "http://[fe80::1%lo]:{port}/",
    "future literal": "http://[v1.127.0.0.1]:{port}/",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "metadata over IPv6": "http://[fd00:ec2::254]/latest/meta-data/",
    "metadata mapped": "http://[::ffff:169.254.169.254]/",
    "metadata in decimal": "http://2852039166/",
    "Azure": "http://168.63.129.16/",
    "Alibaba": "http://100.100.100.200/",
    "CGNAT": "http://100.64.0.1:{port}/",
    "private": "http://192.168.0.1:{port}/",
    "multicast": "http://224.0.0.1:{port}/",
    "broadcast": "http://255.255.255.255:{port}/",
    "credentials": "http://user:secret-word@construct.example:{port}/",
    "user": "http://user@127.0.0.1:{port}/",
    "empty user": "http://@127.0.0.1:{port}/",
    "host as user": "http://construct.example@127.0.0.1:{port}/",
    "backslash": "http://construct.example\\@127.0.0.1:{port}/",
    "fragment before at": "http://construct.example#@127.0.0.1:{port}/",
    "fragment": "https://construct.example/#part",
    "tab": "http://127.0.0.1\t:{port}/",
    "line feed": "http://127.0.0.1:{port}/\nHost: other",
    "space": "http://127.0.0.1 :{port}/",
    "space in front": " http://127.0.0.1:{port}/",
    "space in the path": "https://construct.example/a b",
    "line feed in the path": "https://construct.example/\nHost: other",
    "right-to-left override": "https://construct.example/\u202e",
    "NUL": "http://construct.example\0.127.0.0.1:{port}/",
    "zero-width space": "http://127.0.0.1\u200b:{port}/",
    "no host": "http:///path",
    "no scheme": "//127.0.0.1:{port}/",
    "bare": "127.0.0.1:{port}",
    "file": "file:///etc/passwd",
    "gopher": "gopher://127.0.0.1:{port}/",
    "ftp": "ftp://127.0.0.1:{port}/",
    "unix": "unix:///run/docker.sock",
    "http+unix": "http+unix://%2Frun%2Fdocker.sock/",
    "websocket": "ws://127.0.0.1:{port}/",
    "empty": "",
    "no port": "http://127.0.0.1:99999/",
    "two ports": "http://127.0.0.1:{port}:80/",
    "long": "http://127.0.0.1:{port}/" + "x" * 2048,
    "long label": f"http://{'a' * 64}.example:{{port}}/",
    "long name": f"http://{'a.' * 127}example:{{port}}/",
}


@pytest.mark.parametrize("url", REFUSED_URLS.values(), ids=REFUSED_URLS.keys())
def test_a_url_that_leads_astray_is_refused_before_anything_is_connected(
    url: str, request_for: RequestFor
) -> None:
    with serving(honest) as server:
        with pytest.raises(OutboundRefusedError) as caught:
            ask(url.replace("{port}", str(server.port)), request_for())
        assert (server.connections, caught.value.code) == (0, "endpoint-not-allowed")
        assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize("address", REFUSED_ADDRESSES)
def test_a_name_that_leads_astray_is_refused_when_it_is_resolved(
    address: str, request_for: RequestFor
) -> None:
    lookup, asked = answers([address])
    with serving(honest) as server:
        (attempt,) = ask(f"http://construct.example:{server.port}/", request_for(), lookup=lookup)
        assert (server.connections, asked) == (0, ["construct.example"])
    assert (attempt.response.status, attempt.reason) == (
        InvocationStatus.ERROR,
        "endpoint-not-allowed",
    )


def test_the_system_resolver_is_judged_like_any_other(request_for: RequestFor) -> None:
    with serving(honest) as server:
        (attempt,) = ask(f"http://localhost:{server.port}/", request_for())
        assert (attempt.reason, server.connections) == ("endpoint-not-allowed", 0)


def test_one_bad_address_among_good_ones_refuses_the_name(request_for: RequestFor) -> None:
    policy = OutboundPolicy(allow=("127.0.0.2",))
    with serving(honest, host="127.0.0.2") as good:
        url = f"http://construct.example:{good.port}/"
        lookup, _ = answers(["127.0.0.2", "127.0.0.1"])
        (attempt,) = ask(url, request_for(), policy=policy, lookup=lookup)
        assert (attempt.reason, good.connections) == ("endpoint-not-allowed", 0)


@pytest.mark.parametrize("keeps_alive", [True, False])
def test_a_name_that_changes_its_answer_gains_nothing(
    request_for: RequestFor, *, keeps_alive: bool
) -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        headers = "" if keeps_alive else "Connection: close\r\n"
        writer.write(response(envelope(request), headers=headers))
        if not keeps_alive:
            writer.close()

    policy = OutboundPolicy(allow=("127.0.0.2",))
    with (
        serving(answer, host="127.0.0.2") as good,
        serving(honest, host="127.0.0.1", port=good.port) as inner,
    ):
        url = f"http://construct.example:{good.port}/"
        lookup, asked = answers(["127.0.0.2"], ["127.0.0.1"])
        attempts = ask(url, request_for(), policy=policy, lookup=lookup, times=3)
        assert [attempt.response.status for attempt in attempts] == [InvocationStatus.SUCCESS] * 3
        assert (len(good.received), inner.connections, len(asked)) == (3, 0, 1)
        (later,) = ask(url, request_for(), policy=policy, lookup=lookup)
        assert (later.reason, inner.connections) == ("endpoint-not-allowed", 0)


def test_an_address_that_goes_round_the_resolver_is_judged_when_it_is_connected() -> None:
    async def fetch(server: LoopbackServer) -> None:
        client = HttpClient(lookup=judged_lookup(PUBLIC_ONLY), seconds=20)
        url = URL(server.url)
        try:
            await client.ask("POST", url, read=lambda answer: answer.read(0), headers={})
        finally:
            await client.aclose()

    with serving(honest) as server:
        with pytest.raises(AddressNotAllowedError, match="which is loopback"):
            asyncio.run(fetch(server))
        assert server.connections == 0


@pytest.mark.parametrize("status", ["301 M", "302 F", "303 S", "307 T", "308 P", "300 M", "304 N"])
def test_a_redirect_is_not_followed(status: str, request_for: RequestFor) -> None:
    policy = OutboundPolicy(allow=("127.0.0.1",))
    with serving(honest) as inner:

        async def redirect(_: Received, writer: asyncio.StreamWriter) -> None:
            writer.write(response(b"", status=status, headers=f"Location: {inner.url}\r\n"))

        with serving(redirect) as server:
            (attempt,) = ask(server.url, request_for(), policy=policy)
            assert (len(server.received), inner.connections) == (1, 0)
    assert attempt.response.status is InvocationStatus.ERROR
    assert attempt.reason in {"redirect", "http-status"}


PROXY_VARIABLES = [
    *("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
]


def test_proxies_of_the_environment_are_not_used(
    request_for: RequestFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = OutboundPolicy(allow=("127.0.0.2",))
    with serving(honest) as proxy, serving(honest, host="127.0.0.2") as server:
        for variable in PROXY_VARIABLES:
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        (attempt,) = ask(server.url, request_for(), policy=policy)
        assert attempt.response.status is InvocationStatus.SUCCESS
        assert (proxy.connections, server.connections) == (0, 1)


def test_credentials_of_the_environment_are_not_sent(
    request_for: RequestFor,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password secret-word\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with serving(honest) as server:
        ask(server.url, request_for(), policy=OutboundPolicy(allow=("127.0.0.1",)))
        assert "authorization" not in server.received[0].headers


# What an operator allows, and what that lets through: (host, address, port) → allowed?
ALLOWED = {
    "an address": ("127.0.0.1", ("127.0.0.1", "127.0.0.1", 80), True),
    "an address as an answer": ("127.0.0.1", ("construct.example", "127.0.0.1", 80), True),
    "another address": ("127.0.0.1", ("127.0.0.2", "127.0.0.2", 80), False),
    "a network": ("10.0.0.0/8", ("construct.example", "10.9.8.7", 80), True),
    "outside the network": ("10.0.0.0/8", ("construct.example", "11.0.0.0", 80), True),
    "another network": ("10.0.0.0/8", ("construct.example", "192.168.0.1", 80), False),
    "the port": ("127.0.0.1:8080", ("127.0.0.1", "127.0.0.1", 8080), True),
    "another port": ("127.0.0.1:8080", ("127.0.0.1", "127.0.0.1", 8081), False),
    "the port of a network": ("10.0.0.0/8:443", ("x.example", "10.0.0.1", 443), True),
    "another port of a network": ("10.0.0.0/8:443", ("x.example", "10.0.0.1", 80), False),
    "IPv6": ("::1", ("::1", "::1", 80), True),
    "IPv6 in brackets": ("[::1]", ("::1", "::1", 80), True),
    "IPv6 with the port": ("[::1]:8080", ("::1", "::1", 8080), True),
    "IPv6 with another port": ("[::1]:8080", ("::1", "::1", 80), False),
    "IPv6 network": ("fc00::/7", ("construct.example", "fd00::1", 80), True),
    "IPv6 network and metadata": ("fc00::/7", ("construct.example", "fd00:ec2::254", 80), True),
    "a name": ("localhost", ("localhost", "127.0.0.1", 80), True),
    "a name over IPv6": ("localhost", ("localhost", "::1", 80), True),
    "a name in capitals": ("LOCALHOST", ("localhost", "127.0.0.1", 80), True),
    "a name with a dot": ("localhost", ("LocalHost.", "127.0.0.1", 80), True),
    "a name with the port": ("localhost:8080", ("localhost", "127.0.0.1", 8080), True),
    "a name with another port": ("localhost:8080", ("localhost", "127.0.0.1", 80), False),
    "another name": ("localhost", ("construct.example", "127.0.0.1", 80), False),
    "a name in a private network": ("db.internal", ("db.internal", "10.0.0.1", 80), True),
    "a name behind CGNAT": ("db.internal", ("db.internal", "100.64.0.1", 80), True),
    "a name at metadata": ("db.internal", ("db.internal", "169.254.169.254", 80), False),
    "a name at link-local": ("db.internal", ("db.internal", "169.254.1.1", 80), False),
    "a name at multicast": ("db.internal", ("db.internal", "224.0.0.1", 80), False),
    "a name at a mapped address": ("localhost", ("localhost", "::ffff:127.0.0.1", 80), False),
    "IPv4 does not allow mapped": ("127.0.0.1", ("x.example", "::ffff:127.0.0.1", 80), False),
    "mapped does not allow inside": ("::ffff:0:0/96", ("x.example", "::ffff:7f00:1", 80), False),
    "NAT64 allows public": ("64:ff9b::/96", ("x.example", "64:ff9b::8.8.8.8", 80), True),
    "NAT64 does not allow inside": ("64:ff9b::/96", ("x.example", "64:ff9b::a00:1", 80), False),
    "6to4 does not allow inside": ("2002::/16", ("x.example", "2002:a00:1::1", 80), False),
    "Teredo does not allow server": ("2001::/32", ("x.example", "2001:0:a00:1::", 80), False),
    "Teredo does not allow client": (
        "2001::/32",
        ("x.example", "2001:0:808:808:0:0:f5ff:fffe", 80),
        False,
    ),
    "IPv6 loopback is itself": ("::1", ("x.example", "::1", 80), True),
}


@pytest.mark.parametrize(("entry", "place", "allowed"), ALLOWED.values(), ids=ALLOWED.keys())
def test_an_operator_allows_what_an_entry_says_and_no_more(
    entry: str, place: tuple[str, str, int], *, allowed: bool
) -> None:
    host, address, port = place
    try:
        OutboundPolicy(allow=(entry,)).judge(address, host=host, port=port)
    except OutboundRefusedError:
        assert not allowed
    else:
        assert allowed


def test_a_form_and_what_is_inside_can_both_be_allowed() -> None:
    policy = OutboundPolicy(allow=("::ffff:0:0/96", "127.0.0.1"))
    policy.judge("::ffff:127.0.0.1", host="construct.example", port=80)


@pytest.mark.parametrize(
    ("entry", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.0/8:{port}", "127.0.0.1"),
        ("localhost", "localhost"),
        ("localhost:{port}", "LOCALHOST"),
    ],
)
def test_what_the_operator_allows_is_reached(
    entry: str, host: str, request_for: RequestFor
) -> None:
    with serving(honest) as server:
        policy = OutboundPolicy(allow=(entry.replace("{port}", str(server.port)),))
        (attempt,) = ask(f"http://{host}:{server.port}/", request_for(), policy=policy)
        assert (attempt.response.status, server.connections) == (InvocationStatus.SUCCESS, 1)


WRONG_ENTRIES = [
    "",
    "*",
    "*.example",
    "http://construct.example",
    "10.0.0.1/8",
    "10.0.0.0/33",
    "127.1",
    "2130706433",
    "0x7f.1",
    "localhost:",
    "localhost:0",
    "localhost:65536",
    "localhost:http",
    "localhost:99999999999999999999",
    "[::1]:0",
    "[localhost",
    "user@localhost",
    "a b",
    "fe80::1%lo/64",
]


@pytest.mark.parametrize("entry", WRONG_ENTRIES)
def test_an_entry_that_cannot_be_read_is_refused(entry: str) -> None:
    with pytest.raises(OutboundPolicyError):
        OutboundPolicy(allow=(entry,))


def test_a_policy_is_a_value() -> None:
    policy = OutboundPolicy(allow=("localhost",))
    assert policy == OutboundPolicy(allow=("localhost",))
    assert repr(policy) == "OutboundPolicy(allow=('localhost',))"


def test_plain_urls_are_taken_as_they_are() -> None:
    urls = [
        "https://construct.example/invoke",
        "http://construct.example:8080/invoke?stage=test",
        "https://a_b.construct-1.example./",
        "https://xn--bcher-kva.example/",
    ]
    assert [str(PUBLIC_ONLY.check_url(url)) for url in urls] == urls
    assert PUBLIC_ONLY.check_url("https://bücher.example/").raw_host == "xn--bcher-kva.example"
