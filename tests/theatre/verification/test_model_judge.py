"""A judge of any provider: every bad day of its API lands where it should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.theatre.oracles.loopback import Received, response, serving
from tests.theatre.verification.github_service import FakeTime
from tests.theatre.verification.messages_server import KEY, MessagesService, reading
from theatre.engine.canonical_json import JsonObject
from theatre.judging import JudgeUnavailableError
from theatre.judging.messages import PROVIDERS, answered_by, provider_of
from theatre.verification.judge.questions import RUBRICS
from theatre.verification.judge.scorer import committed_judge, probe

if TYPE_CHECKING:
    from theatre.judging.model_judge import ModelJudge
    from theatre.providers import ProviderKind


MODEL = "claude-sonnet-4-6"
PATIENT = 60.0
ATTEMPTS = 5
REQUESTS = {
    kind: RUBRICS.request(
        "reply",
        committed_judge(MODEL, temperature=0, repeats=1, provider=kind),
        {"expected": {"number": 1}, "reply": "1 file"},
        "",
    )
    for kind in PROVIDERS
}
USAGE = {
    "anthropic": {"input_tokens": 10, "output_tokens": 5},
    "openai": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
}
RIGHT: JsonObject = {"verdict": "right"}


def asked(
    service: MessagesService, *, read_seconds: float = PATIENT, time: FakeTime | None = None
) -> JsonObject:
    """Ask a service once; time passes only while the judge waits."""

    async def ask(judge: ModelJudge) -> JsonObject:
        return await judge.ask(REQUESTS[service.provider])

    result: JsonObject = using(service, ask, read_seconds=read_seconds, time=time)
    return result


def using(
    service: MessagesService,
    work: Callable[[ModelJudge], Any],
    *,
    read_seconds: float = PATIENT,
    time: FakeTime | None = None,
) -> Any:  # noqa: ANN401  # whatever the work gives
    # The SDK loads for a second, which the other workers of a session do without.
    import httpx2

    from theatre.judging.model_judge import open_model_judge

    passing = time or FakeTime()
    kind: ProviderKind = "openai" if service.provider == "openai" else "anthropic"
    timeouts = httpx2.Timeout(PATIENT, read=read_seconds)

    def clock() -> datetime:
        return passing.now

    async def run(origin: str) -> object:
        async with open_model_judge(
            kind,
            origin,
            api_key=KEY,
            key_variable="A_KEY",
            clock=clock,
            sleep=passing.sleep,
            timeouts=timeouts,
        ) as judge:
            return await work(judge)

    with serving(service.respond) as server:
        return asyncio.run(run(f"http://127.0.0.1:{server.port}"))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_request_is_sent_as_it_is_recorded_and_the_answer_kept_as_it_came(
    provider: str,
) -> None:
    service = MessagesService(reading, provider=provider)
    answer = asked(service)
    sent = REQUESTS[provider]
    assert (service.requests, service.keys, provider_of(sent)) == ([sent], {KEY}, provider)
    assert (sent["temperature"], sent["model"]) == (0, MODEL)
    assert (answer["status"], answer["reason"]) == (200, None)
    assert (RUBRICS.read("reply", answer), answered_by(answer)) == (RIGHT, MODEL)
    assert json.loads(str(answer["body"]))["usage"] == USAGE[provider]


def test_a_limit_is_waited_for_as_long_as_the_api_says() -> None:
    time = FakeTime()
    answer = asked(MessagesService(reading, bad_days={0: "429", 1: "429"}), time=time)
    assert (time.slept, RUBRICS.read("reply", answer)) == ([3, 3], RIGHT)
    assert answer["attempts"] == [
        {"status": 429, "reason": "rate-limited"},
        {"status": 429, "reason": "rate-limited"},
        {"status": 200, "reason": None},
    ]
    assert answer["latency_ms"] == 6000


@pytest.mark.parametrize(
    ("bad", "reason", "status"),
    [
        ("529 Overloaded", "overloaded", 529),
        ("500 Internal Server Error", "server-error", 500),
        ("reset", "connection", None),
        ("cut body", "connection", None),
    ],
)
def test_what_passes_is_tried_again_and_what_does_not_is_given_up(
    bad: str, reason: str, status: int | None
) -> None:
    time = FakeTime()
    answer = asked(MessagesService(reading, bad_days={0: bad}), time=time)
    assert (time.slept, RUBRICS.read("reply", answer)) == ([2], RIGHT)
    service, time = MessagesService(reading, always=bad), FakeTime()
    answer = asked(service, time=time)
    assert (time.slept, len(service.requests)) == ([2, 4, 8, 16], ATTEMPTS)
    assert (answer["reason"], answer["status"], RUBRICS.read("reply", answer)) == (
        reason,
        status,
        None,
    )


def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    answer = asked(MessagesService(reading, always="silent"), read_seconds=0.05)
    assert (answer["reason"], answer["status"], answer["body"]) == ("timeout", None, None)
    assert answer["attempts"] == [{"status": None, "reason": "timeout"}] * ATTEMPTS


def test_a_limit_of_an_hour_is_not_waited_for() -> None:
    service, time = MessagesService(reading, always="429 for an hour"), FakeTime()
    answer = asked(service, time=time)
    assert (time.slept, len(service.requests), answer["reason"]) == ([], 1, "rate-limited")


@pytest.mark.parametrize(
    ("bad", "reason"), [("413 Request Too Large", "refused-request"), ("huge", "answer-too-large")]
)
def test_what_would_be_the_same_again_is_not_tried_again(bad: str, reason: str) -> None:
    service = MessagesService(reading, always=bad)
    answer = asked(service)
    assert (answer["reason"], len(service.requests)) == (reason, 1)
    assert (len(str(answer["body"])) <= 300, RUBRICS.read("reply", answer)) == (True, None)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "bad", ["malformed", "talkative", "another shape", "refusal", "max_tokens", "no message"]
)
def test_an_answer_that_cannot_be_read_is_kept_and_never_asked_for_again(
    bad: str, provider: str
) -> None:
    service = MessagesService(reading, always=bad, provider=provider)
    answer = asked(service)
    assert (answer["reason"], answer["status"], len(service.requests)) == (None, 200, 1)
    assert (bool(answer["body"]), RUBRICS.read("reply", answer)) == (True, None)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "404 Not Found"])
def test_a_key_or_model_that_is_refused_ends_the_asking(status: str, provider: str) -> None:
    service = MessagesService(reading, always=status, provider=provider)
    with pytest.raises(JudgeUnavailableError, match=status[:3]) as refused:
        asked(service)
    assert (len(service.requests), KEY in str(refused.value)) == (1, False)
    assert "set A_KEY" in str(refused.value)


def test_a_key_that_is_sent_back_is_not_kept() -> None:
    answer = asked(MessagesService(reading, always="echo"))
    assert ("your key is [key]" in str(answer["body"]), KEY in str(answer)) == (True, False)


def test_the_key_follows_no_redirect() -> None:
    async def elsewhere(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"{}"))

    with serving(elsewhere) as other:
        service = MessagesService(reading, always="elsewhere", elsewhere=other.url)
        answer = asked(service)
        assert (answer["reason"], answer["status"]) == ("refused-request", 307)
        assert other.received == []


@pytest.mark.parametrize(("takes", "committed"), [(True, 0), (False, None)])
def test_a_model_is_asked_whether_it_takes_temperature_0(
    *, takes: bool, committed: int | None
) -> None:
    service = MessagesService(reading, takes_temperature=takes)
    assert (
        using(
            service, lambda judge: judge.probe_temperature(partial(probe, service.provider, MODEL))
        )
        == committed
    )
    assert [body.get("temperature") for body in service.requests] == [0, None][: 2 - takes]


@pytest.mark.parametrize("bad", ["400 Bad Request", "529 Overloaded", "reset"])
def test_a_model_that_does_not_answer_at_all_is_named(bad: str) -> None:
    service = MessagesService(reading, always=bad)
    with pytest.raises(JudgeUnavailableError, match=f"expected {MODEL} at http"):
        using(
            service, lambda judge: judge.probe_temperature(partial(probe, service.provider, MODEL))
        )
