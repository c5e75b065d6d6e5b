"""Constructs without a wrapper, and Python callables: from their settings to a certificate."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

import theatre
from tests.theatre.cli.doubler import EPISODES, MODULE, write_module, write_theatre
from tests.theatre.cli.plain_constructs import (
    DOUBLER,
    KEY,
    TOOL_SERVER,
    anthropic_server,
    openai_server,
    tool_server,
)
from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import serving
from tests.theatre.runs import checked
from tests.theatre.test_isolated_runs import is_consistent
from theatre import pytest_plugin
from theatre.cli import cli
from theatre.cli.watch_command import watch_theatre
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.oracle_contract import pinned_version
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.errors import KeyNotAllowedError, OutboundPolicyError
from theatre.oracles.key_origins import KeyOrigins

MODEL: JsonObject = {
    "model": "small-1",
    "system": "You double numbers.",
    "prompt": "Double {{/number}}.",
    "parameters": {"temperature": 0, "max_tokens": 32},
    "key_env": "TEST_API_KEY",
    "prices": {"input": 1.5, "output": 6},
    "answer": {"from": "json"},
}


def write(folder: Path, kind: str, place: str, settings: JsonObject, *, version: str = "") -> Path:
    """Write a theatre of the doubler that is asked by `settings`."""
    return write_theatre(
        folder,
        adapter_type=kind,
        endpoint=place,
        version=version or pinned_version(kind, place, settings),
        config={"adapter_settings": settings},
        schema_version="2.2.0",
    )


def run(path: Path, *options: str, more: dict[str, str] | None = None) -> Answer:
    """Return the end of a run; loopback is allowed, and the key is there."""
    variables = {"ECHELON_OUTBOUND_ALLOW": "127.0.0.0/8", "TEST_API_KEY": KEY, **(more or {})}
    home = path.parent / "home"
    return forked("theatre", "run", path, "--json", *options, home=home, more=variables)


def certified(path: Path) -> tuple[Any, Any]:
    """Run, check, look for the key in all that was written; return end and certificate."""
    ended = run(path)
    assert ended.code == 0, ended.stderr + ended.stdout
    document = json.loads(ended.stdout)
    assert (document["outcome"], document["scores"]) == ("certified", {"right": 1}), document
    check = forked("check", document["bundle_path"], "--json", home=path.parent / "home")
    assert (check.code, json.loads(check.stdout)["verdict"]) == (0, "valid, logged"), check.stdout
    for file in (path.parent / "home").rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
    assert KEY not in ended.stdout + ended.stderr
    bundle = Path(document["bundle_path"])
    is_consistent(bundle, path.parent)
    return document, json.loads((bundle / "certificate.json").read_bytes())


def by_command(path: Path, more: dict[str, str]) -> str:
    return run(path, more=more).stdout


def by_function(path: Path, more: dict[str, str]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in more.items():
            patch.setenv(name, value)
        with pytest.raises(theatre.TheatreError) as error:
            theatre.run(path, store=path.parent / "store")
        with pytest.raises(pytest.fail.Exception) as failure:
            pytest_plugin._run(path, None, is_certified=False)  # noqa: SLF001 - as a marked test does
    assert str(failure.value) == f"{error.value.code}: {error.value}"
    return str(failure.value)


ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - nothing binds it
"""Another name of this machine, which no rule for loopback knows."""
REGISTRY = """
[constructs.doubler]
url = "{url}"
headers_env = {{Authorization = "STOLEN_TOKEN"}}
"""


@pytest.mark.parametrize("route", [by_command, by_function])
@pytest.mark.parametrize("named", ["key_env", "headers_env"])
def test_a_template_sends_no_key_to_a_place_that_the_user_did_not_allow(
    tmp_path: Path, route: Callable[[Path, dict[str, str]], str], named: str
) -> None:
    with serving(openai_server()) as one:
        place = f"http://{ANY_ADDRESS}:{one.port}"
        if named == "key_env":
            path = write(tmp_path, "openai", f"{place}/v1", {**MODEL, "key_env": "MY_API_KEY"})
        else:
            (tmp_path / "constructs.toml").write_text(REGISTRY.format(url=place), "utf-8")
            path = write_theatre(tmp_path, adapter_type="http", endpoint="construct:doubler")
        more = {"MY_API_KEY": KEY, "STOLEN_TOKEN": KEY, "ECHELON_OUTBOUND_ALLOW": ANY_ADDRESS}
        variable = "MY_API_KEY" if named == "key_env" else "STOLEN_TOKEN"
        other = f"{variable}=http://{ANY_ADDRESS}:9,X={place},{variable}=https{place[4:]}"
        said = route(path, {**more, "ECHELON_KEY_ORIGINS": other})
        assert one.connections == 0
    assert "key-not-allowed" in said
    assert f"export ECHELON_KEY_ORIGINS={variable}={place} and run again" in said
    assert KEY not in said


def test_a_key_goes_where_the_user_allows_it(tmp_path: Path) -> None:
    with serving(openai_server()) as one:
        place = f"http://{ANY_ADDRESS}:{one.port}"
        more = {
            "ECHELON_OUTBOUND_ALLOW": ANY_ADDRESS,
            "ECHELON_KEY_ORIGINS": f"A_KEY=https://host, TEST_API_KEY={place}",
        }
        ended = run(write(tmp_path, "openai", f"{place}/v1", MODEL), more=more)
        assert (ended.code, ended.document["outcome"]) == (0, "certified"), ended.stderr
        assert one.received[-1].headers["authorization"] == f"Bearer {KEY}"


def test_keys_have_origins_not_prefixes() -> None:
    keys = KeyOrigins.parse(["MY_API_KEY=https://Model.example:443/", "MY_API_KEY=http://[::2]:8"])
    for variable, url in (
        ("MY_API_KEY", "https://model.example/v1"),
        ("MY_API_KEY", "http://[::2]:8/v1"),
        ("OPENAI_API_KEY", "https://api.openai.com/v1"),
        ("ANTHROPIC_API_KEY", "https://api.anthropic.com"),
        ("ANY", "http://127.3.2.1:8000/v1"),
        ("ANY", "http://[::1]:1"),
        ("ANY", "http://localhost:1"),
    ):
        keys.require([variable], url, "doubler")
    for variable, url in (
        ("MY_API_KEY", "http://model.example/v1"),
        ("MY_API_KEY", "https://model.example:8443"),
        ("MY_API_KEY", "https://model.example.evil/"),
        ("MY_API_KEY", "https://model.example@evil/"),
        ("OPENAI_API_KEY", "http://api.openai.com/v1"),
        ("OPENAI_API_KEY", "https://api.anthropic.com"),
        ("OPENAI_API_KEY", "https://api.openai.com\\@evil/"),
        ("ANY", "http://127.0.0.1.evil/"),
        ("ANY", "http://localhost.evil/"),
        ("ANY", "no url"),
    ):
        with pytest.raises(KeyNotAllowedError):
            keys.require([variable], url, "doubler")
    for entry in ("MY_API_KEY", f"MY_API_KEY={KEY}", "A B=https://host", "A=https://host/v1"):
        with pytest.raises(OutboundPolicyError) as error:
            KeyOrigins.parse([entry])
        assert KEY not in str(error.value)


def said_of(end: Any, usage: Any, home: Path) -> None:  # noqa: ANN401 - JSON
    """Look for what a run used wherever a user looks."""

    def asked(*command: str) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ECHELON_HOME", str(home))
            ended = CliRunner().invoke(cli, [*command])
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    theatre_id, cost = end["theatre_id"], "$0.000372"
    whole = f"8 calls, 88 tokens in, 40 out, {cost}, p50 {usage['latency_ms']['p50']} "
    assert end["usage"] == usage
    assert f"used         {whole}" in asked("theatre", "show", theatre_id)
    assert json.loads(asked("theatre", "show", theatre_id, "--json"))["usage"] == usage
    certificate = str(Path(end["bundle_path"]) / "certificate.json")
    assert f"used         {whole}" in asked("inspect", certificate)
    assert json.loads(asked("inspect", certificate, "--json"))["usage"] == usage
    assert f"they used {whole}" in asked("theatre", "episodes", theatre_id)
    one = json.loads(asked("theatre", "episodes", theatre_id, "--json"))["episodes"][0]["usage"]
    assert (one["calls"], one["input_tokens"], one["cost_usd"]) == (1, 11, 0.0000465)
    assert json.loads(asked("theatre", "episode", theatre_id, "1", "--json"))["usage"] == one
    assert "used      1 call, 11 tokens in, 5 out, $0.0000465, p50" in asked(
        "theatre", "episode", theatre_id, "1"
    )
    assert f"  128 tokens  {cost}  certified\n" in asked("theatre", "watch", theatre_id)
    watched = json.loads(asked("theatre", "watch", theatre_id, "--json").splitlines()[-1])
    assert (watched["usage"], watched["cost_to_go_usd"]) == (usage, None)


@pytest.mark.parametrize(
    ("kind", "server", "path"),
    [("openai", openai_server, "/v1"), ("anthropic", anthropic_server, "")],
)
def test_a_model_is_certified_by_what_it_is_asked(
    tmp_path: Path, kind: str, server: Callable[[], Any], path: str
) -> None:
    with serving(server()) as one:
        place = f"http://127.0.0.1:{one.port}{path}"
        end, certificate = certified(write(tmp_path, kind, place, MODEL))
    assert certificate["version_source"] == "declared"
    usage = certificate["usage"]
    assert {name: usage[name] for name in usage if name != "latency_ms"} == {
        "calls": EPISODES,
        "calls_counted": EPISODES,
        "input_tokens": 11 * EPISODES,
        "output_tokens": 5 * EPISODES,
        "cost_usd": round(EPISODES * (11 * 1.5 + 5 * 6) / 1e6, 9),
    }
    assert 0 <= usage["latency_ms"]["p50"] <= usage["latency_ms"]["p99"]
    said_of(end, usage, tmp_path / "home")
    assert "version-declared" in certificate["findings"]
    assert "construct-not-isolated" in end["caps"]


def test_a_command_is_certified_from_its_private_copy(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(DOUBLER, encoding="utf-8")
    settings: JsonObject = {
        "prompt": "{{/number}}",
        "input": "argument",
        "answer": {"from": "json", "pointer": "/twice", "field": "result"},
    }
    place = json.dumps(["{python}", "twice.py", "{input}"])
    version = pins(write(tmp_path, "command", place, settings, version="0" * 64))[
        "construct_version"
    ]
    path = write(tmp_path, "command", place, settings, version=version)
    _, certificate = certified(path)
    assert (certificate["version_source"], certificate["construct_version"]) == (
        "computed",
        version,
    )


TOOL: JsonObject = {"tool": "double", "tool_sha256": "0" * 64}


def pins(path: Path) -> dict[str, Any]:
    """Return what `echelon construct version` says of the doubler of a template."""
    pinned = forked(
        *("construct", "version", path, "--json"),
        home=path.parent / "home",
        more={"ECHELON_OUTBOUND_ALLOW": "127.0.0.0/8"},
    )
    (row,) = json.loads(pinned.stdout)["constructs"]
    return dict(row)


def test_a_tool_on_stdio_is_certified_as_its_list_names_it(tmp_path: Path) -> None:
    (tmp_path / "tool_server.py").write_text(TOOL_SERVER, encoding="utf-8")
    place = json.dumps(["{python}", "tool_server.py"])
    tools = pins(write(tmp_path, "mcp", place, TOOL, version="0" * 64))["tools"]
    settings: JsonObject = {"tool": "double", "tool_sha256": tools["double"]}
    path = write(tmp_path, "mcp", place, settings, version="0" * 64)
    version = pins(path)["construct_version"]
    end, certificate = certified(write(tmp_path, "mcp", place, settings, version=version))
    assert certificate["version_source"] == "declared"
    assert certificate["construct_version"] == version
    # It ran isolated.
    assert "construct-not-isolated" not in end["caps"]
    # As if its author had changed what its list says of it since.
    (tmp_path / "tool_server.py").write_text(
        TOOL_SERVER.replace("Return twice", "Return exactly twice"), encoding="utf-8"
    )
    version = pins(path)["construct_version"]
    refused = json.loads(run(write(tmp_path, "mcp", place, settings, version=version)).stdout)
    assert refused["error"]["code"] == "pin-mismatch"
    assert "expected the tool double as tool_sha256 pins it" in refused["error"]["message"]


def test_a_tool_behind_http_is_certified_as_its_list_names_it(tmp_path: Path) -> None:
    with tool_server() as place:
        pinned = pins(write(tmp_path, "mcp", place, TOOL))
        settings: JsonObject = {**TOOL, "tool_sha256": pinned["tools"]["double"]}
        _, certificate = certified(write(tmp_path, "mcp", place, settings))
    assert certificate["construct_version"] == pinned_version("mcp", place, settings)


def test_a_budget_stops_a_start_and_the_next_one_goes_on(tmp_path: Path) -> None:
    with serving(openai_server()) as one:
        place = f"http://127.0.0.1:{one.port}/v1"
        path = write_theatre(
            tmp_path,
            adapter_type="openai",
            endpoint=place,
            version=pinned_version("openai", place, MODEL),
            config={"adapter_settings": MODEL},
            policy={"budget": {"max_tokens": 16 * 5}},
            schema_version="2.2.0",
        )
        stopped = run(path)
        error = json.loads(stopped.stdout)["error"]
        assert (stopped.code, error["code"]) == (8, "budget-spent")
        assert "got 80 spent by this start" in error["message"]
        store = FileTheatreStore(tmp_path / "home")
        (theatre_id,) = store.theatre_ids()
        shown = forked("theatre", "show", theatre_id, home=tmp_path / "home").stdout
        assert "used      5 calls, 55 tokens in, 25 out, $0.0002325, p50 " in shown
        run_seen, _ = next(watch_theatre(theatre_id, store))
        assert run_seen.document()["cost_to_go_usd"] == 0.0001395
        _, certificate = certified(path)
    # All of it is on the certificate, whatever the starts were.
    assert certificate["usage"]["calls_counted"] == EPISODES


@pytest.mark.parametrize("limit", [{"max_tokens": 10**6}, {"max_cost_usd": 1}])
def test_a_budget_that_cannot_hold_as_no_tokens_are_counted_ends_a_start(
    tmp_path: Path, limit: JsonObject
) -> None:
    with serving(openai_server(counts=False)) as one:
        place = f"http://127.0.0.1:{one.port}/v1"
        path = write_theatre(
            tmp_path,
            adapter_type="openai",
            endpoint=place,
            version=pinned_version("openai", place, MODEL),
            config={"adapter_settings": MODEL},
            policy={"budget": limit},
            schema_version="2.2.0",
        )
        stopped = run(path)
        error = json.loads(stopped.stdout)["error"]
        assert (stopped.code, error["code"]) == (8, "budget-spent")
        assert "expected the provider of doubler to count tokens" in error["message"]
        assert [one.line.split(" ")[0] for one in one.received].count("POST") == 1


def test_a_certificate_that_says_that_less_was_used_is_not_valid(tmp_path: Path) -> None:
    settings = {name: MODEL[name] for name in MODEL if name != "prices"}
    with serving(openai_server()) as one:
        place = f"http://127.0.0.1:{one.port}/v1"
        end, certificate = certified(write(tmp_path, "openai", place, settings))
    assert certificate["usage"]["cost_usd"] is None
    bundle = Path(end["bundle_path"])
    cheaper = certificate | {"usage": certificate["usage"] | {"input_tokens": 1}}
    (bundle / "certificate.json").write_bytes(canonical_bytes(cheaper) + b"\n")
    failed = {line.id: line.expected for line in checked(bundle).failed}
    assert "certificate-fields" in failed


MISTAKES: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "no key": ({"key": ""}, 5, "request-headers-invalid", "export TEST_API_KEY=… and run again"),
    "wrong key": ({"key": "sk-another-0123456789"}, 8, "construct-unreachable", "set another key"),
    "wrong model": ({"model": "large-9"}, 8, "construct-unreachable", "correct model"),
    "nothing listens": ({"port": 9}, 8, "construct-unreachable", "to accept a connection"),
    "no network": ({"host": "model.invalid"}, 8, "construct-unreachable", "expected"),
    "address not allowed": ({"allow": ""}, 5, "endpoint-not-allowed", "ECHELON_OUTBOUND_ALLOW"),
}


@pytest.mark.parametrize(("wrong", "code", "name", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_of_a_beginner_ends_in_one_message(
    tmp_path: Path, wrong: dict[str, Any], code: int, name: str, says: str
) -> None:
    with serving(openai_server()) as one:
        host = f"{wrong.get('host', '127.0.0.1')}:{wrong.get('port', one.port)}"
        settings = {**MODEL, "model": wrong.get("model", "small-1")}
        path = write(tmp_path, "openai", f"http://{host}/v1", settings)
        allowed = wrong.get("allow", "127.0.0.0/8,model.invalid")
        key = wrong.get("key", KEY)
        more = {"ECHELON_OUTBOUND_ALLOW": allowed, "TEST_API_KEY": key}
        ended = run(path, more={**more, "ECHELON_KEY_ORIGINS": f"TEST_API_KEY=http://{host}"})
    error = json.loads(ended.stdout)["error"]
    assert (ended.code, error["code"]) == (code, name), error
    assert says in error["message"]
    assert key == "" or key not in ended.stdout + ended.stderr


def test_a_callable_is_pinned_certified_and_checked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    expected_version = write_module(tmp_path)
    folder = ["--folder", str(tmp_path)]
    version = forked("construct", "version", "doubling:double", *folder, "--json", home=home)
    pin = json.loads(version.stdout)["construct_version"]
    assert pin == expected_version
    path = write_theatre(tmp_path, adapter_type="python", endpoint="doubling:double", version=pin)

    run = json.loads(forked("theatre", "run", str(path), "--json", home=home).stdout)
    assert (run["outcome"], run["scores"], run["verification_tier"]) == (
        "certified",
        {"right": 1},
        "UNVERIFIED",
    )
    assert run["caps"] == ["replays-below-50", "criterion-n-below-30:right"]
    check = forked("check", run["bundle_path"], "--json", home=home)
    assert (check.code, json.loads(check.stdout)["verdict"]) == (0, "valid, logged")

    (tmp_path / "doubling.py").write_text(MODULE.replace("2 *", "3 *"), encoding="utf-8")
    edited = forked("theatre", "run", str(path), "--json", home=home)
    assert (edited.code, json.loads(edited.stdout)["error"]["code"]) == (5, "pin-mismatch")


def test_another_environment_than_that_of_the_certificate_before_is_a_finding(
    tmp_path: Path,
) -> None:
    version = write_module(tmp_path)
    path = write_theatre(
        tmp_path, adapter_type="python", endpoint="doubling:double", version=version
    )

    def run() -> tuple[Path, JsonObject]:
        ended = forked("theatre", "run", str(path), "--json", home=tmp_path / "home")
        bundle = Path(json.loads(ended.stdout)["bundle_path"])
        return bundle / "certificate.json", json.loads((bundle / "certificate.json").read_bytes())

    first, certificate = run()
    # As if it had been certified before a library was upgraded.
    older = cast("JsonObject", certificate["environment"]) | {"environment_hash": "00" * 32}
    first.write_bytes(canonical_bytes(certificate | {"environment": older}) + b"\n")
    last, upgraded = run()
    assert upgraded["environment"] == certificate["environment"]
    others = cast("list[str]", certificate["findings"])
    assert upgraded["findings"] == sorted([*others, "environment-changed"])
    check = forked("check", str(last.parent), "--json", home=tmp_path / "home")
    assert (check.code, json.loads(check.stdout)["verdict"]) == (0, "valid, logged")
