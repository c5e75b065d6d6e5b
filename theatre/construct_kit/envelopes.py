"""What comes in and what goes out: the members of an envelope that a construct deals with."""

from dataclasses import dataclass

from theatre.engine.canonical_json import (
    MAX_INPUT_DEPTH,
    JsonObject,
    JsonValue,
    canonical_bytes,
    json_type,
    parse_json,
    parse_object,
)
from theatre.engine.errors import NotFoundError, TheatreError
from theatre.engine.oracle_contract import MAX_ANSWER_BYTES, clean_detail

# The errors of `theatre.construct_kit`: one class for each decision that a caller can take.


class CallableNotFoundError(NotFoundError):
    """`module:name` names nothing that can be called, or not in the folder it was looked for."""

    code = "callable-not-found"


class CallableBrokenError(TheatreError):
    """The module of a construct raised an exception when it was imported."""

    code = "callable-broken"


class ConstructVersionError(TheatreError):
    """A construct's version is not 7 to 64 hex digits, or there are no files to hash."""

    code = "construct-version-invalid"


class QuestionError(TheatreError):
    """A JSON object is not the envelope of a call."""

    code = "not-envelope"


class AddressError(TheatreError):
    """The server cannot listen at the given address."""

    code = "address-unavailable"


MAX_QUESTION_BYTES = 32 * 1024 * 1024
# What is echoed must leave room for an answer.
_MAX_ID_CHARACTERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The envelope of one call, as far as a construct needs it."""

    invocation_id: str
    construct_id: str
    construct_version: str
    input_data: JsonObject
    run_nonce: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a call: `status` success with `output`, or error or refused with `detail`."""

    status: str
    output: object = None
    detail: str | None = None

    @property
    def final(self) -> bool:
        """Return whether asking again could not change it: an error may pass."""
        return self.status != "error"


def read_question(raw: bytes) -> Question:
    """Return the question in an envelope of at most MAX_QUESTION_BYTES.

    Members that it does not need are not looked at. Raises ParseError for what is no strict
    JSON object, and QuestionError where a member is missing or has another type.
    """
    document = parse_object(raw, max_bytes=MAX_QUESTION_BYTES)
    input_data = document.get("input_data")
    if not isinstance(input_data, dict):
        raise QuestionError(f"expected input_data as an object, got {json_type(input_data)}")
    return Question(
        invocation_id=_text(document, "invocation_id"),
        construct_id=_text(document, "construct_id"),
        construct_version=_text(document, "construct_version"),
        input_data=input_data,
        run_nonce=_run_nonce(document.get("metadata")),
    )


def write_answer(
    outcome: Outcome,
    *,
    invocation_id: str,
    construct_id: str,
    construct_version: str,
    run_nonce: str | None = None,
) -> bytes:
    """Return the envelope of an answer, on one line without its line feed.

    Raises CanonicalisationError for an output that is no JSON, and ParseError for one that the
    engine would not accept: too large, too deep, or with integers that a double does not hold.
    """
    envelope = {
        "invocation_id": invocation_id,
        "construct_id": construct_id,
        "construct_version": construct_version,
        "status": outcome.status,
        "output_data": outcome.output,
    }
    if run_nonce is not None:
        envelope["run_nonce"] = run_nonce
    if outcome.detail is not None:
        envelope["error_detail"] = clean_detail(outcome.detail)
    answer = canonical_bytes(envelope)
    parse_json(answer, max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_INPUT_DEPTH)
    return answer


def _run_nonce(metadata: JsonValue) -> str | None:
    """Return the nonce of the run, which the answer echoes: it was not made before the run."""
    if not isinstance(metadata, dict) or "run_nonce" not in metadata:
        return None
    return _text(metadata, "run_nonce")


def _text(document: JsonObject, member: str) -> str:
    value = document.get(member)
    if not isinstance(value, str):
        raise QuestionError(f"expected {member} as a string, got {json_type(value)}")
    if len(value) > _MAX_ID_CHARACTERS:
        raise QuestionError(
            f"expected {member} of at most {_MAX_ID_CHARACTERS} characters, got {len(value)}"
        )
    return value
