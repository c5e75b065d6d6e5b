"""Drafts of constructs without a wrapper: pinned, validated and run without a pasted hash."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.cli.plain_constructs import DOUBLER, TOOL_SERVER, openai_server, tool_server
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import serving
from theatre.engine.canonical_json import JsonObject, JsonValue

IMAGE = f"registry.example/twice@sha256:{'9f' * 32}"
URL = "http://127.0.0.1:9/v1"
PROMPT: JsonObject = {
    "model": "small-1",
    "prompt": "Double {{/number}}.",
    "answer": {"from": "json"},
}
COMMAND: JsonObject = {
    "prompt": "{{/number}}",
    "answer": {"from": "json", "pointer": "/twice", "field": "result"},
}
CONSTRUCTS: dict[str, JsonObject] = {
    "openai": {"adapter": "openai", "endpoint": URL, "settings": PROMPT},
    "anthropic": {
        "adapter": "anthropic",
        "endpoint": "http://127.0.0.1:9",
        "settings": {**PROMPT, "parameters": {"max_tokens": 32}},
    },
    "command": {"adapter": "command", "endpoint": ["{python}", "twice.py"], "settings": COMMAND},
    "container": {"adapter": "container", "endpoint": IMAGE, "settings": COMMAND},
    "mcp": {
        "adapter": "mcp",
        "endpoint": ["{python}", "tool_server.py"],
        "settings": {"tool": "double"},
    },
}


def echelon(folder: Path, *arguments: str) -> Any:  # noqa: ANN401  # any JSON
    more = {"ECHELON_OUTBOUND_ALLOW": "127.0.0.0/8"}
    ended = forked(*arguments, "--json", home=folder / "home", cwd=folder, more=more)
    assert ended.code == 0, ended.stderr + ended.stdout
    return json.loads(ended.stdout)


def project(folder: Path, construct: JsonValue) -> None:
    draft = {"construct": construct, "data": "numbers.jsonl", "answer": "result"}
    (folder / "echelon.yaml").write_text(json.dumps(draft), encoding="utf-8")
    rows = (
        {
            "episode_id": f"e{number}",
            "input_data": {"number": number},
            "expected_output": {"result": 2 * number},
        }
        for number in range(3)
    )
    (folder / "numbers.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    (folder / "twice.py").write_text(DOUBLER, encoding="utf-8")
    (folder / "tool_server.py").write_text(TOOL_SERVER, encoding="utf-8")


def pinned(folder: Path, construct: JsonValue) -> Any:  # noqa: ANN401  # any JSON
    """Pin, validate, and return the template."""
    project(folder, construct)
    echelon(folder, "pin")
    assert echelon(folder, "validate")["valid"]
    return json.loads((folder / "echelon.template.json").read_bytes())


@pytest.mark.parametrize("kind", CONSTRUCTS)
def test_a_draft_pins_what_is_asked_and_its_twin_has_another_version(
    tmp_path: Path, kind: str
) -> None:
    construct: Any = CONSTRUCTS[kind]
    (version,) = pinned(tmp_path, construct)["version_pins"]["constructs"].values()
    other = {"arguments": {"number": 7}} if kind == "mcp" else {"prompt": "{{/number}}!"}
    twin = {**construct, "settings": {**construct["settings"], **other}}
    (another,) = pinned(tmp_path, twin)["version_pins"]["constructs"].values()
    assert len(version) == 64
    assert version != another


def test_a_command_of_a_draft_runs(tmp_path: Path) -> None:
    project(tmp_path, CONSTRUCTS["command"])
    report = echelon(tmp_path, "run")
    assert (report["outcome"], report["scores"]) == ("certified", {"right_result": 1})


def test_a_model_in_one_line_pins_what_its_data_say_and_runs(tmp_path: Path) -> None:
    say = openai_server(lambda asked: str(2 * int(asked)), key=None)
    with serving(say) as server:
        place = f"http://127.0.0.1:{server.port}/v1"
        config = pinned(tmp_path, f"openai:small-1@{place}")["product_theatre_config"]
        assert config["adapter_settings"] == {
            "model": "small-1",
            "prompt": "{{/number}}",
            "answer": {"from": "json", "field": "result"},
        }
        report = echelon(tmp_path, "run")
    assert (report["outcome"], report["scores"]) == ("certified", {"right_result": 1})
    # What a draft says itself stays so.
    asked: JsonObject = {"model": "small-1", "prompt": "Double {{/number}}."}
    said: JsonObject = {"adapter": "openai", "endpoint": URL, "settings": asked}
    settings = pinned(tmp_path, said)["product_theatre_config"]["adapter_settings"]
    assert settings == asked | {"answer": {"from": "json", "field": "result"}}


def test_a_tool_is_looked_up_when_it_is_pinned(tmp_path: Path) -> None:
    project(tmp_path, CONSTRUCTS["mcp"])

    def pinned_tool() -> str:
        echelon(tmp_path, "pin")
        template = json.loads((tmp_path / "echelon.template.json").read_bytes())
        return str(template["product_theatre_config"]["adapter_settings"]["tool_sha256"])

    before = pinned_tool()
    # Another word for the same tool is another one to a model, and so to the pin.
    changed = TOOL_SERVER.replace("Return twice", "Return exactly twice")
    (tmp_path / "tool_server.py").write_text(changed, encoding="utf-8")
    assert (len(before), before == pinned_tool()) == (64, False)


def test_a_tool_that_the_server_has_not_is_named_with_the_nearest(tmp_path: Path) -> None:
    project(tmp_path, {**CONSTRUCTS["mcp"], "settings": {"tool": "duoble"}})
    ended = forked("pin", home=tmp_path / "home", cwd=tmp_path)
    assert ended.code == 5
    assert "did you mean double?" in ended.stderr


def test_a_tool_behind_http_is_certified_from_a_draft(tmp_path: Path) -> None:
    with tool_server() as place:
        project(tmp_path, {"adapter": "mcp", "endpoint": place, "settings": {"tool": "double"}})
        echelon(tmp_path, "pin")
        echelon(tmp_path, "pin", "--check")
        report = echelon(tmp_path, "run")
        check = echelon(tmp_path, "check", report["bundle_path"])
    assert (report["outcome"], report["scores"]) == ("certified", {"right_result": 1})
    assert (check["verdict"], report["usage"]["calls"]) == ("valid, logged", 3)
    # The same tool at another place is another version.
    template = json.loads((tmp_path / "echelon.template.json").read_bytes())
    (version,) = template["version_pins"]["constructs"].values()
    with tool_server() as other:
        project(tmp_path, {"adapter": "mcp", "endpoint": other, "settings": {"tool": "double"}})
        echelon(tmp_path, "pin")
    again = json.loads((tmp_path / "echelon.template.json").read_bytes())
    assert version not in again["version_pins"]["constructs"].values()
