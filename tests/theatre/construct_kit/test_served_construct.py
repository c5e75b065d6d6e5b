"""What a callable becomes: echoes, statuses, versions, and answers that an engine accepts."""

import asyncio
import json
import math
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.construct_kit.kit_process import VERSION, Document, answer, encoded, question
from theatre.construct_kit import Refusal, construct
from theatre.construct_kit.envelopes import ConstructVersionError, QuestionError, read_question
from theatre.construct_kit.served_construct import ServedConstruct, make_servable
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import InvocationMetadata, OracleInvocationRequest, read_answer

OTHER_VERSION = "beef" * 16


def asked(served_construct: ServedConstruct, **members: object) -> Document:
    """Put one question, and return the answer's envelope."""
    body = served_construct.answer(read_question(encoded(question(**members)))).body
    document: Document = json.loads(body)
    return document


def returning(output: object) -> ServedConstruct:
    """Return a construct with one answer to everything."""
    return ServedConstruct(lambda _: output, construct_id="pilot", version=VERSION)


def raising(error: BaseException) -> ServedConstruct:
    """Return a construct that raises, whatever it is asked."""

    def fail(_: object) -> object:
        raise error

    return ServedConstruct(fail, construct_id="pilot", version=VERSION)


@construct(id="pilot", version=VERSION)
def double(input_data: dict[str, int]) -> dict[str, int]:
    return {"double": 2 * input_data["seq"]}


@construct(id="pilot", version=VERSION)
async def double_later(input_data: dict[str, int]) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"double": 2 * input_data["seq"]}


def test_a_declared_callable_stays_a_callable() -> None:
    assert double({"seq": 4}) == {"double": 8}
    assert asyncio.run(double_later({"seq": 4})) == {"double": 8}


@pytest.mark.parametrize("function", [double, double_later])
def test_an_answer_echoes_its_question(function: Callable[..., object]) -> None:
    expected = answer(output_data={"double": 42})
    assert asked(make_servable(function), input_data={"seq": 21}) == expected


def test_an_answer_echoes_the_nonce_of_its_run() -> None:
    nonce = "ab" * 32
    seen = asked(make_servable(double), input_data={"seq": 21}, metadata={"run_nonce": nonce})
    assert seen == answer(output_data={"double": 42}) | {"run_nonce": nonce}


def test_calls_of_an_async_construct_share_one_event_loop() -> None:
    loops = []

    async def remember(_: object) -> dict[str, object]:
        loops.append(asyncio.get_running_loop())
        return {}

    several = ServedConstruct(remember, construct_id=None, version=VERSION)
    callers = [threading.Thread(target=asked, args=(several,)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(loops) == 4
    assert len(set(loops)) == 1


class Speechless(Exception):  # noqa: N818  # it stands for what constructs raise
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "status", "detail"),
    [
        (Refusal("no thermometer"), "refused", "no thermometer"),
        (Refusal(), "refused", "no reason given"),
        (ValueError("no number"), "error", "ValueError: no number"),
        (KeyError("celsius"), "error", "KeyError: 'celsius'"),
        (MemoryError(), "error", "MemoryError"),
        (RuntimeError("\ud800 \x1b[31m"), "error", "RuntimeError: ? [31m"),
        (RuntimeError("x" * 3000), "error", "RuntimeError: " + "x" * 1986),
    ],
    ids=["refusal", "wordless refusal", "error", "key", "memory", "unprintable", "long"],
)
def test_an_exception_is_an_answer(error: Exception, status: str, detail: str) -> None:
    assert asked(raising(error)) == answer(status=status, error_detail=detail)


def test_an_exception_that_cannot_speak_is_an_answer_too() -> None:
    seen = asked(raising(Speechless()))
    name = "test_served_construct.Speechless"
    assert (seen["status"], name in seen["error_detail"]) == ("error", True)


def test_an_exception_leaves_its_traceback_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    asked(raising(ValueError("no number")))
    stderr = capsys.readouterr().err
    assert stderr.startswith("Traceback (most recent call last):\n")
    assert stderr.endswith("ValueError: no number\n")


def test_a_refusal_leaves_none(capsys: pytest.CaptureFixture[str]) -> None:
    asked(raising(Refusal("no thermometer")))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt()])
def test_what_ends_a_program_is_not_swallowed(ending: BaseException) -> None:
    async def end(_: object) -> object:
        raise ending

    for stopped in (raising(ending), ServedConstruct(end, construct_id="pilot", version=VERSION)):
        with pytest.raises(type(ending)):
            asked(stopped)


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


