"""Constructs without a wrapper: from their settings to a certificate that checks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.doubler import EPISODES, write_theatre
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
from theatre.engine.canonical_json import JsonObject
from theatre.engine.oracle_contract import pinned_version

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


def certified(path: Path, more: dict[str, str] | None = None) -> tuple[Any, Any]:
    """Run, check, look for the key in all that was written; return end and certificate."""
    ended = run(path, more=more)
    assert ended.code == 0, ended.stderr + ended.stdout
    document = json.loads(ended.stdout)
    assert (document["outcome"], document["scores"]) == ("certified", {"right": 1}), document
    check = forked("check", document["bundle_path"], "--json", home=path.parent / "home")
    assert (check.code, json.loads(check.stdout)["verdict"]) == (0, "valid, logged"), check.stdout
    for file in (path.parent / "home").rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
    assert KEY not in ended.stdout + ended.stderr
    bundle = Path(document["bundle_path"])
    return document, json.loads((bundle / "certificate.json").read_bytes())


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
    path = write(tmp_path, "command", place, settings, version="0" * 64)
    refused = json.loads(run(path).stdout)["error"]
    assert refused["code"] == "pin-mismatch"
    version = refused["message"].partition("got ")[2][:64]
    path = write(tmp_path, "command", place, settings, version=version)
    _, certificate = certified(path)
    assert (certificate["version_source"], certificate["construct_version"]) == (
        "computed",
        version,
    )


TOOL: JsonObject = {"tool": "double", "tool_sha256": "0" * 64}


def seen(ended: Answer) -> str:
    """Return the hash that a refusal has seen, for the author to pin."""
    error = json.loads(ended.stdout)["error"]
    assert error["code"] == "pin-mismatch", error
    return str(re.findall("[0-9a-f]{64}", error["message"])[-1])


def test_a_tool_on_stdio_is_certified_as_its_list_names_it(tmp_path: Path) -> None:
    (tmp_path / "tool_server.py").write_text(TOOL_SERVER, encoding="utf-8")
    place = json.dumps(["{python}", "tool_server.py"])
    version = seen(run(write(tmp_path, "mcp", place, TOOL, version="0" * 64)))
    changed = run(write(tmp_path, "mcp", place, TOOL, version=version))
    assert "tool_sha256 pins it" in json.loads(changed.stdout)["error"]["message"]
    settings = {**TOOL, "tool_sha256": seen(changed)}
    version = seen(run(write(tmp_path, "mcp", place, settings, version="0" * 64)))
    end, certificate = certified(write(tmp_path, "mcp", place, settings, version=version))
    assert (certificate["version_source"], certificate["construct_version"]) == (
        "declared",
        version,
    )
    # Its stderr is in the records, and it ran isolated.
    assert "construct-not-isolated" not in end["caps"]
    other = run(write(tmp_path, "mcp", place, {**settings, "tool": "halve"}, version=version))
    assert seen(other) != version


def test_a_tool_behind_http_is_certified_as_its_list_names_it(tmp_path: Path) -> None:
    with tool_server() as place:
        changed = run(write(tmp_path, "mcp", place, TOOL))
        settings = {**TOOL, "tool_sha256": seen(changed)}
        _, certificate = certified(write(tmp_path, "mcp", place, settings))
    assert certificate["construct_version"] == pinned_version("mcp", place, settings)
