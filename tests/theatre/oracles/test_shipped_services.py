"""The constructs that ship as HTTP services, as `constructs.toml` registers them."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.theatre.fixtures.observer_service import RECORDS, task
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.construct_registry import ConstructRegistry, construct_version
from theatre.oracles.served import served_adapter_for

RequestFor = Callable[..., OracleInvocationRequest]

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
