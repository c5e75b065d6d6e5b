"""The calls before the commitment: which version a service reports, and whether it knows envelopes.

None of them is scored or recorded.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NotRequired, TypedDict, TypeGuard

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_json
from theatre.engine.clock import Clock, format_rfc3339
from theatre.engine.errors import ParseError
from theatre.engine.oracle_contract import Attempt, InvocationMetadata, OracleInvocationRequest
from theatre.oracles.endpoints import ReachableAdapter
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.wire_forms import ENVELOPES, WireForm
from theatre.verification.records import make_record

# Oracles that know no envelope: a bare record goes out, a bare OracleOutput comes back.
#
# Source: docs/requirements.md R77.


QUESTION = "follow_up_question"


class OracleOutput(TypedDict):
    """What an oracle says of one change: its summary, its claims, its answer to the question."""

    summary: str
    key_claims: list[JsonValue]
    follow_up_response: str
    metadata: NotRequired[JsonObject]


_OUTPUT = {"summary": str, "key_claims": list, "follow_up_response": str}


def bare_record(input_data: JsonObject) -> JsonObject:
    """Return what a plain oracle is sent: the record's own members, and the question."""
    record = input_data.get("record")
    return {**(record if isinstance(record, dict) else {}), QUESTION: input_data.get(QUESTION)}


def is_oracle_output(value: JsonValue) -> TypeGuard[OracleOutput]:
    """Tell whether an answer is a bare OracleOutput."""
    return isinstance(value, dict) and all(
        isinstance(value.get(name), kind) for name, kind in _OUTPUT.items()
    )


def is_raw_oracle_output(raw: str | None) -> bool:
    """Tell the same of an answer that was not accepted, as it came."""
    try:
        return raw is not None and is_oracle_output(parse_json(raw.encode()))
    except ParseError:
        return False


PLAIN_ORACLE = WireForm(bare=bare_record)


NO_VERSION = "0000000"
"""The pin of an oracle that reports no version."""

_PROBE_ID = "00000000-0000-5000-8000-000000000000"
AdapterIn = Callable[[WireForm], ReachableAdapter]
"""Returns an adapter of the service that speaks in this form; the caller must close it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What a service turned out to be; `version` is None where it reports none."""

    version: str | None
    form: WireForm


async def probe(
    construct_id: str, adapter_in: AdapterIn, *, seconds: float, clock: Clock
) -> ProbeResult:
    """Ask a service for its version: by an envelope, and if need be by a bare record.

    Raises ConstructUnreachableError for one that answers neither as an oracle does, or does not in
    so many seconds altogether.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _probe(construct_id, adapter_in, seconds, clock)
    except TimeoutError:
        raise ConstructUnreachableError(
            f"expected {construct_id} to report its version within {seconds:g} s, got no answer"
        ) from None


async def _probe(
    construct_id: str, adapter_in: AdapterIn, seconds: float, clock: Clock
) -> ProbeResult:
    attempt = await _ask(construct_id, adapter_in(ENVELOPES), seconds, clock)
    reported = attempt.response.construct_version
    if reported is not None:
        return ProbeResult(version=reported, form=ENVELOPES)
    if is_raw_oracle_output(attempt.raw):
        return ProbeResult(version=None, form=PLAIN_ORACLE)
    plain = await _ask(construct_id, adapter_in(PLAIN_ORACLE), seconds, clock)
    if is_oracle_output(plain.response.output_data):
        return ProbeResult(version=None, form=PLAIN_ORACLE)
    raise ConstructUnreachableError(
        f"expected {construct_id} to report its version, or to answer a bare record with "
        f"summary, key_claims and follow_up_response, got {attempt.reason}: "
        f"{attempt.response.error_detail}"
    )


async def _ask(
    construct_id: str, adapter: ReachableAdapter, seconds: float, clock: Clock
) -> Attempt:
    async with contextlib.aclosing(adapter):
        return await adapter.invoke(_request(construct_id, seconds, clock))


def _request(construct_id: str, seconds: float, clock: Clock) -> OracleInvocationRequest:
    """Return a call for no real version: the answer says which version the service has."""
    record = make_record(
        id="probe",
        commit="",
        message="",
        diff="",
        unread_diff_bytes=0,
        paths=[],
        timestamp=clock(),
        labels=[],
        author="",
    )
    return OracleInvocationRequest(
        invocation_id=_PROBE_ID,
        theatre_id=_PROBE_ID,
        episode_id="probe",
        construct_id=construct_id,
        construct_version=NO_VERSION,
        input_data={"record": record.as_document(), QUESTION: "Which version are you?"},
        metadata=InvocationMetadata(timeout_seconds=seconds, invoked_at=format_rfc3339(clock())),
    )
