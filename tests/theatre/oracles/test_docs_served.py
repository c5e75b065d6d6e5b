"""The services of `docs/constructs.md`, registered, allowed and called as the page says.

And those that ship, as `constructs.toml` registers them."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.theatre.fixtures.observer_service import RECORDS, task
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.construct_registry import ConstructRegistry, RemoteConstruct, construct_version
from theatre.oracles.outbound_policy import OutboundPolicy
from theatre.oracles.served import served_adapter_for

RequestFor = Callable[..., OracleInvocationRequest]

PAGE = (Path(__file__).parents[3] / "docs" / "constructs.md").read_text(encoding="utf-8")
FILES = {"thermometer.py": "python", "thermometer.js": "js", "thermometer.sh": "bash"}


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of `language`, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def registry(tmp_path: Path) -> ConstructRegistry:
    """Every program and every entry of the page in one folder."""
    for name, language in FILES.items():
        (tmp_path / name).write_text(blocks(language)[0], encoding="utf-8")
    (tmp_path / "constructs.toml").write_text("\n".join(blocks("toml")), encoding="utf-8")
    return ConstructRegistry.load(tmp_path / "constructs.toml")


def test_the_service_that_the_runner_starts_answers(
    registry: ConstructRegistry, request_for: RequestFor
) -> None:
    construct = registry.find("thermometer_http")
    asked = replace(
        request_for(input_data={"celsius": 100}, version=construct_version(construct)),
        construct_id="thermometer",
    )

    async def session() -> Attempt:
        adapter = served_adapter_for(
            construct, clock=lambda: datetime.now(UTC), monotonic=time.monotonic
        )
        try:
            return await adapter.invoke(asked)
        finally:
            await adapter.aclose()

    response = asyncio.run(session()).response
    assert (response.status.value, response.output_data) == ("success", {"fahrenheit": 212})


def test_the_service_elsewhere_has_a_url_and_a_header_from_the_variable_of_the_command(
    registry: ConstructRegistry,
) -> None:
    (pair,) = re.findall(r"--header (\S+)=(\S+)$", PAGE, re.MULTILINE)
    assert registry.find_registered("thermometer_elsewhere") == RemoteConstruct(
        construct_id="thermometer_elsewhere",
        url="https://thermometer.example/invoke",
        headers_env=dict([pair]),
    )
    assert f'export {pair[1]}="' in PAGE


def test_the_list_of_allowed_hosts_can_be_read_and_allows_what_it_names() -> None:
    (entries,) = re.findall(r"^ECHELON_OUTBOUND_ALLOW=(\S+) echelon", PAGE, re.MULTILINE)
    policy = OutboundPolicy(allow=tuple(entries.split(",")))
    policy.check_url("http://127.0.0.1:8765/")
    policy.check_url("http://10.20.1.2/")
    policy.judge("192.168.0.1", host="staging.example", port=443)


SHIPPED = Path(__file__).parents[3] / "fixtures" / "constructs" / "constructs.toml"
SERVICES = ["observer", "observer_keywords", "observer_majority"]
OBSERVER = "ce4148af29c2c90c56146093fb9215bb756f208db6fa4160be281702183bc944"
AT_ONCE = 16


def test_the_version_of_the_observer_is_the_one_that_it_was_evaluated_under() -> None:
    assert construct_version(ConstructRegistry.load(SHIPPED).find("observer")) == OBSERVER


@pytest.mark.parametrize("construct_id", SERVICES)
def test_a_service_answers_many_calls_at_once_under_its_registered_limits(
    construct_id: str, request_for: RequestFor
) -> None:
    construct = ConstructRegistry.load(SHIPPED).find(construct_id)
    version = construct_version(construct)

    async def session() -> list[Attempt]:
        adapter = served_adapter_for(
            construct, clock=lambda: datetime.now(UTC), monotonic=time.monotonic
        )
        places = asyncio.Semaphore(AT_ONCE)

        async def one(seq: int) -> Attempt:
            async with places:
                return await adapter.invoke(request_for(seq, input_data=task(), version=version))

        try:
            return await asyncio.gather(*map(one, range(3 * AT_ONCE)))
        finally:
            await adapter.aclose()

    attempts = asyncio.run(session())
    assert [attempt.reason for attempt in attempts] == [None] * 3 * AT_ONCE
    sources = {(attempt.response.output_data or {})["source"]["record_id"] for attempt in attempts}
    assert len(sources) == 1
    assert sources <= {record["id"] for record in RECORDS}
