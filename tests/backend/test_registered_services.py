"""Models and tools of the operator's registry: run over REST from template to a checked bundle."""

import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.test_rated_on_pages import Browser
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.cli.doubler import EPISODES, write_theatre
from tests.theatre.cli.plain_constructs import KEY, double, openai_server, tool_server
from tests.theatre.echelon_process import until
from tests.theatre.oracles.loopback import serving
from tests.theatre.runs import with_changes
from theatre.cli.check_command import check as check_command
from theatre.engine.canonical_json import JsonObject
from theatre.engine.oracle_contract import pinned_version
from theatre.files.published_bundle import unpack_bundle

REGISTRY = """
[constructs.small_model]
url = "{model}"
headers_env = {{Authorization = "OPERATORS_MODEL"}}

[constructs.numbers]
url = "{tool}"
"""
CONFIG = "/product_theatre_config"
MODEL: JsonObject = {
    "model": "small-1",
    "system": "You double numbers.",
    "prompt": "Double {{/number}}.",
    "parameters": {"temperature": 0, "max_tokens": 32},
    "prices": {"input": 1.5, "output": 6},
    "answer": {"from": "json"},
}


_MAY_END = Event()
"""Set but where a test keeps a run's last question from being answered."""


def _double(asked: str) -> str:
    if f"Double {EPISODES}." in asked:
        _MAY_END.wait()
    return double(asked)


@contextmanager
def serviced(database: Database, folder: Path, *, model: str, tool: str) -> Iterator[Client]:
    """Serve a user whose operator has a model and a tool at these places; data are in `folder`."""
    (folder / "constructs.toml").write_text(REGISTRY.format(model=model, tool=tool), "utf-8")
    settings = settings_for(
        database,
        folder / "home",
        constructs=folder / "constructs.toml",
        dataset_roots=(folder,),
        outbound_allow=("127.0.0.0/8",),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPERATORS_MODEL", f"Bearer {KEY}")
        with served(create_app(settings)) as client:
            yield client.registered("ada")


@pytest.fixture(scope="module")
def client(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Client, Path]]:
    """A user who is served a model, and the folder of the data."""
    folder = tmp_path_factory.mktemp("stage")
    _MAY_END.set()
    with serving(openai_server(_double)) as model:
        place = f"http://127.0.0.1:{model.port}/v1"
        with serviced(module_database, folder, model=place, tool="http://127.0.0.1:9/mcp") as ada:
            yield ada, folder


def template(folder: Path, kind: str, name: str, settings: JsonObject) -> Any:  # noqa: ANN401 - JSON
    place = f"construct:{name}"
    path = write_theatre(
        folder,
        adapter_type=kind,
        endpoint=place,
        version=pinned_version(kind, place, settings),
        config={"adapter_settings": settings},
        schema_version="2.2.0",
    )
    return json.loads(path.read_bytes())


def certified(client: Client, written: object, folder: Path) -> tuple[Any, Any]:
    """Run a template to its certificate, check its bundle; return theatre and certificate."""
    path = committed(client, written)
    assert run(client, path).document["outcome"] == "certified", client.get(path).document["error"]
    theatre = client.get(path).document
    unpacked = folder / theatre["id"]
    archive = client.get(f"/theatres/{theatre['id']}/evidence-bundle").body
    bundle = unpacked / "bundle"
    unpack_bundle(io.BytesIO(archive), bundle)
    trust = folder / "trust.json"
    trust.write_bytes(client.get("/.well-known/echelon/trust.json").body)
    ended = CliRunner().invoke(check_command, [str(bundle), "--trust", str(trust), "--json"])
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["verdict"] == "valid, logged"
    for file in folder.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
    return theatre, json.loads((bundle / "certificate.json").read_bytes())


def test_a_model_of_the_operator_is_certified_by_what_it_is_asked(
    client: tuple[Client, Path],
) -> None:
    ada, folder = client
    theatre, certificate = certified(ada, template(folder, "openai", "small_model", MODEL), folder)
    used = certificate["usage"]
    assert {name: used[name] for name in used if name != "latency_ms"} == {
        "calls": EPISODES,
        "calls_counted": EPISODES,
        "input_tokens": 11 * EPISODES,
        "output_tokens": 5 * EPISODES,
        "cost_usd": round(EPISODES * (11 * 1.5 + 5 * 6) / 1e6, 9),
    }
    assert theatre["usage"] == used
    assert (certificate["scores"], certificate["version_source"]) == ({"right": 1}, "declared")
    (call,) = ada.get(f"/theatres/{theatre['id']}/episodes/e1").document["record"]["calls"]
    assert call["attempts"][0]["usage"] == {"input_tokens": 11, "output_tokens": 5}
    # Another prompt or parameter is another version, and this one's pin is refused for it.
    others: list[JsonObject] = [
        {"prompt": "Twice {{/number}}."},
        {"parameters": {"temperature": 1}},
    ]
    for other in others:
        twin = template(folder, "openai", "small_model", {**MODEL, **other})
        version = twin["version_pins"]["constructs"]["doubler"]
        assert version != certificate["construct_version"]
        twin["version_pins"]["constructs"]["doubler"] = certificate["construct_version"]
        refused = ada.post("/theatres", {"template_json": twin})
        assert [one["rule"] for one in refused.document["errors"]] == ["version-declared"]


