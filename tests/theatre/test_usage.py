"""What a run used: the engine's count and the check's, which share no code."""

from fractions import Fraction
from typing import Any

import pytest

from theatre.cli.tables import format_usage
from theatre.engine.bundle_check.arithmetic import usage_of as checked_usage
from theatre.engine.bundle_check.batches import CallFacts, Recorded
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.replay.usage import UsageTally, usage_of

PRICES = {"input": 0.15, "output": 0.6}
PRICED: dict[str, Any] = {
    "product_theatre_config": {
        "construct_under_test": "model",
        "adapter_type": "openai",
        "adapter_endpoint": "https://model.example/v1",
        "adapter_settings": {"prices": PRICES},
    }
}
UNPRICED: dict[str, Any] = {
    "product_theatre_config": PRICED["product_theatre_config"] | {"adapter_settings": {}}
}


def call(
    latency: int, tokens: tuple[int, int] | None = None, adapter: str = "openai"
) -> JsonObject:
    attempt: JsonObject = {"response": {"latency_ms": latency}}
    if tokens is not None:
        attempt["usage"] = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
    return {"adapter": f"{adapter}@1", "construct_id": "model", "attempts": [attempt]}


def counted(calls: list[JsonObject], *, priced: bool) -> JsonObject | None:
    price = {"model": (Fraction("0.15"), Fraction("0.6"))} if priced else {}
    tally = UsageTally(prices=price)
    for one in calls:
        tally.note(usage_of([one]))
    return tally.as_document()


@pytest.mark.parametrize("priced", [True, False])
@pytest.mark.parametrize(
    "calls",
    [
        [call(5, (10, 1))],
        [call(5, (10, 1)), call(700, (3, 2)), call(6)],
        [call(n, (n, n + 1)) for n in range(1, 102)],
        [call(8), call(9)],
        [call(4, (1, 1)), call(9, adapter="http")],
        [call(9, adapter="local")],
        [],
    ],
    ids=["one", "a failure counts no tokens", "a hundred and one", "none", "mixed", "not", "empty"],
)
def test_engine_and_check_count_the_same(calls: list[JsonObject], *, priced: bool) -> None:
    assert counted(calls, priced=priced) == checked_usage(PRICED if priced else UNPRICED, calls)


def test_what_three_calls_took_counted_by_hand() -> None:
    calls = [call(5, (1_000_000, 0)), call(700, (0, 500_000)), call(6)]
    assert counted(calls, priced=True) == {
        "calls": 3,
        "calls_counted": 2,
        "input_tokens": 1_000_000,
        "output_tokens": 500_000,
        "cost_usd": 0.45,
        "latency_ms": {"p50": 6, "p95": 700, "p99": 700},
    }


@pytest.mark.parametrize(
    "odd",
    [
        {"response": {"latency_ms": "5"}},
        {"response": {"latency_ms": 5}, "usage": None},
        {"response": {"latency_ms": 5}, "usage": {"input_tokens": 1}},
        {"response": {"latency_ms": 5}, "usage": {"input_tokens": 1, "output_tokens": "x"}},
    ],
)
def test_a_call_of_another_form_takes_nothing_and_ends_no_check(odd: JsonObject) -> None:
    """Its line in the check says so; a sum over it ended the check of a stranger's bundle."""
    facts = CallFacts()
    calls: list[JsonValue] = [call(5, (1, 2)), {**call(5), "attempts": [odd]}]
    calls.append({**call(5), "construct_id": ["a"]})
    facts.note(Recorded({"calls": calls}))
    assert checked_usage(UNPRICED, facts.taken) == checked_usage(UNPRICED, [call(5, (1, 2))])


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([call(5, (2, 1))], "1 call, 2 tokens in, 1 out, $0.0000009, p50"),
        (
            [call(5, (2, 1)), call(6)],
            "2 calls, 2 tokens in, 1 out as counted for 1 of them, $0.0000009, p50",
        ),
        ([call(6)], "1 call, no tokens counted, p50"),
    ],
)
def test_tokens_of_some_calls_are_not_shown_as_those_of_all(
    calls: list[JsonObject], said: str
) -> None:
    usage = counted(calls, priced=True)
    assert usage is not None
    assert format_usage(usage).startswith(said)
