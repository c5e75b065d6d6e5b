"""The constructs of `docs/constructs.md`, written out and called through the real adapters."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.construct_kit.kit_process import http_service
from tests.theatre.echelon_process import ECHELON, REPOSITORY
from tests.theatre.forked_echelon import forked
from theatre.engine.oracle_contract import (
    InvocationMetadata,
    OracleAdapter,
    OracleInvocationRequest,
    OracleInvocationResponse,
    RetryPolicy,
    read_answer,
)
from theatre.oracles.construct_registry import (
    ConstructRegistry,
    construct_version,
    local_adapter_for,
)
from theatre.oracles.http import HTTPOracleAdapter
from theatre.oracles.in_process import PythonOracleAdapter, construct_from_callable
from theatre.oracles.outbound_policy import OutboundPolicy

PAGE = (REPOSITORY / "docs" / "constructs.md").read_text(encoding="utf-8")
FILES = {"thermometer.py": "python", "thermometer.js": "js", "thermometer.sh": "bash"}
REFUSAL = "no temperature lies below -273.15 °C"

Outcome = tuple[str, dict[str, Any] | None, str | None]


def utc_now() -> datetime:
    return datetime.now(UTC)


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of `language`, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder with the three programs and one registry of them."""
    for name, language in FILES.items():
        (source,) = blocks(language)
        assert f"`{name}`" in PAGE
        (tmp_path / name).write_text(source, encoding="utf-8")
    (tmp_path / "constructs.toml").write_text("\n".join(blocks("toml")), encoding="utf-8")
    return tmp_path


def registered(example: Path, construct_id: str) -> OracleAdapter:
    construct = ConstructRegistry.load(example / "constructs.toml").find(construct_id)
    return local_adapter_for(construct, clock=utc_now, monotonic=time.monotonic)


def convert(
    adapter: OracleAdapter, construct_id: str, version: str, *celsius: float
) -> list[Outcome]:
    """Ask a thermometer, one call a temperature, and return what it made of them."""

    async def session() -> list[Outcome]:
        try:
            attempts = [
                await adapter.invoke(request(construct_id, version, degrees)) for degrees in celsius
            ]
        finally:
            await adapter.aclose()
        assert [attempt.stderr for attempt in attempts] == [None] * len(celsius)
        responses = [attempt.response for attempt in attempts]
        return [(r.status.value, r.output_data, r.error_detail) for r in responses]

    return asyncio.run(session())


def request(construct_id: str, version: str, celsius: float) -> OracleInvocationRequest:
    return OracleInvocationRequest(
        invocation_id=f"call at {celsius}",
        theatre_id="0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11",
        episode_id="episode",
        construct_id=construct_id,
        construct_version=version,
        input_data={"celsius": celsius},
        metadata=InvocationMetadata(invoked_at="2026-11-21T02:07:00.000000Z"),
    )


def fahrenheit(degrees: float) -> Outcome:
    return ("success", {"fahrenheit": degrees}, None)


def test_the_python_construct_has_fifteen_lines_at_most(example: Path) -> None:
    assert len((example / "thermometer.py").read_text().splitlines()) <= 15


def test_the_python_construct_answers_on_stdin(example: Path) -> None:
    adapter = registered(example, "thermometer")
    seen = convert(adapter, "thermometer", str(adapter.computed_version), 100, -40, -300)
    assert seen == [fahrenheit(212), fahrenheit(-40), ("refused", None, REFUSAL)]


def test_the_python_construct_answers_as_a_callable(example: Path) -> None:
    construct = construct_from_callable("thermometer", "thermometer:convert", example)
    adapter = PythonOracleAdapter(construct, clock=utc_now, monotonic=time.monotonic)
    seen = convert(adapter, "thermometer", construct_version(construct), 100, -300)
    assert seen == [fahrenheit(212), ("refused", None, REFUSAL)]


def test_the_python_construct_answers_over_http(example: Path) -> None:
    command = next(line for line in PAGE.splitlines() if line.startswith("echelon construct serve"))
    served = re.fullmatch(r"echelon construct serve --port \d+ (\S+)", command)
    assert served is not None
    version = str(registered(example, "thermometer").computed_version)
    serve = (str(ECHELON), "construct", "serve")
    with http_service(example, target=served[1], version=None, command=serve) as service:
        adapter = HTTPOracleAdapter(
            f"http://127.0.0.1:{service.port}/",
            policy=OutboundPolicy(allow=("127.0.0.1",)),
            clock=utc_now,
            monotonic=time.monotonic,
        )
        seen = convert(adapter, "thermometer", version, 100, -300)
    assert seen == [fahrenheit(212), ("refused", None, REFUSAL)]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_construct_for_node_answers(example: Path) -> None:
    adapter = registered(example, "thermometer_js")
    seen = convert(adapter, "thermometer_js", str(adapter.computed_version), 100, -40, -300)
    assert seen == [fahrenheit(212), fahrenheit(-40), ("refused", None, REFUSAL)]


def test_the_construct_for_the_shell_answers(example: Path) -> None:
    adapter = registered(example, "thermometer_sh")
    seen = convert(adapter, "thermometer_sh", str(adapter.computed_version), 100, -40, 36.5)
    assert seen == [fahrenheit(212), fahrenheit(-40), fahrenheit(97.7)]


def test_the_two_commands_for_versions_print_the_same(example: Path) -> None:
    commands = re.findall(r"^echelon construct version (\S+)", PAGE, re.MULTILINE)
    printed = [
        forked("construct", "version", subject, home=example, cwd=example).stdout
        for subject in commands
    ]
    version = registered(example, "thermometer").computed_version
    assert (commands, printed) == (["thermometer", "thermometer:convert"], [f"{version}\n"] * 2)


def test_the_lines_of_plain_python_print_the_same(example: Path) -> None:
    (lines,) = blocks("py")
    printed = subprocess.run(
        [sys.executable, "-c", lines], cwd=example, capture_output=True, text=True, check=True
    )
    assert printed.stdout == f"{registered(example, 'thermometer').computed_version}\n"


def test_the_envelopes_shown_are_what_the_engine_sends_and_accepts() -> None:
    asked, answered = (json.loads(block) for block in blocks("json")[:2])
    policy = RetryPolicy(**asked["metadata"]["retry_policy"])
    metadata = InvocationMetadata(**asked["metadata"] | {"retry_policy": policy})
    sent = OracleInvocationRequest(**asked | {"metadata": metadata})
    attempt = read_answer(
        json.dumps(answered).encode(),
        sent,
        latency_ms=3,
        responded_at=datetime(2026, 11, 21, tzinfo=UTC),
    )
    assert sent.as_document() == asked
    assert attempt.response == OracleInvocationResponse(
        **answered, latency_ms=3, responded_at="2026-11-21T00:00:00.000000Z"
    )