def test_a_tool_of_the_operator_is_certified_as_its_list_names_it(
    database: Database, tmp_path: Path
) -> None:
    with tool_server() as place, serviced(database, tmp_path, model=place, tool=place) as ada:
        certify_a_tool(ada, tmp_path)


def certify_a_tool(ada: Client, folder: Path) -> None:
    unpinned: JsonObject = {"tool": "double", "tool_sha256": "0" * 64}
    refused = run(ada, committed(ada, template(folder, "mcp", "numbers", unpinned))).document
    assert refused["error"].startswith("pin-mismatch: expected the tool double as tool_sha256 pins")
    # The list of the server names the tool, and the refusal what it is to be pinned to.
    pinned: JsonObject = unpinned | {
        "tool_sha256": re.findall("[0-9a-f]{64}", refused["error"])[-1]
    }
    theatre, certificate = certified(ada, template(folder, "mcp", "numbers", pinned), folder)
    assert (certificate["scores"], certificate["version_source"]) == ({"right": 1}, "declared")
    assert theatre["usage"]["calls"] == EPISODES
    assert (theatre["usage"]["calls_counted"], theatre["usage"]["cost_usd"]) == (0, None)
    twin: JsonObject = pinned | {"arguments": {"number": "{{/number}}"}}
    other = template(folder, "mcp", "numbers", twin)["version_pins"]["constructs"]["doubler"]
    assert other != certificate["construct_version"]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({f"{CONFIG}/adapter_endpoint": "http://127.0.0.1:9/v1"}, "adapter-registered"),
        ({f"{CONFIG}/adapter_settings": {**MODEL, "key_env": "KEY"}}, "adapter-registered"),
        ({"/execution_policy/budget": {"max_calls": 1}}, "budget-local"),
    ],
)
def test_what_only_the_command_line_may_is_refused_by_name(
    client: tuple[Client, Path], change: dict[str, Any], rule: str
) -> None:
    ada, folder = client
    written = with_changes(template(folder, "openai", "small_model", MODEL), change)
    refused = ada.post("/theatres", {"template_json": written})
    assert (refused.status, refused.slug) == (422, "template-invalid")
    assert rule in {one["rule"] for one in refused.document["errors"]}


def test_what_calls_took_so_far_is_shown_while_a_run_goes_on(client: tuple[Client, Path]) -> None:
    ada, folder = client
    path = committed(ada, template(folder, "openai", "small_model", MODEL))
    page_path, count = f"/theatres/{path.rpartition('/')[2]}", EPISODES - 1
    browser = Browser(ada)
    assert browser.sign_in(page_path, "ada").status == 303
    _MAY_END.clear()
    try:
        assert ada.post(f"{path}/run", {}).status == 202
        until(lambda: ada.get(path).document["progress"] == count, "all answers but the last")
        so_far = ada.get(path).document["usage"]
        page = browser.open(page_path).body
    finally:
        _MAY_END.set()
    assert b'<span data-live="calls">%d</span>' % count in page
    latencies = so_far.pop("latency_ms")
    assert list(latencies) == ["p50", "p95", "p99"]
    assert so_far == {
        "calls": count,
        "calls_counted": count,
        "input_tokens": 11 * count,
        "output_tokens": 5 * count,
        "cost_usd": round(count * (11 * 1.5 + 5 * 6) / 1e6, 9),
    }
    *_, last = ada.get(f"{path}/events").body.decode().split("data: ")
    ended, used = json.loads(last), ada.get(f"{path}/certificate").document["usage"]
    assert (ended["state"], ended["usage"]) == ("ARCHIVED", used)
    assert ada.get(path).document["usage"] == used


def test_a_run_without_the_sdk_that_it_needs_is_refused_with_the_extra_that_has_it(
    client: tuple[Client, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, folder = client
    path = committed(ada, template(folder, "openai", "small_model", MODEL))
    monkeypatch.setitem(sys.modules, "openai", None)
    refused = run(ada, path).document
    assert (refused["state"], refused["run"]["status"]) == ("COMMITTED", "failed")
    assert refused["error"].startswith("missing-extra: expected the packages of the extra models")
    monkeypatch.undo()
    assert run(ada, path).document["outcome"] == "certified"
