"""Asks a service which version it is, by one call before the commitment that is not scored."""

from __future__ import annotations

from theatre.engine.clock import Clock, format_rfc3339
from theatre.engine.oracle_contract import OracleInvocationMetadata, OracleInvocationRequest
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.reachable import ReachableAdapter

_NO_VERSION = "0000000"
_PROBE_ID = "00000000-0000-5000-8000-000000000000"


async def reported_version(adapter: ReachableAdapter, construct_id: str, *, clock: Clock) -> str:
    """Return the version that a service reports of itself.

    Raises ConstructUnreachableError where it reports none.
    """
    attempt = await adapter.invoke(_probe(construct_id, format_rfc3339(clock())))
    reported = attempt.response.construct_version
    if reported is None:
        raise ConstructUnreachableError(
            f"expected {construct_id} to report its version, got "
            f"{attempt.reason}: {attempt.response.error_detail}; give the version"
        )
    return reported


def _probe(construct_id: str, now: str) -> OracleInvocationRequest:
    """Return a call for no version that there is: whoever answers says which one it has."""
    record = {
        "id": "probe",
        "title": "",
        "description": "",
        "diff_content": "",
        "files_changed": [],
        "timestamp": now,
        "labels": [],
        "author": "",
    }
    return OracleInvocationRequest(
        invocation_id=_PROBE_ID,
        theatre_id=_PROBE_ID,
        episode_id="probe",
        construct_id=construct_id,
        construct_version=_NO_VERSION,
        input_data={"record": record, "follow_up_question": "Which version are you?"},
        metadata=OracleInvocationMetadata(invoked_at=now),
    )