IMPOSSIBLE = {
    "a list": ([1], "expected the callable to return a dict, got array"),
    "nothing": (None, "expected the callable to return a dict, got null"),
    "NaN": ({"x": math.nan}, "the callable's answer: expected a JSON value"),
    "a set": ({"x": {1}}, "the callable's answer: expected a JSON value"),
    "a key that is no text": ({1: 2}, "the callable's answer: expected a JSON value"),
    "half a character": ({"x": "\ud800"}, "the callable's answer: expected"),
    "a huge integer": ({"x": 2**53}, "the callable's answer: expected"),
    "a double beyond integers": ({"x": 1e17}, "the callable's answer: expected integers within"),
    "deep": (deep(60), "the callable's answer: expected at most 48 levels"),
    "bottomless": (deep(100_000), "the callable's answer: expected a value of modest depth"),
    "large": ({"x": "y" * 1024 * 1024}, "the callable's answer: expected at most 1048576 bytes"),
}


@pytest.mark.parametrize(("output", "detail"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_output_that_no_engine_would_accept_is_an_error(output: object, detail: str) -> None:
    seen = asked(returning(output))
    assert seen == answer(status="error", error_detail=seen["error_detail"])
    assert seen["error_detail"].startswith(detail)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner)
    ),
    max_leaves=8,
)


@given(output=ANYTHING | st.dictionaries(st.text(), ANYTHING))
def test_an_engine_accepts_whatever_comes_of_a_callable(output: object) -> None:
    request = OracleInvocationRequest(
        **question() | {"metadata": InvocationMetadata(invoked_at="2026-11-21T02:07:00Z")}
    )
    body = returning(output).answer(read_question(encoded(request.as_document()))).body
    attempt = read_answer(
        body, request, latency_ms=0, responded_at=datetime(2026, 11, 21, tzinfo=UTC)
    )
    assert attempt.reason is None
    assert attempt.response.status in {InvocationStatus.SUCCESS, InvocationStatus.ERROR}
    assert b"\n" not in body


def test_a_call_to_another_construct_is_not_made() -> None:
    expected = answer(
        status="error", error_detail="expected a call to construct pilot, got one to 'co-pilot'"
    )
    assert asked(raising(SystemExit()), construct_id="co-pilot") == expected


def test_a_call_to_another_version_is_not_made() -> None:
    expected = answer(
        status="error",
        error_detail=f"expected a call to version {VERSION}, got one to '{OTHER_VERSION}'",
    )
    assert asked(raising(SystemExit()), construct_version=OTHER_VERSION) == expected


def test_a_callable_without_an_id_answers_to_any() -> None:
    anybody = make_servable(lambda _: {}, version=VERSION)
    assert asked(anybody, construct_id="co-pilot") == answer(
        construct_id="co-pilot", output_data={}
    )


def test_a_given_id_goes_before_the_declared_one() -> None:
    assert make_servable(double, construct_id="co-pilot").construct_id == "co-pilot"
    assert make_servable(double).construct_id == "pilot"


def test_the_given_version_goes_first_then_the_engines_then_the_declared_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ECHELON_CONSTRUCT_VERSION", "e" * 40)
    assert make_servable(double, version="abcdef0").version == "abcdef0"
    assert make_servable(double).version == "e" * 40
    monkeypatch.setenv("ECHELON_CONSTRUCT_VERSION", "")
    assert make_servable(double).version == VERSION


@pytest.mark.parametrize("version", ["abcdef", "C0FFEE0", "a" * 65, "v1.0.0-rc1", "abcdef0\n"])
def test_a_version_that_no_pin_can_name_is_refused(version: str) -> None:
    with pytest.raises(ConstructVersionError, match="expected a construct version of 7 to 64 hex"):
        construct(id="pilot", version=version)
    with pytest.raises(ConstructVersionError, match="expected a construct version of 7 to 64 hex"):
        make_servable(double, version=version)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"input_data": []}, "expected input_data as an object, got array"),
        ({"invocation_id": None}, "expected invocation_id as a string, got null"),
        ({"construct_id": 5}, "expected construct_id as a string, got integer"),
        (
            {"invocation_id": "x" * 1001},
            "expected invocation_id of at most 1000 characters, got 1001",
        ),
    ],
)
def test_an_object_that_is_no_envelope_is_refused(members: Document, message: str) -> None:
    with pytest.raises(QuestionError) as caught:
        read_question(encoded(question(**members)))
    assert str(caught.value) == message
