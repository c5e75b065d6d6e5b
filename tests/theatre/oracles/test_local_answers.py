"""What a construct's line on stdout becomes (docs/contract/construct.md §1)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    Attempt,
    OracleInvocationRequest,
    OracleInvocationResponse,
)

Ask = Callable[..., list[Attempt]]
RequestFor = Callable[..., OracleInvocationRequest]

VERSION = "c0ffee" + "0" * 58


def accepted(request: OracleInvocationRequest, **members: object) -> Attempt:
    response = OracleInvocationResponse(
        invocation_id=request.invocation_id,
        construct_id="pilot",
        construct_version=VERSION,
        output_data={"echo": request.input_data},
        latency_ms=0,
        status=InvocationStatus.SUCCESS,
        responded_at="2026-11-21T02:07:00.000000Z",
    )
    changed = replace(response, **members)  # type: ignore[arg-type]  # members of a response
    return Attempt(response=changed)


def failed(
    request: OracleInvocationRequest, reason: str, detail: str, **members: object
) -> Attempt:
    status = members.pop("status", InvocationStatus.ERROR)
    attempt = accepted(
        request,
        construct_id=members.pop("construct_id", None),
        construct_version=members.pop("construct_version", None),
        output_data=None,
        status=status,
        error_detail=detail,
    )
    return replace(attempt, reason=reason, **members)  # type: ignore[arg-type]  # raw or stderr


def test_an_answer_becomes_a_successful_attempt(ask: Ask, request_for: RequestFor) -> None:
    request = request_for(input_data={"text": "naïve ☃ \u2028 line", "deep": [{"n": 1.5}]})
    assert ask("for request in requests(): answer(request)", request) == [accepted(request)]


def test_a_construct_receives_the_whole_envelope(ask: Ask, request_for: RequestFor) -> None:
    request = request_for()
    body = "for request in requests(): answer(request, output_data=request)"
    (attempt,) = ask(body, request)
    assert attempt == accepted(request, output_data=request.as_document())


def test_a_refusal_is_passed_on_with_its_reason(ask: Ask, request_for: RequestFor) -> None:
    body = """
    for request in requests():
        answer(request, status="REFUSED", output_data=None, error_detail="not my field")
    """
    request = request_for()
    assert ask(body, request) == [
        accepted(
            request, status=InvocationStatus.REFUSED, output_data=None, error_detail="not my field"
        )
    ]


def test_an_error_of_the_construct_is_passed_on_and_the_process_stays(
    ask: Ask, request_for: RequestFor
) -> None:
    body = """
    for request in requests():
        answer(request, status="error", output_data={"pid": os.getpid()}, error_detail="no idea")
    """
    first, second = ask(body, request_for(1), request_for(2))
    assert first == accepted(
        request_for(1),
        status=InvocationStatus.ERROR,
        output_data=first.response.output_data,
        error_detail="no idea",
    )
    assert second.response.output_data == first.response.output_data


REJECTED = {
    "text": ("hello", "not-json"),
    "empty line": ("", "not-json"),
    "half an object": ('{"status":', "not-json"),
    "NaN": ('{"output_data": NaN}', "non-finite"),
    "infinity": ('{"output_data": -Infinity}', "non-finite"),
    "overflow": ('{"output_data": 1e999}', "number-overflow"),
    "duplicate key": ('{"a": 1, "a": 2}', "duplicate-key"),
    "deep": ("[" * 100_000 + "]" * 100_000, "too-deep"),
    "list": ("[]", "not-envelope"),
    "no ids": ("{}", "not-envelope"),
}


@pytest.mark.parametrize(("line", "reason"), REJECTED.values(), ids=REJECTED.keys())
def test_a_line_that_is_no_envelope_is_an_error_and_kept(
    ask: Ask, request_for: RequestFor, line: str, reason: str
) -> None:
    request = request_for()
    (attempt,) = ask(f"for request in requests(): say({line!r} + chr(10))", request)
    detail = attempt.response.error_detail
    assert detail is not None
    assert detail.startswith("expected ")
    assert attempt == failed(request, reason, detail, raw=line)


WRONG = {
    "another invocation": ("invocation_id", "wrong-invocation-id"),
    "another construct": ("construct_id", "wrong-construct-id"),
    "another version": ("construct_version", "version-mismatch"),
}


@pytest.mark.parametrize(("member", "reason"), WRONG.values(), ids=WRONG.keys())
def test_an_answer_that_echoes_something_else_is_an_error(
    ask: Ask, request_for: RequestFor, member: str, reason: str
) -> None:
    request = request_for()
    (attempt,) = ask(f"for request in requests(): answer(request, {member}='other')", request)
    expected = request.as_document()[member]
    assert attempt == failed(
        request,
        reason,
        f"expected {member} {expected} (pinned), got other (reported)",
        construct_id="other" if member == "construct_id" else "pilot",
        construct_version="other" if member == "construct_version" else VERSION,
        raw=attempt.raw,
    )
    assert attempt.raw is not None
    assert f'"{member}": "other"' in attempt.raw


def test_an_answer_of_exactly_the_limit_is_accepted(ask: Ask, request_for: RequestFor) -> None:
    body = f"""
    for request in requests():
        short = len(json.dumps(envelope(request, output_data={{"pad": ""}})))
        answer(request, output_data={{"pad": "x" * ({MAX_ANSWER_BYTES} - short)}})
    """
    (attempt,) = ask(body, request_for())
    assert attempt.reason is None
    assert attempt.response.status is InvocationStatus.SUCCESS


TOO_LARGE = {
    "one byte too many": f"say('x' * {MAX_ANSWER_BYTES + 1} + chr(10))",
    "2 MiB": f"say('x' * {2 * MAX_ANSWER_BYTES} + chr(10))",
    "endless": "[say('x' * 65536) for _ in iter(int, 1)]",
}


@pytest.mark.parametrize("statement", TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_a_longer_line_is_too_large_and_its_beginning_kept(
    ask: Ask, request_for: RequestFor, statement: str
) -> None:
    request = request_for()
    (attempt,) = ask(f"for request in requests(): {statement}", request)
    detail = attempt.response.error_detail
    assert detail is not None
    assert detail.startswith(f"expected at most {MAX_ANSWER_BYTES} bytes, got ")
    assert attempt == failed(request, "too-large", detail, raw="x" * MAX_ANSWER_BYTES)


def test_a_last_answer_needs_no_line_feed(ask: Ask, request_for: RequestFor) -> None:
    body = """
    for request in requests():
        say(json.dumps(envelope(request)))
        sys.exit()
    """
    assert ask(body, request_for(1), request_for(2)) == [
        accepted(request_for(1)),
        accepted(request_for(2)),
    ]


def test_a_last_line_without_line_feed_is_judged_like_any_other(
    ask: Ask, request_for: RequestFor
) -> None:
    body = """
    for request in requests():
        say(json.dumps(envelope(request, construct_version="other")))
        sys.exit()
    """
    (attempt,) = ask(body, request_for())
    assert (attempt.reason, attempt.response.construct_version) == ("version-mismatch", "other")


CRASHES = {
    "silent exit": ("sys.exit(0)", "exit code 0", None),
    "exit code": ("sys.exit(3)", "exit code 3", None),
    "signal": ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV", None),
    "mid-answer": ('say(\'{"status": "succ\'); os._exit(1)', "exit code 1", '{"status": "succ'),
    "nameless signal": ("os.kill(os.getpid(), 40)", "signal 40", None),
    "stdout closed": ("os.close(1); hang()", "it closed its stdout and was ended", None),
}


@pytest.mark.parametrize(("statement", "ending", "raw"), CRASHES.values(), ids=CRASHES.keys())
def test_an_end_before_the_answer_is_a_crash_that_says_how(
    ask: Ask, request_for: RequestFor, statement: str, ending: str, raw: str | None
) -> None:
    request = request_for()
    assert ask(f"for request in requests(): {statement}", request) == [
        failed(
            request,
            "crashed",
            f"expected an answer line, got the end of the process: {ending}",
            raw=raw,
        )
    ]


def test_what_it_wrote_on_stderr_stands_with_a_good_answer_too(
    ask: Ask, request_for: RequestFor
) -> None:
    body = """
    for request in requests():
        print("seq", request["input_data"]["seq"], file=sys.stderr, flush=True)
        answer(request)
    """
    assert ask(body, request_for(1), request_for(2)) == [
        replace(accepted(request_for(1)), stderr="seq 1\n"),
        replace(accepted(request_for(2)), stderr="seq 2\n"),
    ]


def test_of_a_long_stderr_the_end_is_kept(ask: Ask, request_for: RequestFor) -> None:
    body = """
    for request in requests():
        sys.exit("x" * 300_000 + " it was the last line")
    """
    (attempt,) = ask(body, request_for())
    assert attempt.reason == "crashed"
    assert attempt.stderr == "[298422 bytes cut]\n" + "x" * 1578 + " it was the last line\n"


def test_a_construct_is_not_stopped_by_its_own_endless_stderr(
    ask: Ask, request_for: RequestFor
) -> None:
    body = """
    import threading
    def complain():
        while True:
            os.write(2, b"x" * 65536)
    threading.Thread(target=complain, daemon=True).start()
    for request in requests(): answer(request)
    """
    attempts = ask(body, request_for(1), request_for(2), request_for(3))
    assert [attempt.response for attempt in attempts] == [
        accepted(request_for(seq)).response for seq in (1, 2, 3)
    ]
